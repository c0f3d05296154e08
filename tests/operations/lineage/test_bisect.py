"""The place where an answer turns is found in as few questions as do."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest

from lancekit._api.bisect import turning_point


@pytest.mark.parametrize("count", [2, 3, 4, 7, 100, 1000])
def test_every_place_of_every_length(count: int) -> None:
    for first_bad in range(1, count):
        asked: list[int] = []

        def good(version: int, bad: int = first_bad, asked: list[int] = asked) -> bool:
            asked.append(version)
            return version < bad

        assert turning_point(range(count), good) == (first_bad - 1, first_bad)
        assert len(asked) == len(set(asked)) <= (count - 1).bit_length()


def test_versions_that_say_nothing() -> None:
    draw = random.Random(7)
    for _ in range(500):
        versions = sorted(draw.sample(range(1, 200), draw.randint(2, 60)))
        first_bad = draw.choice(versions[1:])
        silent = {v for v in versions[1:-1] if draw.random() < draw.choice([0.1, 0.6, 0.95])}
        asked: list[int] = []

        def good(
            version: int, bad: int = first_bad, mute: set[int] = silent, asked: list[int] = asked
        ) -> bool | None:
            asked.append(version)
            return None if version in mute else version < bad

        telling = [v for v in versions if v not in silent]
        place = bisect_left(telling, first_bad)
        assert turning_point(versions, good) == (telling[place - 1], telling[place])
        assert len(asked) == len(set(asked))


def test_a_long_silence_is_left_soon() -> None:
    asked: list[int] = []

    def good(version: int) -> bool | None:
        asked.append(version)
        return None if 300 < version < 700 else version < 200

    assert turning_point(range(1000), good) == (199, 200)
    assert len(asked) <= 12
