"""Indices that pylance made, after random changes by lancekit: its indexed answers stay right.

After each change a query through the index, the same one without it, and lancekit's scan (which
knows no index) have to agree, for every kind of index, with addresses and with stable row ids.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._commit.manifest.indices import FRAGMENT_REUSE
from lancekit._commit.protocol import commit
from lancekit._commit.rules.pending import Pending
from lancekit._format import operations as ops
from lancekit._format.fragment import TOMBSTONE
from lancekit._format.operation_parts import DataReplacementGroup
from lancekit._format.schema import LanceSchema
from lancekit._pipeline.write_rows import WriteTask, write_fragments
from lancekit._versions.branch_location import open_location
from lancekit._versions.listing import latest_snapshot

WORDS = ["lance", "spark", "arrow", "index", "merge", "branch"]
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        pa.field("b", pa.int64()),
        pa.field("m", pa.string()),
        pa.field("z", pa.int64()),
        pa.field("t", pa.string()),
        pa.field("l", pa.list_(pa.string())),
        pa.field("v", pa.list_(pa.float32(), 4)),
        pa.field("o", pa.int64()),
    ]
)
#: a column, its index, and a query that the index answers
INDICES: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "b": ("BTREE", lambda rng: f"b >= {rng.randrange(50)} AND b < {rng.randrange(30, 90)}"),
    "m": ("BITMAP", lambda rng: f"m = '{rng.choice(WORDS)}'"),
    "z": ("ZONEMAP", lambda rng: f"z = {rng.randrange(60)}"),
    "t": ("NGRAM", lambda rng: f"contains(t, '{rng.choice(WORDS)}')"),
    "l": ("LABEL_LIST", lambda rng: f"array_has_any(l, ['{rng.choice(WORDS)}'])"),
}


def rows(rng: random.Random, keys: list[int]) -> pa.Table:
    count = len(keys)
    vectors = np.array([rng.random() for _ in range(4 * count)], np.float32)
    return pa.table(
        [
            pa.array(keys, pa.int64()),
            pa.array([rng.randrange(100) for _ in keys]),
            pa.array([rng.choice(WORDS) for _ in keys]),
            pa.array([rng.randrange(60) for _ in keys]),
            pa.array([" ".join(rng.sample(WORDS, 2)) for _ in keys]),
            pa.array([rng.sample(WORDS, 2) for _ in keys], pa.list_(pa.string())),
            pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4),
            pa.array([rng.randrange(1000) for _ in keys]),
        ],
        schema=SCHEMA,
    )


@dataclass
class Indexed:
    """A table with every kind of index, and random changes of it."""

    path: str
    rng: random.Random
    stable: bool
    next_key: int = 0
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        table = rows(self.rng, self.new_keys(300))
        theirs = lance.write_dataset(
            table, self.path, enable_stable_row_ids=self.stable, max_rows_per_file=60
        )
        for column, (kind, _) in INDICES.items():
            theirs.create_scalar_index(column, kind)
        theirs.create_scalar_index("t", "INVERTED", name="words", with_position=False)
        theirs.create_index("v", "IVF_FLAT", num_partitions=2)

    def new_keys(self, count: int) -> list[int]:
        self.next_key += count
        return list(range(self.next_key - count, self.next_key))

    @property
    def ds(self) -> lk.LanceDataset:
        return lk.dataset(self.path)

    # ---- changes

    def append(self) -> None:
        self.ds.insert(rows(self.rng, self.new_keys(self.rng.randint(1, 30))))

    def delete(self) -> None:
        low = self.rng.randrange(max(self.next_key, 1))
        self.ds.delete(f"k >= {low} AND k < {low + self.rng.choice([3, 20, 80])}")

    def merge(self) -> None:
        known = self.ds.to_table(columns=["k"]).column(0).to_pylist()
        keys = self.rng.sample(known, min(len(known), 25)) + self.new_keys(5)
        merge = self.ds.merge_insert("k").when_matched_update_all()
        merge.when_not_matched_insert_all().execute(rows(self.rng, keys))

    def update(self) -> None:
        # of a column with an index, and of one without, which some indices follow
        changes = self.rng.choice([{"b": "b + 7"}, {"o": "o + 1"}, {"m": "'lance'", "o": "1"}])
        low = self.rng.randrange(max(self.next_key, 1))
        self.ds.update(changes, where=f"k >= {low} AND k < {low + 40}")

    def compact(self) -> None:
        self.ds.optimize.compact_files(target_rows_per_fragment=100)

    def reference_compacts(self) -> None:
        """Leave the indices as they are, behind a fragment-reuse index, where there can be one."""
        defer = not self.stable and self.rng.random() < 0.6
        optimize = lance.dataset(self.path).optimize
        optimize.compact_files(target_rows_per_fragment=80, defer_index_remap=defer)

    def reference_optimizes(self) -> None:
        # with 0 its answers are wrong after any change in place, its own ones too: the new
        # segment stands beside the old, stale entries of which it then takes for its own
        lance.dataset(self.path).optimize.optimize_indices(num_indices_to_merge=10)

    def restore(self) -> None:
        version = self.rng.randrange(max(self.ds.version - 3, 8), self.ds.version + 1)
        self.ds.checkout_version(version).restore()

    def rewrite_column(self) -> None:
        """Give a column of one fragment other values in place, by any of three operations."""
        snapshot = latest_snapshot(open_location(self.path))
        fragments = snapshot.manifest.fragments
        if not fragments:
            return
        fragment = self.rng.choice(list(fragments))
        name = self.rng.choice(["b", "m", "z", "o"])
        top = snapshot.manifest.schema.field(name)
        values = rows(self.rng, list(range(fragment.physical_rows))).column(name)
        part = LanceSchema((top,))
        task = WriteTask(
            store=snapshot.store,
            schema=part,
            storage_version=snapshot.manifest.storage_version,
        )
        batches = pa.table([values], schema=part.to_arrow()).to_batches()
        (new,) = write_fragments(batches, task)[0].files
        buried = tuple(
            replace(f, fields=tuple(TOMBSTONE if id_ == top.id else id_ for id_ in f.fields))
            for f in fragment.files
        )
        changed = replace(fragment, files=(*buried, new))
        operation: ops.Operation = self.rng.choice(
            [
                ops.Update(
                    updated_fragments=(changed,),
                    fields_modified=(top.id,),
                    update_mode=ops.UpdateMode.REWRITE_COLUMNS,
                ),
                ops.DataReplacement((DataReplacementGroup(fragment.id, new),)),
                ops.Merge(
                    tuple(changed if f.id == fragment.id else f for f in fragments),
                    snapshot.manifest.schema,
                ),
            ]
        )
        self.log[-1] += f" {type(operation).__name__} of {name} in {fragment.id}"
        commit(snapshot, Pending(operation=operation, uuid=str(uuid.uuid4())))

    def step(self) -> None:
        operations = {
            self.append: 2, self.delete: 3, self.merge: 3, self.update: 3,
            self.compact: 2, self.restore: 1, self.rewrite_column: 2,
            self.reference_compacts: 1, self.reference_optimizes: 1,
        }  # fmt: skip
        (chosen,) = self.rng.choices(list(operations), list(operations.values()))
        self.log.append(chosen.__name__)
        chosen()

    # ---- comparison

    def check(self) -> None:
        theirs, ours = lance.dataset(self.path), self.ds
        for column, (_, query) in INDICES.items():
            condition = query(self.rng)
            found = [
                theirs.scanner(["k", column], filter=condition, use_scalar_index=use).to_table()
                for use in (True, False)
            ]
            assert _sorted(found[0]) == _sorted(found[1]), (self.log, condition)
            if column not in {"t", "l"}:  # functions that lancekit's filters do not know
                own = ours.to_table(columns=["k", column], filter=condition)
                assert _sorted(own) == _sorted(found[1]), (self.log, condition)
        self._check_text(theirs, ours)
        self._check_nearest(theirs, ours)
        names = {index.name for index in theirs.describe_indices()} - {FRAGMENT_REUSE}
        assert len(names) == len(INDICES) + 2
        for name in names:
            statistics = theirs.stats.index_stats(name)
            assert statistics["num_indexed_fragments"] <= len(ours.get_fragments())

    def _check_text(self, theirs: Any, ours: lk.LanceDataset) -> None:
        word = self.rng.choice(WORDS)
        found = theirs.scanner(["k", "t"], full_text_query=word).to_table()
        everything = zip(*(ours.to_table()[n].to_pylist() for n in ("k", "t")), strict=True)
        expected = sorted(key for key, text in everything if word in text.split())
        assert sorted(found["k"].to_pylist()) == expected, (self.log, word)

    def _check_nearest(self, theirs: Any, ours: lk.LanceDataset) -> None:
        query = np.array([self.rng.random() for _ in range(4)], np.float32)
        nearest = {"column": "v", "q": query, "k": 5, "nprobes": 2}
        found = [
            theirs.scanner(["k"], nearest={**nearest, "use_index": use}).to_table()["k"].to_pylist()
            for use in (True, False)
        ]
        table = ours.to_table(columns=["k", "v"])
        vectors = np.array(table["v"].to_pylist(), np.float32).reshape(-1, 4)
        order = np.argsort(((vectors - query) ** 2).sum(axis=1))[:5]
        own = np.array(table["k"].to_pylist())[order].tolist()
        assert sorted(found[0]) == sorted(found[1]) == sorted(own), self.log


def _sorted(table: pa.Table) -> list[Any]:
    return sorted(table.to_pylist(), key=repr)


@pytest.mark.cover
@pytest.mark.torture
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("seed", range(3))
def test_indexed_queries_stay_right(tmp_path: Path, whole: bool, stable: bool, seed: int) -> None:
    world = Indexed(str(tmp_path / "d"), random.Random(seed), stable)
    for _ in range(60 if whole else 4):
        world.step()
        world.check()
