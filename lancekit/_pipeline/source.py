"""The rows of a write or a merge: where the work on them runs, and kept if they come once.

A `Source` is what an engine makes of the user's data.  Operations ask it to write its rows, or to
work out a merge; both give metadata, never rows.
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
    """Rows of the schema `schema`, on one engine; close it when the work is done.

    What can be read only once, or need not be the same twice, is kept from the first look at its
    keys until then.
    """

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows as they come."""

    @property
    def engine(self) -> EngineName:
        """``local`` or ``spark``, as results show it."""

    def write(
        self, plan: CastPlan, task: WriteTask, progress: FragmentWriteProgress | None = None
    ) -> list[Fragment]:
        """Cast the rows and write them to new fragments, of which ``progress`` is told."""

    def check_keys(
        self, plan: CastPlan, clauses: MergeClauses, on: tuple[str, ...] | None = None
    ) -> None:
        """Raise ``DuplicateKeysError`` if a key, without a null, occurs more than once.

        Unless the clauses say which row to keep.  Other columns than theirs may be checked, ``on``:
        then only the rows that they keep count.
        """

    def match(self, plan: CastPlan, clauses: MergeClauses, snapshot: Snapshot) -> MatchPlan:
        """Return how a merge of the cast rows into a version would find its keys."""

    def indices(
        self, plan: CastPlan, clauses: MergeClauses, snapshot: Snapshot
    ) -> IndexLookup | None:
        """Return what asks the indices of a version for the keys, if there are any to ask."""

    def merge(self, job: MergeJob) -> MergeWork:
        """Work out a merge of the cast rows; may be called again on a newer target.

        A dry one writes nothing: its counts, marked rows and examples are those of the real one.
        """

    def join_columns(
        self, plan: CastPlan, tasks: Sequence[ColumnsTask], left_on: str, right_on: str
    ) -> list[Fragment]:
        """Write columns of the cast rows beside the fragments whose rows have their keys.

        plan: casts the key ``right_on`` and the new columns.
        tasks: what to write beside each fragment; their makers are not used.
        left_on: the dataset's key column.
        """

    def close(self) -> None:
        """Let go of the rows that were kept."""

    def __enter__(self) -> Self:
        """Return the source itself."""

    def __exit__(self, *_: object) -> None:
        """Close the source."""


