"""Counts of rows and of changed values: plan, result and the rows themselves tell the same."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from tests.operations.lineage.test_three_way import Row, by_id, row, upsert
from tests.support.faults import Call, Faults, injected

COUNTS = ("num_inserted_rows", "num_updated_rows", "num_deleted_rows", "num_changed_cells")
Step = Callable[[lk.LanceDataset], Any]


def counts(found: Any) -> tuple[int, ...]:
    return tuple(getattr(found, name) for name in COUNTS)


def told(before: Mapping[int, Row], after: Mapping[int, Row]) -> tuple[int, ...]:
    """Count what two versions of the rows say; values of new columns do not count."""
    cells = [
        sum(old[name] != new[name] for name in old.keys() & new.keys())
        for old, new in ((before[id_], after[id_]) for id_ in before.keys() & after.keys())
    ]
    inserted, deleted = len(after.keys() - before.keys()), len(before.keys() - after.keys())
    return inserted, sum(number > 0 for number in cells), deleted, sum(cells)


def whole_rows(ds: lk.LanceDataset) -> dict[int, Row]:
    return {row["id"]: row for row in ds.to_table().to_pylist()}


CHANGES: dict[str, tuple[Step, Step]] = {
    "ours moved elsewhere": (
        lambda exp: exp.update({"name": "'x'", "age": "9"}, where="id < 3"),
        lambda ds: ds.update({"age": "7"}, where="id = 4"),
    ),
    "one row, other columns": (
        lambda exp: exp.update({"name": "'x'", "age": "age + 0"}, where="id < 3"),
        lambda ds: ds.update({"age": "7"}, where="id < 4"),
    ),
    "the same value": (
        lambda exp: exp.update({"age": "7", "name": "name"}, where="id < 4"),
        lambda ds: ds.update({"age": "7"}, where="id < 3"),
    ),
    "both inserted": (
        lambda exp: upsert(exp, row(8, "x", 8), row(9, "x", 9)),
        lambda ds: upsert(ds, row(8, "x", 8), row(9, "x", 1)),
    ),
    "a new column of a row that both inserted": (
        lambda exp: [upsert(exp, row(8, "x", 8)), exp.add_columns({"twice": "age * 2"})],
        lambda ds: upsert(ds, row(8, "x", 8)),
    ),
    "a column that both added": (
        lambda exp: [exp.add_columns({"c": "id"}), exp.update({"c": "5"}, where="id = 1")],
        lambda ds: [
            ds.add_columns({"c": "nullif(id, 2)"}),
            ds.update({"age": "6"}, where="id = 4"),
        ],
    ),
    "dropped here, updated beside there": (
        lambda exp: exp.update({"age": "9", "name": "'x'"}, where="id = 1"),
        lambda ds: ds.drop_columns(["age"]),
    ),
    "deleted and inserted": (
        lambda exp: [exp.delete("id IN (1, 3)"), upsert(exp, row(3, "x", 3), row(7, "x", 7))],
        lambda ds: ds.update({"age": "9"}, where="id = 3"),
    ),
}


@pytest.mark.parametrize(
    ("change", "whose"), [*((name, "theirs") for name in CHANGES), ("both inserted", "ours")]
)
def test_three_way_merges_count_what_changed(ds: lk.LanceDataset, change: str, whose: Any) -> None:
    exp = ds.create_branch("exp")
    for handle, step in zip((exp, ds), CHANGES[change], strict=True):
        step(handle)
    before = whole_rows(ds)
    plan = ds.branches.merge("exp", conflicts=whose, dry_run=True)
    result = ds.branches.merge("exp", conflicts=whose)
    assert counts(plan) == counts(result) == told(before, whole_rows(ds))
    assert dict(result) == {key: plan[key] for key in result}
    assert ("changed cells" in repr(result)) == bool(result.num_changed_cells)


def test_rows_that_both_inserted_alike_are_no_conflict_beside_a_new_column(
    ds: lk.LanceDataset,
) -> None:
    exp = ds.create_branch("exp")
    for handle in (ds, exp):
        upsert(handle, row(8, "x", 8), row(9, handle.branch or "main", 9))
    exp.add_columns({"twice": "age * 2"})
    (conflict,) = ds.branches.merge("exp", dry_run=True).conflicts.sample()
    assert (conflict.key, conflict.columns) == ({"id": 9}, ("name",))
    # a side for the only column that differs is enough
    ds.branches.merge("exp", conflicts=lk.Sides(columns={"name": "theirs"}))
    assert whole_rows(ds)[9] == {**row(9, "exp", 9), "twice": 18}
    assert whole_rows(ds)[8]["twice"] == 16


def test_rows_of_a_function_count_where_they_differ(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    for handle, name in ((ds, "x"), (exp, "y")):
        handle.update({"name": f"'{name}'"}, where="id < 4")
    ends = [row(1, "x", 1), row(2, "made", 5), row(3, "made", 3)]
    plan = ds.branches.merge("exp", conflicts=lambda _: ends, dry_run=True)
    result = ds.branches.merge("exp", conflicts=lambda _: ends)
    assert counts(plan) == counts(result) == (0, 2, 0, 3)
    assert by_id(ds) == {1: ("x", 1), 2: ("made", 5), 3: ("made", 3), 4: ("d", 4)}


FORWARD: dict[str, Step] = {
    "updates": lambda exp: exp.update({"name": "'x'", "age": "age + 0"}, where="id < 4"),
    "rewritten in place": lambda exp: exp.replace_columns({"age": "nullif(age, 2)"}),
    "a cast, a rename and an update": lambda exp: [
        exp.update({"age": "9"}, where="id = 2"),
        exp.alter_columns({"path": "age", "data_type": pa.int32()}),
        exp.alter_columns({"path": "name", "name": "called"}),
    ],
    "a cast": lambda exp: exp.alter_columns({"path": "age", "data_type": pa.int32()}),
    "another column of one name": lambda exp: [
        exp.drop_columns(["age"]),
        exp.add_columns({"age": "id + 10"}),
        exp.update({"name": "'x'"}, where="id = 2"),
    ],
    "deleted and inserted": lambda exp: [
        exp.delete("id < 3"),
        upsert(exp, row(2, "x", 2), row(7, "x", 7)),
    ],
    "a new column and an update": lambda exp: [
        exp.add_columns({"c": "id"}),
        exp.update({"age": "9"}, where="id = 2"),
    ],
}
CELLS = {
    "updates": 3, "rewritten in place": 1, "a cast, a rename and an update": 1,
    "a cast": 0, "another column of one name": 5, "deleted and inserted": 1,
    "a new column and an update": 1,
}  # fmt: skip


@pytest.mark.parametrize("change", FORWARD)
def test_a_fast_forward_counts_values_when_it_is_asked(ds: lk.LanceDataset, change: str) -> None:
    exp = ds.create_branch("exp")
    FORWARD[change](exp)
    plan = ds.branches.merge("exp", dry_run=True)
    result = ds.branches.merge("exp")
    assert plan.how == result.how == "fast-forward"
    for found in (plan, result):
        assert "num_changed_cells" not in found
        assert "changed cells" not in repr(found)
        assert pickle.loads(pickle.dumps(found)).num_changed_cells is None
    assert plan.num_changed_cells == CELLS[change]
    # the result counts in its own branch
    ds.branches.delete("exp")
    assert result.num_changed_cells == result["num_changed_cells"] == CELLS[change]
    assert ("changed cells" in repr(result)) == bool(CELLS[change])
    assert pickle.loads(pickle.dumps(result)).num_changed_cells == CELLS[change]
    assert counts(plan) == counts(result)


def test_a_fast_forward_counts_rows_that_a_restore_brought_back(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.delete("id = 1")
    exp.update({"name": "'x'"}, where="id = 3")
    ds.branches.merge("exp")
    exp.checkout_version(("exp", 1)).restore()
    plan = ds.branches.merge("exp", dry_run=True)
    result = ds.branches.merge("exp")
    assert plan.how == result.how == "fast-forward"
    assert plan.num_changed_cells == result.num_changed_cells == 1
    # without stable row ids, a row that moved counts as deleted and inserted
    expected = (1, 1, 0, 1) if ds.has_stable_row_ids else (2, 0, 1, 1)
    assert counts(plan) == counts(result) == expected


@pytest.mark.parametrize(
    "step",
    [
        lambda exp: upsert(exp, row(9, "x", 9)),
        lambda exp: exp.delete("id = 1"),
        lambda exp: exp.add_columns({"c": "id"}),
        lambda exp: exp.alter_columns({"path": "age", "name": "years"}),
    ],
    ids=["insert", "delete", "add", "rename"],
)
def test_a_fast_forward_without_updated_rows_knows_that_no_value_changed(
    ds: lk.LanceDataset, step: Step
) -> None:
    step(ds.create_branch("exp"))
    assert ds.branches.merge("exp", dry_run=True)["num_changed_cells"] == 0
    result = ds.branches.merge("exp")
    assert (result.how, result["num_changed_cells"]) == ("fast-forward", 0)
    assert "changed cells" not in repr(result)


def test_picks_reverts_rebases_and_diffs_count_values(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.update({"name": "'x'", "age": "9"}, where="id < 3")
    ds.update({"age": "7"}, where="id = 4")
    assert counts(exp.branches.rebase("exp")) == (0, 1, 0, 1)
    assert counts(ds.branches.cherry_pick("exp", 2)) == (0, 2, 0, 4)
    assert counts(ds.revert(2)) == (0, 1, 0, 1)
    assert counts(ds.diff(3, 1).apply(ds)) == (0, 2, 0, 4)
    assert by_id(ds) == {1: ("a", 1), 2: ("b", 2), 3: ("c", 3), 4: ("d", 4)}


def test_a_fast_forward_counts_a_column_as_another_where_nothing_tells_of_its_rename(
    ds: lk.LanceDataset,
) -> None:
    """The versions that renamed it are gone: its values count with the column that was added."""
    exp = ds.create_branch("exp")
    exp.update({"age": "9"}, where="id = 2")
    exp.alter_columns({"path": "age", "name": "years"})
    exp.update({"name": "'x'"}, where="id = 3")
    exp.optimize.compact_files(materialize_deletions_threshold=0)
    lance.dataset(ds.uri).checkout_version(("exp", None)).cleanup_old_versions(dt.timedelta(0))
    plan, result = ds.branches.merge("exp", dry_run=True), ds.branches.merge("exp")
    for found in (plan, result):
        assert (found.how, found.columns_renamed) == ("fast-forward", ())
        assert (found.columns_dropped, found.columns_added) == (("age",), ("years",))
        assert found.num_changed_cells == 1


def test_a_merge_beside_a_delete_counts_what_the_merge_did(ds: lk.LanceDataset) -> None:
    """The merge kept its target's row 8, which is deleted before the merge lands."""
    exp = ds.create_branch("exp")
    upsert(ds, row(8, "main", 8))
    upsert(exp, row(8, "exp", 8), row(9, "exp", 9))
    exp.update({"age": "7"}, where="id = 1")
    faults, other = Faults(), lance.dataset(ds.uri)

    def delete(call: Call) -> None:
        if call.kind in ("put", "put_if_absent", "create", "adopt"):
            faults.before = None
            other.delete("id > 7")

    with injected(faults):
        handle = lk.dataset(ds.uri)
        faults.before = delete
        result = handle.branches.merge("exp", conflicts="ours")
    assert (result.how, result.read_version, result.version) == ("three-way", 2, 4)
    assert counts(result) == (1, 1, 0, 1)
    assert by_id(handle) == {1: ("a", 7), 2: ("b", 2), 3: ("c", 3), 4: ("d", 4), 9: ("exp", 9)}
