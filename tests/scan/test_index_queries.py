"""What filters ask of single columns: which, of what values, and where these lie."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancekit._index.search.index_query import (
    INFINITIES,
    ColumnCondition,
    CombinedConditions,
    IndexQuery,
    float_ranks,
)
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.index_queries import index_query_of

SCHEMA = pa.schema(
    {
        "i": pa.int32(),
        "u": pa.uint64(),
        "j": pa.int64(),
        "f": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "t": pa.timestamp("ns"),
        "n": pa.decimal128(9, 2),
        "st": pa.struct({"x": pa.int8()}),
    }
)


def _asked(text: str) -> IndexQuery | None:
    return index_query_of(Predicate.parse(text, SCHEMA))


def _one(text: str) -> ColumnCondition:
    found = _asked(text)
    assert isinstance(found, ColumnCondition)
    return found


def _reach(text: str) -> Any:
    interval_set = _one(text).interval_set
    return None if interval_set is None else interval_set.intervals


@pytest.mark.parametrize(
    ("text", "interval_set"),
    [
        ("i = 3", ((3, 3),)),
        ("3 = i", ((3, 3),)),
        ("i < 3", ((None, 3),)),
        ("3 < i", ((3, None),)),
        ("NOT (i < 3)", ((3, None),)),
        ("NOT (i <> 3)", ((3, 3),)),
        ("i <> 3", None),
        ("i BETWEEN 2 AND 5", ((2, 5),)),
        ("i NOT BETWEEN 2 AND 5", ((None, 2), (5, None))),
        ("CAST(i AS bigint) = 3", ((3, 3),)),
        ("CAST(i AS string) = '3'", ((3, 3),)),
        ("i IN (5, 2, 2)", ((2, 2), (5, 5))),
        ("i NOT IN (5, 2)", None),
        ("i = 1 OR i = 2 OR i > 7", ((1, 1), (2, 2), (7, None))),
        ("i >= 1 AND i < 9 AND i IN (0, 1, 4)", ((1, 1), (4, 4))),
        ("NOT (i < 1 OR i > 5)", ((1, 5),)),
        ("i IS NULL", ()),
        ("i IS NOT NULL", None),
        ("s = 'b'", ((b"b", b"b"),)),
        ("s > 'é'", (("é".encode(), None),)),
        ("b", ((1, 1),)),
        ("NOT b", ((0, 0),)),
        ("b IS TRUE", ((1, 1),)),
        ("b IS NOT TRUE", ((0, 0),)),
        ("st.x = 3", ((3, 3),)),
        ("n = 1.5", ((150, 150),)),
        ("n > 2", ((200, None),)),
        ("s LIKE 'ab%'", ((b"ab", b"ac"),)),
        ("s LIKE 'ab'", ((b"ab", b"ab"),)),
        ("s LIKE '%ab'", None),
        ("starts_with(s, 'ab')", ((b"ab", b"ac"),)),
        ("NOT starts_with(s, 'ab')", None),
        ("NOT (i < 3.5)", ((3, None),)),
        ("NOT (i < 1e300)", None),
        ("NOT (u < -3.5)", None),
        ("NOT (u >= -3)", None),
    ],
)
def test_a_condition_asks_for_values_that_lie_somewhere(text: str, interval_set: Any) -> None:
    assert _reach(text) == interval_set


def test_floats_lie_where_their_bits_put_them() -> None:
    minus, zero, half = float_ranks([-0.0, 0.0, 0.5]).tolist()
    below, above = INFINITIES
    nans = (None, below - 1), (above + 1, None)
    assert _reach("f = 0.0") == _reach("f = -0.0") == ((minus, zero),)
    assert _reach("NOT (f <> 0)") == _reach("f = 0")
    assert _reach("f < 0.5") == ((below, half),)
    assert _reach("f > 0.5") == (nans[0], (half, above), nans[1])
    assert _reach("f >= CAST('nan' AS DOUBLE)") == nans
    assert _reach("f < CAST('nan' AS DOUBLE)") == ((below, above),)


def test_a_question_holds_of_what_the_filter_is_true_for() -> None:
    held = _one("NOT (i = 3)").matches(pa.array([1, 3, None], pa.int32()))
    assert held.tolist() == [True, False, False]
    assert _one("i IS NULL").of_null
    assert not _one("i <> 3").of_null
    values = pa.array([math.nan, -math.nan, 1.0, None])
    assert _one("f > 2").matches(values).tolist() == [True, True, False, False]


def test_moments_of_other_units_lie_near() -> None:
    ((low, high),) = _reach("t = TIMESTAMP '1970-01-01 00:00:01'")
    assert low <= 1_000_000_000 <= high
    assert high - low <= 2_000_000


@pytest.mark.parametrize(
    "text",
    ["i + 1 = 3", "i = j", "abs(i) = 3", "i = 3 OR i + 1 = 3", "i IS DISTINCT FROM 3"],
)
def test_other_conditions_ask_for_nothing(text: str) -> None:
    assert _asked(text) is None


def test_and_asks_what_it_can_and_or_all_or_nothing() -> None:
    found = _asked("i = 3 AND abs(j) = 4")
    assert isinstance(found, CombinedConditions)
    assert ([part.column for part in found.parts if isinstance(part, ColumnCondition)]) == ["i"]
    assert not found.whole
    found = _asked("NOT (i = 3 AND j = 4)")
    assert isinstance(found, CombinedConditions)
    assert (found.all_of, found.whole, len(found.parts)) == (False, True, 2)
    assert _asked("i = 3 OR abs(j) = 4") is None


def test_long_lists_and_chains_are_points() -> None:
    listed = ", ".join(map(str, range(50)))
    chained = " OR ".join(f"i = {number}" for number in range(50))
    points = tuple((number, number) for number in range(50))
    assert _reach(f"i IN ({listed})") == _reach(chained) == points


def test_an_expression_of_arrow_asks_for_nothing() -> None:
    condition = pc.field("i") == 3
    assert index_query_of(Predicate.parse(condition, SCHEMA)) is None


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("contains(s, 'abc')", ("abc",)),
        ("s LIKE 'ab_c%d'", ("ab", "c", "d")),
        (r"s LIKE '%a\%b%'", ("a%b",)),
        ("ends_with(s, 'abc')", ("abc",)),
        ("NOT contains(s, 'abc')", ()),
    ],
)
def test_what_texts_have_somewhere(text: str, runs: tuple[str, ...]) -> None:
    assert _one(text).runs == runs
