"""Reads and writes by ``format("lance")``: scans in pieces, and one commit for each write job.

Tasks write files that no version refers to.  The commit, in one of Spark's processes, lists the
files of the attempts that Spark counts.  Cleanup removes the files of other attempts.

The processes of the tasks load this module first, so it imports only the modules that they need.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from lancekit._defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from lancekit._format.data_file import check_storage_version
from lancekit._format.fragment import Fragment
from lancekit._machine import processors
from lancekit._operations.write import WriteMode, WritePlan, WriteSettings, commit_rows, plan_write
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import CastPlan
from lancekit._pipeline.join_files import join_small_files
from lancekit._pipeline.write_rows import (
    WriteTask,
    delete_fragments,
    new_job,
    remove_job_files,
    write_fragments,
)
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest, default_batch_rows
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import reading
from lancekit._scan.scan import Scan
from lancekit._spark.datasource.options import SourceOptions
from lancekit._spark.frames.scan import Piece, read_piece, scan_batch, scan_pieces, scan_wire
from lancekit._spark.frames.types import arrow_schema, restore, spark_schema
from lancekit._spark.jobs.failures import Sent, briefly
from lancekit._spark.jobs.worker import enter_worker, of_partition
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError, LancekitError
from lancekit.options import Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass
class _Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark is untyped here
    """The fragments of one task, or its error, which another attempt would raise again."""

    fragments: tuple[Fragment, ...] = ()
    failure: LancekitError | None = None


@dataclass(frozen=True, kw_only=True)
class LanceWriter(Sent, DataSourceArrowWriter):  # type: ignore[misc]  # pyspark is untyped here
    """A writer of a DataFrame's partitions, which also commits their files.

    `landing` is a pickled `_Landing`.  Tasks do not unpickle it, because that would import all
    modules of a commit in each of their processes.
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
    def commit(self, messages: Sequence[_Written | None]) -> None:
        """Commit the files of all partitions as one version.

        Raises LancekitError: a task or the commit failed; the files are removed.
        """
        enter_worker(self.options)
        fragments = [fragment for m in messages if m is not None for fragment in m.fragments]
        failures = [m.failure for m in messages if m is not None and m.failure is not None]
        if failures:
            delete_fragments(self.task.store, fragments, self.task.places)
            raise failures[0]
        pickle.loads(self.landing).commit(self.casts, self.task, fragments)  # noqa: S301  # ours

    def abort(self, messages: Sequence[object]) -> None:
        """Remove the files of a failed job.

        Spark also calls this after `commit` failed, which has removed the files unless the outcome
        is unknown.  In that case, all messages are present, and the files must stay.
        """
        enter_worker(self.options)
        if any(message is None for message in messages):
            remove_job_files(self.job, self.task.targets)


# ---- the two ends of a write: its plan before the tasks, and its commit after them


@dataclass(frozen=True, kw_only=True)
class _Landing:
    """The target and the settings of a job's commit.

    `read_version` is the version that the rows are cast for, ``None`` for a new dataset.
    """

    location: BranchLocation
    read_version: int | None
    settings: WriteSettings

    def commit(self, casts: CastPlan, task: WriteTask, fragments: Sequence[Fragment]) -> None:
        """Commit the files of the tasks, after small files are joined."""
        read = (
            None if self.read_version is None else load_snapshot(self.location, self.read_version)
        )
        plan = WritePlan(
            location=self.location, current=read, casts=casts, task=task, settings=self.settings
        )
        commit_rows(plan, join_small_files(task, fragments))


def plan_writer(options: SourceOptions, schema: StructType, mode: WriteMode) -> LanceWriter:
    """Plan a write; refuse invalid writes before a task starts.

    Raises UnsupportedTypeError: Arrow or the dataset has no equivalent of a column's type.
    Raises SchemaMismatchError: the rows do not fit the dataset that they are appended to.
    Raises InvalidArgumentError: an option does not apply to writes, or its value is invalid.
    """
    options.check_use("write")
    rows = arrow_schema(schema)
    settings = WriteSettings(
        mode=mode,
        max_rows_per_file=options.max_rows_per_file or MAX_ROWS_PER_FILE,
        max_bytes_per_file=options.max_bytes_per_file or MAX_BYTES_PER_FILE,
        storage_version=check_storage_version("data_storage_version", options.data_storage_version),
        stable_row_ids=options.enable_stable_row_ids,
        message=options.commit_message,
    )
    with options.on_this():
        location = options.location()
        plan = plan_write(rows, options.snapshot() if location.branch else location, settings)
    landing = _Landing(
        location=plan.location,
        read_version=None if plan.current is None else plan.current.version,
        settings=settings,
    )
    return LanceWriter(
        schema=rows,
        casts=plan.casts,
        task=plan.task,
        options=options.in_force(),
        landing=pickle.dumps(landing),
    )


# ---- ``spark.read.format("lance")``: the pieces of a scan, one for each task


def narrowed(scan: Scan, schema: StructType) -> Scan:
    """Return a scan of the columns in a schema that the user passed."""
    own = spark_schema(scan_wire(scan.request))
    if schema == own:
        return scan
    known = {field.name: field for field in own}
    outputs = {output.field.name: output for output in scan.request.outputs}
    chosen = []
    for column in schema:
        found = known.get(column.name)
        fits = found is not None and found.dataType == column.dataType
        if found is None or not fits or (found.nullable and not column.nullable):
            problem = (
                "the dataset has no such column"
                if found is None
                else f"it has type {found.simpleString()} there"
            )
            raise InvalidArgumentError(
                f"The schema has {column.simpleString()}, but {problem}.",
                hint='Leave schema() out, and select columns with option("columns", "a,b").',
                column=column.name,
            )
        output = outputs[column.name]
        chosen.append(replace(output, field=output.field.with_nullable(column.nullable)))
    return replace(scan, request=replace(scan.request, outputs=tuple(chosen)))


class LanceReader(Sent, DataSourceReader):  # type: ignore[misc]  # pyspark is untyped here
    """A reader of a scan, with one partition for each piece."""

    def __init__(self, scan: Scan, options: Options) -> None:
        self._request = scan.request
        self._options = options
        pieces = scan_pieces(scan, processors())
        self._pieces: list[Piece] = pieces or [Piece(())]

    def partitions(self) -> list[InputPartition]:
        """Return the pieces."""
        return [InputPartition(piece) for piece in self._pieces]

    def __getstate__(self) -> dict[str, object]:
        # Each task gets only its own piece, with its partition.
        return {**self.__dict__, "_pieces": []}

    @briefly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a piece."""
        enter_worker(self._options)
        wire = scan_wire(self._request)
        for batch in read_piece(partition.value, self._request):
            yield scan_batch(batch, wire)


# ---- the scan that the options of ``format("lance")`` describe


def plan_scan(given: SourceOptions, snapshot: Snapshot) -> Scan:
    """Return the scan of a version that the options describe."""
    schema = blob_view(snapshot.manifest.schema)
    hidden = [("_rowid", given.with_row_id), ("_rowaddr", given.with_row_address)]
    predicate = None if given.filter is None else Predicate.parse(given.filter, schema.to_arrow())
    request = ScanRequest(
        outputs=plan_columns(schema, given.columns, [name for name, wanted in hidden if wanted]),
        predicate=predicate,
        batch_rows=given.batch_size or default_batch_rows(),
    )
    read = reading(snapshot, predicate, schema)
    # opened now, so that an untrusted base path is an error of the plan
    return Scan(read=replace(read, sources=tuple(read.sources)), request=request)
