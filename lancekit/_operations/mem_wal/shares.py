"""Which rows belong to a shard: by the values that the sharding spec makes of them.

See docs/format/memwal.md, 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import viewed
from lancekit._format.mem_wal.details import MemWalDetails, ShardingSpec
from lancekit._format.mem_wal.shard_manifest import ShardFieldValue, ShardManifest
from lancekit._format.mem_wal.sharding import shard_id, shard_values
from lancekit._format.schema import LanceSchema
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError

__all__ = ["Share", "share_of", "shares", "spec_of"]


@dataclass(frozen=True, slots=True)
class Share:
    """What the rows of a shard have in common.

    Attributes
    ----------
    spec
        What makes values of rows.
    values
        These values for all rows of the shard, as manifests have them.
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
            return Share(spec, tuple(_field_values(values, pa.int32())))
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
        stored = tuple(
            ShardFieldValue(name, data)
            for name, scalar in scalars.items()
            if (data := _stored(scalar)) is not None
        )
        part = ak.take(table, pc.list_flatten(groups.column("_list").slice(group, 1)))
        yield shard_id(spec, given), Share(spec, stored), part


def _field_values(values: Mapping[str, object], kind: pa.DataType) -> Iterator[ShardFieldValue]:
    for name, value in values.items():
        data = _stored(pa.scalar(value, kind))
        if data is not None:
            yield ShardFieldValue(name, data)


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
