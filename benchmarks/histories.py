"""``python -m benchmarks.histories [rows] [versions]``: what is asked of a history, and merges.

The merge of a branch stands beside what one would do without: an upsert of its changed rows by the
reference, which moves no deletions and overwrites what is newer on main.  The others have nothing
beside them, and stand for themselves.  Of merges the CPU time counts, too, on a machine that does
other work, and the bytes of data files that are not merely a second name.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
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
    """Seconds of a case, and of what is done without it; CPU seconds, bytes of new data files."""

    case: str
    seconds: float
    without: float | None = None
    cpu: float | None = None
    written: int | None = None


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


def _update(ds: lk.LanceDataset, column: str) -> None:
    ds.update({column: f"{column} + 1"}, where="id % 100 = 7")


def _double(ds: lk.LanceDataset) -> None:
    ds.add_columns({"twice": "amount * 2"})


def _append(ds: lk.LanceDataset) -> None:
    ds.insert(rows_of(np.arange(1_000_000_000, 1_000_001_000)), mode="append")


#: what the branch does, and main meanwhile
_BRANCHES: dict[str, tuple[Callable[[Any], object], Callable[[Any], object] | None]] = {
    "fast-forward to 1 % updated rows": (lambda ds: _update(ds, "amount"), None),
    "fast-forward to a new column": (_double, None),
    "merge 1 % cells by 1 % cells": (
        lambda ds: _update(ds, "amount"),
        lambda ds: _update(ds, "weight"),
    ),
    "merge a new column": (_double, _append),
}


def _data_files(ds: lk.LanceDataset) -> dict[int, int]:
    """Return the sizes of the data files of all branches; a second name is the same file."""
    found = [path.stat() for path in Path(ds.uri).rglob("data/*")]
    return {one.st_ino: one.st_size for one in found}


def _branch_merges(folder: Path, rows: int) -> Iterator[Measured]:
    """Merge changes of rows and columns into a main that moved, and into one that did not."""
    _table(folder / "branched", rows)
    for case, (theirs, ours) in _BRANCHES.items():
        at = folder / "branch"
        shutil.copytree(folder / "branched", at)
        ds = lk.dataset(at)
        theirs(ds.create_branch("work"))
        if ours is not None:
            ours(ds)
        before = _data_files(ds)
        lk.clear_cache()
        ds, started = lk.dataset(at), time.process_time()
        seconds = _timed(partial(ds.branches.merge, "work"))
        cpu = time.process_time() - started
        new = [size for file, size in _data_files(ds).items() if file not in before]
        yield Measured(case, seconds, cpu=cpu, written=sum(new))
        shutil.rmtree(at)


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
    yield from _branch_merges(folder, rows)
    yield from _questions(folder, versions)


def main(rows: int = 10_000_000, versions: int = 1000) -> None:
    """Print a line for each case."""
    print(f"{rows:,} rows, {_FRAGMENTS} fragments: lancekit, without")
    with tempfile.TemporaryDirectory(prefix="lancekit-histories-") as folder:
        for found in measure(rows, versions, Path(folder)):
            more = "" if found.without is None else f"{found.without * 1e3:10.0f} ms"
            if found.cpu is not None:
                more = f"{found.cpu * 1e3:10.0f} ms CPU {found.written:12,} bytes written"
            print(f"{found.case:42} {found.seconds * 1e3:10.0f} ms {more}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
