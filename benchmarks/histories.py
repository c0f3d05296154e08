"""``python -m benchmarks.histories [rows] [versions]``: what is asked of a history, and merges.

The merge of a branch stands beside what one would do without: an upsert of its changed rows by the
reference, which moves no deletions and overwrites what is newer on main.  The others have nothing
beside them, and stand for themselves.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lancekit as lk
from benchmarks.diffs import rows_of

__all__ = ["Measured", "main", "measure"]

_FRAGMENTS = 10


@dataclass(frozen=True)
class Measured:
    """Seconds of a case, and of what is done without it."""

    case: str
    seconds: float
    without: float | None = None


def _timed(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _table(at: Path, rows: int) -> lk.LanceDataset:
    size = rows // _FRAGMENTS
    ds = lk.write_dataset(
        rows_of(np.arange(size)), at, primary_key="id", enable_stable_row_ids=True
    )
    for start in range(size, rows, size):
        ds.insert(rows_of(np.arange(start, start + size)), mode="append")
    return ds


def _upsert(ds: Any, changed: pa.Table) -> None:
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(changed)


def _merged(folder: Path, rows: int) -> Measured:
    """Merge a hundredth of the rows, changed on a branch, into a main that moved."""
    import lance

    ds = _table(folder / "merged", rows)
    branch = ds.create_branch("work")
    chosen = np.random.default_rng(1).choice(rows, rows // 100, replace=False)
    changed = rows_of(np.sort(chosen), 1)
    _upsert(branch, changed)
    ds.insert(rows_of(np.arange(rows, rows + 1000)), mode="append")
    shutil.copytree(folder / "merged", folder / "upserted")
    theirs = lance.dataset(str(folder / "upserted"))
    lk.clear_cache()
    ours = _timed(lambda: ds.branches.merge("work"))
    return Measured("merge 1 % changed rows", ours, _timed(lambda: _upsert(theirs, changed)))


def _forwarded(folder: Path, rows: int) -> Measured:
    ds = lk.write_dataset(
        rows_of(np.arange(10)), folder / "forwarded", primary_key="id", enable_stable_row_ids=True
    )
    branch = ds.create_branch("load")
    size = rows // _FRAGMENTS
    for start in range(10, 10 + rows, size):
        branch.insert(rows_of(np.arange(start, start + size)), mode="append")
    return Measured("fast-forward to all rows", _timed(lambda: ds.branches.merge("load")))


def _questions(folder: Path, versions: int) -> Iterator[Measured]:
    ds = lk.write_dataset(
        {"id": np.arange(1000), "v": np.zeros(1000)},
        folder / "asked",
        primary_key="id",
        enable_stable_row_ids=True,
    )
    for number in range(1, versions):
        ids = [number % 997, 1000 + number]
        _upsert(ds, pa.table({"id": ids, "v": [float(number), 0.0]}))
    questions: dict[str, Callable[[], Any]] = {
        "row_history of an old row": lambda: list(ds.row_history({"id": 7})),
        "row_history of a new row": lambda: list(ds.row_history({"id": 1000 + versions // 2})),
        "bisect": lambda: ds.bisect(f"v < {versions // 2}"),
        "blame of all rows": ds.blame,
    }
    for name, ask in questions.items():
        lk.clear_cache()
        yield Measured(f"{name}, {versions:,} versions", _timed(ask))


def measure(rows: int, versions: int, folder: Path) -> Iterator[Measured]:
    """Measure each case once, on tables of their own."""
    yield _merged(folder, rows)
    yield _forwarded(folder, rows)
    yield from _questions(folder, versions)


def main(rows: int = 10_000_000, versions: int = 1000) -> None:
    """Print a line for each case."""
    print(f"{rows:,} rows, {_FRAGMENTS} fragments: lancekit, without")
    with tempfile.TemporaryDirectory(prefix="lancekit-histories-") as folder:
        for found in measure(rows, versions, Path(folder)):
            without = "" if found.without is None else f"{found.without * 1e3:10.0f} ms"
            print(f"{found.case:42} {found.seconds * 1e3:10.0f} ms {without}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
