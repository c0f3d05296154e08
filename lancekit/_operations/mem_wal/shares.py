"""Rows of users in the form of a log, and the shard that each belongs to.

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
from lancekit import _arrow_kernels as ak
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
from lancekit._scan.fragments.split_fields import nulls_of
from lancekit._shards.schema import primary_key, wal_schema
from lancekit.errors import InvalidArgumentError, InvalidTypeError, SchemaMismatchError


@dataclass(frozen=True, slots=True)
class Share:
    """What the rows of a shard have in common.

    spec: what makes values of rows.
    values: these values for all rows of the shard, as manifests have them.
    """

    spec: ShardingSpec
    values: tuple[ShardFieldValue, ...]

    def check(self, rows: pa.RecordBatch, schema: LanceSchema, shard: UUID) -> None:
        """Raise ``InvalidArgumentError`` if a row, or a key of one, belongs to another shard."""
        if not self._can_tell(rows, schema):
            return
        found = shard_values(rows, self.spec, schema)
        wanted = {one.field_id: one.value for one in self.values}
        for name, column in zip(found.schema.names, found.columns, strict=True):
            strange = [value for value in column.unique() if _stored(value) != wanted.get(name)]
            if strange:
                raise InvalidArgumentError(
                    f"Rows whose {name} is {shown(strange[0].as_py())} do not belong to shard "
                    f"{shard}: their keys would be in two shards, and neither the newer.",
                    hint="Have rows find their shards: ds.mem_wal_upsert(rows).",
                    shard=str(shard),
                    field=name,
                )

    def _can_tell(self, rows: pa.RecordBatch, schema: LanceSchema) -> bool:
        """Tell whether the columns that values are made of are there: of keys they may not be."""
        sources = {source for field in self.spec.fields for source in field.source_ids}
        given = set(rows.schema.names)
        return sources <= {field.id for field in schema.fields if field.name in given}


def spec_of(details: MemWalDetails) -> ShardingSpec | None:
    """Return what gives rows to new shards; ``None`` if whoever writes does."""
    return max(details.specs, key=lambda spec: spec.spec_id, default=None)


def share_of(
    shard: UUID, spec: ShardingSpec | None, manifest: ShardManifest | None
) -> Share | None:
    """Return what the rows of a shard have in common; ``None`` if nobody said.

    The shard's manifest says it, or its id: that of a bucket is known by the number.
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
    """Yield all values that a spec can give, if these are known beforehand."""
    if len(spec.fields) == 1:
        (field,) = spec.fields
        known = {"bucket": field.parameters.get("num_buckets", ""), "unsharded": "1"}
        buckets = known.get(field.transform or "", "")
        yield from ({field.field_id: number} for number in range(int(buckets or 0)))


def shares(
    rows: pa.RecordBatch | pa.Table, spec: ShardingSpec, schema: LanceSchema
) -> Iterator[tuple[UUID, Share, pa.Table]]:
    """Give rows to their shards, each as it was ordered."""
    table = pa.table(rows) if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    values = pa.Table.from_batches([shard_values(rows, spec, schema)])
    names = values.schema.names
    numbered = values.append_column("", pa.array(np.arange(len(values))))
    groups = numbered.group_by(names, use_threads=False).aggregate([("", "list")])
    for group in range(len(groups)):
        scalars = {name: groups.column(name)[group] for name in names}
        given = {name: scalar.as_py() for name, scalar in scalars.items()}
        part = ak.take(table, pc.list_flatten(groups.column("_list").slice(group, 1)))
        yield shard_id(spec, given), Share(spec, _field_values(scalars)), part


def _field_values(values: Mapping[str, pa.Scalar]) -> tuple[ShardFieldValue, ...]:
    stored = {name: _stored(value) for name, value in values.items()}
    return tuple(ShardFieldValue(name, data) for name, data in stored.items() if data is not None)


def _stored(value: pa.Scalar) -> bytes | None:
    """Return a value as manifests have it: text as UTF-8, numbers with the lowest byte first."""
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


# ---- rows and keys of users in the form of a log: the table's columns, and whether a row is gone

_NONE = RowConstraints(())


class ShardRows:
    """Casts what is put and deleted to the schema of a shard's log.

    table: the table's schema.
    shard: the shard.
    share: what its rows have in common, if somebody said; others are refused.
    constraints: what its rows have to meet.
    storage_version: the format of the table's files: what they cannot hold is not put, since no
        merge could take it.

    schema: the log's: the table's columns, and `_tombstone`.
    key: the names of the key's columns, in the key's order.
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

        Raises InvalidTypeError, SchemaMismatchError: they cannot be read as rows, or do not fit the
            table; a column is missing.
        Raises NullKeyError: a key has a null.
        Raises InvalidArgumentError: a row belongs to another shard.
        Raises ConstraintViolationError: a row breaks a constraint of the table.
        Raises UnsupportedTypeError: a value is one that the table's files cannot hold, such as a
            null struct in 2.0.
        """
        plan, batches = self._opened(data, schema)
        live = []
        for batch in self._own(cast_all(plan, batches, divide=False)):
            self._constraints.check(batch)
            for field in self._structs:
                deque(columns_of_20(batch.column(field.name), field), maxlen=0)
            live.append(self._marked(batch.columns, batch.num_rows, gone=False))
        return live

    def tombstones(self, keys: object, schema: pa.Schema | None = None) -> list[pa.RecordBatch]:
        """Return what says that the rows with some keys are gone; other columns do not matter.

        Raises InvalidArgumentError: the table has no key, or a key belongs to another shard.
        Raises InvalidTypeError, SchemaMismatchError: the keys cannot be read, or do not fit; a
            column is missing.
        Raises NullKeyError: a key has a null.
        """
        if not self.key:
            raise InvalidArgumentError(
                "Rows are deleted by their primary key, and the table has none.",
                hint="Write the table with primary_key=, or delete from it with ds.delete().",
            )
        reader = opened_rows(keys, schema, self._keys)
        wanted = [name for name in reader.schema.names if name in self.key]
        plan = plan_cast(pa.schema([reader.schema.field(name) for name in wanted]), self._keys)
        return [
            self._marked(self._only_keys(batch), batch.num_rows, gone=True)
            for batch in self._own(
                cast_all(plan, (batch.select(wanted) for batch in reader), divide=False)
            )
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
        # what has extension types is read as what they are stored as, each time
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
