"""Rows and keys of users in the form of a log: the table's columns, and whether a row is gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from lancekit._file.columns.split_leaves import columns_of_20
from lancekit._format.schema import LanceSchema
from lancekit._format.storage_version import DEFAULT_VERSION
from lancekit._operations.constraints.of_rows import RowConstraints
from lancekit._operations.mem_wal.shares import Share
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import CastPlan, plan_cast
from lancekit._pipeline.engine.inputs import as_reader, is_spark_dataframe
from lancekit._scan.fragments.split_fields import nulls_of
from lancekit._shards.schema import primary_key, wal_schema
from lancekit.errors import InvalidArgumentError, InvalidTypeError, SchemaMismatchError

__all__ = ["ShardRows", "cast_columns", "opened_rows"]

_NONE = RowConstraints(())


class ShardRows:
    """Casts what is put and deleted to the schema of a shard's log.

    Parameters
    ----------
    table
        The table's schema.
    shard
        The shard.
    share
        What its rows have in common, if somebody said; others are refused.
    constraints
        What its rows have to meet.
    storage_version
        The format of the table's files: what they cannot hold is not put, since no merge could
        take it.

    Attributes
    ----------
    schema
        The log's: the table's columns, and `_tombstone`.
    key
        The names of the key's columns, in the key's order.
    """

    def __init__(
        self,
        table: LanceSchema,
        shard: UUID,
        share: Share | None = None,
        constraints: RowConstraints = _NONE,
        storage_version: str = DEFAULT_VERSION,
    ) -> None:
        self.schema: pa.Schema = wal_schema(table)
        self.key: tuple[str, ...] = tuple(field.name for field in primary_key(table))
        self._table, self._shard, self._share = table, shard, share
        self._constraints = constraints
        # of the others, all that rows can have can be held
        self._structs = [f for f in table.fields if f.children and storage_version == "2.0"]
        self._rows = table.to_arrow()
        self._keys = pa.schema([self._rows.field(name) for name in self.key])
        # mostly each put has the columns of the one before
        self._plan: CastPlan | None = None

    def live(self, data: object, schema: pa.Schema | None = None) -> list[pa.RecordBatch]:
        """Return rows to be put, without batches of no rows.

        Raises
        ------
        InvalidTypeError, SchemaMismatchError
            They cannot be read as rows, or do not fit the table; a column is missing.
        NullKeyError
            A key has a null.
        InvalidArgumentError
            A row belongs to another shard.
        ConstraintViolationError
            A row breaks a constraint of the table.
        UnsupportedTypeError
            A value is one that the table's files cannot hold, such as a null struct in 2.0.
        """
        plan, batches = self._opened(data, schema)
        live = []
        for batch in self._own(cast_all(plan, batches)):
            self._constraints.check(batch)
            for field in self._structs:
                deque(columns_of_20(batch.column(field.name), field), maxlen=0)
            live.append(self._marked(batch.columns, batch.num_rows, gone=False))
        return live

    def tombstones(self, keys: object, schema: pa.Schema | None = None) -> list[pa.RecordBatch]:
        """Return what says that the rows with some keys are gone; other columns do not matter.

        Raises
        ------
        InvalidArgumentError
            The table has no key, or a key belongs to another shard.
        InvalidTypeError, SchemaMismatchError
            The keys cannot be read, or do not fit; a column is missing.
        NullKeyError
            A key has a null.
        """
        if not self.key:
            raise InvalidArgumentError(
                "Rows are deleted by their primary key, and the table has none.",
                hint="Write the table with primary_key=, or delete from it with ds.delete().",
            )
        reader = opened_rows(keys, schema, self._keys)
        wanted = [name for name in reader.schema.names if name in self.key]
        plan = plan_cast(pa.schema([reader.schema.field(name) for name in wanted]), self._keys)
        cast = cast_all(plan, (batch.select(wanted) for batch in reader))
        return [
            self._marked(self._only_keys(batch), batch.num_rows, gone=True)
            for batch in self._own(cast)
        ]

    def _opened(
        self, data: Any, schema: pa.Schema | None
    ) -> tuple[CastPlan, Iterable[pa.RecordBatch]]:
        known = self._plan
        plain = schema is None and isinstance(data, pa.RecordBatch | pa.Table)
        if plain and known is not None and data.schema.equals(known.source, check_metadata=True):
            return known, [data] if isinstance(data, pa.RecordBatch) else data.to_batches()
        reader = opened_rows(data, schema, self._rows)
        plan = plan_cast(reader.schema, self._rows)
        # what has extension types is read as what they are stored as, each time
        if plain and data.schema.equals(reader.schema):
            self._plan = plan
        return plan, reader

    def _own(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                if self._share is not None:
                    self._share.check(batch, self._table, self._shard)
                yield batch

    def _only_keys(self, keys: pa.RecordBatch) -> Iterator[pa.Array]:
        rows = keys.num_rows
        for field in list(self.schema)[:-1]:
            known = field.name in self.key
            yield keys.column(field.name) if known else nulls_of(field, rows)

    def _marked(self, columns: Iterable[pa.Array], rows: int, *, gone: bool) -> pa.RecordBatch:
        mark = pa.array(np.full(rows, gone))
        made = pa.RecordBatch.from_arrays([*columns, mark], schema=self.schema)
        try:
            made.validate(full=True)  # who replays the log takes anything else for damage
        except pa.ArrowInvalid as error:
            raise SchemaMismatchError(
                f"the rows are no valid Arrow data: {error!s:.200}.",
                hint="Make them with pyarrow's own functions, or cast text that is not UTF-8 to "
                "binary.",
            ) from error
        return made


def opened_rows(data: object, schema: pa.Schema | None, like: pa.Schema) -> pa.RecordBatchReader:
    """Open rows, or keys, that are in this process."""
    if is_spark_dataframe(data):
        raise InvalidTypeError(
            "Rows of a Spark DataFrame are not put into shards one by one.",
            hint="Pass df.toArrow(), or let Spark merge them: ds.merge_insert(...).execute(df).",
        )
    return as_reader(data, schema, like)


def cast_columns(reader: pa.RecordBatchReader, names: Sequence[str], known: pa.Schema) -> pa.Table:
    """Read some columns of opened rows, cast to those of these names in another schema."""
    target = pa.schema([known.field(name) for name in names])
    source = pa.schema([reader.schema.field(name) for name in names])
    cast = cast_all(plan_cast(source, target), (batch.select(names) for batch in reader))
    return pa.Table.from_batches(cast, target)
