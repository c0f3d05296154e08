"""The query that an index answers: conditions of columns, and the intervals of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import numbers_of
from lancekit._lazy import cached_property

Flags: TypeAlias = npt.NDArray[np.bool_]
#: returns a mask of the values that meet a condition
ValueTest: TypeAlias = Callable[[pa.Array], Flags]


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnCondition:
    """A condition on the values of one column.

    column: the column's path.
    type: the type of the values that `matches` takes.
    matches: returns a mask of the values that meet the condition, by the filter's own kernels, so
        that an index finds the same rows as a scan. A condition that is null is not met.
    interval_set: intervals that contain all values that meet the condition, ``None`` for no bounds.
        Nulls are in no interval: `of_null` says if they meet the condition.
    runs: texts that every value that meets the condition contains.
    items: for a column of lists: conditions on lists of one item. A list meets the condition if
        each of these holds for one of its items. Without items, no index of items can help.
    """

    column: str
    type: pa.DataType
    matches: ValueTest
    interval_set: IntervalSet | None = None
    runs: tuple[str, ...] = ()
    items: tuple[ValueTest, ...] = ()

    @cached_property
    def of_null(self) -> bool:
        """True if a null meets the condition."""
        return bool(self.matches(pa.nulls(1, self.type))[0])

    def of_nan(self) -> bool:
        """Return True if a NaN meets the condition."""
        if not pa.types.is_floating(self.type):
            return False
        return bool(self.matches(pa.array([math.nan], self.type))[0])


@dataclass(frozen=True, slots=True, eq=False)
class CombinedConditions:
    """Conditions joined by AND (`all_of`) or OR.

    whole: whether they are the whole filter. If not, rows that meet them are filtered again.
    """

    parts: tuple[IndexQuery, ...]
    all_of: bool
    whole: bool = True


IndexQuery: TypeAlias = "ColumnCondition | CombinedConditions"

# ---- intervals of ranks (`ranks_of`) that contain the values that meet a condition
#
# Intervals include both ends. They may also contain other values: rows are filtered again.

#: ``None`` is an unbounded end
Interval: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True, eq=False)
class IntervalSet:
    """Ascending intervals that do not overlap."""

    intervals: tuple[Interval, ...]

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> IntervalSet:
        """Return an interval set from intervals in any order, which may overlap or be empty."""
        found = [(low, high) for low, high in intervals if None in (low, high) or low <= high]
        found.sort(key=lambda interval: (interval[0] is not None, interval[0]))
        joined: list[Interval] = []
        for low, high in found:
            if joined and (joined[-1][1] is None or low is None or low <= joined[-1][1]):
                last = joined[-1][1]
                joined[-1] = joined[-1][0], None if None in (last, high) else max(last, high)
            else:
                joined.append((low, high))
        return cls(tuple(joined))

    @classmethod
    def points(cls, ranks: Ranks) -> IntervalSet:
        """Return an interval for each value."""
        return cls(tuple((rank, rank) for rank in sorted(set(ranks.tolist()))))

    @cached_property
    def _ends(self) -> tuple[list[object], list[object]]:
        lows = [low for low, _ in self.intervals if low is not None]
        return lows, [high for _, high in self.intervals if high is not None]

    def touches(self, least: Ranks, greatest: Ranks) -> npt.NDArray[np.bool_]:
        """Return a mask of the ranges of values, given by their ends, that overlap an interval.

        Examples
        --------
        >>> intervals = IntervalSet.of([(None, 3), (8, 9)])
        >>> intervals.touches(np.array([1, 4, 4]), np.array([2, 7, 8])).tolist()
        [True, False, True]
        """
        lows, highs = (_array(ends, least.dtype) for ends in self._ends)
        begun = np.searchsorted(lows, greatest, "right") + (len(self.intervals) - len(lows))
        return begun > np.searchsorted(highs, least, "left")

    def begins(
        self, least: Ranks, greatest: Ranks
    ) -> tuple[Ranks, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the lower ends of the intervals; for each range the first in it, and how many."""
        lows = _array(self._ends[0], least.dtype)
        first = np.searchsorted(lows, least)
        return lows, first, np.maximum(np.searchsorted(lows, greatest, "right") - first, 0)


