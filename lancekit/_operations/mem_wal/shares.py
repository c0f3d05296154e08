"""User rows in the form of a log, and the shard of each row.

See docs/format/memwal.md, 5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit._file.columns.categories import check_each_row
from lancekit._file.columns.split_leaves import columns_of_20
from lancekit._format.arrow_parts import viewed
from lancekit._format.data_file import DEFAULT_VERSION
from lancekit._format.mem_wal.details import MemWalDetails, ShardingSpec
from lancekit._format.mem_wal.shard_manifest import ShardFieldValue, ShardManifest
from lancekit._format.mem_wal.sharding import shard_id, shard_values
from lancekit._format.schema import LanceSchema
from lancekit._legible import shown
from lancekit._operations.checks.constraint_audit import RowConstraints
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import CastPlan, plan_cast
from lancekit._pipeline.inputs import as_reader, is_spark_dataframe
from lancekit._scan.fragments.rebatch import taken
from lancekit._scan.fragments.split_fields import nulls_of
from lancekit._shards.schema import primary_key, wal_schema
from lancekit.errors import InvalidArgumentError, InvalidTypeError, SchemaMismatchError


@dataclass(frozen=True, slots=True)
class Share:
    """The sharding values that all rows of a shard have in common.

    spec: the sharding spec, which computes the values.
    values: the values, in the form of manifests.
    """

    spec: ShardingSpec
    values: tuple[ShardFieldValue, ...]

    def check(self, rows: pa.RecordBatch, schema: LanceSchema, shard: UUID) -> None:
        """Raise ``InvalidArgumentError`` if a row or a key belongs to another shard."""
        if not self._has_source_columns(rows, schema):
            return
        found = shard_values(rows, self.spec, schema)
        wanted = {one.field_id: one.value for one in self.values}
        for name, column in zip(found.schema.names, found.columns, strict=True):
            foreign = [value for value in column.unique() if _stored(value) != wanted.get(name)]
            if foreign:
                raise InvalidArgumentError(
                    f"Rows with {name} {shown(foreign[0].as_py())} do not belong to shard "
                    f"{shard}: their keys would be in two shards, in unknown order.",
                    hint="Let lancekit route rows to shards: ds.mem_wal_upsert(rows).",
                    shard=str(shard),
                    field=name,
                )

    def _has_source_columns(self, rows: pa.RecordBatch, schema: LanceSchema) -> bool:
        """Return True if all source columns of the spec are given: rows of keys may lack some."""
        sources = {source for field in self.spec.fields for source in field.source_ids}
        given = set(rows.schema.names)
        return sources <= {field.id for field in schema.fields if field.name in given}


def spec_of(details: MemWalDetails) -> ShardingSpec | None:
    """Return the spec that routes rows to new shards, or ``None`` if the caller picks the shard."""
    return max(details.specs, key=lambda spec: spec.spec_id, default=None)


def share_of(
    shard: UUID, spec: ShardingSpec | None, manifest: ShardManifest | None
) -> Share | None:
    """Return the sharding values of a shard's rows, or ``None`` if they are unknown.

    They come from the shard's manifest, or from its id: the ids of bucket shards are computable.
    """
    if spec is None:
        return None
    if manifest is not None and manifest.field_values and manifest.spec_id == spec.spec_id:
        return Share(spec, manifest.field_values)
    for values in _counted(spec):
        if shard_id(spec, values) == shard:
            numbers = {name: pa.scalar(value, pa.int32()) for name, value in values.items()}
            return Share(spec, _field_values(numbers))
    return None


def _counted(spec: ShardingSpec) -> Iterator[Mapping[str, int]]:
    """Yield all values that a spec can produce, if they can be enumerated."""
    if len(spec.fields) == 1:
        (field,) = spec.fields
        known = {"bucket": field.parameters.get("num_buckets", ""), "unsharded": "1"}
        buckets = known.get(field.transform or "", "")
        yield from ({field.field_id: number} for number in range(int(buckets or 0)))


def shares(
    rows: pa.RecordBatch | pa.Table, spec: ShardingSpec, schema: LanceSchema
) -> Iterator[tuple[UUID, Share, pa.Table]]:
    """Split rows by shard; rows of a shard keep their order."""
    table = pa.table(rows) if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    values = pa.Table.from_batches([shard_values(rows, spec, schema)])
    names = values.schema.names
    numbered = values.append_column("", pa.array(np.arange(len(values))))
    groups = numbered.group_by(names, use_threads=False).aggregate([("", "list")])
    for group in range(len(groups)):
        scalars = {name: groups.column(name)[group] for name in names}
        given = {name: scalar.as_py() for name, scalar in scalars.items()}
        part = taken(table, pc.list_flatten(groups.column("_list").slice(group, 1)).to_numpy())
        yield shard_id(spec, given), Share(spec, _field_values(scalars)), part


def _field_values(values: Mapping[str, pa.Scalar]) -> tuple[ShardFieldValue, ...]:
    stored = {name: _stored(value) for name, value in values.items()}
    return tuple(ShardFieldValue(name, data) for name, data in stored.items() if data is not None)


def _stored(value: pa.Scalar) -> bytes | None:
    """Return a value in the form of manifests: UTF-8 text, or a little-endian number."""
    plain = value.as_py()
    if plain is None:
        return None
    if isinstance(plain, str):
        return plain.encode()
    if isinstance(plain, bytes):
        return plain
    if pt.is_boolean(value.type):
        return bytes([plain])
    return bytes(viewed(pa.array([plain], value.type).buffers()[1]))[: value.type.bit_width // 8]


# ---- user rows and keys in the form of a log: the table's columns, and `_tombstone`

_NONE = RowConstraints(())


class ShardRows:
    """Casts put rows and deleted keys to the schema of a shard's log.

    table: the table's schema.
    share: the sharding values of the shard's rows, if known.  Rows of other shards are refused.
    constraints: the constraints that rows must meet.
    storage_version: the format version of the table's files.  Rows that it cannot store are
        refused, because no merge could write them.

    schema: the log's schema: the table's columns, and `_tombstone`.
    key: the names of the key columns, in key order.
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
        # later versions can store all rows
        self._is_old = storage_version == "2.0"
        self._structs = [f for f in table.fields if f.children and self._is_old]
        self._rows = table.to_arrow()
        self._keys = pa.schema([self._rows.field(name) for name in self.key])
        # cached, because successive puts usually have the same columns
        self._plan: CastPlan | None = None

    def live(self, data: object, schema: pa.Schema | None = None) -> list[pa.RecordBatch]:
        """Return rows to put in the form of the log, without empty batches.

        Raises InvalidTypeError, SchemaMismatchError: the data cannot be read as rows, or does not
            fit the table.  Or a column is missing.
        Raises NullKeyError: a key has a null.
        Raises InvalidArgumentError: a row belongs to another shard.
        Raises ConstraintViolationError: a row breaks a constraint of the table.
        Raises UnsupportedTypeError: the table's files cannot store a value, such as a null struct
            in 2.0, or a null beside 128 values for 8-bit keys in one list.
        """
        plan, batches = self._opened(data, schema)
        live = []
        for batch in self._own(cast_all(plan, batches)):
            self._constraints.check(batch)
            for field in self._structs:
                deque(columns_of_20(batch.column(field.name), field), maxlen=0)
            if self._is_old:
                check_each_row(batch, "2.0")
            live.append(self._marked(batch.columns, batch.num_rows, gone=False))
        return live

    def tombstones(self, keys: object, schema: pa.Schema | None = None) -> list[pa.RecordBatch]:
        """Return tombstones for some keys; columns outside the key are ignored.

        Raises InvalidArgumentError: the table has no key, or a key belongs to another shard.
        Raises InvalidTypeError, SchemaMismatchError: the keys cannot be read, or do not fit the
            table.  Or a column is missing.
        Raises NullKeyError: a key has a null.
        """
        if not self.key:
            raise InvalidArgumentError(
                "Rows in shards are deleted by primary key, but the table has none.",
                hint="Write the table with primary_key=, or delete from it with ds.delete().",
            )
        reader = opened_rows(keys, schema, self._keys)
        wanted = [name for name in reader.schema.names if name in self.key]
        plan = plan_cast(pa.schema([reader.schema.field(name) for name in wanted]), self._keys)
        return [
            self._marked(self._only_keys(batch), batch.num_rows, gone=True)
            for batch in self._own(cast_all(plan, (batch.select(wanted) for batch in reader)))
        ]

    def _opened(
        self, data: object, schema: pa.Schema | None
    ) -> tuple[CastPlan, Iterable[pa.RecordBatch]]:
        known = self._plan
        plain = data if schema is None and isinstance(data, pa.RecordBatch | pa.Table) else None
        if (
            plain is not None
            and known is not None
            and plain.schema.equals(known.source, check_metadata=True)
        ):
            return known, [plain] if isinstance(plain, pa.RecordBatch) else plain.to_batches()
        reader = opened_rows(data, schema, self._rows)
        plan = plan_cast(reader.schema, self._rows)
        # data with extension types is read as its storage types, each time
        if plain is not None and plain.schema.equals(reader.schema):
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
            made.validate(full=True)  # replay would take invalid data for damage
        except pa.ArrowInvalid as error:
            raise SchemaMismatchError(
                f"The rows are not valid Arrow data: {error!s:.200}.",
                hint="Create them with pyarrow's own functions, or cast text that is not UTF-8 to "
                "binary.",
            ) from error
        return made


def opened_rows(data: object, schema: pa.Schema | None, like: pa.Schema) -> pa.RecordBatchReader:
    """Open rows or keys that are in this process; Spark DataFrames are refused."""
    if is_spark_dataframe(data):
        raise InvalidTypeError(
            "A Spark DataFrame cannot be put into shards.",
            hint="Pass df.toArrow(), or let Spark merge them: ds.merge_insert(...).execute(df).",
        )
    return as_reader(data, schema, like)


def cast_columns(reader: pa.RecordBatchReader, names: Sequence[str], known: pa.Schema) -> pa.Table:
    """Read some columns of opened rows, cast to their types in the `known` schema."""
    target = pa.schema([known.field(name) for name in names])
    source = pa.schema([reader.schema.field(name) for name in names])
    cast = cast_all(plan_cast(source, target), (batch.select(names) for batch in reader))
    return pa.Table.from_batches(cast, target)
