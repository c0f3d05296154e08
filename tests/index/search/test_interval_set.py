"""Intervals of ranks are joined as sets are, and touch what overlaps them."""

import random

import numpy as np
import pytest

from lancekit._index.search.index_query import Interval, IntervalSet, common, either

SPAN = range(-12, 13)


def _members(interval_set: IntervalSet) -> set[int]:
    return {
        number
        for number in SPAN
        for low, high in interval_set.intervals
        if (low is None or low <= number) and (high is None or number <= high)
    }


def _some(chance: random.Random) -> list[Interval]:
    def end() -> int | None:
        return None if chance.random() < 0.1 else chance.randrange(-10, 11)

    return [(end(), end()) for _ in range(chance.randrange(4))]


@pytest.mark.parametrize("seed", range(40))
def test_intervals_are_joined_as_their_members(seed: int) -> None:
    chance = random.Random(seed)
    one, other = IntervalSet.of(_some(chance)), IntervalSet.of(_some(chance))
    assert _members(common(one, other)) == _members(one) & _members(other)
    assert _members(either(one, other)) == _members(one) | _members(other)
    least = np.array([chance.randrange(-10, 11) for _ in range(20)])
    greatest = least + np.array([chance.randrange(4) for _ in range(20)])
    expected = [
        bool(_members(one) & set(range(low, high + 1)))
        for low, high in zip(least.tolist(), greatest.tolist(), strict=True)
    ]
    assert one.touches(least, greatest).tolist() == expected


def test_intervals_ascend_and_do_not_meet() -> None:
    interval_set = IntervalSet.of([(5, 7), (1, 2), (7, 9), (4, 3), (None, 0)])
    assert interval_set.intervals == ((None, 0), (1, 2), (5, 9))
    assert IntervalSet.of([(3, None), (1, None), (0, 0)]).intervals == ((0, 0), (1, None))


def test_texts_are_compared_as_bytes() -> None:
    least = np.array([b"", b"b", b"x"], object)
    greatest = np.array([b"a", b"c", b"z"], object)
    assert IntervalSet.of([(b"ab", b"bz")]).touches(least, greatest).tolist() == [
        False,
        True,
        False,
    ]
    assert IntervalSet(()).touches(least, greatest).tolist() == [False, False, False]
