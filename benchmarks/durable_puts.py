"""``python -m benchmarks.durable_puts [rounds]``: one row a put, beside a floor of the disk.

The floor is a loop that creates a file with the same bytes, flushes it, links it to its name and
flushes the folder.  SQLite inserts with WAL and ``synchronous=FULL``.  pylance flushes nothing to
the disk.  All take turns, so that the ratios hold beside other work on the machine.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import lance

import lancekit as lk
from benchmarks.mem_wal import new_shard, new_table, rows

__all__ = ["FLOOR", "Put", "measure"]

Put = Callable[[], object]

FLOOR = "a file, its name and its folder"


@contextmanager
def _floor(place: Path, data: bytes) -> Iterator[Put]:
    place.mkdir()
    folder, numbers = os.open(place, os.O_RDONLY), count()

    def put() -> None:
        name = str(next(numbers))
        file = os.open("aside", os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=folder)
        os.write(file, data)
        os.fsync(file)
        os.close(file)
        os.link("aside", name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
        os.unlink("aside", dir_fd=folder)

    yield put
    os.close(folder)


@contextmanager
def _sqlite(place: Path) -> Iterator[Put]:
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, value REAL)")
        numbers = count()
        yield lambda: connection.execute(
            "INSERT INTO t VALUES (?, 'sensor-1', 1.5)", (next(numbers),)
        )


@contextmanager
def _shard(place: Path, module: Any, **settings: Any) -> Iterator[Put]:
    row, table = rows(1_000_000, 1), new_table(place, module)
    with table.mem_wal_writer(new_shard(), **settings) as writer:
        yield lambda: writer.put(row)


def measure(place: Path, rounds: int, turn: int) -> dict[str, list[float]]:
    """Return for each way of writing the seconds of a put, and its rate by that of the floor.

    In each round each way makes `turn` puts.
    """
    with ExitStack() as stack:
        table = place / "ours"
        table.mkdir()
        ours = stack.enter_context(_shard(table, lk))
        ours()
        (entry,) = table.rglob("*.arrow")
        ways = {
            FLOOR: stack.enter_context(_floor(place / "floor", entry.read_bytes())),
            "lancekit": ours,
            "SQLite": stack.enter_context(_sqlite(place / "sqlite")),
            "pylance": stack.enter_context(_shard(place, lance, max_wal_flush_interval_ms=1)),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, put in ways.items():
                began = time.perf_counter()
                for _ in range(turn):
                    put()
                taken[name].append((time.perf_counter() - began) / turn)
    return {
        name: [
            statistics.median(of),
            statistics.median(a / b for a, b in zip(taken[FLOOR], of, strict=True)),
        ]
        for name, of in taken.items()
    }


def main() -> None:
    """Print a line for each way."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as place:
        for name, (seconds, ratio) in measure(Path(place), rounds, 100).items():
            print(f"{name:<34} {1 / seconds:>8,.0f} puts/s  {ratio:>6.2f} of the floor's rate")


if __name__ == "__main__":
    main()
