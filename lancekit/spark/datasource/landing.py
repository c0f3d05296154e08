"""The two ends of a write by ``format("lance")``: its plan before the tasks, its commit after."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancekit.defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from lancekit.format.fragment import Fragment
from lancekit.format.storage_version import check_storage_version
from lancekit.operations.write import WriteMode, WritePlan, WriteSettings, commit_rows, plan_write
from lancekit.pipeline.casts.plan import CastPlan
from lancekit.pipeline.join_files import join_small_files
from lancekit.pipeline.rows.write import WriteTask
from lancekit.spark.datasource.options import SourceOptions
from lancekit.spark.datasource.writer import LanceWriter
from lancekit.spark.frames.types import arrow_schema
from lancekit.versions.line import Line
from lancekit.versions.snapshot import load_snapshot

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["Landing", "plan_writer"]


@dataclass(frozen=True, kw_only=True)
class Landing:
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
    landing = Landing(
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
