"""What NumPy arrays of any shape and pandas' sparse columns become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import SchemaMismatchError


def _column(values: Any, **options: Any) -> pa.ChunkedArray:
    return lk.write_dataset({"v": values}, "memory://numpy", **options).to_table()["v"]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["f2", "f4", ">f4", "f8", "i8", "u1", "?", "M8[us]"])
def test_a_matrix_is_vectors(kind: str, order: Any) -> None:
    matrix = np.arange(12).reshape(3, 4).astype(kind, order=order)
    item = pa.array(matrix[0].astype(matrix.dtype.newbyteorder("="))).type
    column = _column(matrix)
    assert column.type == pa.list_(item, 4)
    assert column.to_pylist() == [
        pa.array(row.astype(row.dtype.newbyteorder("="))).to_pylist() for row in matrix
    ]


def test_more_dimensions_texts_masks_and_records() -> None:
    cube = np.arange(24).reshape(2, 3, 4)
    assert _column(cube).type == pa.list_(pa.list_(pa.int64(), 4), 3)
    assert _column(cube).to_pylist() == cube.tolist()
    assert _column(memoryview(cube[0])).to_pylist() == cube[0].tolist()
    assert _column(np.array([["a", "b"], ["c", "d"]])).to_pylist() == [["a", "b"], ["c", "d"]]
    masked = np.ma.masked_array([[1, 2], [3, 4]], [[0, 1], [0, 0]])
    assert _column(masked).to_pylist() == [[1, None], [3, 4]]
    records = np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f4")])
    assert _column(records).to_pylist() == [{"a": 1, "b": 2.5}]


@pytest.mark.parametrize(
    ("unit", "item"),
    [("Y", pa.date32()), ("M", pa.date32()), ("W", pa.date32()), ("2D", pa.date32())]
    + [(unit, pa.timestamp("s")) for unit in ("h", "m", "10s")]
    + [("25us", pa.timestamp("us")), ("2ns", pa.timestamp("ns"))],
)
@pytest.mark.parametrize("order", "<>")
def test_moments_in_any_unit(unit: str, item: pa.DataType, order: str) -> None:
    moments = np.array([3, "NaT", -4], f"{order}M8[{unit}]")
    column = _column(moments)
    assert column.type == item
    wanted = pa.array(moments.astype("M8[D]" if item == pa.date32() else f"M8[{item.unit}]"))
    assert column.to_pylist() == wanted.to_pylist()
    assert _column(moments.reshape(3, 1)).to_pylist() == [[one] for one in column.to_pylist()]


def test_spans_in_any_unit() -> None:
    for unit, size in (("W", 604800), ("D", 86400), ("h", 3600), ("m", 60), ("15s", 15)):
        spans = _column(np.array([2, "NaT"], f"m8[{unit}]"))
        assert spans.type == pa.duration("s")
        assert spans.cast(pa.int64()).to_pylist() == [2 * size, None]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([0, 1 << 31], "M8[D]"), "in row 1 is beyond the range of days of 32 bits"),
        ([np.datetime64(1 << 31, "D")], "in row 0 is beyond the range of days of 32 bits"),
        (np.array([[0], [1 << 30]], "M8[W]"), "in row 1 is beyond the range of days of 32 bits"),
        (np.array([1 << 62], "M8[10s]"), "in row 0 is beyond the range of s of 64 bits"),
        (np.array([-(1 << 62)], "m8[h]"), "in row 0 is beyond the range of s of 64 bits"),
        (np.array([1], "M8[ps]"), r"no moments in units of ps. .*astype\('M8\[us\]'\)"),
        (np.array([1], "m8[M]"), "no spans in units of M"),
        (np.array([1]).view("m8"), "no spans in units of generic"),
    ],
)
def test_moments_that_no_type_holds_are_refused(values: Any, message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        _column(values)


def test_masks_stay() -> None:
    records = np.array([(1, 2.5, [1, 2]), (3, 4.5, [3, 4])], "i4,>f4,(2,)i2")
    masked = np.ma.masked_array(records, [(True, False, (False, True)), (False, True, False)])
    assert _column(masked).to_pylist() == [
        {"f0": None, "f1": 2.5, "f2": [1, None]},
        {"f0": 3, "f1": None, "f2": [3, 4]},
    ]
    pair = np.ma.masked_array([1, 2], [1, 0])
    assert _column([pair, pair + 2]).to_pylist() == [[None, 2], [None, 4]]
    assert _column(pair.astype(object)).to_pylist() == [None, 2]
    assert _column([np.ma.masked, 1]).to_pylist() == [None, 1]
    matrix = np.ones((2, 2)).view(np.matrix)
    assert _column(matrix).to_pylist() == [[1.0, 1.0], [1.0, 1.0]]


def test_series_are_read_alike_in_frames_and_dicts() -> None:
    for values, kind, wanted in (
        (np.array([1, 2], ">i8"), None, [1, 2]),
        ([2**62 + 1, np.nan], object, [2**62 + 1, None]),
        ([True, np.nan], object, [True, None]),
    ):
        series = pd.Series(values, dtype=kind)
        assert _column(series).to_pylist() == wanted
        ds = lk.write_dataset(pd.DataFrame({"v": series}), "memory://series")
        assert ds.to_table()["v"].to_pylist() == wanted


def test_a_matrix_goes_where_lists_are() -> None:
    kind = pa.list_(pa.float32())
    column = _column(np.ones((2, 3)), schema=pa.schema({"v": kind}))
    assert column.type == kind
    assert column.to_pylist() == [[1.0] * 3] * 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(2, complex), r"complex numbers have no Arrow type. Store both parts: "),
        (np.ones((2, 2), complex), r"complex numbers have no Arrow type"),
        (pd.Series([1j]), r"complex numbers have no Arrow type"),
        ([1j], "class complex, which no column can store: store its real and imaginary part"),
        (np.ones(2, np.longdouble), r"Pass values.astype\('f8'\)"),
        (np.ones((2, 0)), "shape \\(2, 0\\) has empty vectors"),
        (np.array(5), r"one value: 5"),
    ],
)
def test_what_has_no_type_is_refused_with_what_to_do(values: Any, message: str) -> None:
    with pytest.raises(
        SchemaMismatchError, match="'v' cannot be converted to a column: .*" + message
    ):
        _column(values)


def test_sparse_columns_are_plain() -> None:
    frame = pd.DataFrame(
        {
            "n": pd.arrays.SparseArray([0, 1, 0]),
            "f": pd.arrays.SparseArray([0.5, np.nan, np.nan]),
        }
    )
    ds = lk.write_dataset(frame, "memory://sparse")
    assert ds.to_table().to_pydict() == {"n": [0, 1, 0], "f": [0.5, None, None]}
    ds.merge_insert("n").when_matched_update_all().execute(frame[1:])
