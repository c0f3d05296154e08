"""Indices that are made in parts, by lancekit and by pylance."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

import lancekit as lk
from lancekit._index.kinds import KINDS
from lancekit.errors import IndexExistsError, InvalidArgumentError, RetryableConflictError
from tests.support.indexed_columns import answered_by_index, rows, unlike

IDS = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row-ids"])
COLUMN = {"LABEL_LIST": "labels", "NGRAM": "text"}


def _dataset(path: Path, stable: bool = False) -> lk.LanceDataset:
    return lk.write_dataset(rows(2), str(path), max_rows_per_file=6, enable_stable_row_ids=stable)


@IDS
@pytest.mark.parametrize("name", KINDS)
def test_parts_are_put_together(name: str, stable: bool, tmp_path: Path) -> None:
    path, column = tmp_path / "d.lance", COLUMN.get(name, "int32")
    ds = _dataset(path, stable)
    with lk.options(oldest_reader="14.0.2"):
        parts = [
            ds.create_index_uncommitted(column, name, fragment_ids=ids)
            for ids in ([0], [1, 2], [3])
        ]
        assert ds.version == 1
        whole = ds.merge_existing_index_segments(parts[:2])
        ds.commit_existing_index_segments("mine", column, [whole, parts[2]])
    covered = [list(one["fragment_ids"]) for one in ds.list_indices()]
    assert covered == [[0, 1, 2], [3]]
    assert unlike(path, [column]) == []
    assert answered_by_index(path, column) > 0


def test_pylance_commits_parts_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = _dataset(path)
    mine = ds.create_index_uncommitted("int32", "BTREE", fragment_ids=[0, 1])
    theirs = lance.dataset(str(path))
    other = theirs.create_index_uncommitted("int32", "BTREE", fragment_ids=[2, 3])
    index = lance.dataset.Index if hasattr(lance.dataset, "Index") else type(other)
    part = index(
        uuid=str(mine.uuid),
        name=mine.name,
        fields=list(mine.fields),
        dataset_version=mine.dataset_version,
        fragment_ids=set(mine.fragment_ids or ()),
        index_version=mine.index_version,
        index_details=(mine.type_url, b""),
    )
    theirs.commit_existing_index_segments("int32_idx", "int32", [part, other])
    assert len(lk.dataset(str(path)).list_indices()) == 2
    assert unlike(path, ["int32"]) == []


def test_rows_that_changed_since(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = _dataset(path)
    parts = [ds.create_index_uncommitted("int32", "BTREE", fragment_ids=[0, 1, 2, 3])]
    ds.insert(rows(1))
    ds.delete("int32 = 4")
    ds.update({"int32": "int32 + 3"}, where="row = 5")
    ds.commit_existing_index_segments("int32_idx", "int32", parts)
    assert list(ds.list_indices()[0]["fragment_ids"]) == [0, 1, 2, 3]
    assert unlike(path, ["int32"]) == []
    ds.drop_index("int32_idx")
    parts = [ds.create_index_uncommitted("int32", "BTREE", fragment_ids=[0, 1])]
    ds.optimize.compact_files()
    with pytest.raises(RetryableConflictError, match="was rewritten"):
        ds.commit_existing_index_segments("int32_idx", "int32", parts)
    assert ds.list_indices() == []


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    ds = _dataset(tmp_path / "d.lance")
    first = ds.create_index_uncommitted("int32", "BTREE", fragment_ids=[0])
    again = ds.create_index_uncommitted("int32", "BTREE", fragment_ids=[0, 1])
    other = ds.create_index_uncommitted("int32", "BITMAP", fragment_ids=[1])
    text = ds.create_index_uncommitted("text", "BTREE", fragment_ids=[1])
    wrong = [
        ([], "No segments were given"),
        ([first, again], "Two segments cover fragment 0"),
        ([first, other], "not all of one kind"),
        ([first, text], "on several columns"),
        ([text], "not on column 'int32'"),
    ]
    for parts, told in wrong:
        with pytest.raises(InvalidArgumentError, match=told):
            ds.commit_existing_index_segments("int32_idx", "int32", parts)
    with pytest.raises(InvalidArgumentError, match="needs fragment_ids"):
        ds.create_index_uncommitted("int32", "BTREE")
    for table, called in ((ds, "Version 1 of main"), (ds.create_branch("Q1-Trial"), "of Q1-Trial")):
        with pytest.raises(InvalidArgumentError, match=f"{called} has no fragment 9"):
            table.create_index_uncommitted("int32", "BTREE", fragment_ids=[9])
    ds.create_scalar_index("text", "BTREE", name="taken")
    with pytest.raises(IndexExistsError, match="another column"):
        ds.commit_existing_index_segments("taken", "int32", [first])
    assert ds.version == 2
