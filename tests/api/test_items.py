"""``ds[...]`` reads rows and columns by a slice, a condition, a mask, positions or names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import InvalidTypeError


@pytest.mark.parametrize(
    "rows", [np.array([1, 2]), [1, 2], np.array([False, True, True]), [False, True, True]]
)
def test_rows_by_position_or_mask(rows: object) -> None:
    ds = lk.write_dataset({"id": [1, 2, 3]}, "memory://masked")
    assert ds[rows]["id"].to_pylist() == [2, 3]
    assert ds[lk.col("id") > 1]["id"].to_pylist() == [2, 3]
    with pytest.raises(InvalidTypeError, match=r"ds.to_table"):
        ds[[True]]


def _rows(mask: object) -> list[int]:
    ds = lk.write_dataset({"id": [1, 2, 3, 4]}, "memory://masks")
    return list(ds[mask]["id"].to_pylist())


def test_a_null_in_a_mask_selects_no_row() -> None:
    for mask in (
        np.array([np.True_, None, np.False_, np.True_], object),
        [np.True_, False, False, True],
        pl.Series([True, None, False, True]),
        pa.chunked_array([[True, None], [False, True]]),
        pd.Series([True, None, False, True], dtype="boolean"),
    ):
        assert _rows(mask) == [1, 4]


def test_a_mask_of_other_rows_is_refused() -> None:
    """pandas selects by the index: the positions are those of other rows."""
    frame = pd.DataFrame({"id": [1, 2, 3, 4]}).sort_values("id", ascending=False)
    for mask in (frame["id"] > 2, [True, 0, False, 1], [True], pd.Series([True], index=[3])):
        with pytest.raises(InvalidTypeError, match=r"Use ds\.to_table\(filter="):
            _rows(mask)
    assert _rows(frame.sort_index()["id"] > 2) == [3, 4]


def test_no_values_select_no_rows_of_an_empty_dataset() -> None:
    empty = lk.write_dataset(pa.schema([("id", pa.int64())]).empty_table(), "memory://no-rows")
    for items in (
        [],
        np.array([]),
        np.array([], bool),
        np.array([], int),
        pd.Series([], dtype="O"),
    ):
        assert len(empty[items]) == 0
    with pytest.raises(InvalidTypeError, match=r"Use ds\.to_table\(filter="):
        empty[1.5]
