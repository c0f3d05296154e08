"""``python -m benchmarks.display``: what it costs to look at wide and at tall datasets.

The reference has no cards, so these are plain milliseconds, the median of several runs.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lancekit as lk
from lancekit._format.manifest import encode_manifest_file

COLUMNS = 1_000
VERSIONS = 10_000
#: so many of the newest are read
SHOWN = 60


def milliseconds(look: Callable[[], Any], runs: int = 9) -> float:
    """Return the median time of ``look``."""
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        look()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1e3


def tall(folder: Path) -> lk.LanceDataset:
    """Return a dataset of many versions, which hold the same."""
    return as_version(VERSIONS, lk.write_dataset({"x": [1]}, folder), folder)


def as_version(last: int, ds: lk.LanceDataset, folder: Path) -> lk.LanceDataset:
    """Return the dataset of one version as its last of many; of old ones there are names alone."""
    versions, manifest = folder / "_versions", ds._snapshot.manifest
    (first,) = versions.glob("*.manifest")
    for number in range(2, last + 1):
        place = versions / f"{2**64 - 1 - number:020}.manifest"
        if number <= last - SHOWN:
            os.link(first, place)
        else:
            place.write_bytes(encode_manifest_file(replace(manifest, version=number)))
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


def print_all(measurements: Callable[[Path], Iterator[tuple[str, float]]]) -> None:
    """Print all measurements, which are made in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        for name, taken in measurements(Path(folder)):
            print(f"{name:<44} {taken:>9.2f} ms")


if __name__ == "__main__":
    print_all(measurements)
