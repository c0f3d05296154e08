"""Numbers in the text of filters, updates and statements: they keep their digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lancekit as lk
from lancekit.errors import PredicateError, SchemaMismatchError

D = Decimal
BIG = "12345678901234567890123456789012345.67"
NINES = "9" * 38


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    rows = pa.table(
        {
            "id": pa.array([0, 1], pa.int64()),
            "wide": pa.array([D("-" + BIG), D(BIG)], pa.decimal128(38, 2)),
            "d": pa.array([D(1), D(2)], pa.decimal128(20, 4)),
            "whole": pa.array([D(1), D(2)], pa.decimal128(38, 0)),
            "wider": pa.array([D(1), D(2)], pa.decimal256(50, 3)),
            "u": pa.array([1, 2], pa.uint64()),
            "f": [1.0, 2.0],
            "f32": pa.array([1.0, 2.0], pa.float32()),
            "f16": pa.array([1.0, 2.0], pa.float16()),
        }
    )
    return lk.write_dataset(rows, str(tmp_path / "d"))


def by_update(ds: lk.LanceDataset, column: str, text: str) -> None:
    ds.update({column: text}, where="id = 0")


def by_sql_update(ds: lk.LanceDataset, column: str, text: str) -> None:
    lk.sql(f"UPDATE t SET {column} = {text} WHERE id = 0", t=ds)


def by_values(ds: lk.LanceDataset, column: str, text: str) -> None:
    ds.delete("id = 0")
    lk.sql(f"INSERT INTO t (id, {column}) VALUES (0, {text})", t=ds)


def by_select(ds: lk.LanceDataset, column: str, text: str) -> None:
    ds.delete("id = 0")
    lk.sql(f"INSERT INTO t (id, {column}) SELECT 0, {text}", t=ds)


def by_merge(ds: lk.LanceDataset, column: str, text: str) -> None:
    when = f"WHEN MATCHED THEN UPDATE SET {column} = {text}"
    lk.sql(f"MERGE INTO t USING (SELECT 0 AS k) s ON t.id = s.k {when}", t=ds)


Way = Callable[[lk.LanceDataset, str, str], None]
WAYS: list[Way] = [by_update, by_sql_update, by_values, by_select, by_merge]
NUMBERS = {
    ("d", "8624772185354671.8588"): D("8624772185354671.8588"),
    ("d", "-(8624772185354671.8588)"): D("-8624772185354671.8588"),
    ("d", "CAST(8624772185354671.8588 AS decimal(20, 4))"): D("8624772185354671.8588"),
    ("wide", "-" + BIG): D("-" + BIG),
    ("whole", NINES): D(NINES),
    ("whole", "-" + NINES): D("-" + NINES),
    ("whole", f"CAST({NINES} AS decimal(38, 0))"): D(NINES),
    ("u", "18446744073709551615"): (1 << 64) - 1,
}


def stored(ds: lk.LanceDataset, column: str) -> Any:
    return ds.to_table(filter="id = 0")[column].to_pylist()[0]


@pytest.mark.parametrize("way", WAYS)
def test_a_number_is_stored_with_its_digits(ds: lk.LanceDataset, way: Way) -> None:
    for (column, text), value in NUMBERS.items():
        way(ds, column, text)
        assert stored(ds, column) == value, text


@pytest.mark.spark
def test_a_number_is_stored_with_its_digits_by_spark(
    ds: lk.LanceDataset, spark: SparkSession
) -> None:
    with lk.options(engine="spark"):
        for (column, text), value in NUMBERS.items():
            by_select(ds, column, text)
            assert stored(ds, column) == value, text
        by_select(ds, "f", "-0.0")
        assert math.copysign(1, stored(ds, "f")) == -1


@pytest.mark.parametrize("way", WAYS)
def test_a_negative_zero_stays_one(ds: lk.LanceDataset, way: Way) -> None:
    for column in ("f", "f32", "f16"):
        way(ds, column, "-0.0")
        assert math.copysign(1, stored(ds, column)) == -1
        way(ds, column, "-0")
        assert math.copysign(1, stored(ds, column)) == 1


def test_digits_beyond_the_scale_are_rounded_and_halves_away_from_zero(
    ds: lk.LanceDataset,
) -> None:
    for text, value in (
        ("8624772185354671.85885", "8624772185354671.8589"),
        ("-8624772185354671.85885", "-8624772185354671.8589"),
        ("CAST(0.125 AS decimal(10, 2))", "0.13"),
        ("TRY_CAST(-2.5 AS decimal(10, 0))", "-3"),
        ("arrow_cast(0.15, 'Decimal128(10, 1)')", "0.2"),
        ("TRY_CAST(1e400 AS decimal(10, 0))", None),
    ):
        ds.update({"d": text}, where="id = 0")
        assert stored(ds, "d") == (None if value is None else D(value)), text
    ds.update({"wider": "12345678901234567890123456789012345.678"}, where="id = 0")
    assert stored(ds, "wider") == D("12345678901234567890123456789012345.678")


def test_a_number_that_does_not_fit_is_an_error(ds: lk.LanceDataset) -> None:
    for text in (NINES + "9", "1e400", "-1e400"):
        with pytest.raises(PredicateError, match="is not a value of type decimal128"):
            ds.update({"whole": text})
    with pytest.raises(PredicateError, match="is not a value of type decimal128"):
        ds.count_rows("CAST(1000 AS decimal(3, 1)) > 1")
    with pytest.raises(PredicateError, match="out of range"):
        lk.sql(f"UPDATE t SET whole = {NINES}9", t=ds)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"wide = -{BIG}", 1),
        (f"wide = {BIG}", 1),
        (f"wide = -({BIG})", 1),
        (f"NOT wide = -{BIG}", 1),
        (f"wide IN (-{BIG}, -1.0)", 1),
        (f"wide = -{BIG} OR wide = -1.5", 1),
        (f"wide BETWEEN -{BIG} AND -{BIG}", 1),
        (f"wide < -{BIG[:-1]}6", 1),
    ],
)
def test_a_minus_sign_rounds_nothing(ds: lk.LanceDataset, text: str, count: int) -> None:
    assert ds.count_rows(text) == count
    rows = lk.sql(f"SELECT count(*) AS n FROM t WHERE {text}", t=ds).to_table()
    assert rows["n"].to_pylist() == [count]


def test_values_take_fractions(tmp_path: Path) -> None:
    kinds = {"double": pa.float64(), "float": pa.float32(), "half": pa.float16()}
    for name, kind in kinds.items():
        ds = lk.write_dataset(
            pa.table({"id": [0], "x": pa.array([1.0], kind)}), str(tmp_path / name)
        )
        lk.sql("INSERT INTO t VALUES (1, 0.5), (2, NULL), (3, -0.1), (4, 2)", t=ds)
        expected = pa.array([1.0, 0.5, None, -0.1, 2.0], kind)
        assert ds.to_table()["x"].combine_chunks().equals(expected)
    with pytest.raises(SchemaMismatchError, match="does not fit halffloat exactly"):
        lk.sql("INSERT INTO t VALUES (5, 70000.5)", t=ds)


def test_a_number_beside_half_floats_has_their_width(tmp_path: Path) -> None:
    """pylance rounds 1.1 to the column's width; a sum is computed as a double."""
    values = pa.array([1.1, 2.0, math.inf, None]).cast(pa.float16())
    rows = pa.table({"id": range(4), "h": values, "s": pa.StructArray.from_arrays([values], ["h"])})
    here = lk.write_dataset(rows, str(tmp_path / "d"))
    there = lance.dataset(here.uri)
    texts = [f"{column} {rest}" for column in ("h", "s.h") for rest in _BESIDE_HALVES]
    for text in [*texts, "h in (1.1, 2)", "h not in (1.1)", "h not between 1.1 and 1.1"]:
        assert here.to_table(["id"], text) == there.to_table(["id"], text), text
    assert here.count_rows("h = 70000") == 0  # it would be infinite


_BESIDE_HALVES = (
    "= 1.1",
    "<> 1.1",
    "<= 1.1",
    "is distinct from 1.1",
    "+ 0.0 = 1.1",
    "between 1.1 and 2",
)


def test_the_opposite_of_a_condition_has_the_other_rows() -> None:
    """Below ``NOT`` in text, numbers are doubles, as in pylance; ``~`` changes the operator."""
    ds = lk.write_dataset({"x": pa.array([1.1, 2.0], pa.float32())}, "memory://opposites")
    x = lk.col("x")
    for one in (x == 1.1, x != 1.1, x < 1.1, x >= 1.1, x > 1.1, x.is_in([1.1]), x.eq_missing(1.1)):
        assert ds.count_rows(one) + ds.count_rows(~one) == 2, one
        assert ds.count_rows(~~one) == ds.count_rows(one)