class LocalSource:
    """Rows that are worked on in this process.

    reader: the rows.
    memory_bytes: what may be held of them in memory; ``None`` if all of them are there anyway.
    """

    engine: EngineName = "local"

    def __init__(self, reader: pa.RecordBatchReader, memory_bytes: int | None = None) -> None:
        self.schema: pa.Schema = reader.schema
        self._reader = reader
        self._memory_bytes = memory_bytes
        self._kept: _KeptRows | None = None
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
        """Raise ``DuplicateKeysError`` if a key, without a null, occurs more than once."""
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
        """Return what asks the indices of a version for the keys, if there are any to ask."""
        from lancekit._pipeline.source_keys import key_lookup

        keys = self._keys_of(plan, clauses)
        asked = clauses.use_index and not clauses.by_address
        return key_lookup(snapshot, keys.table) if asked else None

    def merge(self, job: MergeJob) -> MergeWork:
        """Work out a merge; the keys are held in memory, the rows as `keep_rows` keeps them."""
        from lancekit._pipeline.merge_here import merge_locally, rewrite_locally

        rows, keys = self._rows(job.casts), self._keys_of(job.casts, job.clauses)
        match = self.match(job.casts, job.clauses, job.snapshot)
        work = rewrite_locally if job.patches else merge_locally
        return work(rows, keys, job, LocalRunner(rows=match.target_rows).map, match)

    def join_columns(
        self, plan: CastPlan, tasks: Sequence[ColumnsTask], left_on: str, right_on: str
    ) -> list[Fragment]:
        """Write columns beside the fragments; of several rows with one key the last counts."""
        from lancekit._pipeline.write_columns import Joined, write_beside

        maker = Joined.by(self._rows(plan), left_on, right_on)
        return write_beside([replace(task, maker=maker) for task in tasks], LocalRunner())

    def close(self) -> None:
        """Let go of the rows that were kept."""
        if self._kept is not None:
            self._kept.close()
        self._keys.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(self, plan: CastPlan) -> pa.Table:
        if self._kept is None:
            cast = cast_all(plan, self._reader)
            self._kept = keep_rows(cast, plan.target, self._memory_bytes)
        table = self._kept.table
        if table.schema.equals(plan.target):
            return table
        # over a cast that landed meanwhile the dataset has other types
        again = plan_cast(table.schema, plan.target)
        return pa.Table.from_batches(cast_all(again, table.to_batches()), plan.target)

    def _keys_of(self, plan: CastPlan, clauses: MergeClauses) -> SourceKeys:
        from lancekit._pipeline.source_keys import SourceKeys, key_columns

        about = (clauses.on, clauses.dedupe, clauses.dedupe_by, *plan.target.types)
        if about not in self._keys:
            rows = self._rows(plan)
            self._keys.clear()
            self._keys[about] = SourceKeys.choose(
                clauses.on,
                key_columns(rows, clauses.on),
                dedupe=clauses.dedupe,
                order=rows.column(clauses.dedupe_by) if clauses.dedupe_by else None,
            )
        return self._keys[about]


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Report the rows of batches, and none that are read to make them."""
    rest, theirs = iter(batches), users_code()
    while (batch := theirs.within(lambda: next(rest, None))) is not None:
        yield batch
        step(batch.num_rows)


def open_source(
    data: object, schema: pa.Schema | None = None, like: pa.Schema | None = None
) -> Source:
    """Return the user's data as a source, on the engine that fits it.

    data, schema, like: as in `as_reader`; or a Spark DataFrame, and the schema that it is cast to.

    Raises InvalidTypeError: the data is of no kind that can be read as rows.
    Raises SchemaMismatchError: they do not fit the schema, or their values make no columns.
    """
    schema, is_frame = checked_schema(schema), is_spark_dataframe(data)
    if choose_source(data, is_frame=is_frame).engine == "spark":
        if not is_frame and (schema is not None or scan_of(data) is None):
            data, schema = as_reader(data, schema, like), None
        source: Source = spark_engine().source(data, schema)
        return source
    bound = None if in_memory(data) else options.source_memory_bytes
    return LocalSource(as_reader(data, schema, like), bound)


# ---- the rows of a source that can be read only once, kept so that they can be read again
#
# A merge looks at its source several times: at its keys, at the rows that are new, and all over
# again when another writer landed first.  Up to a size the rows stay in memory; more of them go to
# an Arrow file in a temporary folder, which is mapped, so that only what is looked at is in memory.


class _KeptRows:
    """Rows that can be read any number of times, until they are closed.

    table: the rows; their columns may lie in a file.
    spilled: whether they do.
    """

    def __init__(self, table: pa.Table, folder: Path | None = None) -> None:
        self.table = table
        self.spilled = folder is not None
        # Also when nobody closes it: a preview may be thrown away.
        self._remove = weakref.finalize(self, shutil.rmtree, folder, True) if folder else None

    def close(self) -> None:
        """Remove the file, if there is one."""
        # `empty_table()` imports pandas
        self.table = pa.Table.from_batches([], self.table.schema)
        if self._remove is not None:
            self._remove()


def keep_rows(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, memory_bytes: int | None
) -> _KeptRows:
    """Read batches to their end and keep them.

    batches: rows of the schema ``schema``.
    schema: their schema.
    memory_bytes: what may be held in memory; ``None`` for rows that are there anyway.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    rest = iter(batches)
    for batch in rest:
        held.append(batch)
        size += batch.nbytes
        if memory_bytes is not None and size > memory_bytes:
            return _spill(chain(_drained(held), rest), schema)
    return _KeptRows(pa.Table.from_batches(held, schema))


def _drained(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches, and let go of each of them."""
    held.reverse()
    while held:
        yield held.pop()


def _spill(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> _KeptRows:
    folder = new_folder("source")
    try:
        path = str(folder / "rows.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return _KeptRows(pa.ipc.open_file(pa.memory_map(path)).read_all(), folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
