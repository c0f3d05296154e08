"""Where the values lie that a question may hold of: intervals of ranks (`order`), both ends in.

They may hold more than the values asked for, never less: what they lead to is asked again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lancekit._index.search.order import Ranks
from lancekit._lazy import cached_property

__all__ = ["Interval", "Reach", "common", "either"]

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
    def _ends(self) -> tuple[list[Any], list[Any]]:
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


def _array(ends: list[Any], kind: np.dtype[Any]) -> Ranks:
    array = np.empty(len(ends), kind)
    array[:] = ends
    return array
