"""Columns that are followed over versions that are gone, or from a clone to its source."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import SchemaMismatchError
from tests.operations.lineage.test_column_merges import rows_of

AGO = dt.timedelta(0)
NEW = {"score": "nullif(id * 2, -1)"}


@pytest.mark.parametrize("moved", [False, True], ids=["fast-forward", "three-way"])
def test_a_pick_onto_a_branch_that_renamed_the_column_in_a_version_that_is_gone(
    ds: lk.LanceDataset, moved: bool
) -> None:
    exp = ds.create_branch("exp")
    if moved:
        exp.update({"name": "'x'"}, where="id = 4")
    ds.add_columns(NEW)
    exp.branches.merge("main", into="exp")
    ds.alter_columns({"path": "score", "name": "points"})
    ds.update({"name": "'y'"}, where="id = 3")
    lance.dataset(ds.uri).cleanup_old_versions(AGO)
    exp.update({"score": "7"}, where="id = 1")
    before = rows_of(ds)
    with pytest.raises(SchemaMismatchError, match=r"'points' of .* may or may not be column"):
        ds.branches.cherry_pick("exp", exp.version, conflicts="theirs")
    assert rows_of(ds) == before


def test_a_diff_of_a_clone_applies_to_a_branch_that_renamed_the_column(
    ds: lk.LanceDataset, tmp_path: Path
) -> None:
    exp = ds.create_branch("exp")
    exp.add_columns(NEW)
    clone = exp.shallow_clone(tmp_path / "clone", ("exp", None))
    first = clone.version
    clone.update({"score": "7"}, where="id = 1")
    exp.alter_columns({"path": "score", "name": "points"})
    ds.update({"name": "'x'"}, where="id = 4")
    ds.branches.merge("exp")
    clone.diff(first, clone.version).apply(ds)
    assert [row["points"] for row in rows_of(ds)] == [7, 4, 6, 8]
    assert [row["name"] for row in rows_of(ds)] == ["a", "b", "c", "x"]


def test_a_diff_of_a_branch_applies_to_a_clone_that_renamed_the_column(
    ds: lk.LanceDataset, tmp_path: Path
) -> None:
    exp = ds.create_branch("exp")
    exp.add_columns(NEW)
    clone = exp.shallow_clone(tmp_path / "clone", ("exp", None))
    ds.update({"name": "'x'"}, where="id = 4")
    ds.branches.merge("exp")
    clone.alter_columns({"path": "score", "name": "points"})
    first = ds.version
    ds.update({"score": "7"}, where="id = 1")
    ds.diff(first, ds.version).apply(clone)
    assert [row["points"] for row in rows_of(clone)] == [7, 4, 6, 8]


def remove_version(folder: Path, version: int) -> None:
    """Remove a manifest as a cleanup of a library does that keeps no version of a branch."""
    (folder / "_versions" / f"{2**64 - 1 - version}.manifest").unlink()


@pytest.mark.parametrize("copy", [False, True], ids=["gone", "first version of the branch"])
def test_a_rename_since_a_version_that_is_gone_is_told_by_files(
    ds: lk.LanceDataset, tmp_path: Path, copy: bool
) -> None:
    ds.add_columns(NEW)
    exp = ds.create_branch("exp")
    exp.alter_columns({"path": "score", "name": "points"})
    ds.update({"name": "'x'"}, where="id = 4")
    remove_version(tmp_path / "t", 2)
    if not copy:
        remove_version(tmp_path / "t" / "tree" / "exp", 2)
    exp.update({"points": "7"}, where="id = 1")
    ds.branches.cherry_pick("exp", exp.version)
    assert [row["score"] for row in rows_of(ds)] == [7, 4, 6, 8]


def test_a_rename_since_a_version_that_is_gone_is_refused_where_no_file_tells_it(
    ds: lk.LanceDataset, tmp_path: Path
) -> None:
    ds.add_columns(NEW)
    exp = ds.create_branch("exp")
    exp.alter_columns({"path": "score", "name": "points"})
    ds.optimize.compact_files()
    remove_version(tmp_path / "t", 2)
    remove_version(tmp_path / "t" / "tree" / "exp", 2)
    exp.update({"points": "7"}, where="id = 1")
    with pytest.raises(SchemaMismatchError, match=r"Column 'score' of .* may or may not be column"):
        ds.branches.cherry_pick("exp", exp.version)


def test_diffs_and_fast_forwards_show_a_column_that_came_back_as_renamed(
    ds: lk.LanceDataset,
) -> None:
    exp, other = ds.create_branch("exp"), ds.create_branch("other")
    exp.alter_columns({"path": "age", "name": "years"})
    exp.update({"years": "7"}, where="id = 1")
    ds.drop_columns(["age"])
    ds.branches.merge("exp", conflicts="theirs")
    found = ds.diff(1)
    assert found.schema.renamed == (("age", "years"),)
    assert (found.schema.added, found.schema.dropped) == ((), ())
    assert found.counts.updated == 1
    plan = other.branches.merge("main", into="other", dry_run=True)
    assert plan.how == "fast-forward"
    assert (plan.columns_renamed, plan.columns_dropped) == ((("age", "years"),), ())
    result = other.branches.merge("main", into="other")
    assert (result.columns_renamed, result.num_changed_cells) == ((("age", "years"),), 1)
    assert [row["years"] for row in rows_of(other)] == [7, 2, 3, 4]


def test_a_column_is_followed_over_a_restore_of_a_version_that_is_gone(ds: lk.LanceDataset) -> None:
    ds.update({"name": "'x'"}, where="id = 4")
    restored = ds.version
    ds.delete("id = 3")
    old = ds.create_branch("old", ds.version)
    ds.undo()
    exp = ds.create_branch("exp")
    exp.alter_columns({"path": "age", "name": "years", "data_type": pa.int32()})
    ds.cleanup_old_versions(versions=[restored])
    old.update({"age": "7"}, where="id = 1")
    exp.branches.merge("old", into="exp")
    assert {row["id"]: row["years"] for row in rows_of(exp)}[1] == 7
    assert exp.schema.field("years").type == pa.int32()
