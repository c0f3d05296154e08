"""What an index is asked: where values lie, as intervals of numbers in their order."""

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
#: which of some values something is true for
Holds: TypeAlias = Callable[[pa.Array], Flags]


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """A condition of one column.

    column: the column's path.
    type: the type of its values, as `holds` takes them.
    holds: tells of which values it holds: the filter's own kernels, so that an index finds what a
        scan would.  A value for which the condition is null is none.
    reach: where the values lie of which it may hold, ``None`` if they may lie anywhere.  Nulls lie
        nowhere: `holds` is to be asked.
    runs: texts that are somewhere in each value of which it holds.
    items: of lists: conditions of lists of one item.  It holds of a list if each of these does of
        one of its items; if there are none, it asks for something else.
    """

    column: str
    type: pa.DataType
    holds: Holds
    reach: Reach | None = None
    runs: tuple[str, ...] = ()
    items: tuple[Holds, ...] = ()

    @cached_property
    def of_null(self) -> bool:
        """Whether it holds of a null."""
        return bool(self.holds(pa.nulls(1, self.type))[0])

    def of_nan(self) -> bool:
        """Return whether it holds of a NaN."""
        if not pa.types.is_floating(self.type):
            return False
        return bool(self.holds(pa.array([math.nan], self.type))[0])


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Parts of which all have to hold, or one; if `whole`, they say all that is asked."""

    parts: tuple[Questions, ...]
    all_of: bool
    whole: bool = True


Questions: TypeAlias = "Question | Joint"

# ---- where the values lie that a question may hold of: intervals of ranks (`order`), both ends
# in
#
# They may hold more than the values asked for, never less: what they lead to is asked again.

#: ``None`` is an end that is open
Interval: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True, eq=False)
class Reach:
    """Intervals that ascend and do not meet."""

    intervals: tuple[Interval, ...]

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> Reach:
        """Put intervals in order, and together where they meet; empty ones are left out."""
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
    def points(cls, ranks: Ranks) -> Reach:
        """Return the reach of single values."""
        return cls(tuple((rank, rank) for rank in sorted(set(ranks.tolist()))))

    @cached_property
    def _ends(self) -> tuple[list[object], list[object]]:
        lows = [low for low, _ in self.intervals if low is not None]
        return lows, [high for _, high in self.intervals if high is not None]

    def touches(self, least: Ranks, greatest: Ranks) -> npt.NDArray[np.bool_]:
        """Return which of some ranges of values it meets, each given by both its ends.

        Examples
        --------
        >>> reach = Reach.of([(None, 3), (8, 9)])
        >>> reach.touches(np.array([1, 4, 4]), np.array([2, 7, 8])).tolist()
        [True, False, True]
        """
        lows, highs = (_array(ends, least.dtype) for ends in self._ends)
        begun = np.searchsorted(lows, greatest, "right") + (len(self.intervals) - len(lows))
        return begun > np.searchsorted(highs, least, "left")

    def begins(
        self, least: Ranks, greatest: Ranks
    ) -> tuple[Ranks, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the lower ends, and which begin within some ranges: the first, and how many."""
        lows = _array(self._ends[0], least.dtype)
        first = np.searchsorted(lows, least)
        return lows, first, np.maximum(np.searchsorted(lows, greatest, "right") - first, 0)


def common(one: Reach, other: Reach) -> Reach:
    """Return what is within both."""
    return Reach.of(_overlaps(one, other))


def either(one: Reach, other: Reach) -> Reach:
    """Return what is within one of them."""
    return Reach.of([*one.intervals, *other.intervals])


def _overlaps(one: Reach, other: Reach) -> Iterable[Interval]:
    mine, theirs = list(one.intervals), list(other.intervals)
    at = beside = 0
    while at < len(mine) and beside < len(theirs):
        (low, high), (first, last) = mine[at], theirs[beside]
        yield (
            low if first is None else first if low is None else max(low, first),
            high if last is None else last if high is None else min(high, last),
        )
        if last is None or (high is not None and high <= last):
            at += 1
        else:
            beside += 1


def _array(ends: list[Any], kind: np.dtype) -> Ranks:
    array = np.empty(len(ends), kind)
    array[:] = ends
    return array


# ---- numbers that are ordered as the values of a column are in an index
#
# Whole numbers, times and booleans stand for themselves.  Floats are ordered by their bits: the
# NaNs with a sign come first, then ``-inf`` to ``-0.0``, ``0.0`` to ``inf``, and the other NaNs
# last. Texts are ordered as bytes, decimals as whole numbers of their smallest unit.

Ranks = npt.NDArray[np.generic]

_LOW_BITS = np.int64(0x7FFF_FFFF_FFFF_FFFF)


def float_ranks(values: npt.ArrayLike) -> Ranks:
    """Return whole numbers that are ordered as floats are in an index."""
    bits = np.ascontiguousarray(np.asarray(values, np.float64)).view(np.int64)
    return bits ^ ((bits >> 63) & _LOW_BITS)


#: more digits than a decimal has
_EXACT = Context(prec=100)
_WHOLE = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}

#: the ranks of ``-inf`` and ``inf``: what lies outside of them are NaNs
INFINITIES: tuple[int, int] = tuple(float_ranks([-np.inf, np.inf]).tolist())


def ranks_of(values: pa.Array) -> Ranks | None:
    """Return what the values are ordered by, ``None`` for types that are in no order.

    What stands for a null means nothing.

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
    """Put something that can be compared in the place of what is not known, if anything is."""
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
