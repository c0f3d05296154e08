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
        ([1j], r"class complex, which no column holds: store its real and imaginary part"),
        (np.ones(2, np.longdouble), r"Pass values.astype\('f8'\)"),
        (np.ones((2, 0)), r"shape \(2, 0\) has vectors without items"),
        (np.array(5), r"5 is one value"),
    ],
)
def test_what_has_no_type_is_refused_with_what_to_do(values: Any, message: str) -> None:
    with pytest.raises(SchemaMismatchError, match="'v' do not make a column: .*" + message):
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
