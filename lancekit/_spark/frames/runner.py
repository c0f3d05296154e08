"""The runner on Spark: tasks in groups, whose results are collected or become a DataFrame."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lancekit._format.extensions import text_batch, text_schema
from lancekit._legible import plural
from lancekit._pipeline.engine import EngineName
from lancekit._pipeline.write_rows import WriteTarget
from lancekit._scan.fragments.rebatch import combined
from lancekit._spark.frames.types import (
    READ_IT,
    arrow_schema,
    restore,
    spark_schema,
    to_spark_batch,
    wire_schema,
)
from lancekit._spark.jobs.client import client_of
from lancekit._spark.jobs.collect import LEFT, collect, map_batches, pack, run_action
from lancekit._spark.session.preflight import check_workers
from lancekit._spark.session.session import spark_session
from lancekit._storage.base import Store
from lancekit.progress import what_is

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Task = TypeVar("Task")
Result = TypeVar("Result")

#: enough that a slow task does not delay the job, and few enough to be worth their start
TASKS_PER_CORE = 4


class SparkRunner:
    """A runner of work on the active session, or on a new session.

    Results that are too large for Spark pass through files in ``store``.
    """

    name: EngineName = "spark"

    def __init__(self, store: Store | None = None) -> None:
        self._place = None if store is None else WriteTarget(store)

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Return the results in the order of the tasks; raise the first failure.

        Raises LancekitError: an error of lancekit in a worker, with its context.
        Raises EngineError: another failure, with the last line of the worker's traceback.

        Examples
        --------
        >>> SparkRunner().map(len, ["a", "bc"])  # doctest: +SKIP
        [1, 2]
        """
        if not tasks:
            return []
        session = spark_session()
        check_workers(session)
        groups = min(len(tasks), TASKS_PER_CORE * client_of(session).parallelism())
        cuts = [len(tasks) * n // groups for n in range(groups + 1)]
        # Each group is pickled separately, so that a worker unpickles only its own.
        function = pack(session, work)
        packed = [pack(session, tasks[start:stop]) for start, stop in pairwise(cuts)]

        def run(batches: Iterator[pa.RecordBatch]) -> list[Result]:
            # these bytes were pickled above
            numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
            mapped = pickle.loads(function)  # noqa: S301
            groups = (pickle.loads(packed[number]) for number in numbers)  # noqa: S301
            return [mapped(task) for group in groups for task in group]

        frame, number = session.range(0, groups, 1, groups), plural(len(tasks), "task")
        answers = collect(
            frame,
            run,
            answers=self._place,
            tasks=groups,
            what=what_is(work),
            detail=number,
            left=LEFT,
        )
        return [result for group in answers for result in group]


# ---- the tables that a function makes from tasks, as a DataFrame that Spark's tasks compute


def collected(frame: DataFrame, *, what: str) -> pa.Table:
    """Collect the rows of a DataFrame in this process; ``what`` is the label of the progress bar.

    Raises UnsupportedTypeError, SchemaMismatchError: see `arrow_schema`.
    Raises LancekitError: Spark cannot compute the rows.
    """
    schema = arrow_schema(frame.schema)
    rows = run_action(frame.sparkSession, frame.toArrow, what=what)
    return pa.Table.from_batches(restore(rows.to_batches(), schema), schema)


def rows_frame(
    work: Callable[[Task], pa.Table], tasks: Sequence[Task], schema: pa.Schema
) -> DataFrame:
    """Return a DataFrame of the tables that ``work`` returns, computed again by each action.

    Raises UnsupportedTypeError: Spark has no type for a column.
    Raises StorageError: the data is in this process's memory.
    """
    # Refuse unreadable data before a session is started, which takes seconds.
    wire = wire_schema(text_schema(schema))
    pickle.dumps(tasks[:1])
    session = spark_session()
    check_workers(session)
    # Each task is pickled separately, so that a worker unpickles only its own.
    function, packed = pack(session, work), [pack(session, task) for task in tasks]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # these bytes were pickled above
        mapped = pickle.loads(function)  # noqa: S301
        for batch in batches:
            for number in batch.column(0).to_pylist():
                task = pickle.loads(packed[number])  # noqa: S301
                for part in combined(mapped(task)).to_batches():
                    yield to_spark_batch(text_batch(part), wire, READ_IT)

    numbers = session.range(0, len(packed), 1, max(len(packed), 1))
    return map_batches(numbers, read, spark_schema(wire))
