"""Indices are brought up to date, by lancekit and by pylance in turn."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.index import IndexDetails
from lancekit._index.build.files import NewFile, write_file
from lancekit._index.kinds import KINDS
from lancekit._storage.local import LocalStore
from lancekit.errors import (
    CorruptFileError,
    IndexNotFoundError,
    InvalidArgumentError,
    NotOfferedError,
)
from lancekit.indices import IndexConfig
from tests.support.indexed_columns import answered_by_index, rows, unlike, unlike_here

IDS = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row-ids"])
# zone maps of pylance miss rows of values that are no number
COLUMN = {"LABEL_LIST": ["labels"], "NGRAM": ["text", "large_text"], "ZONEMAP": ["int32", "text"]}
PLAIN = ["double", "int32", "text"]


def _covered(ds: lk.LanceDataset, name: str) -> list[list[int]]:
    return [list(one["fragment_ids"]) for one in ds.list_indices() if one["name"] == name]


def _changed(ds: lk.LanceDataset, seed: int) -> None:
    """Change rows: some come, some go, some get other values."""
    chance = random.Random(seed)
    ds.insert(rows(1, leave_out=("fixed",)))
    ds.delete(f"row % {chance.choice([5, 7, 11])} = 3")
    wanted = f"row % {chance.choice([4, 6])} = 1"
    ds.update({"int32": "int32 + 3", "double": "0.5", "text": "'abcd'"}, where=wanted)


@pytest.mark.cover
@pytest.mark.torture
@IDS
@pytest.mark.parametrize("name", KINDS)
def test_both_libraries_in_turn(name: str, stable: bool, tmp_path: Path, whole: bool) -> None:
    path = tmp_path / "d.lance"
    columns = COLUMN.get(name, PLAIN)
    with lk.options(oldest_reader="14.0.2"):
        ds = lk.write_dataset(
            rows(leave_out=("fixed",)),
            str(path),
            max_rows_per_file=10,
            enable_stable_row_ids=stable,
        )
        for column in columns:
            ds.create_scalar_index(column, name)
    for seed in range(4):
        _changed(ds, seed)
        if seed % 2:
            # its deltas beside a segment that has updated rows find these by their old values
            merge = seed if stable else seed - 1
            lance.dataset(str(path)).optimize.optimize_indices(num_indices_to_merge=merge)
            ds = lk.dataset(str(path))
        else:
            ds.optimize.optimize_indices(num_indices_to_merge=seed)
        if whole or seed == 3:  # what one of them made of that which the other left
            assert unlike(path, columns) == [], seed
            assert unlike_here(path, columns) == [], seed
        covered = {id_ for part in _covered(ds, f"{columns[0]}_idx") for id_ in part}
        assert covered >= set(ds.fragment_ids())
    assert answered_by_index(path, columns[0]) > 0
    version = ds.version
    ds.optimize.optimize_indices()
    assert ds.version == version


def test_deltas_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = lk.write_dataset(rows(), str(path))
    ds.create_scalar_index("int32", "BTREE")
    for _ in range(3):
        ds.insert(rows())
        ds.optimize.optimize_indices(num_indices_to_merge=0)
    assert _covered(ds, "int32_idx") == [[0], [1], [2], [3]]
    assert unlike(path, ["int32"]) == []
    first = ds.list_indices()[0]["version"]
    ds.optimize.optimize_indices(num_indices_to_merge=2)
    assert _covered(ds, "int32_idx") == [[0], [1], [2, 3]]
    ds.insert(rows())
    ds.optimize.optimize_indices(num_indices_to_merge=9)
    assert _covered(ds, "int32_idx") == [[0, 1, 2, 3, 4]]
    assert ds.list_indices()[0]["version"] == first
    assert unlike(path, ["int32"]) == []


@pytest.mark.parametrize("steps", ["d a 0", "d 1 a 0", "a 0 d a 0", "a 0 d a 1", "a 0 d c a 0"])
def test_segments_of_stable_rows_as_in_pylance(steps: str, tmp_path: Path) -> None:
    """Deleted rows are no reason to write a segment again that is to be left alone."""
    found = []
    for library in (lk, lance):
        path = tmp_path / library.__name__
        ids = pa.table({"id": range(60)})
        library.write_dataset(ids, path, max_rows_per_file=10, enable_stable_row_ids=True)
        library.dataset(path).create_scalar_index("id", "BITMAP")
        for step in steps.split():
            ds = library.dataset(path)
            if step == "d":
                ds.delete("id % 7 = 1")
            elif step == "a":
                library.write_dataset(pa.table({"id": range(1000, 1007)}), path, mode="append")
            elif step == "c":
                ds.optimize.compact_files(target_rows_per_fragment=20)
            else:
                ds.optimize.optimize_indices(num_indices_to_merge=int(step))
        found.append(_covered(lk.dataset(path), "id_idx"))
    assert found[0] == found[1]


@pytest.mark.parametrize("beside", [lk, lance])
def test_a_segment_forgets_rows_that_were_updated(beside: Any, tmp_path: Path) -> None:
    """Rows keep their ids: pylance finds the old value, too, in a segment that is left alone."""
    path = tmp_path / "d.lance"
    ds = lk.write_dataset(
        {"x": range(60)}, str(path), max_rows_per_file=10, enable_stable_row_ids=True
    )
    ds.create_scalar_index("x", "BITMAP")
    ds.update({"x": "x + 100"}, where="x % 7 = 3")
    beside.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    lk.dataset(path).insert({"x": range(200, 210)})
    lk.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    for library in (lk, lance):
        assert library.dataset(path).to_table(filter="x in (3, 10, 110)").num_rows == 1


def test_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = lk.write_dataset(rows(10), str(path))
    ds.create_scalar_index("int32", IndexConfig("zonemap", {"rows_per_zone": 7}))
    ds.create_scalar_index("text", "BITMAP")
    before = {one["name"]: one["uuid"] for one in ds.list_indices()}
    ds.optimize.optimize_indices(retrain=True, index_names=["int32_idx"])
    after = {one["name"]: one["uuid"] for one in ds.list_indices()}
    assert before["int32_idx"] != after["int32_idx"]
    assert before["text_idx"] == after["text_idx"]
    stats = lance.dataset(str(path)).stats.index_stats("int32_idx")
    assert stats["indices"][0]["rows_per_zone"] == 7


def test_an_index_that_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = lk.write_dataset(rows(), str(path))
    ds.create_scalar_index("int32", "BTREE")
    (index,) = ds.list_indices()
    (path / "_indices" / index["uuid"] / "page_data.lance").write_bytes(b"no index")
    ds.insert(rows())
    with pytest.warns(UserWarning, match="'int32_idx' cannot be read and is rebuilt") as told:
        ds.optimize.optimize_indices()
    assert len(told) == 1
    assert _covered(ds, "int32_idx") == [[0, 1]]
    assert unlike(path, ["int32"]) == []


def test_files_that_lack_what_their_kind_has(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": range(10), "t": ["late snow"] * 10}, tmp_path / "d")
    ds.create_scalar_index("x", "BTREE")
    ds.create_scalar_index("t", "INVERTED")
    tokens, pages = pa.schema({"deleted_fragments": pa.binary()}), pa.schema({"min": pa.int64()})
    for schema, name in ((tokens, "metadata.lance"), (pages, "page_lookup.lance")):
        (place,) = (tmp_path / "d/_indices").glob(f"*/{name}")
        file = NewFile(name=name, schema=schema, batches=(), metadata={"params": "{late"})
        write_file(LocalStore(place.parent).create_over(name), file)
    with pytest.raises(CorruptFileError, match="has no column 'max'"):
        ds.stats.index_stats("x_idx")
    with pytest.raises(CorruptFileError, match="unknown token settings '\\{late"):
        ds.stats.index_stats("t_idx")
    ds.insert({"x": [10], "t": ["snow"]})
    with pytest.warns(UserWarning, match="was not updated|is rebuilt") as told:
        ds.optimize.optimize_indices()
    texts = {" ".join(str(one.message).split()[:4]) for one in told}
    assert texts == {"Index 't_idx' was not", "Index 'x_idx' cannot be"}
    assert ds.stats.index_stats("x_idx")["num_unindexed_rows"] == 0


def test_after_a_compaction_that_left_the_remap_for_later(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = lk.write_dataset(rows(), str(path), max_rows_per_file=10)
    for name in ("BTREE", "ZONEMAP"):
        ds.create_scalar_index("int32", name)
    lance.dataset(str(path)).optimize.compact_files(defer_index_remap=True)
    ds = lk.dataset(str(path))
    ds.insert(rows())
    ds.optimize.optimize_indices()
    assert set(_covered(ds, "int32_idx")[0]) >= set(ds.fragment_ids())
    assert unlike(path, ["int32"]) == []


def test_what_cannot_be_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = lk.write_dataset(rows(), str(path))
    lance.dataset(str(path)).create_scalar_index("text", "INVERTED")
    ds = lk.dataset(str(path))
    with pytest.raises(IndexNotFoundError, match="'mine'"):
        ds.optimize.optimize_indices(index_names=["mine"])
    index = ds._snapshot.indices[0]
    other = replace(index, uuid=uuid4(), name="other", index_details=IndexDetails("/x.RTree"))
    folder = path / "_indices"
    shutil.copytree(folder / str(index.uuid), folder / str(other.uuid))
    operation = lk.LanceOperation.CreateIndex(new_indices=[other], removed_indices=[])
    ds = lk.LanceDataset.commit(ds.uri, operation, read_version=ds.version)
    with pytest.raises(NotOfferedError, match="'other' of kind RTree"):
        ds.optimize.optimize_indices(index_names=["other"])
    with pytest.raises(InvalidArgumentError, match="num_indices_to_merge"):
        ds.optimize.optimize_indices(num_indices_to_merge=-1)
    version = ds.version
    ds.insert(rows())
    ds.optimize.optimize_indices()
    assert ds.version == version + 2
    assert (_covered(ds, "text_idx"), _covered(ds, "other")) == ([[0, 1]], [[0]])