def common(one: IntervalSet, other: IntervalSet) -> IntervalSet:
    """Return the intersection of two interval sets."""
    return IntervalSet.of(_overlaps(one, other))


def either(one: IntervalSet, other: IntervalSet) -> IntervalSet:
    """Return the union of two interval sets."""
    return IntervalSet.of([*one.intervals, *other.intervals])


def _overlaps(one: IntervalSet, other: IntervalSet) -> Iterable[Interval]:
    mine, theirs = list(one.intervals), list(other.intervals)
    at = other_at = 0
    while at < len(mine) and other_at < len(theirs):
        (low, high), (first, last) = mine[at], theirs[other_at]
        yield (
            low if first is None else first if low is None else max(low, first),
            high if last is None else last if high is None else min(high, last),
        )
        if last is None or (high is not None and high <= last):
            at += 1
        else:
            other_at += 1


def _array(ends: list[Any], kind: np.dtype) -> Ranks:
    array = np.empty(len(ends), kind)
    array[:] = ends
    return array


# ---- ranks: numbers in the order that an index gives the values of a column
#
# The rank of an integer, a time or a boolean is its number.  Floats are ordered by their bits: NaNs
# with a sign first, then ``-inf`` to ``-0.0``, ``0.0`` to ``inf``, and the other NaNs last.  Texts
# are ordered as bytes, decimals as integers of their smallest unit.

Ranks = npt.NDArray[np.generic]

_LOW_BITS = np.int64(0x7FFF_FFFF_FFFF_FFFF)


def float_ranks(values: npt.ArrayLike) -> Ranks:
    """Return the ranks of floats: integers in the order of an index."""
    bits = np.ascontiguousarray(np.asarray(values, np.float64)).view(np.int64)
    return bits ^ ((bits >> 63) & _LOW_BITS)


#: more digits than a decimal has
_EXACT = Context(prec=100)
_WHOLE = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}

#: the ranks of ``-inf`` and ``inf``: the ranks outside are NaNs
INFINITIES: tuple[int, int] = tuple(float_ranks([-np.inf, np.inf]).tolist())


def ranks_of(values: pa.Array) -> Ranks | None:
    """Return the ranks of values, ``None`` for types without an order.

    The rank of a null is arbitrary.

    Examples
    --------
    >>> ranks_of(pa.array([True, None, False])).tolist()
    [1, 0, 0]
    >>> ranks_of(pa.array(["b", "a"])).tolist()
    [b'b', b'a']
    """
    kind = values.type
    if pt.is_boolean(kind):
        return _numbers(values.cast(pa.int8())).astype(np.int64)
    if pt.is_integer(kind):
        return _numbers(values).astype(np.uint64 if pt.is_uint64(kind) else np.int64)
    if pt.is_temporal(kind):
        return _numbers(values.view(_WHOLE[kind.bit_width])).astype(np.int64)
    if pt.is_floating(kind):
        numbers = _numbers(values.view(_WHOLE[kind.bit_width]))
        return float_ranks(numbers.view(f"f{kind.bit_width // 8}"))
    if pt.is_decimal(kind):
        return _objects([_whole(value, kind.scale) for value in values.to_pylist()])
    if pt.is_string(kind) or pt.is_large_string(kind):
        return _objects(pc.cast(values, pa.large_binary()).to_pylist())
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return _objects(values.to_pylist())
    return None


def filled(ranks: Ranks, known: npt.NDArray[np.bool_]) -> Ranks:
    """Replace ranks of nulls by another rank if they are objects, so that all can be compared."""
    if ranks.dtype != object or known.all() or not known.any():
        return ranks
    return np.where(known, ranks, ranks[known][0])


def _numbers(values: pa.Array) -> Ranks:
    return numbers_of(values.fill_null(0) if ak.null_count(values) else values)


def _whole(value: Decimal | None, scale: int) -> int | None:
    if value is None:
        return None
    return int(value.scaleb(scale, _EXACT))


def _objects(values: list[object]) -> Ranks:
    ranks = np.empty(len(values), object)
    ranks[:] = values
    return ranks
