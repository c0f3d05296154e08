"""Merges since a version that the user names, and merges by key without a base."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lance
import pytest

import lancekit as lk
from lancekit._notebook.workbench.picks import Picks, code_of
from lancekit.errors import (
    InvalidArgumentError,
    MergeConflictError,
    SchemaMismatchError,
    TagNotFoundError,
    VersionNotFoundError,
)


def rows(ds: lk.LanceDataset) -> dict[int, int]:
    found = lance.dataset(ds._location.uri).to_table().to_pydict()
    return dict(zip(found["id"], found["n"], strict=True))


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def gone(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[lk.LanceDataset, lk.LanceDataset]:
    """Return main and a branch whose merge base the cleanup of the reference removed."""
    table = {"id": [1, 2, 3, 4], "n": [1, 2, 3, 4]}
    ds = lk.write_dataset(
        table, tmp_path / "t", primary_key="id", enable_stable_row_ids=request.param
    )
    exp = ds.create_branch("exp")
    exp.update({"n": "10"}, where="id = 1")
    ds.update({"n": "20"}, where="id = 2")
    ds.branches.merge("exp")
    exp.update({"n": "11"}, where="id = 1")
    exp.insert({"id": [5], "n": [5]}, mode="append")
    exp.delete("id = 3")
    ds.delete("id = 4")
    lance.dataset(exp._location.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    return ds, exp


def test_the_error_names_the_base_that_is_gone(
    gone: tuple[lk.LanceDataset, lk.LanceDataset],
) -> None:
    ds, _ = gone
    with pytest.raises(VersionNotFoundError) as told:
        ds.branches.merge("exp")
    assert "version 2 of exp, up to which it was merged, was cleaned up" in told.value.message
    assert told.value.hint is not None
    assert "base=('main', 1)" in told.value.hint
    assert "base=0" in told.value.hint


def test_an_older_base(gone: tuple[lk.LanceDataset, lk.LanceDataset]) -> None:
    ds, exp = gone
    with pytest.raises(MergeConflictError):  # both sides have changed n of row 1 since
        ds.branches.merge("exp", base=("main", 1))
    plan = ds.branches.merge("exp", base=1, conflicts="theirs", dry_run=True)
    assert plan.base == ("main", 1)
    result = ds.branches.merge("exp", base=1, conflicts="theirs")
    assert dict(result) == {key: plan[key] for key in result}
    assert rows(ds) == {1: 11, 2: 20, 5: 5}
    # the next merge has a base again
    exp.update({"n": "12"}, where="id = 1")
    assert ds.branches.compare("exp").base == ("exp", 5)
    ds.branches.merge("exp")
    assert rows(ds) == {1: 12, 2: 20, 5: 5}


def test_no_base(gone: tuple[lk.LanceDataset, lk.LanceDataset]) -> None:
    ds, _ = gone
    plan = ds.branches.merge("exp", base=0, dry_run=True)
    assert "none: rows that differ are conflicts, and no row is deleted" in repr(plan)
    # row 4 was deleted here, and row 2 changed there to what it was
    assert dict(plan) == {
        "num_inserted_rows": 2,
        "num_updated_rows": 0,
        "num_deleted_rows": 0,
        "num_conflicts": 2,
        "num_changed_cells": 0,
    }
    assert "base=0" in code_of(plan, Picks())
    with pytest.raises(MergeConflictError):
        plan.apply()
    plan = plan.resolved(lk.Sides("ours", rows={1: "theirs"}))
    assert plan.base[1] == 0
    result = plan.apply()
    assert dict(result) == {key: plan[key] for key in result}
    assert rows(ds) == {1: 11, 2: 20, 3: 3, 4: 4, 5: 5}
    assert ds.branches.merge("exp").how == "nothing to do"


def test_no_base_and_a_new_column(gone: tuple[lk.LanceDataset, lk.LanceDataset]) -> None:
    ds, exp = gone
    exp.add_columns({"twice": "n * 2"})
    ds.add_columns({"mine": "n * 3"})
    ds.branches.merge("exp", base=0, conflicts="theirs")
    found = lance.dataset(ds.uri).to_table().to_pylist()
    assert {row["id"]: (row["n"], row["mine"], row["twice"]) for row in found} == {
        1: (11, 30, 22),
        2: (2, 60, 4),
        3: (3, 9, None),
        4: (4, None, 8),
        5: (5, None, 10),
    }


def test_no_base_and_no_key(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "n": [1]}, tmp_path / "t")
    exp = ds.create_branch("exp")
    exp.insert({"id": [2], "n": [2]}, mode="append")
    ds.insert({"id": [3], "n": [3]}, mode="append")
    with pytest.raises(InvalidArgumentError, match="has no primary key"):
        ds.branches.merge("exp", base=0)
    ds.branches.merge("exp", base=0, on="id")
    assert rows(ds) == {1: 1, 2: 2, 3: 3}


def test_a_base_that_cannot_be(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "n": [1]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.update({"n": "2"})
    ds.insert({"id": [3], "n": [3]}, mode="append")
    with pytest.raises(InvalidArgumentError, match=r"version 2 of exp does not contain it"):
        ds.branches.merge("exp", base=2)
    with pytest.raises(InvalidArgumentError, match=r"version 2 of main does not contain it"):
        ds.branches.merge("exp", base=("exp", 2))
    with pytest.raises(TagNotFoundError):
        ds.branches.merge("exp", base="before")
    with pytest.raises(VersionNotFoundError):
        ds.branches.merge("exp", base=7)
    ds.tags.create("before", 1)
    assert exp.branches.rebase("exp", base="before").base == ("main", 1)
    assert rows(exp) == {1: 2, 3: 3}


def test_a_comparison_since_a_named_base(gone: tuple[lk.LanceDataset, lk.LanceDataset]) -> None:
    ds, _ = gone
    with pytest.raises(VersionNotFoundError, match="base="):
        ds.branches.compare("exp")
    found = ds.branches.compare("exp", base=("main", 1))
    assert (found.base, found.is_fast_forward) == (("main", 1), False)
    counts = found.theirs_diff.counts
    assert (counts.inserted, counts.updated, counts.deleted) == (1, 1, 1)
    assert len(found.conflicts) == ds.branches.merge("exp", base=1, dry_run=True).num_conflicts
    without = ds.branches.compare("exp", base=0)
    assert (without.base[1], len(without.conflicts)) == (0, 2)
    assert without.theirs_diff.counts.inserted == 4
    assert "version 0" not in repr(without)
    with pytest.raises(InvalidArgumentError, match="does not contain it"):
        ds.branches.compare("exp", base=("exp", 5))


@pytest.mark.parametrize("renamed", ["here", "there"])
def test_no_base_and_a_renamed_column(tmp_path: Path, renamed: str) -> None:
    """Nothing tells which name is the newer one."""
    ds = lk.write_dataset({"id": [1], "n": [1]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.insert({"id": [2], "n": [2]}, mode="append")
    ds.insert({"id": [3], "n": [3]}, mode="append")
    (ds if renamed == "here" else exp).alter_columns({"path": "n", "name": "m"})
    version = ds.version
    for call in (
        lambda: ds.branches.merge("exp", base=0),
        lambda: ds.branches.merge("exp", base=0, conflicts="theirs", dry_run=True),
        lambda: ds.branches.compare("exp", base=0),
    ):
        with pytest.raises(SchemaMismatchError, match="it is unknown which name is newer"):
            call()
    assert ds.latest_version == version
    (exp if renamed == "here" else ds).alter_columns({"path": "n", "name": "m"})
    ds.branches.merge("exp", base=0)
    assert sorted(ds.to_table()["m"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("change", ["update", "insert"])
def test_a_rename_in_versions_that_are_gone_is_refused(tmp_path: Path, change: str) -> None:
    """Nothing tells whether it is the same column; the new name is none either."""
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    ds.alter_columns({"path": "n", "name": "m"})
    ds.update({"m": "m + 10"})
    ds.optimize.compact_files()
    lance.dataset(ds.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    if change == "update":
        exp.update({"n": "9"}, where="id = 1")
    else:
        exp.insert({"id": [3], "n": [3]}, mode="append")
    with pytest.raises(SchemaMismatchError, match=r"Column 'm' of .* may or may not be column"):
        ds.branches.merge("exp")
    assert ds.latest_version == ds.version
    ds.alter_columns({"path": "m", "name": "n"})  # what the error says
    ds.branches.merge("exp", conflicts="theirs")
    expected = {1: 9, 2: 12} if change == "update" else {1: 11, 2: 12, 3: 3}
    assert rows(ds) == expected


def test_a_deleted_branch_that_two_branches_merged(tmp_path: Path) -> None:
    """An older base could make an older value win, so none is taken unasked."""
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    exp, sub = ds.create_branch("exp"), ds.create_branch("sub")
    sub.update({"n": "6"}, where="id = 1")
    for line in (ds, exp):
        line.insert({"id": [3 if line is ds else 4], "n": [0]}, mode="append")
        line.branches.merge("sub", into="main" if line is ds else "exp")
        line.checkout_latest()
    ds.update({"n": "1"}, where="id = 1")  # takes it back
    ds.branches.delete("sub")
    with pytest.raises(VersionNotFoundError) as told:
        ds.branches.merge("exp")
    assert "version 2 of the deleted branch" in told.value.message
    assert "was deleted with its branch" in told.value.message
    assert told.value.hint is not None
    assert "base=('main', 1)" in told.value.hint
    assert "received and reverted count as unchanged" in told.value.hint
    assert (ds.latest_version, rows(ds)) == (4, {1: 1, 2: 2, 3: 0})
    plan = ds.branches.merge("exp", base=1, dry_run=True)
    assert (plan.num_inserted_rows, plan.num_updated_rows, plan.num_conflicts) == (1, 1, 0)
    without = ds.branches.merge("exp", base=0, dry_run=True)
    assert without.num_conflicts == 1  # the row that differs


@pytest.mark.parametrize("changed", [False, True])
def test_rows_of_an_earlier_merge_are_not_brought_again(tmp_path: Path, changed: bool) -> None:
    """Without a key, the rows of the earlier merge have other row ids on each side."""
    ds = lk.write_dataset({"id": [1], "n": [1]}, tmp_path / "t", enable_stable_row_ids=True)
    exp = ds.create_branch("exp")
    exp.insert({"id": [2], "n": [2]}, mode="append")
    ds.update({"n": "10"})
    ds.branches.merge("exp")
    if changed:
        exp.update({"n": "3"}, where="id = 2")
    exp.insert({"id": [4], "n": [4]}, mode="append")
    with pytest.raises(InvalidArgumentError, match="a merge or a pick copied") as told:
        ds.branches.merge("exp", base=1)
    assert told.value.hint is not None
    assert 'on=["id"]' in told.value.hint
    assert rows(ds) == {1: 10, 2: 2}
    ds.branches.merge("exp", base=1, on="id", conflicts="theirs")
    assert rows(ds) == {1: 10, 2: 3 if changed else 2, 4: 4}
