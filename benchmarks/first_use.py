"""``python -m benchmarks.first_use [rounds]``: the first write and stream of a Spark session.

Spark starts a Python process for each step of a source in Python.  The reference is a source of
one column that does no work, in a session of the same kind; each run has a process of its own.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

import lancekit as lk

ROUNDS = 5

#: what is done -> how often the reference's time it may take
GOALS = {"write": 1.15, "stream": 1.2}


class Minimal(DataSource):  # type: ignore[misc]  # pyspark is untyped here
    """The reference."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "minimal"

    def schema(self) -> str:
        """Return the one column."""
        return "id bigint"

    def writer(self, *_: object) -> MinimalWriter:
        """Return what drops rows."""
        return MinimalWriter()

    def streamReader(self, schema: Any) -> MinimalStream:  # noqa: ARG002, N802
        """Return what makes 100 rows."""
        return MinimalStream()


class MinimalWriter(DataSourceArrowWriter):  # type: ignore[misc]  # as above
    """Drops all rows."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Drop the rows of a partition."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


class MinimalStream(DataSourceStreamReader):  # type: ignore[misc]  # as above
    """A stream of one batch."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the start."""
        return {"rows": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the end."""
        return {"rows": 100}

    def partitions(self, *_: object) -> Sequence[InputPartition]:
        """Return one partition."""
        return [InputPartition(0)]

    def read(self, _: object) -> Iterator[pa.RecordBatch]:
        """Return the rows."""
        yield pa.record_batch({"id": pa.array(range(100), pa.int64())})


def _write(spark: Any, form: str, at: str) -> None:
    spark.range(0, 1000, 1, 2).write.format(form).mode("append").save(f"{at}/table")


def _stream(spark: Any, form: str, at: str) -> None:
    rows = spark.readStream.format(form).load(f"{at}/table")
    written = rows.writeStream.format("noop").option("checkpointLocation", f"{at}/checkpoint")
    written.trigger(availableNow=True).start().awaitTermination()


_DONE: dict[str, Callable[[Any, str, str], None]] = {"write": _write, "stream": _stream}


def _child(what: str, form: str) -> None:
    """Print the seconds of a first use in a session that has run a query without Python."""
    with tempfile.TemporaryDirectory() as at:
        lk.write_dataset(pa.table({"id": pa.array(range(100), pa.int64())}), f"{at}/table")
        spark = lk.spark_session(master="local[2]", memory="1g")
        spark.dataSource.register(Minimal)
        spark.range(10).count()
        started = time.perf_counter()
        _DONE[what](spark, form, at)
        print(time.perf_counter() - started)
        lk.stop_spark()


def _seconds(what: str, form: str) -> float:
    command = [sys.executable, "-m", "benchmarks.first_use", what, form]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main(rounds: int) -> None:
    """Print a line for each use: median seconds of both, the median ratio of pairs, the goal."""
    for what, goal in GOALS.items():
        taken: dict[str, list[float]] = {"lance": [], "minimal": []}
        for _, form in itertools.product(range(rounds), taken):
            taken[form].append(_seconds(what, form))
        ratio = statistics.median(a / b for a, b in zip(*taken.values(), strict=True))
        ours, theirs = map(statistics.median, taken.values())
        print(f"first {what}: {ours:.2f} s, minimal {theirs:.2f} s: {ratio:.2f} x (goal {goal:g})")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        _child(*sys.argv[1:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
