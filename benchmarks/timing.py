"""Timing two callables in turn, so that a machine that drifts hits both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """Median seconds of each side, and the median of the ratios pair by pair."""

    name: str
    ours: float
    theirs: float
    ratio: float

    def __str__(self) -> str:
        return (
            f"{self.name:<44} {self.ours * 1e3:>9.2f} ms {self.theirs * 1e3:>9.2f} ms "
            f"{self.ratio:>7.2f} x"
        )


def compare(
    name: str,
    ours: Callable[[Any], Any],
    theirs: Callable[[Any], Any],
    *,
    setup: Callable[[str], Any] = lambda side: side,
    runs: int = 7,
    warmup: int = 1,
) -> Comparison:
    """Run both in turn; ``setup(side)`` prepares each run and is not timed."""
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(runs + warmup):
        for side, run in (("ours", ours), ("theirs", theirs)):
            prepared = setup(side)
            started = time.perf_counter()
            run(prepared)
            taken = time.perf_counter() - started
            if number >= warmup:
                seconds[side].append(taken)
    ratios = [a / b for a, b in zip(seconds["ours"], seconds["theirs"], strict=True)]
    medians = {side: statistics.median(values) for side, values in seconds.items()}
    return Comparison(name, medians["ours"], medians["theirs"], statistics.median(ratios))
