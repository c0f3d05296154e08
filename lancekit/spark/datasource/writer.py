"""``df.write.format("lance").mode("append" | "overwrite").save(uri)``: one commit per job.

Tasks write files that nothing refers to; the commit, in a process of Spark's own, lists those of
the attempts that Spark counts.  What other attempts left is found by cleanup.

The processes of the tasks load this module first, so it imports only what they need.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lancekit.errors import LancekitError
from lancekit.format.fragment import Fragment
from lancekit.options import Options
from lancekit.pipeline.casts.batches import cast_all
from lancekit.pipeline.casts.plan import CastPlan
from lancekit.pipeline.rows.new_files import new_job, remove_job_files
from lancekit.pipeline.rows.write import WriteTask, delete_fragments, write_fragments
from lancekit.spark.frames.types import restore
from lancekit.spark.jobs.failures import briefly
from lancekit.spark.jobs.versions import Sent
from lancekit.spark.jobs.worker import enter_worker, of_partition

__all__ = ["LanceWriter"]


@dataclass
class _Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark is untyped here
    """What one task wrote; or why it could not, which no further attempt would change."""

    fragments: tuple[Fragment, ...] = ()
    failure: LancekitError | None = None


@dataclass(frozen=True, kw_only=True)
class LanceWriter(Sent, DataSourceArrowWriter):  # type: ignore[misc]  # pyspark is untyped here
    """Writes the partitions of a DataFrame, and commits what they wrote.

    `landing` is a pickled `lancekit.spark.datasource.landing.Landing`.  Tasks do not unpack it:
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

    def abort(self, messages: Sequence[Any]) -> None:
        """Remove the files of a job that failed.

        Spark calls this also when `commit` failed, which has removed them unless it cannot be told
        whether they landed: then, all partitions being there, they stay.
        """
        enter_worker(self.options)
        if any(message is None for message in messages):
            remove_job_files(self.job, self.task.targets)
