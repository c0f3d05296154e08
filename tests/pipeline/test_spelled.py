"""Columns that were born null get a type by the line that the error names."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import lance
import pandas as pd
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._pipeline.casts.plan import spelled
from lancekit.errors import SchemaMismatchError


def kinds() -> list[pa.DataType]:
    return [
        *(pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
        *(pa.string(), pa.large_string(), pa.binary(), pa.date32(), pa.date64()),
        *(pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.time32("s"), pa.time64("ns")),
        *(pa.duration("ms"), pa.decimal128(10, 2), pa.decimal256(50, 3)),
        *(pa.list_(pa.int8()), pa.large_list(pa.list_(pa.string()))),
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.timestamp("s")))]),
    ]


@pytest.mark.parametrize("kind", kinds(), ids=str)
def test_the_code_makes_the_type(kind: pa.DataType) -> None:
    assert eval(spelled(kind, "")) == kind


@pytest.mark.parametrize(
    "value",
    [
        "x",
        5,
        1.5,
        b"a",
        True,
        Decimal("1.5"),
        dt.datetime(2020, 1, 1),
        dt.date(2020, 1, 1),
        [1],
        {"a": 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_line_of_the_error_gives_a_type(tmp_path: object, value: Any) -> None:
    uri = f"{tmp_path}/d"
    lk.write_dataset(pd.DataFrame({"id": [1], "note": [None]}), uri)
    rows = pd.DataFrame({"id": [2], "note": [value]})
    with pytest.raises(SchemaMismatchError, match="'note' has only nulls so far") as raised:
        lk.write_dataset(rows, uri, mode="append")
    line = raised.value.hint.partition("rows: ")[2].rstrip(".")
    eval(line, {"ds": lk.dataset(uri), "pa": pa})
    lk.write_dataset(rows, uri, mode="append")
    assert lk.dataset(uri).to_table()["note"].to_pylist() == [None, value]
    assert lance.dataset(uri).to_table()["note"].to_pylist() == [None, value]


def test_parts_of_columns(tmp_path: object) -> None:
    rows = pa.table(
        {
            "l": pa.array([[], None], pa.list_(pa.null())),
            "s": pa.array([{"a": None}, None], pa.struct([("a", pa.null())])),
        }
    )
    ds = lk.write_dataset(rows, f"{tmp_path}/d")
    more = {"l": [["a"]], "s": [{"a": 1}]}
    with pytest.raises(SchemaMismatchError, match=r"'l', 'data_type': pa.list_"):
        lk.write_dataset({"l": [["a"]], "s": [None]}, ds.uri, mode="append")
    with pytest.raises(SchemaMismatchError, match=r"'s.a', 'data_type': pa.int64"):
        lk.write_dataset({"l": [[]], "s": [{"a": 1}]}, ds.uri, mode="append")
    ds.alter_columns(
        {"path": "l", "data_type": pa.list_(pa.string())}, {"path": "s.a", "data_type": pa.int64()}
    )
    ds = lk.write_dataset(more, ds.uri, mode="append")
    assert ds.to_table().to_pylist() == [
        {"l": [], "s": {"a": None}},
        {"l": None, "s": None},
        {"l": ["a"], "s": {"a": 1}},
    ]
    with pytest.raises(SchemaMismatchError, match="Set the type of 'note'"):
        lk.write_dataset({"note": ["x"]}, "memory://null", schema=pa.schema({"note": pa.null()}))
