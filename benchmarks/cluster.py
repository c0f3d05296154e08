"""What operations on a cluster cost the driver: ``python -m benchmarks.cluster [rows]``.

A standalone master and two workers of 2 GB run on this machine.  A table is written, half of its
rows are merged, and it is compacted and indexed.  Every figure is checked against the bounds, and
all rows are read again in the end.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lancekit as lk
from benchmarks.markdown import table
from lancekit._spark.jobs import collect
from lancekit._spark.session.java import find_java
from tests.support.cluster import standalone

__all__ = ["Cost", "measure"]

ROWS = 50_000_000
#: rows of one of Spark's partitions
PARTITION_ROWS = 500_000
#: bounds: the driver's Python; bytes through the driver for each fragment and each updated row
MEMORY, FRAGMENT_BYTES, ROW_BYTES = 3 << 30, 1_000, 24
#: columns of a row: two whole numbers and a text
COLUMNS = ("id", "{value} AS v", "concat('name ', cast(id AS string)) AS name")

Spark = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one operation took.

    Attributes
    ----------
    seconds
        Wall time.
    fragments, updated
        Fragments of the table before and after, and rows that were updated.
    jobs, tasks
        Of Spark.
    sent
        Bytes of functions and their data, which each executor gets.
    answered
        Bytes of the tasks' answers.
    counted
        The same with what Spark counts for each task: some 3 KB.
    written
        Bytes that the driver's Python wrote to files.
    memory
        The most that the driver's Python held, in bytes.
    """

    name: str
    seconds: float
    fragments: int
    updated: int
    jobs: int
    tasks: int
    sent: int
    answered: int
    counted: int
    written: int
    memory: int

    @property
    def bound(self) -> int:
        """The most bytes that may go through the driver."""
        return self.fragments * FRAGMENT_BYTES + self.updated * ROW_BYTES

    @property
    def through(self) -> int:
        """The bytes that go through the driver."""
        return self.sent + self.answered + self.written


class Meter:
    """Measures operations in a classic session, whose pages tell of its jobs."""

    def __init__(self, spark: Spark) -> None:
        context = spark.sparkContext
        self._pages = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
        self._sent = self._answered = 0
        pack, run_action = collect.pack, collect.run_action

        def counted(session: Any, value: object) -> bytes:
            packed = pack(session, value)
            if isinstance(value, tuple):  # a job's function and options: all else is within it
                self._sent += len(packed)
            return packed

        def answered(*arguments: Any, **words: Any) -> Any:
            found = run_action(*arguments, **words)
            self._answered += getattr(found, "nbytes", 0)
            return found

        collect.pack, collect.run_action = counted, answered

    def cost(self, name: str, ds: lk.LanceDataset | None, work: Callable[[], Any]) -> Cost:
        """Do the work, and return what it took."""
        before = self._ids("jobs", "jobId"), self._ids("stages", "stageId")
        fragments = 0 if ds is None else len(ds.get_fragments())
        self._sent, self._answered, written = 0, 0, _written()
        Path("/proc/self/clear_refs").write_text("5")  # the peak is that of now
        started = time.perf_counter()
        done = work()
        seconds = time.perf_counter() - started
        time.sleep(2)  # the pages come later
        stages = [s for s in self._asked("stages") if s["stageId"] not in before[1]]
        jobs = self._ids("jobs", "jobId") - before[0]
        after = done if isinstance(done, lk.LanceDataset) else ds
        return Cost(
            name=name,
            seconds=seconds,
            fragments=max(fragments, len(after.get_fragments())),
            updated=getattr(done, "num_updated_rows", 0),
            jobs=len(jobs),
            tasks=sum(stage["numCompleteTasks"] for stage in stages),
            sent=self._sent,
            answered=self._answered,
            counted=sum(stage["resultSize"] for stage in stages),
            written=_written() - written,
            memory=_number("status", r"VmHWM:\s+(\d+)") << 10,
        )

    def executors(self) -> dict[str, int]:
        """Return the most bytes that an executor's Java and its Python processes held."""
        peaks = [found.get("peakMemoryMetrics", {}) for found in self._asked("allexecutors")]
        return {
            kind: max(peak.get(f"ProcessTree{kind}RSSMemory", 0) for peak in peaks)
            for kind in ("JVM", "Python")
        }

    def _ids(self, page: str, name: str) -> set[int]:
        return {entry[name] for entry in self._asked(page)}

    def _asked(self, page: str) -> Any:
        with urllib.request.urlopen(f"{self._pages}/{page}") as answer:
            return json.load(answer)


