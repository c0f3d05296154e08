"""Whole numbers beyond 2**53 beside nulls in pandas frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._pipeline.frames import exact_frame
from lancekit.errors import InvalidArgumentError

_ID = 1239162456494753671
_ROWS = {
    "id": pa.array([_ID, None, 3], pa.int64()),
    "small": pa.array([1, None, 3], pa.int64()),
    "u": pa.array([2**64 - 1, None, 3], pa.uint64()),
    "whole": pa.array([_ID, 2, 3], pa.int64()),
    "l": pa.array([[_ID, None], None, []], pa.list_(pa.int64())),
    "s": pa.array([{"a": [_ID, None]}, None, {"a": None}]),
}
_DTYPES = {"id": "Int64", "small": "float64", "whole": "int64", "l": "object"}


class _Named(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.named")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


@pytest.fixture
def ds() -> lk.LanceDataset:
    return lk.write_dataset(pa.table(_ROWS), "memory://exact")


def _values(frame: pd.DataFrame, name: str) -> list[Any]:
    return [None if value is pd.NA else value for value in frame[name].tolist()]


_READERS: dict[str, Callable[[lk.LanceDataset], pd.DataFrame]] = {
    "dataset": lambda ds: ds.to_pandas(),
    "sorted": lambda ds: ds.to_pandas(order_by=["small"]),
    "scanner": lambda ds: ds.scanner().to_pandas(),
    "fragment": lambda ds: ds.get_fragments()[0].to_pandas(),
    "sql": lambda ds: lk.sql("SELECT * FROM t", t=ds).to_pandas(),
}


@pytest.mark.parametrize("name", _READERS)
def test_every_frame_has_the_numbers(ds: lk.LanceDataset, name: str) -> None:
    frame = _READERS[name](ds)
    frame = frame.sort_values("small", na_position="last", ignore_index=True)
    assert _values(frame, "id") == [_ID, 3, None]
    assert _values(frame, "u") == [2**64 - 1, 3, None]
    assert frame["l"][0].tolist() == [_ID, None]
    assert frame["s"][0]["a"].tolist() == [_ID, None]
    assert {column: str(frame[column].dtype) for column in _DTYPES} == _DTYPES


def test_nulls_of_one_fragment_and_numbers_of_another() -> None:
    kinds = [pa.int64(), pa.list_(pa.int64()), pa.struct({"a": pa.int64()})]
    schema = pa.schema({f"c{at}": kind for at, kind in enumerate(kinds)})
    first = pa.table([[None], [[None]], [{"a": None}]], schema=schema)
    second = pa.table([[_ID], [[_ID]], [{"a": _ID}]], schema=schema)
    ds = lk.write_dataset(first, "memory://exact-parts")
    frame = lk.write_dataset(second, ds, mode="append").to_pandas()
    assert _values(frame, "c0") == [None, _ID]
    assert [list(value) for value in frame["c1"]] == [[None], [_ID]]
    assert frame["c2"].tolist() == [{"a": None}, {"a": _ID}]


def test_nulls_that_nobody_sees_and_extension_types() -> None:
    fixed = pa.array([[_ID, 1], None], pa.list_(pa.int64(), 2))
    named = pa.ExtensionArray.from_storage(_Named(), pa.array([_ID, None]))
    twice = pa.Table.from_arrays([pa.array([_ID, None]), pa.array([1, None])], ["x", "x"])
    frame = exact_frame(pa.table({"fixed": fixed, "named": named}), {})
    assert frame["fixed"][0].tolist() == [_ID, 1]
    assert _values(frame, "named") == [_ID, None]
    shown = exact_frame(twice, {})
    assert [str(kind) for kind in shown.dtypes] == ["Int64", "float64"]


def test_a_frame_with_an_index_and_numbers_as_names() -> None:
    given = pd.DataFrame({0: pd.array([1, None], "Int64"), 1: pd.array([_ID, None], "Int64")})
    for rows in (given, given.set_index(0).rename_axis("k")):
        shown = exact_frame(pa.Table.from_pandas(rows), {})
        assert shown[1].tolist() == [_ID, pd.NA]


def test_a_date_beyond_the_years_of_python_is_refused() -> None:
    ds = lk.write_dataset(pa.table({"d": pa.array([1 << 30], pa.date32())}), "memory://far-date")
    with pytest.raises(InvalidArgumentError, match=r"year 2941775 is out of range"):
        ds.to_pandas()


def test_frames_of_comparisons() -> None:
    rows = {"k": [1, 2], "id": pa.array([_ID, None], pa.int64())}
    ds = lk.write_dataset(rows, "memory://exact-diff", primary_key="k")
    ds.update({"id": f"{_ID + 2}"})
    wanted = [_ID, _ID + 2, None, _ID + 2]
    assert _values(ds.diff(1).to_pandas(), "id") == wanted
    assert _values(ds.changes(1).to_pandas(), "id") == wanted


def test_a_frame_that_is_edited_goes_back_by_its_key(ds: lk.LanceDataset) -> None:
    frame = ds.to_pandas().dropna(subset="id", ignore_index=True)
    frame["small"] = 9
    result = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    counts = result.execute(frame)
    assert (counts["num_updated_rows"], counts["num_inserted_rows"]) == (2, 0)
    assert ds.count_rows(f"id = {_ID} AND small = 9") == 1


def test_options_that_keep_numbers_stay(ds: lk.LanceDataset) -> None:
    objects = ds.to_pandas(integer_object_nulls=True)
    assert objects["id"].tolist() == [_ID, None, 3]
    arrow = ds.to_pandas(types_mapper=pd.ArrowDtype)
    assert arrow["id"].dtype == pd.ArrowDtype(pa.int64())
    assert ds.to_pandas(["l"], self_destruct=True)["l"][0].tolist() == [_ID, None]
