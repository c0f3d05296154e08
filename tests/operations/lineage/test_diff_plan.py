"""Plans of diffs: fragments that are skipped for their metadata are those that all looks find."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.lineage.columns import pairs_since
from lancekit._operations.lineage.diff_plan import plan_diff
from lancekit._pipeline.diff.fragments import Shared, shared
from lancekit._pipeline.diff.row_values import seen
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.ancestor import common_ancestor
from lancekit._versions.snapshot import Snapshot

STEPS = 14


def changed(ds: Any, chance: random.Random, number: int) -> None:
    """Change a table in a way that was drawn."""
    names = [name for name in ds.schema.names if name != "id"]
    name = chance.choice(names)
    kind = ds.schema.field(name).type
    at = chance.randrange(60)

    def again() -> None:
        """Drop a column, and add it as nulls: the bytes of the fragments stay as they were."""
        ds.drop_columns([name])
        ds.add_columns(pa.field(name, kind))

    def insert() -> None:
        ids = range(1000 * number, 1000 * number + chance.randrange(1, 4))
        ds.insert(pa.table({"id": list(ids)}), mode="append")

    def update() -> None:
        value = "'new'" if pa.types.is_string(kind) else str(number)
        ds.update({name: value}, where=f"id > {at} AND id < {at + 9}")

    def cast() -> None:
        other = pa.int32() if kind == pa.int64() else pa.int64()
        if not pa.types.is_string(kind):
            ds.alter_columns({"path": name, "data_type": other})

    def merge() -> None:
        rows = pa.table({"id": [at, 1000 * number + 7]})
        ds.merge_insert("id").when_not_matched_insert_all().execute(rows)

    def nulls() -> None:
        ds.add_columns(pa.field(f"null{number}", pa.int64()))

    def drop() -> None:
        if len(names) > 1:
            ds.drop_columns([name])

    def restore() -> None:
        ds.checkout_version(chance.randrange(1, ds.version + 1)).restore()
        ds.checkout_latest()

    steps: list[Any] = [
        again, restore, insert, update, cast, merge, nulls, drop,
        lambda: ds.delete(f"id = {at} OR id = {at + 20}"),
        lambda: ds.alter_columns({"path": name, "name": f"{name[:6]}_{number}"}),
        lambda: ds.add_columns({f"sum{number}": "id + 1"}),
        lambda: ds.optimize.compact_files(target_rows_per_fragment=chance.choice([9, 25, 90])),
    ]  # fmt: skip
    chance.choice(steps)()


def history(seed: int, *, stable: bool) -> Any:
    """Return a table with random versions."""
    chance = random.Random(seed)
    rows = pa.table({"id": range(60), "v": range(60), "s": [f"row {n}" for n in range(60)]})
    how = {"max_rows_per_file": 8, "enable_stable_row_ids": stable}
    ds = lk.write_dataset(rows, f"memory://diff-plan-{seed}-{stable}", primary_key="id", **how)
    for number in range(1, STEPS):
        changed(ds, chance, number)
    return ds


def facts(plan: Shared) -> tuple[Any, ...]:
    return (
        sorted((s.fragment.id, s.num_rows, s.version) for s in plan.same),
        sorted(
            (p.old.fragment.id, p.new.fragment.id, p.deletions_differ, [c.name for c in p.columns])
            for p in plan.pairs
        ),
        [source.fragment.id for source in plan.old],
        [source.fragment.id for source in plan.new],
        dict(plan.mates),
        plan.rows,
    )


def looked_at(old: Snapshot, new: Snapshot) -> Shared:
    """Return what a look at every fragment finds."""
    pairs = pairs_since(old, new, common_ancestor(old, new))
    return shared(fragment_sources(old, seen(old)), fragment_sources(new, seen(new)), pairs)


@pytest.mark.sample(6)
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_what_is_skipped_is_the_same(seed: int, stable: bool) -> None:
    ds = history(seed, stable=stable)
    snapshots = [ds.checkout_version(v.version)._snapshot for v in ds.versions()]
    ends = [*pairwise(snapshots), (snapshots[0], snapshots[-1]), (snapshots[3], snapshots[-2])]
    for old, new in ends:
        assert facts(plan_diff(old, new).shared) == facts(looked_at(old, new)), new.version


def by_key(table: pa.Table) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in table.to_pylist()}


@pytest.mark.sample(4)
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("seed", range(100, 120))
def test_each_step_has_the_changes_that_the_values_have(seed: int, stable: bool) -> None:
    """Rows of the primary key are compared as both versions read them."""
    ds = history(seed, stable=stable)
    for step in ds.changes(1).steps:
        old, new = (ds.checkout_version(v) for v in (step.old, step.new))
        renamed = dict(step.diff.schema.renamed)
        left = by_key(old.to_table().rename_columns([renamed.get(n, n) for n in old.schema.names]))
        right = by_key(new.to_table())
        kept = [name for name in new.schema.names if name in set(left[min(left)])] if left else []
        added = [name for name in new.schema.names if name not in kept]
        updated = {
            key
            for key in left.keys() & right.keys()
            if any(left[key][n] != right[key][n] for n in kept)
            or any(right[key][n] is not None for n in added)
        }
        counts = step.diff.counts
        assert (counts.deleted, counts.inserted, counts.updated) == (
            len(left.keys() - right.keys()),
            len(right.keys() - left.keys()),
            len(updated),
        ), (step.new, new.versions()[-1].operation)


def test_a_column_that_was_dropped_and_added_again_is_compared() -> None:
    """The fragments are the same bytes, and the values are nulls now."""
    ds = lk.write_dataset({"id": [1, 2], "v": [5, 6]}, "memory://again", primary_key="id")
    before = ds.version
    ds.drop_columns(["v"])
    ds.add_columns(pa.field("v", pa.int64()))
    first, last = ds.checkout_version(before), ds
    messages = [side._snapshot.manifest.fragments.encoded for side in (first, last)]
    assert messages[0] == messages[1]
    assert ds.diff(before).counts.updated == 2
    fragment = first._snapshot.manifest.fragments
    assert len(fragment) == 1
    untouched = lk.write_dataset({"id": [3], "v": [7]}, ds, mode="append").diff(ds.version - 1)
    assert (untouched.counts.updated, untouched.counts.inserted) == (0, 1)


def test_no_fragment_is_made_an_object_that_both_have() -> None:
    ds = None
    for number in range(30):
        mode = "append" if ds else "overwrite"
        ds = lk.write_dataset({"id": [number]}, "memory://many", mode=mode, primary_key="id")
    assert ds is not None
    for step in ds.changes(1).steps:
        assert step.diff.counts.inserted == 1
        for version in (step.diff._plan.old, step.diff._plan.new):
            assert len(version.manifest.fragments._decoded) <= 2
