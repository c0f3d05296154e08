"""Which shard a row belongs to (docs/format/memwal.md, 5)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as pt

from lancekit import arrow_kernels as ak
from lancekit.errors import InvalidArgumentError, UnsupportedTypeError
from lancekit.format.column_names import column_not_found
from lancekit.format.mem_wal.details import ShardingField, ShardingSpec
from lancekit.format.mem_wal.murmur import hash_long, hash_short, hash_texts
from lancekit.format.schema import LanceSchema
from lancekit.legible import shown

__all__ = ["MOST_BUCKETS", "bucket_numbers", "shard_id", "shard_values"]

#: what a table may be divided into
MOST_BUCKETS = 1024

#: of the ids of shards that are made of values
_NAMESPACE = uuid.UUID("6c616e63-656b-4974-8000-6d656d77616c")

_Hashes: TypeAlias = NDArray[np.uint32]

# ---- buckets


def _hash_texts(values: pa.Array) -> _Hashes:
    return hash_texts(values.cast(pa.large_binary()))


def _numbers(values: pa.Array, kind: pa.DataType) -> NDArray[Any]:
    return values.view(kind).to_numpy(zero_copy_only=False)


def _hash_floats(values: pa.Array, hashed: Callable[[NDArray[Any]], _Hashes]) -> _Hashes:
    numbers = values.to_numpy(zero_copy_only=False) + values.type.to_pandas_dtype()(0)  # -0 is 0
    numbers[np.isnan(numbers)] = np.nan  # and all that is no number is one
    return hashed(numbers.view(np.int32 if numbers.itemsize == 4 else np.int64))


#: how values are hashed, for the first of the tests of types that says yes
_HASHES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], _Hashes]], ...] = (
    (pt.is_boolean, lambda values: hash_short(values.to_numpy(zero_copy_only=False))),
    (pt.is_int64, lambda values: hash_long(values.to_numpy())),
    (pt.is_uint64, lambda values: hash_long(values.to_numpy())),
    (pt.is_integer, lambda values: hash_short(values.to_numpy())),
    (pt.is_float32, lambda values: _hash_floats(values, hash_short)),
    (pt.is_float64, lambda values: _hash_floats(values, hash_long)),
    (pt.is_date32, lambda values: hash_short(_numbers(values, pa.int32()))),
    (pt.is_time32, lambda values: hash_short(_numbers(values, pa.int32()))),
    (pt.is_time64, lambda values: hash_long(_numbers(values, pa.int64()))),
    (pt.is_timestamp, lambda values: hash_long(_numbers(values, pa.int64()))),
    (pt.is_string, _hash_texts),
    (pt.is_large_string, _hash_texts),
    (pt.is_string_view, lambda values: _hash_texts(values.cast(pa.large_string()))),
)


def bucket_numbers(column: pa.Array | pa.ChunkedArray, buckets: int) -> NDArray[np.int32]:
    """Return the bucket of each value, from 0; that of a null is 0.

    Raises
    ------
    UnsupportedTypeError
        Values of the type are not given to buckets.

    Examples
    --------
    >>> bucket_numbers(pa.array([1, 2, 3], pa.int32()), 8).tolist()
    [2, 7, 1]
    """
    values = ak.combine_chunks(column) if isinstance(column, pa.ChunkedArray) else column
    hashed = next((hashed for test, hashed in _HASHES if test(values.type)), None)
    if hashed is None:
        raise UnsupportedTypeError(
            f"Values of type {values.type} cannot be given to buckets.",
            hint="Choose a column of numbers, text, dates or times.",
            type=str(values.type),
        )
    if not ak.null_count(values):
        return _buckets(hashed(values), buckets)
    found = np.zeros(len(values), np.int32)
    found[values.is_valid().to_numpy(zero_copy_only=False)] = _buckets(
        hashed(ak.drop_null(values)), buckets
    )
    return found


def _buckets(hashes: _Hashes, buckets: int) -> NDArray[np.int32]:
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(buckets)).view(np.int32)


# ---- specs


def _bucket(field: ShardingField, source: pa.Array) -> pa.Array:
    return pa.array(bucket_numbers(source, _bucket_count(field)))


def _bucket_count(field: ShardingField) -> int:
    given = field.parameters.get("num_buckets", "")
    if not given.isdecimal() or int(given) < 1:
        raise InvalidArgumentError(
            f"Sharding field {field.field_id!r} has num_buckets={shown(given)}.",
            hint=f"It has to be a number from 1 to {MOST_BUCKETS}.",
            field=field.field_id,
        )
    return int(given)


_Evaluate: TypeAlias = Callable[[ShardingField, Any], pa.Array]
#: how a value is made of a source column; the reference's older words are known, not followed
_TRANSFORMS: Mapping[str, _Evaluate] = {
    "bucket": _bucket,
    "identity": lambda _field, source: source,
}


def shard_values(
    rows: pa.RecordBatch | pa.Table, spec: ShardingSpec, schema: LanceSchema
) -> pa.RecordBatch:
    """Return what the fields of a spec are for each row.

    Raises
    ------
    ColumnNotFoundError
        The rows lack a source column.
    InvalidArgumentError
        The spec has no fields, or none of the columns; or a transform is not known.
    UnsupportedTypeError
        Values of the type are not given to buckets.

    Examples
    --------
    >>> rows = pa.record_batch({"id": pa.array([1, 2], pa.int32())})
    >>> field = ShardingField("bucket", (0,), "bucket", None, "int32", {"num_buckets": "8"})
    >>> spec = ShardingSpec(1, (field,))
    >>> shard_values(rows, spec, LanceSchema.from_arrow(rows.schema)).to_pydict()
    {'bucket': [2, 7]}
    """
    if not spec.fields:
        raise InvalidArgumentError(
            f"Sharding spec {spec.spec_id} has no fields.",
            hint="It needs one at least.",
            spec=spec.spec_id,
        )
    columns = [_field_values(rows, one, schema) for one in spec.fields]
    fields = [
        pa.field(one.field_id, column.type, nullable=bool(ak.null_count(column)))
        for one, column in zip(spec.fields, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _field_values(
    rows: pa.RecordBatch | pa.Table, field: ShardingField, schema: LanceSchema
) -> pa.Array:
    if field.transform == "unsharded":
        return pa.array(np.zeros(rows.num_rows, np.int32))
    evaluate = _TRANSFORMS.get(field.transform or "")
    if evaluate is None:
        raise InvalidArgumentError(
            f"Sharding field {field.field_id!r} has the transform {shown(field.transform)}.",
            hint=f"Known are {', '.join(_TRANSFORMS)} and unsharded.",
            field=field.field_id,
        )
    return evaluate(field, _source(rows, field, schema))


def _source(rows: pa.RecordBatch | pa.Table, field: ShardingField, schema: LanceSchema) -> pa.Array:
    wanted = field.source_ids[:1]
    name = next((one.name for one in schema.fields if (one.id,) == wanted), None)
    if name is None:
        raise InvalidArgumentError(
            f"Sharding field {field.field_id!r} is made of field {list(field.source_ids)}, which "
            "the table does not have as a column.",
            hint="Give the id of a column, as the table's schema has it.",
            field=field.field_id,
        )
    if name not in rows.schema.names:
        raise column_not_found(name, rows.schema.names)
    column = rows.column(name)
    return ak.combine_chunks(column) if isinstance(column, pa.ChunkedArray) else column


def shard_id(spec: ShardingSpec, values: Mapping[str, Any]) -> uuid.UUID:
    """Return the id of the shard whose rows have these values, by the ids of the spec's fields.

    Whoever asks for the shard of a value gets the same one, without that anybody keeps a list.

    Examples
    --------
    >>> spec = ShardingSpec(1, (ShardingField("bucket"),))
    >>> shard_id(spec, {"bucket": 2}) == shard_id(spec, {"bucket": 2})
    True
    """
    named = [f"{one.field_id}={values[one.field_id]!r}" for one in spec.fields]
    return uuid.uuid5(_NAMESPACE, "\n".join([str(spec.spec_id), *named]))
