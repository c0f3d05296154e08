"""Fixed-size lists of booleans: pages that both libraries read, whatever is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import UnsupportedTypeError
from tests.file.lance_io import open_ours, read_reference, write_ours
from tests.file.nested import assert_same_nested

_FULL_ZIP = {"lance-encoding:structural-encoding": "fullzip"}
_VERSIONS = ["2.1", "2.2"]


def _vectors(rows: int, sizes: tuple[int, ...], *, null_items: bool) -> pa.Array:
    random = np.random.default_rng(rows * sum(sizes))
    count = rows * int(np.prod(sizes))
    nulls = random.random(count) < 0.3 if null_items else None
    array = pa.array(random.random(count) < 0.5, mask=nulls)
    for size in reversed(sizes):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array


def _kept(array: pa.Array, metadata: dict[str, str], version: str, path: Path) -> str:
    """Assert that both libraries read what is written; return the layout of the page."""
    schema = pa.schema([pa.field("x", array.type, metadata=metadata)])
    data = write_ours(pa.table([array], schema), version)
    reader = open_ours(data)
    last = np.array([len(array) - 1])
    assert_same_nested(reader.read(reader.columns)["x"], array, "whole")
    assert_same_nested(reader.read(reader.columns, last)["x"], array[-1:], "the last row")
    assert_same_nested(read_reference(data, path / "a.lance")["x"], array, "the reference")
    layout: Any = reader._container.pages(0)[0].encoding
    return str(layout.WhichOneof("layout"))


@pytest.mark.cover(2)
@pytest.mark.parametrize("version", _VERSIONS)
@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize("sizes", [(1,), (7,), (8,), (9,), (16,), (2, 3), (4, 2)])
@pytest.mark.parametrize("null_items", [False, True])
def test_full_zip_is_taken_only_where_it_can_be_read(
    tmp_path: Path, sizes: tuple[int, ...], rows: int, version: str, *, null_items: bool
) -> None:
    vectors = _vectors(rows, sizes, null_items=null_items)
    lists = pa.ListArray.from_arrays(pa.array([0, 0, rows], pa.int32()), vectors)
    items = vectors
    while pa.types.is_fixed_size_list(items.type):
        items = items.flatten()
    aligned = np.prod(sizes) % 8 == 0 and not items.null_count
    layout = _kept(vectors, _FULL_ZIP, version, tmp_path)
    if layout != "constant":  # all items null, or one value in 2.2
        assert layout == ("full_zip" if aligned else "mini_block")
    _kept(lists, _FULL_ZIP, version, tmp_path)


@pytest.mark.cover(2)
@pytest.mark.parametrize("version", _VERSIONS)
@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("null_items", [False, True])
def test_a_row_of_very_many_empty_lists(
    tmp_path: Path, size: int, version: str, *, null_items: bool
) -> None:
    vectors = _vectors(3, (size,), null_items=null_items)
    zipped = size == 8 and not null_items
    for empty in (33_000, 65_500, 70_000):
        inner = pa.ListArray.from_arrays(pa.array([0] * empty + [0, 3], pa.int32()), vectors)
        row = pa.ListArray.from_arrays(pa.array([0, empty + 1], pa.int32()), inner)
        if empty < 2**16 or zipped:
            layout = _kept(row, {}, version, tmp_path)
            assert layout == ("full_zip" if zipped else "mini_block")
        else:
            with pytest.raises(UnsupportedTypeError, match="consecutive null or empty lists"):
                write_ours(pa.table({"x": row}), version)


@pytest.mark.parametrize("version", _VERSIONS)
def test_words_of_a_dictionary_behind_very_many_empty_lists(tmp_path: Path, version: str) -> None:
    words = pa.array(["a", "b", "a"]).dictionary_encode()
    row = pa.ListArray.from_arrays(
        pa.array([0, 33_001], pa.int32()),
        pa.ListArray.from_arrays(pa.array([0] * 33_001 + [3], pa.int32()), words),
    )
    assert _kept(row, {}, version, tmp_path) == "mini_block"


def test_the_first_case_that_was_written_wrong(tmp_path: Path) -> None:
    values = [[(i * j) % 3 == 1 for j in range(7)] for i in range(3)]
    field = pa.field("x", pa.list_(pa.bool_(), 7), metadata=_FULL_ZIP)
    uri = str(tmp_path / "d.lance")
    ds = lk.write_dataset(pa.table([pa.array(values, field.type)], pa.schema([field])), uri)
    assert ds.to_table()["x"].to_pylist() == values
    ds.validate(deep=True)