def _number(file: str, pattern: str) -> int:
    found = re.search(pattern, Path("/proc/self", file).read_text())
    assert found
    return int(found[1])


def _written() -> int:
    return _number("io", r"wchar: (\d+)")


def measure(spark: Spark, uri: str, rows: int) -> Iterator[Cost]:
    """Yield the cost of each operation, and check all rows in the end."""
    meter, half = Meter(spark), rows // 2

    def frame(start: int, stop: int, step: int, value: str) -> Any:
        parts = max(2, (stop - start) // step // PARTITION_ROWS)
        columns = (column.format(value=value) for column in COLUMNS)
        return spark.range(start, stop, step, parts).selectExpr(*columns)

    yield meter.cost("write", None, lambda: lk.write_dataset(frame(0, rows, 1, "id"), uri))
    ds = lk.dataset(uri)
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    source = frame(0, rows + rows // 50, 2, "-id")
    yield meter.cost("merge", ds, lambda: merge.execute(source))
    with lk.options(engine="spark"):
        yield meter.cost("compact", ds, lambda: ds.optimize.compact_files() and None)
        yield meter.cost("index", ds, lambda: ds.create_scalar_index("id", "BTREE") and None)
    ds, new = lk.dataset(uri), rows // 100
    found = ds.to_spark(columns=["id", "v"]).selectExpr("count(*)", "sum(id)", "sum(v)").collect()
    evens = half * (half - 1)  # their sum
    last = sum(range(rows, rows + rows // 50, 2))
    total = rows * (rows - 1) // 2
    assert tuple(found[0]) == (rows + new, total + last, total - 2 * evens - last), found
    assert ds.to_table(filter=f"id = {half + half % 2}")["v"].to_pylist() == [-half - half % 2]
    print(f"executors at most: {meter.executors()}", file=sys.stderr)


@contextmanager
def _session(folder: Path) -> Iterator[Spark]:
    """Start a cluster, and the session that a user would start there."""
    from pyspark.sql import SparkSession

    warnings.simplefilter("ignore")  # of PySpark's own
    java = {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ.update(java, PYSPARK_PYTHON=sys.executable)
    with standalone(folder, "2g") as master:
        builder = SparkSession.builder.master(master)
        # no setting of lancekit's: Spark notes the memory of Python processes, too
        builder = builder.config("spark.executor.processTreeMetrics.enabled", "true")
        spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        try:
            yield spark
        finally:
            spark.stop()


def main(rows: int) -> None:
    """Print a table of what each operation took."""
    lines, beyond = [], []
    with tempfile.TemporaryDirectory() as folder, _session(Path(folder)) as spark:
        lk.options.shared_folders = [folder]
        lk.options.progress = False
        for cost in measure(spark, f"{folder}/table.lance", rows):
            print(cost, file=sys.stderr, flush=True)
            lines.append(_line(cost))
            if cost.through > cost.bound or cost.memory > MEMORY:
                beyond.append(cost.name)
    print(table(_HEAD, lines))
    if beyond:
        sys.exit(f"beyond the bounds: {', '.join(beyond)}")


_HEAD = (
    "",
    "seconds",
    "fragments",
    "updated rows",
    "jobs",
    "tasks",
    "to tasks",
    "answers",
    "with Spark's counters",
    "written by the driver",
    "bound",
    "driver's Python",
)


def _line(cost: Cost) -> list[str]:
    numbers = cost.fragments, cost.updated, cost.jobs, cost.tasks
    sizes = cost.sent, cost.answered, cost.counted, cost.written, cost.bound
    return [
        cost.name,
        f"{cost.seconds:,.0f}",
        *(f"{number:,}" for number in numbers),
        *(f"{size / 1e6:,.2f} MB" for size in sizes),
        f"{cost.memory / 1e6:,.0f} MB",
    ]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
