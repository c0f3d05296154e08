"""``python -m benchmarks.display``: what it costs to look at wide and at tall datasets.

The reference has no cards, so these are plain milliseconds, the median of several runs.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lancekit as lk

COLUMNS = 1_000
VERSIONS = 10_000


def milliseconds(look: Callable[[], Any], runs: int = 9) -> float:
    """Return the median time of ``look``."""
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        look()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1e3


def tall(folder: Path) -> lk.LanceDataset:
    """Return a dataset of many versions, made of one manifest under many names."""
    lk.write_dataset({"x": [1]}, folder)
    versions = folder / "_versions"
    (first,) = versions.glob("*.manifest")
    for number in range(2, VERSIONS + 1):
        os.link(first, versions / f"{2**64 - 1 - number:020}.manifest")
    return lk.dataset(folder)


def measurements(folder: Path) -> Iterator[tuple[str, float]]:
    """Yield each measurement's name and its milliseconds."""
    lk.write_dataset({f"column {i}": [i] for i in range(COLUMNS)}, folder / "wide.lance")
    first = milliseconds(lambda: repr(lk.dataset(folder / "wide.lance")))
    yield f"open and show {COLUMNS:,} columns, text", first
    wide = lk.dataset(folder / "wide.lance")
    yield f"show {COLUMNS:,} columns, text", milliseconds(lambda: repr(wide))
    yield f"show {COLUMNS:,} columns, HTML", milliseconds(wide._repr_html_)
    ds = tall(folder / "tall.lance")
    yield f"list {VERSIONS:,} versions", milliseconds(ds.versions)
    yield f"list {VERSIONS:,} versions and show a page", milliseconds(lambda: repr(ds.versions()))
    yield f"show a dataset of {VERSIONS:,} versions", milliseconds(ds._repr_html_)
    yield "draw the newest 50 versions", milliseconds(lambda: lk.plot_history(ds).png(), 3)


def main() -> None:
    """Print all measurements."""
    with tempfile.TemporaryDirectory() as folder:
        for name, taken in measurements(Path(folder)):
            print(f"{name:<44} {taken:>9.2f} ms")


if __name__ == "__main__":
    main()
