"""Rows without a key that a merge brings back into a table that had them: one row, one row id."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit.errors import MergeConflictError
from tests.support.faults import Call, Faults, injected

Rows = dict[int, int]


def values(ds: lk.LanceDataset, branch: str | None = None) -> Rows:
    """Return the values of a branch by the number of their row, as the reference reads them."""
    found = lance.dataset(ds.uri.partition("/tree/")[0]).checkout_version((branch, None))
    rows = found.to_table().to_pydict()
    assert len(set(rows["a"])) == len(rows["a"]), "a row occurs twice"
    return dict(zip(rows["a"], rows["v"], strict=True))


def ids(ds: lk.LanceDataset) -> Rows:
    rows = ds.to_table(with_row_id=True).to_pydict()
    return dict(zip(rows["a"], rows["_rowid"], strict=True))


def change(ds: lk.LanceDataset, row: int, value: int) -> None:
    ds.update({"v": str(value)}, where=f"a = {row}")


def nothing(_: lk.LanceDataset) -> None:
    pass


def compact(ds: lk.LanceDataset) -> None:
    ds.optimize.compact_files(target_rows_per_fragment=100)


def compact_by_pylance(ds: lk.LanceDataset) -> None:
    root, _, branch = ds.uri.partition("/tree/")
    lance.dataset(root).checkout_version((branch or None, None)).optimize.compact_files()
    ds.checkout_latest()


BETWEEN = pytest.mark.parametrize("between", [nothing, compact, compact_by_pylance])


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    return lk.write_dataset(
        {"a": [0, 1, 2], "v": [0, 0, 0]}, tmp_path / "t",
        enable_stable_row_ids=True, max_rows_per_file=2,
    )  # fmt: skip


@BETWEEN
def test_deleted_here_and_updated_there(
    ds: lk.LanceDataset, between: Callable[[lk.LanceDataset], None]
) -> None:
    exp = ds.create_branch("exp")
    ds.delete("a = 1")
    between(ds)
    for value in (5, 6, 7):
        change(exp, 1, value)
        ds.branches.merge("exp", conflicts="theirs")
        assert values(ds) == {0: 0, 1: value, 2: 0}
        assert ids(ds) == ids(exp)
        between(ds)
        ds.validate()
    exp.delete("a = 1")
    assert ds.branches.merge("exp").num_deleted_rows == 1
    assert values(ds) == {0: 0, 2: 0}


@BETWEEN
def test_deleted_there_and_updated_here(
    ds: lk.LanceDataset, between: Callable[[lk.LanceDataset], None]
) -> None:
    exp = ds.create_branch("exp")
    exp.delete("a = 1")
    change(ds, 1, 5)
    ds.branches.merge("exp", conflicts="ours")
    between(exp)
    exp.branches.rebase("exp", conflicts="theirs")
    assert values(exp, "exp") == {0: 0, 1: 5, 2: 0}
    change(exp, 1, 6)
    change(ds, 2, 7)
    assert ds.branches.merge("exp").num_updated_rows == 1
    assert values(ds) == {0: 0, 1: 6, 2: 7}


@BETWEEN
def test_a_revert_of_a_delete(
    ds: lk.LanceDataset, between: Callable[[lk.LanceDataset], None]
) -> None:
    exp = ds.create_branch("exp")
    before = ds.to_table(["a", "_rowid", "_row_created_at_version"]).sort_by("a")
    ds.delete("a < 2")
    version = ds.version
    between(ds)
    assert ds.revert(version).num_inserted_rows == 2
    assert ds.to_table(["a", "_rowid", "_row_created_at_version"]).sort_by("a") == before
    change(exp, 1, 5)
    change(ds, 0, 6)
    assert ds.branches.merge("exp").num_updated_rows == 1
    assert values(ds) == {0: 6, 1: 5, 2: 0}
    assert lk.diff(ds.checkout_version(1), ds).counts.updated == 2


def test_a_function_brings_a_row_back(ds: lk.LanceDataset) -> None:
    """With new rows of both kinds beside it."""
    exp = ds.create_branch("exp")
    exp.insert({"a": [3], "v": [0]}, mode="append")
    ds.delete("a = 1")
    change(ds, 0, 3)
    change(exp, 0, 4)
    change(exp, 1, 5)

    def doubled(conflicts: Any) -> list[dict[str, Any]]:
        return [
            {"_rowid": row["_rowid"], "a": row["theirs"]["a"], "v": 2 * row["theirs"]["v"]}
            for row in conflicts.to_table().to_pylist()
        ]

    ds.branches.merge("exp", conflicts=doubled)
    assert values(ds) == {0: 8, 1: 10, 2: 0, 3: 0}
    assert [ids(ds)[row] for row in (0, 1, 2)] == [0, 1, 2]


def test_with_a_new_column(ds: lk.LanceDataset) -> None:
    """Rows and columns of one commit."""
    exp = ds.create_branch("exp")
    exp.add_columns({"w": "a * 10"})
    ds.delete("a = 1")
    compact(ds)
    change(exp, 1, 5)
    ds.branches.merge("exp", conflicts="theirs")
    change(exp, 1, 6)
    change(ds, 0, 1)
    ds.branches.merge("exp")
    assert values(ds) == {0: 1, 1: 6, 2: 0}
    assert sorted(ds.to_table()["w"].to_pylist()) == [0, 10, 20]


@BETWEEN
@pytest.mark.parametrize("cleans", [False, True])
def test_a_row_that_a_fast_forward_brought(
    ds: lk.LanceDataset, between: Callable[[lk.LanceDataset], None], cleans: bool
) -> None:
    exp = ds.create_branch("exp")
    exp.insert({"a": [3, 4], "v": [0, 0]}, mode="append")
    change(exp, 3, 1)
    assert ds.branches.merge("exp").how == "fast-forward"
    ds.delete("a = 3")
    between(ds)
    if cleans:
        lance.dataset(ds.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    for value in (5, 6):
        change(exp, 3, value)
        ds.branches.merge("exp", conflicts="theirs")
        assert values(ds) == {0: 0, 1: 0, 2: 0, 3: value, 4: 0}
    change(ds, 3, 7)
    change(exp, 0, 8)
    exp.branches.rebase("exp")
    assert values(exp, "exp") == {0: 8, 1: 0, 2: 0, 3: 7, 4: 0}
    assert ids(ds) == ids(exp)


@BETWEEN
def test_a_fast_forward_of_a_row_that_came_back(
    ds: lk.LanceDataset, between: Callable[[lk.LanceDataset], None]
) -> None:
    exp, old = ds.create_branch("exp"), ds.create_branch("old")
    exp.delete("a = 1")
    assert ds.branches.merge("exp").how == "fast-forward"
    exp.revert(2)
    between(exp)
    result = ds.branches.merge("exp")
    assert (result.how, result.num_inserted_rows, result.num_deleted_rows) == ("fast-forward", 1, 0)
    assert values(ds) == {0: 0, 1: 0, 2: 0}
    created = "_row_created_at_version"
    assert ds.to_table([created])[created].to_pylist() == [1, 1, 1]
    change(old, 1, 5)
    ds.branches.merge("old")
    assert values(ds) == {0: 0, 1: 5, 2: 0}


@BETWEEN
def test_a_row_that_is_older_than_the_last_fast_forward(
    ds: lk.LanceDataset, between: Callable[[lk.LanceDataset], None]
) -> None:
    """It keeps the version that created it: the next merge knows the row, and changes it."""
    exp = ds.create_branch("exp")
    exp.insert({"a": [3, 4], "v": [0, 0]}, mode="append")
    changed, deleted, target = (exp.create_branch(name) for name in ("changed", "deleted", "x"))
    assert ds.branches.merge("exp").how == "fast-forward"
    exp.delete("a >= 3")
    assert target.branches.rebase("x").how == "fast-forward"
    change(ds, 3, 1)
    between(target)
    target.branches.cherry_pick("main", 3, conflicts="theirs")
    assert values(ds, "x") == {0: 0, 1: 0, 2: 0, 3: 1}
    assert ids(target)[3] == ids(ds)[3]
    between(target)
    change(changed, 3, 2)
    with pytest.raises(MergeConflictError, match="1 row"):
        target.branches.merge("changed")
    target.branches.merge("changed", conflicts="theirs")
    assert values(ds, "x") == {0: 0, 1: 0, 2: 0, 3: 2}
    deleted.delete("a = 3")
    with pytest.raises(MergeConflictError, match="1 row"):
        target.branches.merge("deleted")
    target.branches.merge("deleted", conflicts="theirs")
    assert values(ds, "x") == {0: 0, 1: 0, 2: 0}


@pytest.mark.parametrize("cleans", [False, True])
def test_a_row_that_an_earlier_fast_forward_brought(ds: lk.LanceDataset, cleans: bool) -> None:
    exp = ds.create_branch("exp")
    exp.insert({"a": [3, 4], "v": [0, 0]}, mode="append")
    old = exp.create_branch("old")
    assert ds.branches.merge("exp").how == "fast-forward"
    other = ds.create_branch("other")
    exp.delete("a >= 3")
    assert ds.branches.merge("exp").how == "fast-forward"
    exp.insert({"a": [5], "v": [0]}, mode="append")
    assert ds.branches.merge("exp").how == "fast-forward"
    if cleans:
        lance.dataset(ds.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    change(old, 3, 1)
    ds.branches.merge("old", conflicts="theirs")
    assert values(ds) == {0: 0, 1: 0, 2: 0, 3: 1, 5: 0}
    change(other, 3, 2)
    ds.branches.merge("other", conflicts="theirs")
    assert values(ds) == {0: 0, 1: 0, 2: 0, 3: 2, 5: 0}


def test_an_id_that_a_restore_hands_out_again_stays_with_its_row(ds: lk.LanceDataset) -> None:
    ds.insert({"a": [3], "v": [0]}, mode="append")
    exp = ds.create_branch("exp")
    lance.dataset(ds.uri).checkout_version(1).restore()
    ds.checkout_latest()
    ds.insert({"a": [5], "v": [0]}, mode="append")
    before = ids(ds)
    change(exp, 3, 1)
    ds.branches.merge("exp", conflicts="theirs")
    assert values(ds) == {0: 0, 1: 0, 2: 0, 3: 1, 5: 0}
    found = ids(ds)
    assert {row: id_ for row, id_ in found.items() if row != 3} == before
    assert len(set(found.values())) == 5


def test_two_writers_bring_one_row_back(ds: lk.LanceDataset) -> None:
    """The later revert sees the earlier one, and has nothing to do."""
    ds.delete("a = 1")
    faults = Faults()

    def let_in(call: Call) -> None:
        if call.kind == "put_if_absent":
            faults.before = None
            lk.dataset(ds.uri).revert(2)

    with injected(faults):
        handle = lk.dataset(ds.uri)
        faults.before = let_in
        result = handle.revert(2)
    assert faults.before is None
    assert result.how == "nothing to do"
    assert values(ds) == {0: 0, 1: 0, 2: 0}
    assert lk.dataset(ds.uri).version == 3


@BETWEEN
def test_indices_find_it_once(
    ds: lk.LanceDataset, between: Callable[[lk.LanceDataset], None]
) -> None:
    ds.create_scalar_index("v", "BTREE")
    exp = ds.create_branch("exp")
    ds.delete("a = 1")
    between(ds)
    change(exp, 1, 5)
    ds.branches.merge("exp", conflicts="theirs")
    for _ in range(2):
        for library in (lk, lance):
            found = {
                value: library.dataset(ds.uri).to_table(["a"], filter=f"v = {value}").to_pydict()
                for value in (0, 5)
            }
            assert sorted(found[0]["a"]) == [0, 2]
            assert found[5]["a"] == [1]
        ds.optimize.optimize_indices()


def test_pylance_goes_on_with_it(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    ds.delete("a = 1")
    change(exp, 1, 5)
    ds.branches.merge("exp", conflicts="theirs")
    other = lance.dataset(ds.uri)
    other.update({"v": "v + 1"}, where="a > 0")
    other.optimize.compact_files()
    other.create_scalar_index("a", "BTREE")
    ds.checkout_latest()
    assert ids(ds) == {0: 0, 1: 1, 2: 2}
    change(exp, 0, 9)
    ds.branches.merge("exp")
    assert values(ds) == {0: 9, 1: 6, 2: 1}
