"""CSV files: what they hold, and which values a guess of types would change."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._pipeline.csv_rows import _loses
from lancekit.errors import InvalidArgumentError, SchemaMismatchError

_MOMENTS = [dt.datetime(2020, 7, 1, 1, 2, 3, 4), dt.datetime(1, 1, 1), None]
_EXACT = pa.table(
    {
        "i": pa.array([(1 << 63) - 1, -(1 << 63), None]),
        "f": [0.1, 1e300, None],
        "u": pa.array([(1 << 63) + 1, (1 << 64) - 1, None], pa.uint64()),
        "day": [dt.date(2020, 1, 1), dt.date(9999, 12, 31), None],
        "s": ["", 'a,"b"\nc\r\nd', None],
        "word": ["NA", " x", "null"],
        "flag": [True, False, None],
    }
)
_TYPED = pa.table(
    {
        "f32": pa.array([0.1, math.inf, None], pa.float32()),
        "f16": pa.array([0.1, math.inf, None]).cast(pa.float16()),
        "dec": pa.array([Decimal("12345678901234567890.123"), Decimal("0.1"), None]),
        "at": pa.array(_MOMENTS, pa.timestamp("us")),
        "ns": pa.array([1, 1 << 62, None], pa.timestamp("ns")),
        "ny": pa.array(_MOMENTS, pa.timestamp("us", "America/New_York")),
        "hour": pa.array([1, 2, None], pa.time64("us")),
        "text": ["2020-01-01", "007", "1.0"],
    }
)


def _written(rows: pa.Table, path: Path) -> lk.LanceDataset:
    ds = lk.write_dataset(rows, path / "d")
    ds.export(path / "x.csv")
    return ds


def test_what_the_guess_keeps(tmp_path: Path) -> None:
    _written(_EXACT, tmp_path)
    assert lk.write_dataset(lk.read_csv(tmp_path / "x.csv"), tmp_path / "e").to_table() == _EXACT


def test_the_schema_reads_an_export_exactly(tmp_path: Path) -> None:
    for number, rows in enumerate((_EXACT, _TYPED)):
        (tmp_path / str(number)).mkdir()
        ds = _written(rows, tmp_path / str(number))
        back = lk.read_csv(tmp_path / str(number) / "x.csv", schema=ds.schema)
        assert lk.write_dataset(back, tmp_path / f"e{number}").to_table() == rows
        ds.insert(back)
        assert ds.count_rows() == 6


@pytest.mark.parametrize("value", ["12345678901234567890.5", "0.12345678901234567890", "1e400"])
def test_a_number_with_too_many_digits_is_refused(tmp_path: Path, value: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"id,x\n1,0.5\n2,{value}\n")
    with pytest.raises(SchemaMismatchError, match=r"'x' has '.*', row 3 .*float would") as caught:
        lk.write_dataset(lk.read_csv(path), tmp_path / "d")
    assert "x.csv" in str(caught.value)
    assert "column_types={'x': pa.string()}" in str(caught.value)
    types = {"x": pa.string()}
    ds = lk.write_dataset(lk.read_csv(path, column_types=types), tmp_path / "d")
    assert ds.to_table().to_pydict() == {"id": [1, 2], "x": ["0.5", value]}
    as_floats = lk.read_csv(path, column_types={"x": pa.float64()})
    assert lk.write_dataset(as_floats, tmp_path / "f").to_table()["x"][1].as_py() == float(value)


@given(st.floats(allow_nan=False), st.sampled_from(["r", ".15e", ".16e", ".18e", ".25e"]))
def test_the_digits_of_floats_are_no_loss(number: float, form: str) -> None:
    text = repr(number) if form == "r" else format(number, form)
    if math.isfinite(float(text)) and math.isfinite(number):
        assert not _loses(text, float(text)) or form == ".15e"


@pytest.mark.parametrize(
    ("value", "what"),
    [("abc", "int64"), ("1.5", "int64"), (str(1 << 64), "int64"), ("7,8", "Expected 2 columns")],
)
def test_a_later_value_of_another_type(tmp_path: Path, value: str, what: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,x\n" + "12345,67890\n" * 100_000 + f"7,{value}\n")
    ds = lk.write_dataset({"id": [0], "x": [0]}, tmp_path / "d")
    with pytest.raises(SchemaMismatchError, match=what) as caught:
        ds.insert(lk.read_csv(path))
    assert "x.csv" in str(caught.value)
    assert "100,002" in str(caught.value)
    if what == "int64":
        assert value in str(caught.value)
        assert "column_types={'x': pa.string()}" in str(caught.value)
    assert (ds.version, lk.dataset(tmp_path / "d").version) == (1, 1)


def test_a_text_among_floats(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("x,y\n" + "0.12345678,1\n" * 100_000 + "abc,1\n")
    with pytest.raises(SchemaMismatchError, match=r"'x' has 'abc', row 100,002 .*no number"):
        lk.write_dataset(lk.read_csv(path), tmp_path / "d")
    path.write_text("x,y\n1,z\n")
    with pytest.raises(SchemaMismatchError, match=r"'y' has 'z', row 2 .*no value of type bool"):
        lk.write_dataset(lk.read_csv(path, column_types={"y": pa.bool_()}), tmp_path / "d")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.float32(), "1e300"),
        (pa.float16(), "-70000"),
        (pa.decimal128(5, 2), "12345"),
        (pa.decimal128(5, 2), "1.255"),
        (pa.int8(), "300"),
        (pa.timestamp("s"), "2020-01-01 00:00:00.5"),
        (pa.timestamp("us"), "2020-01-01 00:00:00Z"),
        (pa.timestamp("us", "UTC"), "2020-01-01 00:00:00"),
        (pa.date32(), "2020-01-01 05:00:00"),
    ],
    ids=str,
)
def test_a_named_type_loses_nothing(tmp_path: Path, kind: pa.DataType, value: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"id,x\n1,{value}\n")
    with pytest.raises(SchemaMismatchError, match=r"x\.csv"):
        lk.write_dataset(lk.read_csv(path, column_types={"x": kind}), tmp_path / "d")


def test_empty_lines_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,\n\n,2\n\n")
    assert lk.read_csv(path).to_table().to_pydict() == {"a": [1, None], "b": [None, 2]}
    one = pa.schema([("b", pa.int64())])
    assert lk.read_csv(path, schema=one).to_table().to_pydict() == {"b": [None, 2]}
    path.write_text("a\n1\n\n")  # the null of a file with one column
    assert lk.read_csv(path).to_table().to_pydict() == {"a": [1, None]}


def test_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("a,b\né,1\n".encode("latin1"))
    with pytest.raises(InvalidArgumentError, match="'a' is not UTF-8"):
        lk.read_csv(path)
    raw = lk.read_csv(path, column_types={"a": pa.binary()})
    assert raw.to_table()["a"].to_pylist() == [b"\xe9"]
    with pytest.raises(InvalidArgumentError, match=r"no column 'c'.*'a', 'b'"):
        lk.read_csv(path, column_types={"c": pa.string()})
