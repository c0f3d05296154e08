"""How rows are given to shards, as users ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from lancekit._api.lance_schema import LanceSchema
from lancekit._checked import checked
from lancekit._format.mem_wal.details import ShardingField, ShardingSpec
from lancekit._format.mem_wal.sharding import shard_values
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["evaluate_sharding_spec"]

_FIELD = ("field_id", "source_ids", "transform", "expression", "result_type", "parameters")


@checked
def evaluate_sharding_spec(
    batch: pa.RecordBatch, spec: ShardingSpec | Mapping[str, object], schema: LanceSchema
) -> pa.RecordBatch:
    """Return what the fields of a sharding spec are for each row.

    Parameters
    ----------
    batch
        The rows, with the columns that the spec asks for.
    spec
        The spec, or what `LanceDataset.mem_wal_index_details` tells of one.
    schema
        That of the table, whose fields the spec names by their ids.

    Raises
    ------
    ColumnNotFoundError
        The rows lack a column.
    InvalidArgumentError
        The spec cannot be followed.
    UnsupportedTypeError
        Values of a column have no buckets.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://evaluate-sharding-example")
    >>> ds.initialize_mem_wal(bucket_column="id", num_buckets=8)
    >>> (spec,) = ds.mem_wal_index_details()["sharding_specs"]
    >>> batch = ds.to_table().to_batches()[0]
    >>> lk.mem_wal.evaluate_sharding_spec(batch, spec, ds.lance_schema).to_pydict()
    {'bucket': [4, 4]}
    """
    if not isinstance(schema, LanceSchema):
        raise InvalidTypeError(
            f"schema is {shown(schema)}.", hint="Pass ds.lance_schema.", argument="schema"
        )
    found = _parsed(spec) if isinstance(spec, Mapping) else spec
    if not isinstance(found, ShardingSpec):
        raise _no_spec(spec)
    return shard_values(batch, found, schema.__lance_schema__)


def _parsed(spec: Mapping[str, Any]) -> ShardingSpec:
    missing = {"spec_id", "fields"} - spec.keys()
    if missing:
        raise InvalidArgumentError(
            f"The sharding spec has no {sorted(missing)[0]!r}.",
            hint="Pass a ShardingSpec, or one of what ds.mem_wal_index_details() tells.",
        )
    fields = spec["fields"]
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        raise _no_spec(spec)
    return ShardingSpec(spec["spec_id"], tuple(map(_parsed_field, fields)))


def _parsed_field(field: object) -> ShardingField:
    if isinstance(field, ShardingField):
        return field
    if not isinstance(field, Mapping):
        raise _no_spec(field)
    if "field_id" not in field:
        raise InvalidArgumentError(
            "A field of the sharding spec has no 'field_id'.", hint="Give it one: a text."
        )
    return ShardingField(**{name: field[name] for name in _FIELD if name in field})


def _no_spec(spec: object) -> InvalidTypeError:
    return InvalidTypeError(
        f"The sharding spec is {shown(spec)}.",
        hint="Pass a ShardingSpec, or one of what ds.mem_wal_index_details() tells.",
    )
