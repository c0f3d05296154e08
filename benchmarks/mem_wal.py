"""``python -m benchmarks.mem_wal [seconds]``: small durable writes, beside pylance's writer.

Rows a second, and how long a put takes, at the median and at the 99th percentile.  pylance flushes
nothing to the disk, whatever it is told; its log is written every millisecond.  At last what users
without shards do: a merge-insert for each 100 rows.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lancekit as lk

__all__ = ["Rate", "main", "measure", "new_shard", "new_table", "rows"]

THREADS, BATCHES = (1, 8, 64), (1, 100, 10_000)
#: the issue's own bar has a size of its own
MORE = ((64, 10),)
MICRO_BATCH = 100

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        pa.field("name", pa.string()),
        pa.field("value", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Rate:
    """What was put by some threads in some seconds, a number of rows each time."""

    name: str
    rows: float
    median_ms: float
    last_ms: float

    def __str__(self) -> str:
        return (
            f"{self.name:<52} {self.rows:>11,.0f} rows/s "
            f"p50 {self.median_ms:>8.2f} ms  p99 {self.last_ms:>8.2f} ms"
        )


def rows(first: int, count: int) -> pa.Table:
    """Return rows of a sensor, say."""
    ids = np.arange(first, first + count)
    names = pa.array([f"sensor-{number % 97}" for number in ids])
    return pa.table([pa.array(ids), names, pa.array(ids / 7)], schema=SCHEMA)


def put_by(put: Callable[[Any], Any], name: str, threads: int, batch: int, seconds: float) -> Rate:
    """Put batches from threads until the time is over."""
    given = [rows(1_000_000 * thread, batch) for thread in range(threads)]
    taken: list[list[float]] = [[] for _ in range(threads)]
    put(given[0])
    start, until = threading.Barrier(threads + 1), [0.0]

    def work(thread: int) -> None:
        data, own = given[thread], taken[thread]
        start.wait()
        while (began := time.perf_counter()) < until[0]:
            put(data)
            own.append(time.perf_counter() - began)

    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    began = time.perf_counter()
    until[0] = began + seconds
    start.wait()
    for worker in workers:
        worker.join()
    passed = time.perf_counter() - began
    each = np.array([one for own in taken for one in own]) * 1000
    median, last = np.percentile(each, [50, 99])
    return Rate(name, len(each) * batch / passed, float(median), float(last))


def measure(place: Path, seconds: float) -> Iterator[Rate]:
    """Yield what each way of writing does."""
    cases = [(threads, batch) for batch in BATCHES for threads in THREADS]
    for threads, batch in [*cases, *MORE]:
        what = f"{threads} threads, {batch} rows a put" if threads > 1 else f"{batch} rows a put"
        for fsync in (True, False):
            with lk.options(fsync=fsync), new_table(place, lk).mem_wal_writer(new_shard()) as ours:
                name = f"lancekit, fsync {'on' if fsync else 'off'}: {what}"
                yield put_by(ours.put, name, threads, batch, seconds)
        with new_table(place, lance).mem_wal_writer(
            new_shard(), max_wal_flush_interval_ms=1
        ) as theirs:
            yield put_by(theirs.put, f"pylance: {what}", threads, batch, seconds)
    for module, name in ((lk, "lancekit"), (lance, "pylance")):
        at = place / new_shard()
        lance.write_dataset(rows(-1, 1), at)
        ds = module.dataset(at)

        def merge(given: pa.Table, ds: Any = ds) -> None:
            merge = ds.merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(given)

        yield put_by(
            merge, f"{name}: a merge-insert of {MICRO_BATCH} rows", 1, MICRO_BATCH, seconds
        )


def new_shard() -> str:
    """Return the id of a shard that no table has."""
    return str(uuid.uuid4())


def new_table(place: Path, module: Any) -> Any:
    """Return a handle of a new table of one row."""
    at = place / new_shard()
    lance.write_dataset(rows(-1, 1), at).initialize_mem_wal()
    return module.dataset(at)


def main() -> None:
    """Measure all cases, and print a line for each."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    with tempfile.TemporaryDirectory() as place:
        for line in measure(Path(place), seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
