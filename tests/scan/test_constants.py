"""Constants of Python, NumPy, pandas and Arrow keep their digits in expressions."""

from __future__ import annotations

import datetime as dt
import operator
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._scan.expressions.parser import parse
from lancekit._scan.expressions.predicate import Predicate, compile_expression
from lancekit.errors import InvalidArgumentError, InvalidTypeError
from tests.scan.test_syntax_text import shape

D = Decimal
ZONE = dt.timezone(dt.timedelta(hours=-5, minutes=-30))
MOMENTS = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
#: type of a column -> values that it can hold, of the type that a user has at hand
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.uint64(): st.integers(0, (1 << 64) - 1),
    pa.int8(): st.integers(-128, 127).map(np.int8),
    pa.float64(): st.floats(allow_nan=False),
    pa.float32(): st.floats(allow_nan=False, width=32).map(np.float32),
    pa.decimal128(30, 4): st.decimals(-(10**20), 10**20, places=4),
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.binary(): st.binary(max_size=5),
    pa.date32(): st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("ns"): st.integers(-(10**18), 10**18).map(lambda n: np.datetime64(n, "ns")),
    pa.timestamp("us", "America/New_York"): MOMENTS.map(lambda one: one.replace(tzinfo=ZONE)),
    pa.timestamp("ns", "UTC"): st.integers(0, 10**18).map(lambda n: pd.Timestamp(n, tz="UTC")),
    pa.time64("us"): st.times(),
    pa.duration("us"): st.timedeltas(dt.timedelta(-100_000), dt.timedelta(100_000)),
    pa.duration("ns"): st.integers(-(10**18), 10**18).map(lambda n: np.timedelta64(n, "ns")),
}
COMPARISONS: dict[Callable[[Any, Any], Any], Callable[..., Any]] = {
    operator.eq: pc.equal,
    operator.ne: pc.not_equal,
    operator.lt: pc.less,
    operator.le: pc.less_equal,
    operator.gt: pc.greater,
    operator.ge: pc.greater_equal,
}


def rows(condition: Any, table: pa.Table) -> list[bool | None]:
    text = pickle.loads(pickle.dumps(condition.sql))  # as Spark's workers get it
    if condition.sql.tree.kind != "IN":  # a list of numbers such as `2.` has another form
        assert shape(parse(str(text))) == shape(condition.sql.tree)
    found = Predicate.parse(condition.sql, table.schema).mask(table).to_pylist()
    assert Predicate.parse(str(text), table.schema).mask(table).to_pylist() == found
    return found


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_comparisons_find_the_rows_that_arrow_finds(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[kind], min_size=1, max_size=5))
    value, other = data.draw(st.sampled_from(values)), data.draw(VALUES[kind])
    column = pa.array([*map(lambda one: pa.scalar(one, kind), values), None], kind)  # noqa: C417
    table = pa.table({"x": column})
    for constant in (value, other):
        exact = pa.scalar(constant, kind)
        for compare, arrow in COMPARISONS.items():
            expected = pc.fill_null(arrow(column, exact), False).to_pylist()
            assert rows(compare(lk.col("x"), constant), table) == expected
            assert rows(compare(lk.col("x"), exact), table) == expected
    both = [pa.scalar(value, kind), pa.scalar(other, kind)]
    among = pc.fill_null(pc.or_(pc.equal(column, both[0]), pc.equal(column, both[1])), False)
    assert rows(lk.col("x").is_in([value, other]), table) == among.to_pylist()
    within = pc.and_(pc.greater_equal(column, both[0]), pc.less_equal(column, both[1]))
    expected = pc.fill_null(within, False).to_pylist()
    assert rows(lk.col("x").between(value, other), table) == expected


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_a_constant_has_its_value(kind: pa.DataType, data: st.DataObject) -> None:
    value = data.draw(VALUES[kind])
    found = compile_expression(lk.lit(value).sql, pa.schema([])).evaluate(pa.table({"_": [0]}))
    assert found.cast(kind, safe=True)[0].equals(pa.scalar(value, kind))


SAID = {
    "NULL": [None, pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT"), pa.scalar(None)],
    "TRUE": [True, np.bool_(True), np.array(True), pa.scalar(True)],
    "7": [7, np.uint8(7), pa.scalar(7, pa.int8())],
    "'it''s'": ["it's", np.str_("it's"), pa.scalar("it's", pa.large_string())],
    "X'00ff'": [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")],
    "0.1": [0.1, np.float64(0.1)],
    "1E-7": [1e-7],
    "1E+300": [1e300],
    "CAST('nan' AS double)": [float("nan"), np.float32("nan"), D("NaN")],
    "CAST('-inf' AS double)": [float("-inf"), D("-Infinity")],
    "CAST(1.10 AS decimal(3, 2))": [D("1.10"), pa.scalar(D("1.10"))],
    "CAST(1E+3 AS decimal(4, 0))": [D("1E+3")],
    "CAST('2026-01-31' AS date)": [dt.date(2026, 1, 31), np.datetime64("2026-01-31")],
    "CAST('2026-01-31 05:00:00' AS timestamp)": [
        dt.datetime(2026, 1, 31, 5),
        pd.Timestamp("2026-01-31 05:00"),
        np.datetime64("2026-01-31T05"),
        pa.scalar(dt.datetime(2026, 1, 31, 5), pa.timestamp("s")),
    ],
    "CAST('2026-01-31 10:30:00+00:00' AS timestamp)": [
        dt.datetime(2026, 1, 31, 5, tzinfo=ZONE),
        pa.scalar(dt.datetime(2026, 1, 31, 5, tzinfo=ZONE), pa.timestamp("s", "America/New_York")),
    ],
    "CAST('05:00:00.000001' AS time)": [dt.time(5, 0, 0, 1)],
    "arrow_cast(90, 'Duration(Second)')": [np.timedelta64(90, "s")],
    "arrow_cast(90, 'Duration(Nanosecond)')": [pd.Timedelta(90, "ns"), np.timedelta64(90, "ns")],
    "[1, 2]": [[1, 2], (1, 2), np.array([1, 2])],
}


@pytest.mark.parametrize("text", SAID)
def test_the_text_of_a_constant(text: str) -> None:
    assert {str(lk.lit(value)) for value in SAID[text]} == {text}


def test_a_number_of_any_size_keeps_its_digits() -> None:
    for number in (10**98, -(10**120), 10**5000):
        tree = lk.lit(number).sql.tree
        assert tree.value == number
        assert parse(str(lk.lit(number))).value == number


def test_what_is_no_constant() -> None:
    zoned, month = dt.time(1, tzinfo=dt.UTC), pd.Period("2026-01")
    for value in (object(), 1 + 2j, {"a": 1}, {1}, month, zoned, print):
        with pytest.raises(InvalidTypeError):
            lk.lit(value)


def test_text_that_is_not_valid() -> None:
    with pytest.raises(InvalidArgumentError, match="surrogate"):
        lk.lit("\ud800")
    with pytest.raises(InvalidTypeError, match="finer"):
        lk.lit(np.datetime64(1, "ps"))
    with pytest.raises(InvalidTypeError, match="seconds"):
        lk.lit(np.timedelta64(1, "M"))
