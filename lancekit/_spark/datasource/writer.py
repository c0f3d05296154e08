"""``df.write.format("lance").mode("append" | "overwrite").save(uri)``: one commit per job.

Tasks write files that nothing refers to; the commit, in a process of Spark's own, lists those of
the attempts that Spark counts.  What other attempts left is found by cleanup.

The processes of the tasks load this module first, so it imports only what they need.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lancekit._defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from lancekit._format.fragment import Fragment
from lancekit._format.storage_version import check_storage_version
from lancekit._operations.write import WriteMode, WritePlan, WriteSettings, commit_rows, plan_write
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import CastPlan
from lancekit._pipeline.join_files import join_small_files
from lancekit._pipeline.rows.write import (
    WriteTask,
    delete_fragments,
    new_job,
    remove_job_files,
    write_fragments,
)
from lancekit._spark.datasource.options import SourceOptions
from lancekit._spark.frames.types import arrow_schema, restore
from lancekit._spark.jobs.failures import briefly
from lancekit._spark.jobs.versions import Sent
from lancekit._spark.jobs.worker import enter_worker, of_partition
from lancekit._versions.line import Line
from lancekit._versions.snapshot import load_snapshot
from lancekit.errors import LancekitError
from lancekit.options import Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["LanceWriter", "plan_writer"]


@dataclass
class _Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark is untyped here
    """What one task wrote; or why it could not, which no further attempt would change."""

    fragments: tuple[Fragment, ...] = ()
    failure: LancekitError | None = None


@dataclass(frozen=True, kw_only=True)
class LanceWriter(Sent, DataSourceArrowWriter):  # type: ignore[misc]  # pyspark is untyped here
    """Writes the partitions of a DataFrame, and commits what they wrote.

    `landing` is a pickled `_Landing`.  Tasks do not unpack it:
    that would load all that a commit needs into each of their processes.
    """

    schema: pa.Schema
    casts: CastPlan
    task: WriteTask
    options: Options
    landing: bytes = field(repr=False)
    job: str = field(default_factory=new_job)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a partition to files."""
        enter_worker(self.options, self.job)
        try:
            rows = cast_all(self.casts, restore(iterator, self.schema))
            return _Written(tuple(write_fragments(rows, of_partition(self.task))))
        except LancekitError as failure:
            return _Written(failure=failure)

    @briefly
    def commit(self, messages: Sequence[Any]) -> None:
        """Commit the files of all partitions as one version.

        Raises
        ------
        LancekitError
            What a task, or the commit, failed with; the files are removed.
        """
        enter_worker(self.options)
        fragments = [fragment for m in messages if m is not None for fragment in m.fragments]
        failures = [m.failure for m in messages if m is not None and m.failure is not None]
        if failures:
            delete_fragments(self.task.store, fragments, self.task.places)
            raise failures[0]
        pickle.loads(self.landing).commit(self.casts, self.task, fragments)  # noqa: S301  # ours

    def abort(self, messages: Sequence[object]) -> None:
        """Remove the files of a job that failed.

        Spark calls this also when `commit` failed, which has removed them unless it cannot be told
        whether they landed: then, all partitions being there, they stay.
        """
        enter_worker(self.options)
        if any(message is None for message in messages):
            remove_job_files(self.job, self.task.targets)


# ---- the two ends of a write by ``format("lance")``: its plan before the tasks, its commit after


@dataclass(frozen=True, kw_only=True)
class _Landing:
    """Where the rows of a job are committed, and how.

    `read_version` is the version that the rows are cast for, ``None`` if there is no dataset yet.
    """

    line: Line
    read_version: int | None
    settings: WriteSettings

    def commit(self, casts: CastPlan, task: WriteTask, fragments: Sequence[Fragment]) -> None:
        """Commit what the tasks wrote; small files are joined before."""
        read = None if self.read_version is None else load_snapshot(self.line, self.read_version)
        plan = WritePlan(
            line=self.line, current=read, casts=casts, task=task, settings=self.settings
        )
        commit_rows(plan, join_small_files(task, fragments))


def plan_writer(asked: SourceOptions, schema: StructType, mode: WriteMode) -> LanceWriter:
    """Plan a write; whatever cannot be done is refused before a task starts.

    Raises
    ------
    UnsupportedTypeError
        A column of a type that Arrow, or a dataset, has no equal for.
    SchemaMismatchError
        The rows do not fit the dataset they are appended to.
    InvalidArgumentError
        An option that is not one of a write, or has a value that cannot be used.
    """
    asked.check_use("write")
    rows = arrow_schema(schema)
    settings = WriteSettings(
        mode=mode,
        max_rows_per_file=asked.max_rows_per_file or MAX_ROWS_PER_FILE,
        max_bytes_per_file=asked.max_bytes_per_file or MAX_BYTES_PER_FILE,
        storage_version=check_storage_version("data_storage_version", asked.data_storage_version),
        stable_row_ids=asked.enable_stable_row_ids,
        message=asked.commit_message,
    )
    with asked.on_this():
        line = asked.line()
        plan = plan_write(rows, asked.snapshot() if line.branch else line, settings)
    landing = _Landing(
        line=plan.line,
        read_version=None if plan.current is None else plan.current.version,
        settings=settings,
    )
    return LanceWriter(
        schema=rows,
        casts=plan.casts,
        task=plan.task,
        options=asked.in_force(),
        landing=pickle.dumps(landing),
    )
