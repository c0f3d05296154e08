"""The runner on Spark: tasks in groups, whose results come back or become a DataFrame."""

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

#: enough that a slow one does not hold up the rest, and few enough to be worth starting
TASKS_PER_CORE = 4


class SparkRunner:
    """Runs work on the active session, or on one that is started for it.

    Results that are too large for Spark go through files in ``store``.
    """

    name: EngineName = "spark"

    def __init__(self, store: Store | None = None) -> None:
        self._place = None if store is None else WriteTarget(store)

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Return the results in the order of the tasks; the first failure is raised.

        Raises LancekitError: what a worker raised, with its facts.
        Raises EngineError: anything else that failed, with the last line of the worker's traceback.

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
        # Each group is pickled by itself, so that a worker unpacks no more than its own.
        function = pack(session, work)
        packed = [pack(session, tasks[start:stop]) for start, stop in pairwise(cuts)]

        def run(batches: Iterator[pa.RecordBatch]) -> list[Result]:
            # what is unpacked here was made above
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


# ---- what a function makes of tasks, as a DataFrame: each is done where Spark's tasks run


def collected(frame: DataFrame, *, what: str) -> pa.Table:
    """Return the rows of a DataFrame, which all come to this process; ``what`` they are to a bar.

    Raises UnsupportedTypeError, SchemaMismatchError: as `arrow_schema` has them.
    Raises LancekitError: Spark cannot compute them.
    """
    schema = arrow_schema(frame.schema)
    rows = run_action(frame.sparkSession, frame.toArrow, what=what)
    return pa.Table.from_batches(restore(rows.to_batches(), schema), schema)


def rows_frame(
    work: Callable[[Task], pa.Table], tasks: Sequence[Task], schema: pa.Schema
) -> DataFrame:
    """Return a DataFrame of the tables that ``work`` makes, each time an action runs.

    Raises UnsupportedTypeError: a column that Spark has no type for.
    Raises StorageError: what is to be read is in this process's memory.
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
                for part in combined(mapped(task)).to_batches():
                    yield to_spark_batch(text_batch(part), wire)

    numbers = session.range(0, len(packed), 1, max(len(packed), 1))
    return map_batches(numbers, read, spark_schema(wire))
