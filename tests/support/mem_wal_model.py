"""Random histories of a table with shards, beside a plain model of what its rows are."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lancekit as lk

SCHEMA = pa.schema(
    [
        pa.field(
            "id",
            pa.int64(),
            nullable=False,
            metadata={b"lance-schema:unenforced-primary-key": b"true"},
        ),
        pa.field("v", pa.float64()),
        pa.field("s", pa.string()),
    ]
)
KEYS = pa.schema([SCHEMA.field("id")])

Rows = dict[int, tuple[float | None, str | None]]


def table_of(rows: Rows) -> pa.Table:
    """Return rows as a table, by key."""
    columns = [list(rows), [v for v, _ in rows.values()], [s for _, s in rows.values()]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


def write_with_pylance(ds: Any, shard: str, rows: Rows, deleted: list[int]) -> None:
    """Have pylance put rows, then delete keys, and flush them as one generation."""
    with ds.mem_wal_writer(shard, max_wal_flush_interval_ms=1) as writer:
        if rows:
            writer.put(table_of(rows))
        if deleted:
            writer.delete(pa.table({"id": deleted}, schema=KEYS))


@dataclass
class History:
    """A table, its shards, and what its base should hold.

    `waiting` has, for each shard, its unmerged generations: a row for a key, `None` if it is
    deleted.
    """

    path: Path
    random: random.Random
    stable: bool = False
    shards: tuple[str, ...] = ()
    base: Rows = field(default_factory=dict)
    waiting: dict[str, list[dict[int, tuple[float | None, str | None] | None]]] = field(
        default_factory=dict
    )

    def begin(self) -> None:
        """Create the table, with some rows and shards."""
        self.base = self.some_rows(range(0, 30))
        ds = lance.write_dataset(
            table_of(self.base),
            str(self.path),
            enable_stable_row_ids=self.stable,
            max_rows_per_file=7,
        )
        ds.initialize_mem_wal(unsharded=True)
        self.shards = tuple(
            str(uuid.UUID(int=self.random.getrandbits(128), version=4)) for _ in range(2)
        )
        self.waiting = {shard: [] for shard in self.shards}

    def some_rows(self, keys: Any) -> Rows:
        """Return random rows for keys."""
        return {
            key: (
                self.random.choice([None, self.random.random()]),
                self.random.choice([None, "", str(self.random.random())]),
            )
            for key in keys
        }

    def keys_of(self, shard: int, most: int) -> list[int]:
        """Return random keys of a shard: the even ones, or the odd ones."""
        own = range(shard, 60, 2)
        return self.random.sample(own, self.random.randint(0, most))

    def write(self) -> None:
        """Write a generation of one shard."""
        at = self.random.randrange(2)
        rows, gone = self.some_rows(self.keys_of(at, 8)), self.keys_of(at, 4)
        if not (rows or gone):
            return
        write_with_pylance(lance.dataset(str(self.path)), self.shards[at], rows, gone)
        self.waiting[self.shards[at]].append({**rows, **dict.fromkeys(gone)})

    def write_all(self, keys: list[int]) -> None:
        """Write a generation of each shard with a row for all of its keys among some."""
        for at, shard in enumerate(self.shards):
            rows = self.some_rows(key for key in keys if key % 2 == at)
            if rows:
                write_with_pylance(lance.dataset(str(self.path)), shard, rows, [])
                self.waiting[shard].append({**rows})

    def change_base(self) -> None:
        """Change rows of the base, as writers do that know nothing of shards."""
        ds = lk.dataset(str(self.path))
        key = self.random.randrange(60)
        what = self.random.randrange(4)
        if what == 0:
            ds.delete(f"id = {key}")
            self.base.pop(key, None)
        elif what == 1:
            ds.update({"s": "'updated'"}, where=f"id >= {key}")
            self.base = {k: (v, "updated" if k >= key else s) for k, (v, s) in self.base.items()}
        elif what == 2:
            ds.optimize.compact_files()
        else:
            rows = self.some_rows([key])
            ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
                table_of(rows)
            )
            self.base.update(rows)

    def merge(self, **how: Any) -> Any:
        """Merge all that waits, and check the table with pylance."""
        for generations in self.waiting.values():
            for generation in generations:
                for key, row in generation.items():
                    self.base.pop(key, None)
                    if row is not None:
                        self.base[key] = row
            generations.clear()
        done = lk.dataset(str(self.path)).merge_mem_wal(**how)
        self.check()
        return done

    def check(self) -> None:
        """Compare the base with what it should hold, as both libraries read it."""
        expected = table_of(dict(sorted(self.base.items()))).to_pydict()
        for reader in (lance, lk):
            found = reader.dataset(str(self.path)).to_table()
            assert found.sort_by("id").to_pydict() == expected, reader.__name__
