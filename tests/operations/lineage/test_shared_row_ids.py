"""Rows without a key that a fast-forward gave to two lines: their row ids tell them on both."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError

Rows = dict[int, int]


def values(ds: lk.LanceDataset, branch: str | None = None) -> Rows:
    """Return the values of a branch by the number of their row, as the reference reads them."""
    found = lance.dataset(ds.uri.partition("/tree/")[0]).checkout_version((branch, None))
    rows = found.to_table().to_pydict()
    assert len(set(rows["a"])) == len(rows["a"])
    return dict(zip(rows["a"], rows["v"], strict=True))


def ids(ds: lk.LanceDataset) -> Rows:
    rows = ds.to_table(with_row_id=True).to_pydict()
    return dict(zip(rows["a"], rows["_rowid"], strict=True))


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    return lk.write_dataset({"a": [1, 2], "v": [0, 0]}, tmp_path / "t", enable_stable_row_ids=True)


@pytest.fixture
def exp(ds: lk.LanceDataset) -> lk.LanceDataset:
    """A branch that inserted two rows, which main took over."""
    exp = ds.create_branch("exp")
    exp.insert({"a": [3, 4], "v": [0, 0]}, mode="append")
    assert ds.branches.merge("exp").how == "fast-forward"
    return exp


def change(ds: lk.LanceDataset, row: int, value: int) -> None:
    ds.update({"v": str(value)}, where=f"a = {row}")


@pytest.mark.parametrize("way", ["merge", "rebase"])
def test_both_sides_change_rows_that_came(
    ds: lk.LanceDataset, exp: lk.LanceDataset, way: str
) -> None:
    change(ds, 4, 1)
    change(exp, 3, 2)
    plan = ds.branches.merge("exp", dry_run=True)
    assert plan.base == plan.conflicts.base == ("exp", 2)
    result = ds.branches.merge("exp") if way == "merge" else exp.branches.rebase("exp")
    assert (result.num_updated_rows, result.num_inserted_rows, result.num_deleted_rows) == (1, 0, 0)
    assert values(ds, None if way == "merge" else "exp") == {1: 0, 2: 0, 3: 2, 4: 1}
    assert ids(ds) == ids(exp)


def test_again_and_again_in_both_ways(ds: lk.LanceDataset, exp: lk.LanceDataset) -> None:
    """The config key of a later merge has the ids of the last fast-forward."""
    for number in range(1, 9, 2):
        change(ds, 4, number)
        change(exp, 3, number + 1)
        for done in (ds.branches.merge("exp"), exp.branches.rebase("exp")):
            assert (done.num_inserted_rows, done.num_deleted_rows) == (0, 0)
        assert values(ds) == values(exp, "exp") == {1: 0, 2: 0, 3: number + 1, 4: number}
        assert ids(ds) == ids(exp)


@pytest.mark.parametrize("moved", [False, True])
def test_both_took_over_a_third_branch(ds: lk.LanceDataset, moved: bool) -> None:
    exp, third = ds.create_branch("exp"), ds.create_branch("third")
    third.insert({"a": [3, 4], "v": [0, 0]}, mode="append")
    for line in (ds, exp):
        assert line.branches.merge("third").how == "fast-forward"
    change(exp, 3, 2)
    if moved:
        change(ds, 4, 1)
    plan = ds.branches.merge("exp", dry_run=True)
    result = ds.branches.merge("exp")
    assert plan.how == result.how == ("three-way" if moved else "fast-forward")
    assert plan.base == result.base == plan.conflicts.base == ("third", 2)
    assert (result.num_updated_rows, result.num_inserted_rows, result.num_deleted_rows) == (1, 0, 0)
    assert result.get("num_changed_cells", 1) == result.num_changed_cells == 1
    assert values(ds) == {1: 0, 2: 0, 3: 2, 4: int(moved)}
    assert ids(ds) == ids(exp)


def test_a_rebase_of_a_branch_that_did_not_move(ds: lk.LanceDataset, exp: lk.LanceDataset) -> None:
    change(ds, 4, 1)
    ds.insert({"a": [5], "v": [5]}, mode="append")
    ds.delete("a = 1")
    result = exp.branches.rebase("exp")
    assert result.how == "fast-forward"
    assert (result.num_updated_rows, result.num_inserted_rows, result.num_deleted_rows) == (1, 1, 1)
    assert values(exp, "exp") == {2: 0, 3: 0, 4: 1, 5: 5}
    assert ids(ds) == ids(exp)
    columns = ["a", "_row_created_at_version", "_row_last_updated_at_version"]
    found = exp.to_table(columns).sort_by("a").to_pydict()
    assert found[columns[1]] == [1, 2, 2, 3]
    assert found[columns[2]] == [1, 2, 3, 3]


def test_a_branch_of_the_target(ds: lk.LanceDataset, exp: lk.LanceDataset) -> None:
    other = ds.create_branch("other")
    change(ds, 1, 5)
    change(other, 4, 1)
    change(exp, 3, 2)
    other.branches.merge("exp")
    assert values(ds, "other") == {1: 0, 2: 0, 3: 2, 4: 1}


def test_versions_between_were_cleaned_up(ds: lk.LanceDataset, exp: lk.LanceDataset) -> None:
    """The first free id is in the key: the version itself is not needed."""
    for line, row in ((ds, 4), (exp, 3)):
        change(line, row, 1)
    ds.branches.merge("exp")
    for line, row in ((ds, 4), (exp, 3)):
        change(line, row, 2)
        line.optimize.compact_files()
    exp.tags.create("merged", ("exp", 3))  # which the next merge compares with
    for name in (None, "exp"):
        other = lance.dataset(ds.uri).checkout_version((name, None))
        other.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    ds.branches.merge("exp")
    assert values(ds) == {1: 0, 2: 0, 3: 2, 4: 2}


def test_an_id_that_a_restore_hands_out_again_is_another_row(
    ds: lk.LanceDataset, exp: lk.LanceDataset
) -> None:
    change(ds, 1, 5)
    other = lance.dataset(ds.uri).checkout_version(("exp", 1))
    other.restore()
    exp.checkout_latest()
    lance.write_dataset({"a": [5, 6], "v": [0, 0]}, other, mode="append")
    exp.checkout_latest()
    assert values(exp, "exp") == {1: 0, 2: 0, 5: 0, 6: 0}
    result = ds.branches.merge("exp")
    assert (result.num_updated_rows, result.num_inserted_rows, result.num_deleted_rows) == (0, 2, 2)
    assert values(ds) == {1: 5, 2: 0, 5: 0, 6: 0}


def test_rows_that_came_one_by_one_have_other_ids(ds: lk.LanceDataset) -> None:
    """Nothing is lost where nothing tells: the merge is refused, and a key leads on."""
    exp = ds.create_branch("exp")
    exp.insert({"a": [3], "v": [0]}, mode="append")
    ds.insert({"a": [4], "v": [0]}, mode="append")
    assert ds.branches.merge("exp").how == "three-way"
    change(exp, 3, 2)
    change(ds, 3, 5)
    with pytest.raises(InvalidArgumentError, match="cannot be matched") as caught:
        ds.branches.merge("exp")
    assert 'on=["id"]' in caught.value.hint
    assert values(ds) == {1: 0, 2: 0, 3: 5, 4: 0}
    ds.branches.merge("exp", on="a", conflicts="theirs")
    assert values(ds) == {1: 0, 2: 0, 3: 2, 4: 0}


@pytest.mark.parametrize("casts", [False, True])
def test_a_fast_forward_of_an_undo_changes_the_row(ds: lk.LanceDataset, casts: bool) -> None:
    """One fast-forward brings a fragment and a row that left it; the next one brings it back."""
    exp = ds.create_branch("exp")
    ds.insert({"a": [3, 4], "v": [0, 0]}, mode="append")
    if casts:
        ds.alter_columns({"path": "v", "data_type": pa.int32()})
    change(ds, 3, 1)
    assert exp.branches.rebase("exp").how == "fast-forward"
    third = exp.create_branch("third")
    ds.undo()
    plan = exp.branches.merge("main", dry_run=True)
    result = exp.branches.rebase("exp")
    assert plan.num_changed_cells == result.num_changed_cells == 1
    assert exp.diff(exp.version - 1).counts.updated == 1
    change(third, 4, 9)
    third.branches.merge("exp")
    assert values(ds, "third") == {1: 0, 2: 0, 3: 0, 4: 9}
