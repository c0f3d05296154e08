"""Timing two callables in turn, so that a machine that drifts hits both alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """Median seconds of each side, and the median of the ratios pair by pair.

    `cpu` is the ratio of processor time, over all threads of this process;
    not a number where the work is done elsewhere.
    """

    name: str
    ours: float
    theirs: float
    ratio: float
    cpu: float

    def __str__(self) -> str:
        cpu = "" if math.isnan(self.cpu) else f" {self.cpu:>7.2f} x"
        return (
            f"{self.name:<44} {self.ours * 1e3:>9.2f} ms {self.theirs * 1e3:>9.2f} ms "
            f"{self.ratio:>7.2f} x{cpu}"
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
    cpu: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(runs + warmup):
        for side, run in (("ours", ours), ("theirs", theirs)):
            prepared = setup(side)
            started, busy = time.perf_counter(), time.process_time()
            run(prepared)
            taken, worked = time.perf_counter() - started, time.process_time() - busy
            if number >= warmup:
                seconds[side].append(taken)
                cpu[side].append(worked)
    medians = {side: statistics.median(values) for side, values in seconds.items()}
    return Comparison(
        name, medians["ours"], medians["theirs"], _median_ratio(seconds), _median_ratio(cpu)
    )


def _median_ratio(taken: dict[str, list[float]]) -> float:
    pairs = zip(taken["ours"], taken["theirs"], strict=True)
    return statistics.median(ours / max(theirs, 1e-9) for ours, theirs in pairs)
