"""``python -m benchmarks.key_filters [picture]``: what key filters of every kind cost and miss.

Two merges insert disjoint keys; how often does each test say that they may share one?  The answer
of the reference is taken from the reference, for a few sizes: it commits both merges.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancekit._format.key_filter import (
    BloomKeyFilter,
    ExactKeySet,
    KeyFilter,
    build_bloom,
    build_exact,
    shared_keys,
)

__all__ = ["SIZES", "Point", "any_bit", "curve", "draw", "main"]

SIZES = (10, 20, 30, 50, 75, 100, 145, 200, 300, 500, 1000, 1500, 2000, 3000, 4096, 6000, 8192)

#: one merge's filter, then the other's
KINDS: dict[str, tuple[Callable[..., KeyFilter], Callable[..., KeyFilter]]] = {
    "exact": (build_exact, build_exact),
    "exact in Bloom": (build_exact, build_bloom),
    "Bloom, block by block": (build_bloom, build_bloom),
}


@dataclass(frozen=True)
class Point:
    """How often disjoint sets of so many keys are called conflicting, by kind of test."""

    keys: int
    false_conflicts: dict[str, float]


def any_bit(mine: BloomKeyFilter, theirs: BloomKeyFilter) -> bool:
    """Tell what the reference tells: whether any bit is set in both."""
    one, other = (np.frombuffer(f.bitmap, np.uint64) for f in (mine, theirs))
    return bool((one & other).any())


def _disjoint(rng: np.random.Generator, keys: int) -> tuple[NDArray[np.uint64], ...]:
    # hashes of keys are as good as random; 16,384 of 2**64 do not meet
    both = rng.integers(0, 2**64, 2 * keys, np.uint64, endpoint=False)
    return both[:keys], both[keys:]


def curve(sizes: tuple[int, ...] = SIZES, trials: int = 200, seed: int = 5) -> list[Point]:
    """Return the shares of false conflicts; each size is tried so often."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    points = []
    for keys in sizes:
        hits = dict.fromkeys(["Bloom, any bit (reference)", *KINDS], 0)
        for _ in range(trials):
            mine, theirs = _disjoint(rng, keys)
            for name, (left, right) in KINDS.items():
                found = shared_keys(left([0], mine), right([0], theirs), [pa.int64()])
                hits[name] += found.possible
            hits["Bloom, any bit (reference)"] += any_bit(
                build_bloom([0], mine), build_bloom([0], theirs)
            )
        points.append(Point(keys, {name: count / trials for name, count in hits.items()}))
    return points


def _reference_answer(folder: Path, keys: int, kind: str, trial: int) -> bool:
    """Let lancekit insert keys under a filter of a kind, and the reference others on top."""
    import lance
    import pyarrow as pa

    import lancekit as lk
    from lancekit._format import key_filter

    marker = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("k", pa.int64(), False, marker)])

    def rows(first: int, count: int) -> pa.Table:
        return pa.table({"k": np.arange(first, first + count)}, schema=schema)

    path = folder / f"{keys} {kind} {trial}"
    lk.write_dataset(rows(0, 1), path)
    stale = lance.dataset(path)
    first = 10**6 * (trial + 1)
    before = key_filter.MAX_BLOOM_KEYS
    key_filter.MAX_BLOOM_KEYS = keys if kind == "bloom" else 0
    try:
        merge = lk.dataset(path).merge_insert("k").when_not_matched_insert_all()
        merge.execute(rows(first, keys))
    finally:
        key_filter.MAX_BLOOM_KEYS = before
    late = stale.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    try:
        late.conflict_retries(0).execute(rows(first + 5 * 10**5, keys))
    except OSError:
        return True
    return False


def reference_answers(trials: int = 12) -> list[tuple[int, float, float]]:
    """Return how often the reference has to work again, over our Bloom filter and exact set."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for keys in (10, 30, 50, 100, 300):
            bloom, exact = (
                sum(_reference_answer(Path(folder), keys, kind, n) for n in range(trials)) / trials
                for kind in ("bloom", "exact")
            )
            found.append((keys, bloom, exact))
    return found


def costs() -> list[tuple[int, str, float, float, int]]:
    """Return microseconds of CPU to build a filter and to compare two, and its size in bytes."""
    import pyarrow as pa

    rng = np.random.default_rng(1)
    found = []
    for keys in (10, 50, 1000, 8192):
        mine, theirs = _disjoint(rng, keys)
        for name, (left, right) in KINDS.items():
            one, other = left([0], mine), right([0], theirs)
            build = _microseconds(partial(left, [0], mine))
            compare = _microseconds(partial(shared_keys, one, other, [pa.int64()]))
            size = 8 * len(one.hashes) if isinstance(one, ExactKeySet) else len(one.bitmap)
            found.append((keys, name, build, compare, size))
    return found


def _microseconds(run: Callable[[], Any]) -> float:
    taken = []
    for _ in range(7):
        started = time.process_time_ns()
        for _ in range(20):
            run()
        taken.append((time.process_time_ns() - started) / 20e3)
    return min(taken)


_COLOURS = {
    "Bloom, any bit (reference)": "#d1603d",
    "Bloom, block by block": "#3a7ca5",
    "exact in Bloom": "#4c9f70",
    "exact": "#8a8a8a",
}


def draw(points: list[Point], path: Path) -> None:
    """Draw the curves; the colours can be read on white and on black."""
    from matplotlib.figure import Figure

    grey = "#7d8590"
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.subplots()
    axes.patch.set_alpha(0)
    for name, colour in _COLOURS.items():
        shares = [point.false_conflicts[name] * 100 for point in points]
        axes.plot([p.keys for p in points], shares, color=colour, label=name, linewidth=2)
    axes.set_xscale("log")
    axes.set_xlabel("new keys of each of two merges", color=grey)
    axes.set_ylabel("false conflicts, %", color=grey)
    for boundary in (50, 8192):
        axes.axvline(boundary, color=grey, linewidth=0.8, linestyle=":")
    axes.set_xticks([10, 50, 145, 1000, 8192], ["10", "50", "145", "1,000", "8,192"])
    axes.minorticks_off()
    axes.tick_params(colors=grey)
    for spine in axes.spines.values():
        spine.set_color(grey)
    axes.legend(frameon=False, labelcolor=grey, loc="center left", bbox_to_anchor=(0.42, 0.55))
    figure.savefig(path, dpi=150, transparent=True)


def main() -> None:
    """Print the measurements, or draw the picture at the path that is given."""
    points = curve()
    if len(sys.argv) > 1:
        draw(points, Path(sys.argv[1]))
        return
    print(f"{'keys':>6}", *(f"{name:>28}" for name in points[0].false_conflicts))
    for point in points:
        shares = (f"{share:>28.3f}" for share in point.false_conflicts.values())
        print(f"{point.keys:>6}", *shares)
    print("\nthe reference works again, over our   Bloom filter   exact set")
    for keys, bloom, exact in reference_answers():
        print(f"{keys:>6} keys{'':>27}{bloom:>12.2f}{exact:>12.2f}")
    print("\n  keys kind                      build      compare        size")
    for keys, name, build, compare, size in costs():
        print(f"{keys:>6} {name:<22}{build:>9.0f} µs{compare:>10.0f} µs{size:>10,} B")


if __name__ == "__main__":
    main()
