"""What a function makes of tasks, as a DataFrame: each is done where Spark's tasks run."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.extensions import text_batch, text_schema
from lancekit._spark.frames.types import (
    arrow_schema,
    restore,
    spark_schema,
    to_spark_batch,
    wire_schema,
)
from lancekit._spark.jobs.collect import map_batches, pack, run_action
from lancekit._spark.session.preflight import check_workers
from lancekit._spark.session.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["collected", "rows_frame"]

Task = TypeVar("Task")


def collected(frame: DataFrame, *, what: str) -> pa.Table:
    """Return the rows of a DataFrame, which all come to this process; ``what`` they are to a bar.

    Raises
    ------
    UnsupportedTypeError, SchemaMismatchError
        As `arrow_schema` has them.
    LancekitError
        Spark cannot compute them.
    """
    schema = arrow_schema(frame.schema)
    rows = run_action(frame.sparkSession, frame.toArrow, what=what)
    return pa.Table.from_batches(restore(rows.to_batches(), schema), schema)


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
    check_workers(session)
    # Each task is pickled by itself, so that a worker unpacks no more than its own.
    function, packed = pack(session, work), [pack(session, task) for task in tasks]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # what is unpacked here was made above
        mapped = pickle.loads(function)  # noqa: S301
        for batch in batches:
            for number in batch.column(0).to_pylist():
                task = pickle.loads(packed[number])  # noqa: S301
                for part in ak.combine_chunks(mapped(task)).to_batches():
                    yield to_spark_batch(text_batch(part), wire)

    numbers = session.range(0, len(packed), 1, max(len(packed), 1))
    return map_batches(numbers, read, spark_schema(wire))
