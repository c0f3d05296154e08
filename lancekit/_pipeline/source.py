"""The rows of a write or a merge on the engine that processes them, buffered if single-use.

An engine makes a `Source` of the user's data.  Operations call it to write its rows, or to run a
merge; both return metadata, never rows.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.fragment import Fragment
from lancekit._own_files import new_folder
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import CastPlan, plan_cast
from lancekit._pipeline.engine import EngineName, LocalRunner, choose_source, spark_engine
from lancekit._pipeline.inputs import (
    as_reader,
    checked_schema,
    in_memory,
    is_spark_dataframe,
    scan_of,
)
from lancekit._pipeline.write_rows import WriteTask, write_fragments
from lancekit.options import options
from lancekit.progress import FragmentWriteProgress, step, tracking, users_code

if TYPE_CHECKING:
    from lancekit._pipeline.merge_plan import MergeClauses, MergeJob, MergeWork
    from lancekit._pipeline.merge_strategy import MatchPlan
    from lancekit._pipeline.source_keys import SourceKeys
    from lancekit._pipeline.write_columns import ColumnsTask
    from lancekit._scan.index_lookup import IndexLookup
    from lancekit._versions.snapshot import Snapshot


class Source(Protocol):
    """Rows of the Arrow schema `schema` on one engine, to be closed after use.

    Rows that can be read only once, or may differ when read again, are buffered from the first
    access to their keys until the source is closed.
    """

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows before casts."""

    @property
    def engine(self) -> EngineName:
        """``local`` or ``spark``, as results show it."""

    def write(
        self, plan: CastPlan, task: WriteTask, progress: FragmentWriteProgress | None = None
    ) -> list[Fragment]:
        """Cast the rows, write them to new fragments, and report these to ``progress``."""

    def check_keys(
        self, plan: CastPlan, clauses: MergeClauses, on: tuple[str, ...] | None = None
    ) -> None:
        """Raise ``DuplicateKeysError`` if a key without a null occurs more than once.

        Keys may repeat if the clauses say which row to keep.  With ``on``, other columns are
        checked, but only in the rows that the clauses keep.
        """

    def match(self, plan: CastPlan, clauses: MergeClauses, snapshot: Snapshot) -> MatchPlan:
        """Return how a merge of the cast rows into a version would find its keys."""

    def indices(
        self, plan: CastPlan, clauses: MergeClauses, snapshot: Snapshot
    ) -> IndexLookup | None:
        """Return the lookup of the keys in a version's indices, if there are any to query."""

    def merge(self, job: MergeJob) -> MergeWork:
        """Run a merge of the cast rows; can be called again for a newer target.

        A dry run writes nothing, but has the counts, marked rows and examples of a real merge.
        """

    def join_columns(
        self, plan: CastPlan, tasks: Sequence[ColumnsTask], left_on: str, right_on: str
    ) -> list[Fragment]:
        """Write columns of the cast rows beside the fragments whose rows have their keys.

        plan: casts the key ``right_on`` and the new columns.
        tasks: the fragments and the columns to write.  Their makers are not used.
        left_on: the dataset's key column.
        """

    def close(self) -> None:
        """Release the buffered rows."""

    def __enter__(self) -> Self:
        """Return the source itself."""

    def __exit__(self, *_: object) -> None:
        """Close the source."""


