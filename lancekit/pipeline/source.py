"""The rows that a write or a merge gets, and where the work on them runs.

A `Source` is what an engine makes of the user's data.  Operations ask it to write its rows, or to
work out a merge; both give metadata, never rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lancekit.errors import DuplicateKeysError, NullKeyError
from lancekit.format.fragment import Fragment
from lancekit.format.schema import PRIMARY_KEY
from lancekit.pipeline.casts import CastPlan
from lancekit.pipeline.inputs import as_reader, is_spark_dataframe
from lancekit.pipeline.merge import MergeClauses, MergeWork, merge_locally
from lancekit.pipeline.probe import KeyTable, key_values, show_keys
from lancekit.pipeline.runner import LocalRunner, make_spark_source
from lancekit.pipeline.write import WriteTask, write_fragments
from lancekit.scan.sources import FragmentSource

__all__ = ["LocalSource", "Source", "duplicate_keys", "open_source"]


class Source(Protocol):
    """Rows of the schema `schema`, on one engine."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows as they come."""

    @property
    def engine(self) -> str:
        """``local`` or ``spark``, as results show it."""

    def write(self, plan: CastPlan, task: WriteTask) -> list[Fragment]:
        """Cast the rows and write them to new fragments."""

    def check_keys(self, plan: CastPlan, on: tuple[str, ...]) -> None:
        """Raise ``DuplicateKeysError`` if a key, without a null, occurs more than once."""

    def merge(
        self,
        plan: CastPlan,
        target: Sequence[FragmentSource],
        clauses: MergeClauses,
        task: WriteTask,
    ) -> MergeWork:
        """Work out a merge of the cast rows; may be called again on a newer target."""


@dataclass
class LocalSource:
    """Rows that are worked on in this process."""

    reader: pa.RecordBatchReader
    engine: str = "local"
    _table: pa.Table | None = None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows as they come."""
        return self.reader.schema

    def write(self, plan: CastPlan, task: WriteTask) -> list[Fragment]:
        """Cast the rows batch by batch and write them; memory is bounded by pages."""
        return write_fragments(cast_all(plan, self.reader), task)

    def check_keys(self, plan: CastPlan, on: tuple[str, ...]) -> None:
        """Raise ``DuplicateKeysError`` if a key, without a null, occurs more than once."""
        source = self._cast(plan)
        columns = tuple(source.column(name).combine_chunks() for name in on)
        repeated = KeyTable(on, columns).repeated()
        if len(repeated):
            raise duplicate_keys(on, key_values(source, on, repeated), len(repeated))

    def merge(
        self,
        plan: CastPlan,
        target: Sequence[FragmentSource],
        clauses: MergeClauses,
        task: WriteTask,
    ) -> MergeWork:
        """Work out a merge; the source is held in memory, to be probed and used again."""
        return merge_locally(self._cast(plan), target, clauses, task, LocalRunner().map)

    def _cast(self, plan: CastPlan) -> pa.Table:
        if self._table is None:
            self._table = pa.Table.from_batches(cast_all(plan, self.reader), plan.target)
        return self._table


def cast_all(plan: CastPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cast batches one by one, counting rows for messages.

    Raises
    ------
    NullKeyError
        A primary-key column holds a null.
    SchemaMismatchError
        A value does not fit.
    """
    first_row = 0
    keys = [f.name for f in plan.target if PRIMARY_KEY.encode() in (f.metadata or {})]
    for batch in batches:
        _check_no_null(batch, keys, first_row)
        yield plan.apply(batch, first_row)
        first_row += batch.num_rows


def _check_no_null(batch: pa.RecordBatch, keys: Sequence[str], first_row: int) -> None:
    for name in keys:
        column = batch.column(name) if name in batch.schema.names else None
        if column is not None and column.null_count:
            row = first_row + pc.index(column.is_null(), True).as_py()
            raise NullKeyError(
                f"Primary-key column {name!r} holds {column.null_count} nulls, "
                f"the first in row {row}.",
                hint="Fill or drop these rows, or choose other key columns.",
                column=name,
                row=row,
            )


def open_source(data: Any, schema: pa.Schema | None = None) -> Source:
    """Return the user's data as a source, on the engine that fits it.

    Raises
    ------
    InvalidTypeError
        The data is of no kind that can be read as rows.
    """
    spark = make_spark_source(data, schema, is_frame=is_spark_dataframe(data))
    return LocalSource(as_reader(data, schema)) if spark is None else spark


def duplicate_keys(
    on: tuple[str, ...], keys: list[tuple[object, ...]], rows: int
) -> DuplicateKeysError:
    """Return the error for a source in which keys occur more than once."""
    return DuplicateKeysError(
        f"{rows} rows of the source share their keys with others: {show_keys(on, keys)}.",
        hint="Keep one row for each key, for example with "
        f"drop_duplicates({list(on)!r}, keep='last').",
        keys=keys,
        on=on,
    )
