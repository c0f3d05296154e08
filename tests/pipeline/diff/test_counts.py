"""How often values come, as Counter says, and ranges that hold what they say."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancekit._pipeline.diff.statistics import Counts, column_statistics, histogram, plain

WHOLE = [
    pa.int8(),
    pa.int64(),
    pa.uint32(),
    pa.date32(),
    pa.time64("us"),
    pa.timestamp("s"),
    pa.timestamp("us", "UTC"),
    pa.duration("ms"),
]
OTHERS = [pa.float32(), pa.float64(), pa.decimal128(30, 2), pa.string(), pa.bool_(), pa.binary()]


def drawn(seed: int, kind: pa.DataType, width: int = 110) -> pa.Array:
    chance = np.random.default_rng(seed)
    numbers = chance.integers(0, width, 300)
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        values = pa.array([f"v{n}" for n in numbers]).cast(kind)
    elif pa.types.is_boolean(kind):
        values = pa.array(numbers > 3)
    else:
        values = pa.array(numbers).cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        values = values.cast(kind)
    return pa.array(values.to_pylist(), kind, mask=chance.random(300) < 0.1)


@pytest.mark.parametrize("kind", [*WHOLE, *OTHERS], ids=str)
def test_the_most_frequent_come_first_and_of_these_the_first_seen(kind: pa.DataType) -> None:
    values = drawn(1, kind)
    expected = tuple(Counter(v for v in values.to_pylist() if v is not None).most_common(7))
    for parts in ([values], [values[:100], values[100:101], values[101:]]):
        counts = Counts()
        assert [counts.seen(part) for part in parts] == parts
        assert counts.top(7) == expected
        few = Counts(2)
        for part in parts:
            few.seen(part)
        assert few.top(7) == (expected if len(expected) <= 2 else None)


@pytest.mark.parametrize("width", [110, 5])
@pytest.mark.parametrize("kind", WHOLE, ids=str)
def test_ranges_of_whole_values_hold_what_they_say(kind: pa.DataType, width: int) -> None:
    values = drawn(2, kind, width)
    told = bins_of(values, 8)
    assert told == bins_of(values, 8, most=1)  # they are read again instead
    there = [v for v in values.to_pylist() if v is not None]
    assert (told[0].low, told[-1].high) == (min(there), max(there))
    assert len(told) == min(8, width)
    for part in told[:-1]:
        assert part.rows == sum(part.low <= v < part.high for v in there)
    assert told[-1].rows == sum(told[-1].low <= v for v in there)
    assert all(one.high == two.low for one, two in itertools.pairwise(told))


def bins_of(values: pa.Array, bins: int, most: int | None = None, others: int = 0) -> Any:
    counts = Counts(most)
    found = column_statistics([counts.seen(plain(values))])
    told, left = histogram(values.type, found, counts, lambda: [values], bins)
    assert left == others
    return told


def test_ends_are_exact_where_floating_point_numbers_are_not() -> None:
    values = pa.array([2**60 + 1, None, 2**60 + 2**40 + 3])
    for kind in (pa.int64(), pa.timestamp("ns"), pa.duration("us")):
        told = bins_of(values.cast(kind), 3)
        there = values.cast(kind).drop_null().to_pylist()
        assert (told[0].low, told[-1].high) == (there[0], there[-1])
        assert [part.rows for part in told] == [1, 0, 1]


def test_what_has_no_ranges() -> None:
    assert bins_of(pa.array([1, 2]), 0) == ()
    assert bins_of(pa.array([None, None], pa.int8()), 3) == ()
    assert bins_of(pa.array(["a"]), 3) == ()
    assert bins_of(pa.array([float("nan"), float("inf")]), 3, others=2) == ()
    lists = Counts()
    lists.seen(pa.array([[1], [2]]))
    assert lists.top(3) is None
