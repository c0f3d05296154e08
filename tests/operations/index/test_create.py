"""Indices that lancekit makes, used by pylance: it answers as without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._index.kinds import KINDS
from lancekit.errors import (
    ColumnNotFoundError,
    IndexExistsError,
    IndexNotFoundError,
    InvalidArgumentError,
    InvalidTypeError,
    StorageError,
)
from lancekit.indices import IndexConfig
from tests.support.indexed_columns import COLUMNS, answered_by_index, rows, unlike, unlike_here

IDS = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row-ids"])


@pytest.mark.cover
@IDS
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("name", KINDS)
def test_pylance_answers_as_without(name: str, version: str, stable: bool, tmp_path: Path) -> None:
    left_out = ("fixed",) if version == "2.0" else ()
    table = rows(leave_out=left_out)
    path = tmp_path / "d.lance"
    with lk.options(oldest_reader="14.0.2"):
        ds = lk.write_dataset(
            table,
            str(path),
            max_rows_per_file=10,
            enable_stable_row_ids=stable,
            data_storage_version=version,
        )
        ds.delete("int32 = 9 OR text = 'zz'")
        made = [column for column in COLUMNS if column in table.column_names]
        made = [column for column in made if KINDS[name].fits(table[column].type)]
        for column in made:
            ds.create_scalar_index(column, name)
        assert len(ds.list_indices()) == len(made)
        ds.delete("int32 = 4")  # what is deleted later is still in the index
        ds.insert(table.slice(0, 5))
        assert unlike(path, made) == []
        if version == "2.1":  # files of indices are the same for all
            assert unlike_here(path, made) == []
    known = {info.name: info.index_type for info in lance.dataset(str(path)).describe_indices()}
    assert known == {f"{column}_idx": KINDS[name].label for column in made}
    column = {"LABEL_LIST": "labels", "NGRAM": "text"}.get(name, "int32")
    assert answered_by_index(path, column) >= 2 - (name == "NGRAM")


@IDS
def test_parameters(stable: bool, tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = lk.write_dataset(rows(20), str(path), max_rows_per_file=70, enable_stable_row_ids=stable)
    ds.delete("row % 7 = 3")
    with lk.options(oldest_reader="14.0.2"):
        ds.create_scalar_index("double", IndexConfig("btree", {"zone_size": 3}))
        ds.create_scalar_index("float", IndexConfig("zonemap", {"rows_per_zone": 4}))
        parameters = {"number_of_items": 5, "probability": 0.2}
        ds.create_scalar_index("text", IndexConfig("bloomfilter", parameters))
        ds.create_scalar_index("large_text", IndexConfig("zonemap", {"rows_per_zone": 4}))
    assert unlike(path, ["double", "float", "text", "large_text"]) == []
    stats = lance.dataset(str(path)).stats.index_stats
    assert stats("double_idx")["indices"][0]["num_pages"] == ds.count_rows() // 3 + 1
    assert stats("float_idx")["indices"][0]["rows_per_zone"] == 4
    assert stats("text_idx")["indices"][0]["number_of_items"] == 5


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (IndexConfig("btree", {"zone_size": 0}), "zone_size must be .* got 0"),
        (IndexConfig("zonemap", {"rows_per_zone": "many"}), "rows_per_zone must be .* got 'many'"),
        (IndexConfig("bloomfilter", {"probability": 1.5}), "probability must be .* got 1.5"),
        (IndexConfig("bitmap", {"zone_size": 3}), "no parameter 'zone_size'"),
    ],
)
def test_parameters_that_cannot_be_used(config: IndexConfig, told: str, tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1]}, str(tmp_path / "d.lance"))
    with pytest.raises(InvalidArgumentError, match=told):
        ds.create_scalar_index("x", config)
    assert ds.version == 1


def test_an_index_of_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = lk.write_dataset(rows().slice(0, 0), str(path))
    for name, column in (("BTREE", "int8"), ("BITMAP", "text"), ("ZONEMAP", "double")):
        ds.create_scalar_index(column, name)
    ds.create_scalar_index("int32", "BLOOMFILTER")
    ds.create_scalar_index("labels", "LABEL_LIST")
    assert not any(index["fragment_ids"] for index in ds.list_indices())
    ds.insert(rows())
    made = ["int8", "text", "double", "int32", "labels"]
    assert unlike(path, made) == []
    theirs = lance.dataset(str(path))
    theirs.optimize.optimize_indices()
    assert unlike(path, made) == []
    assert answered_by_index(path, "int8") > 0


def test_an_index_that_is_not_trained_covers_nothing(tmp_path: Path) -> None:
    ds = lk.write_dataset(rows(), str(tmp_path / "d.lance"))
    ds.create_scalar_index("int32", "BTREE", train=False)
    assert not ds.list_indices()[0]["fragment_ids"]


def test_nested_fields(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    inner = pa.array([{"x": 1, "y.z": "a"}, None, {"x": None, "y.z": "b"}, {"x": 4, "y.z": None}])
    ds = lk.write_dataset(pa.table({"s": inner, "row": range(4)}), str(path))
    ds.create_scalar_index("s.x", "BTREE")
    ds.create_scalar_index("s.`y.z`", "BITMAP")
    assert ds.index_columns == {"s.x_idx": ("s.x",), "s.`y.z`_idx": ("s.`y.z`",)}
    theirs = lance.dataset(str(path))
    for text in ("s.x = 4", "s.x IS NULL", "s.x > 0"):
        assert "ScalarIndexQuery" in theirs.scanner(filter=text).explain_plan()
        found = theirs.to_table(filter=text)
        assert found.equals(theirs.to_table(filter=text, use_scalar_index=False))


def test_names(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1, 2], "y": [1, 2]}, str(tmp_path / "d.lance"))
    ds.create_scalar_index("x", "BTREE")
    ds.create_scalar_index("x", "BITMAP")
    ds.create_scalar_index("x", "BTREE")
    kinds = {index["name"]: index["type"] for index in ds.list_indices()}
    assert kinds == {"x_idx": "BTree", "x_idx_2": "Bitmap"}
    ds.create_scalar_index("x", "ZONEMAP", name="x_idx")
    assert {index["type"] for index in ds.list_indices()} == {"ZoneMap", "Bitmap"}
    with pytest.raises(RuntimeError, match="on another column"):
        ds.create_scalar_index("y", "BTREE", name="x_idx")
    with pytest.raises(IndexExistsError, match="replace is False"):
        ds.create_scalar_index("x", "BTREE", name="x_idx", replace=False)
    with pytest.raises(InvalidArgumentError, match="'__lance_mine' is reserved"):
        ds.create_scalar_index("x", "BTREE", name="__lance_mine")
    ds.drop_index("x_idx")
    assert [index["name"] for index in ds.list_indices()] == ["x_idx_2"]
    with pytest.raises(IndexNotFoundError, match=r"'x_idx'.*The indices are x_idx_2") as caught:
        ds.drop_index("x_idx")
    assert isinstance(caught.value, RuntimeError)


def test_columns_that_cannot_be_indexed(tmp_path: Path) -> None:
    table = rows()
    ds = lk.write_dataset(table, str(tmp_path / "d.lance"))
    for kind, column in (("BTREE", "labels"), ("NGRAM", "int8"), ("LABEL_LIST", "text")):
        with pytest.raises(TypeError, match=f"cannot have an index of type {kind}") as caught:
            ds.create_scalar_index(column, kind)
        assert isinstance(caught.value, InvalidTypeError)
    with pytest.raises(ColumnNotFoundError, match="'nothing'"):
        ds.create_scalar_index("nothing", "BTREE")
    with pytest.raises(NotImplementedError, match="'RTREE' are not supported"):
        ds.create_scalar_index("text", "RTREE")
    with pytest.raises(NotImplementedError, match="2 columns"):
        ds.create_scalar_index(["text", "int8"], "BTREE")
    with pytest.raises(InvalidArgumentError, match=r"index_uuid must be .* got 'mine'"):
        ds.create_scalar_index("text", "BTREE", index_uuid="mine")
    assert ds.version == 1


def test_what_an_old_reader_would_lose_rows_by(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1]}, str(tmp_path / "d.lance"), enable_stable_row_ids=True)
    for kind in ("ZONEMAP", "BLOOMFILTER"):
        with pytest.raises(InvalidArgumentError, match=r"lose rows.*oldest_reader"):
            ds.create_scalar_index("x", kind)
        with lk.options(oldest_reader="14.0.2"):
            ds.create_scalar_index("x", kind)


def _folders(path: Path) -> list[str]:
    folder = path / "_indices"
    return sorted(one.name for one in folder.iterdir()) if folder.exists() else []


def test_a_build_that_does_not_land_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = lk.write_dataset({"x": [1, 2]}, str(path))
    # a file where the folder of the version's transaction is to be: nothing can be committed
    (path / "_transactions").rename(tmp_path / "aside")
    (path / "_transactions").write_text("")
    with pytest.raises(StorageError):
        ds.create_scalar_index("x", "BTREE")
    assert (_folders(path), ds.version) == ([], 1)


def test_two_who_make_an_index_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    first = lk.write_dataset(rows(), str(path))
    second = lk.dataset(str(path))
    first.create_scalar_index("int32", "BTREE")
    second.create_scalar_index("int32", "BTREE")  # made again on what is there by then
    assert len(second.list_indices()) == 1
    assert second.version == 3
    assert unlike(path, ["int32"]) == []


def test_an_index_made_while_rows_come(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = lk.write_dataset(rows(), str(path))
    stale = lk.dataset(str(path))
    ds.insert(rows())
    ds.delete("int32 = 4")
    stale.create_scalar_index("int32", "BITMAP")
    assert list(stale.list_indices()[0]["fragment_ids"]) == [0]
    assert unlike(path, ["int32"]) == []


@pytest.mark.parametrize("name", ["BTREE", "BITMAP", "ZONEMAP"])
def test_callbacks_hear_what_those_of_pylance_do(tmp_path: Path, name: str) -> None:
    told: dict[str, list[tuple[Any, ...]]] = {}
    for library in (lk, lance):
        ds: Any = library.write_dataset(pa.table({"x": range(50)}), tmp_path / library.__name__)
        heard: list[Any] = []
        ds.create_scalar_index("x", name, progress_callback=heard.append)
        told[library.__name__] = [
            (e.event, e.stage, e.completed, e.total, e.unit, e.fraction) for e in heard
        ]
    assert told["lancekit"] == told["lance"] != []


def test_callbacks_that_fail(tmp_path: Path) -> None:
    values = pa.FixedSizeListArray.from_arrays(pa.array(range(64), pa.float32()), 4)
    ds = lk.write_dataset(pa.table({"v": values, "t": ["word"] * 16}), tmp_path / "d")
    heard: list[lk.progress.IndexProgress] = []
    ds.create_index("v", "IVF_FLAT", num_partitions=2, progress_callback=heard.append)
    assert [(e.event, e.stage) for e in heard] == [(e, "load_data") for e in ("start", "complete")]
    with pytest.raises(InvalidArgumentError, match="progress_callback"):
        ds.create_scalar_index("t", "INVERTED", progress_callback=3)  # type: ignore[arg-type]

    def fail(event: Any) -> None:
        raise KeyError(event.stage)

    with pytest.warns(UserWarning, match="progress callback failed: KeyError: 'load_data'"):
        ds.create_scalar_index("t", "INVERTED", progress_callback=fail)
    assert len(ds.list_indices()) == 2


@pytest.mark.parametrize("path", ["key", "userid", "M.id", "m.Id", "M.`a.b`"])
def test_a_column_may_be_named_in_another_case(path: str, tmp_path: Path) -> None:
    parts = [{"id": n, "Id": -n, "A.b": n} for n in range(3)]
    table = pa.table({"userId": range(3), "Key": range(3), "key": range(3), "m": parts})
    told = []
    for module in (lance, lk):
        ds = module.write_dataset(table, tmp_path / module.__name__)
        ds.create_scalar_index(path, "BTREE")
        (index,) = ds.describe_indices()
        told.append((index.name, index.field_names))
    assert told[1] == told[0]
    with pytest.raises(ColumnNotFoundError, match=r"'m\.ID' does not exist"):
        ds.create_scalar_index("m.ID", "BTREE")  # it may be either of two
