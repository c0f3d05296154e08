"""What a function makes of tasks, as a DataFrame: each is done where Spark's tasks run."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lancekit.format.extensions import text_batch, text_schema
from lancekit.spark.frames.types import spark_schema, to_spark_batch, wire_schema
from lancekit.spark.jobs.collect import map_batches, pack
from lancekit.spark.session.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["rows_frame"]

Task = TypeVar("Task")


def rows_frame(
    work: Callable[[Task], pa.Table], tasks: Sequence[Task], schema: pa.Schema
) -> DataFrame:
    """Return a DataFrame of the tables that ``work`` makes, each time an action runs.

    Raises
    ------
    UnsupportedTypeError
        A column that Spark has no type for.
    StorageError
        What is to be read is in this process's memory.
    """
    # What no session can read is refused before one is started, which takes seconds.
    wire = wire_schema(text_schema(schema))
    pickle.dumps(tasks[:1])
    session = spark_session()
    # Each task is pickled by itself, so that a worker unpacks no more than its own.
    packed = [pack(session, (work, task)) for task in tasks]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                function, task = pickle.loads(packed[number])  # noqa: S301  # made above
                for part in function(task).combine_chunks().to_batches():
                    yield to_spark_batch(text_batch(part), wire)

    numbers = session.range(0, len(packed), 1, max(len(packed), 1))
    return map_batches(numbers, read, spark_schema(wire))
