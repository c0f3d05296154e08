"""Indices stay right when fragments are put together, and pylance finds what it did."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

import lancekit as lk
from lancekit._index.kinds import KINDS
from lancekit.optimize import Compaction
from tests.support.indexed_columns import answered_by_index, rows, unlike, unlike_here

IDS = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row-ids"])
COLUMN = {"LABEL_LIST": ["labels"], "NGRAM": ["text"]}


def _indexed(
    path: Path, name: str, stable: bool, *, theirs: bool
) -> tuple[lk.LanceDataset, list[str]]:
    columns = COLUMN.get(name, ["int32", "text"])
    lk.write_dataset(
        rows(4, leave_out=("fixed",)), str(path), max_rows_per_file=8, enable_stable_row_ids=stable
    )
    for column in columns:
        if theirs:
            lance.dataset(str(path)).create_scalar_index(column, name)
        else:
            with lk.options(oldest_reader="14.0.2"):
                lk.dataset(str(path)).create_scalar_index(column, name)
    return lk.dataset(str(path)), columns


@pytest.mark.cover
@IDS
@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "theirs"])
@pytest.mark.parametrize("name", KINDS)
def test_compaction_keeps_indices(name: str, theirs: bool, stable: bool, tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds, columns = _indexed(path, name, stable, theirs=theirs)
    ds.delete("row IN (0, 1, 9, 10, 30)")
    ds.insert(rows(1, leave_out=("fixed",)))
    done = ds.optimize.compact_files(target_rows_per_fragment=17)
    assert done.fragments_removed > 4
    assert done.left_to_indices == {}
    live = set(ds.fragment_ids())
    for index in ds.list_indices():  # all but the rows that were in none
        assert len(live - set(index["fragment_ids"])) <= 1
    assert unlike(path, columns) == []
    assert answered_by_index(path, columns[0]) > 0
    assert unlike_here(path, columns) == []
    ds.delete("row IN (2, 31)")
    ds.optimize.optimize_indices()
    ds.optimize.compact_files()
    assert unlike(path, columns) == []
    lance.dataset(str(path)).optimize.optimize_indices()
    assert unlike(path, columns) == []


def test_segments_are_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds, _ = _indexed(path, "BTREE", False, theirs=False)
    ds.insert(rows(1, leave_out=("fixed",)))
    ds.insert(rows(1, leave_out=("fixed",)))
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    ds.optimize.compact_files()
    assert len(ds.fragment_ids()) == 2
    assert unlike(path, ["int32", "text"]) == []


def test_a_damaged_index_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds, columns = _indexed(path, "BITMAP", False, theirs=False)
    for index in ds.list_indices():
        (path / "_indices" / index["uuid"] / "bitmap_page_lookup.lance").unlink()
    with pytest.warns(UserWarning, match="cannot be read and is rebuilt"):
        ds.optimize.compact_files()
    assert unlike(path, columns) == []
    assert answered_by_index(path, "int32") > 0


def test_a_compaction_that_does_not_land_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds, columns = _indexed(path, "BTREE", False, theirs=False)
    before = sorted((path / "_indices").iterdir())
    tasks = [task.execute(ds) for task in Compaction.plan(ds).tasks]
    lk.dataset(str(path)).delete("row = 3")
    with pytest.raises(lk.errors.RetryableConflictError):
        Compaction.commit(ds, tasks)
    assert sorted((path / "_indices").iterdir()) == before
    assert unlike(path, columns) == []


@IDS
def test_an_index_of_text_follows(stable: bool, tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    lk.write_dataset(
        rows(2, leave_out=("fixed",)), str(path), max_rows_per_file=8, enable_stable_row_ids=stable
    )
    lance.dataset(str(path)).create_scalar_index("text", "INVERTED")
    left = lk.dataset(str(path)).optimize.compact_files().left_to_indices
    assert left == {}
    found = lance.dataset(str(path)).to_table(full_text_query="abcd", fast_search=True)
    assert found["text"].to_pylist() == ["abcd"] * 2