class LocalSource:
    """Rows that are processed in this process.

    reader: the rows.
    memory_bytes: the most bytes to buffer in memory, or ``None`` if all are in memory already.
    """

    engine: EngineName = "local"

    def __init__(self, reader: pa.RecordBatchReader, memory_bytes: int | None = None) -> None:
        self.schema: pa.Schema = reader.schema
        self._reader = reader
        self._memory_bytes = memory_bytes
        self._buffered: _BufferedRows | None = None
        self._keys: dict[tuple[object, ...], SourceKeys] = {}

    def write(
        self, plan: CastPlan, task: WriteTask, progress: FragmentWriteProgress | None = None
    ) -> list[Fragment]:
        """Cast the rows batch by batch and write them; memory is bounded by pages."""
        with tracking("writing"):
            return write_fragments(_counted(cast_all(plan, self._reader)), task, progress=progress)

    def check_keys(
        self, plan: CastPlan, clauses: MergeClauses, on: tuple[str, ...] | None = None
    ) -> None:
        """Raise ``DuplicateKeysError`` if a key without a null occurs more than once."""
        from lancekit._pipeline.source_keys import SourceKeys, key_columns

        keys = self._keys_of(plan, clauses)
        if on is not None:
            columns = key_columns(self._rows(plan), on)
            if keys.kept is not None:
                at = pa.array(keys.kept)
                columns = [ak.take(column, at) for column in columns]
            SourceKeys.choose(on, columns)

    def match(self, plan: CastPlan, clauses: MergeClauses, snapshot: Snapshot) -> MatchPlan:
        """Return how a merge of the cast rows into a version would find its keys."""
        from lancekit._pipeline.merge_strategy import choose_match

        keys = self._keys_of(plan, clauses)
        return choose_match(
            engine=self.engine,
            source_rows=keys.rows,
            key_bytes=sum(column.nbytes for column in keys.table.columns),
            target_rows=snapshot.manifest.num_rows,
            lookup=self.indices(plan, clauses, snapshot),
            by_address=clauses.by_address,
        )

    def indices(
        self, plan: CastPlan, clauses: MergeClauses, snapshot: Snapshot
    ) -> IndexLookup | None:
        """Return the lookup of the keys in a version's indices, if there are any to query."""
        from lancekit._pipeline.source_keys import key_lookup

        keys = self._keys_of(plan, clauses)
        may_query = clauses.use_index and not clauses.by_address
        return key_lookup(snapshot, keys.table) if may_query else None

    def merge(self, job: MergeJob) -> MergeWork:
        """Run a merge; the keys are in memory, and `buffer_rows` buffers the rows."""
        from lancekit._pipeline.merge_here import merge_locally, rewrite_locally

        rows, keys = self._rows(job.casts), self._keys_of(job.casts, job.clauses)
        match = self.match(job.casts, job.clauses, job.snapshot)
        work = rewrite_locally if job.patches else merge_locally
        return work(rows, keys, job, LocalRunner(rows=match.target_rows).map, match)

    def join_columns(
        self, plan: CastPlan, tasks: Sequence[ColumnsTask], left_on: str, right_on: str
    ) -> list[Fragment]:
        """Write columns beside the fragments; of several rows with one key, the last counts."""
        from lancekit._pipeline.write_columns import Joined, write_beside

        maker = Joined.by(self._rows(plan), left_on, right_on)
        return write_beside([replace(task, maker=maker) for task in tasks], LocalRunner())

    def close(self) -> None:
        """Release the buffered rows."""
        if self._buffered is not None:
            self._buffered.close()
        self._keys.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(self, plan: CastPlan) -> pa.Table:
        if self._buffered is None:
            cast = cast_all(plan, self._reader)
            self._buffered = buffer_rows(cast, plan.target, self._memory_bytes)
        table = self._buffered.table
        if table.schema.equals(plan.target):
            return table
        # a concurrent cast has changed the dataset's types
        again = plan_cast(table.schema, plan.target)
        return pa.Table.from_batches(cast_all(again, table.to_batches()), plan.target)

    def _keys_of(self, plan: CastPlan, clauses: MergeClauses) -> SourceKeys:
        from lancekit._pipeline.source_keys import SourceKeys, key_columns

        cache_key = (clauses.on, clauses.dedupe, clauses.dedupe_by, *plan.target.types)
        if cache_key not in self._keys:
            rows = self._rows(plan)
            self._keys.clear()
            self._keys[cache_key] = SourceKeys.choose(
                clauses.on,
                key_columns(rows, clauses.on),
                dedupe=clauses.dedupe,
                order=rows.column(clauses.dedupe_by) if clauses.dedupe_by else None,
            )
        return self._keys[cache_key]


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Report the progress of rows, but not of rows read while the user's iterator runs."""
    rest, user_code = iter(batches), users_code()
    while (batch := user_code.within(lambda: next(rest, None))) is not None:
        yield batch
        step(batch.num_rows)


def open_source(
    data: object, schema: pa.Schema | None = None, like: pa.Schema | None = None
) -> Source:
    """Open the user's data as a source, on the engine that fits it.

    data, schema, like: as in `as_reader`, or a Spark DataFrame and the schema to cast it to.

    Raises InvalidTypeError: the data has no type that can be read as rows.
    Raises SchemaMismatchError: the rows do not fit the schema, or their values make no columns.
    """
    schema, is_frame = checked_schema(schema), is_spark_dataframe(data)
    if choose_source(data, is_frame=is_frame).engine == "spark":
        if not is_frame and (schema is not None or scan_of(data) is None):
            data, schema = as_reader(data, schema, like), None
        source: Source = spark_engine().source(data, schema)
        return source
    bound = None if in_memory(data) else options.source_memory_bytes
    return LocalSource(as_reader(data, schema, like), bound)


# ---- rows that can be read only once, buffered so that they can be read again
#
# A merge reads its source several times: the keys, the new rows, and everything again after a
# conflict with another writer.  Up to a size, rows stay in memory.  More rows go to an Arrow file
# in a temporary folder, which is memory-mapped, so that only the parts in use are in memory.


class _BufferedRows:
    """Rows that can be read any number of times, until they are closed.

    table: the rows, in memory or in a file.
    folder: the folder of the file, which is removed with the rows; ``None`` for rows in memory.
    """

    def __init__(self, table: pa.Table, folder: Path | None = None) -> None:
        self.table = table
        # Also removed if it is never closed: a preview may be discarded.
        self._remove = weakref.finalize(self, shutil.rmtree, folder, True) if folder else None

    def close(self) -> None:
        """Remove the file, if any."""
        # `empty_table()` imports pandas
        self.table = pa.Table.from_batches([], self.table.schema)
        if self._remove is not None:
            self._remove()


def buffer_rows(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, memory_bytes: int | None
) -> _BufferedRows:
    """Read all batches, and buffer them.

    batches: rows of the schema ``schema``.
    schema: their schema.
    memory_bytes: the most bytes to hold in memory, or ``None`` for rows that are in memory already.
    """
    buffered: list[pa.RecordBatch] = []
    size = 0
    rest = iter(batches)
    for batch in rest:
        buffered.append(batch)
        size += batch.nbytes
        if memory_bytes is not None and size > memory_bytes:
            return _spill(chain(_drained(buffered), rest), schema)
    return _BufferedRows(pa.Table.from_batches(buffered, schema))


def _drained(buffered: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches, and release each one."""
    buffered.reverse()
    while buffered:
        yield buffered.pop()


def _spill(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> _BufferedRows:
    folder = new_folder("source")
    try:
        path = str(folder / "rows.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return _BufferedRows(pa.ipc.open_file(pa.memory_map(path)).read_all(), folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
