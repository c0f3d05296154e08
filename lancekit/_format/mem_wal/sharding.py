"""Assignment of rows to shards (docs/format/memwal.md, 5)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._compiled.kernel import Values, kernel
from lancekit._format.arrow_parts import viewed
from lancekit._format.column_names import column_not_found
from lancekit._format.mem_wal.details import ShardingField, ShardingSpec
from lancekit._format.schema import LanceSchema
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, UnsupportedTypeError

#: maximum number of buckets of a table
MOST_BUCKETS = 1024

#: UUID namespace of shard ids that are derived from values
_NAMESPACE = uuid.UUID("6c616e63-656b-4974-8000-6d656d77616c")

_Words: TypeAlias = NDArray[np.uint32]

# ---- buckets


def _hash_texts(values: pa.Array) -> _Words:
    return hash_texts(values.cast(pa.large_binary()))


def _numbers(values: pa.Array, kind: pa.DataType) -> NDArray[np.generic]:
    return values.view(kind).to_numpy(zero_copy_only=False)


def _hash_floats(values: pa.Array, hashed: Callable[[NDArray[np.generic]], _Words]) -> _Words:
    numbers = values.to_numpy(zero_copy_only=False) + values.type.to_pandas_dtype()(0)  # -0 is 0
    numbers[np.isnan(numbers)] = np.nan  # all NaN become one
    return hashed(numbers.view(np.int32 if numbers.itemsize == 4 else np.int64))


#: (type test, hash function) pairs; the first matching test decides
_HASHES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], _Words]], ...] = (
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
    """Return the bucket number of each value, from 0; nulls have bucket 0.

    Raises UnsupportedTypeError: values of the type cannot be hashed into buckets.

    Examples
    --------
    >>> bucket_numbers(pa.array([1, 2, 3], pa.int32()), 8).tolist()
    [2, 7, 1]
    """
    values = ak.combine_chunks(column) if isinstance(column, pa.ChunkedArray) else column
    hashed = next((hashed for test, hashed in _HASHES if test(values.type)), None)
    if hashed is None:
        raise UnsupportedTypeError(
            f"Values of type {values.type} cannot be assigned to buckets.",
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


def _buckets(hashes: _Words, buckets: int) -> NDArray[np.int32]:
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(buckets)).view(np.int32)


# ---- specs


def _bucket_count(field: ShardingField) -> int:
    given = field.parameters.get("num_buckets", "")
    if not given.isdecimal() or int(given) < 1:
        raise InvalidArgumentError(
            f"Sharding field {field.field_id!r} must have num_buckets from 1 to {MOST_BUCKETS}, "
            f"got {shown(given)}.",
            field=field.field_id,
        )
    return int(given)


_Evaluate: TypeAlias = Callable[[ShardingField, pa.Array], pa.Array]
#: transform -> function that computes values from a source column; older names are unsupported
_TRANSFORMS: Mapping[str, _Evaluate] = {
    "bucket": lambda field, source: pa.array(bucket_numbers(source, _bucket_count(field))),
    "identity": lambda _field, source: source,
}


def shard_values(
    rows: pa.RecordBatch | pa.Table, spec: ShardingSpec, schema: LanceSchema
) -> pa.RecordBatch:
    """Return the sharding values of each row.

    Raises ColumnNotFoundError: the rows lack a source column.
    Raises InvalidArgumentError: the spec has no fields, a field has no source column, or its
        transform is unknown.
    Raises UnsupportedTypeError: values of the type cannot be hashed into buckets.

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
            hint="Add at least one field.",
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
            f"Sharding field {field.field_id!r} has an unknown transform {shown(field.transform)}.",
            hint=f"Known transforms are {', '.join(_TRANSFORMS)} and unsharded.",
            field=field.field_id,
        )
    return evaluate(field, _source(rows, field, schema))


def _source(rows: pa.RecordBatch | pa.Table, field: ShardingField, schema: LanceSchema) -> pa.Array:
    wanted = field.source_ids[:1]
    name = next((one.name for one in schema.fields if (one.id,) == wanted), None)
    if name is None:
        raise InvalidArgumentError(
            f"Sharding field {field.field_id!r} refers to field {list(field.source_ids)}, which "
            "is not a column of the table.",
            hint="Use a column id from the table's schema.",
            field=field.field_id,
        )
    if name not in rows.schema.names:
        raise column_not_found(name, rows.schema.names)
    column = rows.column(name)
    return ak.combine_chunks(column) if isinstance(column, pa.ChunkedArray) else column


def shard_id(spec: ShardingSpec, values: Mapping[str, object]) -> uuid.UUID:
    """Return the id of the shard whose rows have these values, by the ids of the spec's fields.

    The id is derived from the values, so that no list of shards is needed.

    Examples
    --------
    >>> spec = ShardingSpec(1, (ShardingField("bucket"),))
    >>> shard_id(spec, {"bucket": 2}) == shard_id(spec, {"bucket": 2})
    True
    """
    named = [f"{one.field_id}={values[one.field_id]!r}" for one in spec.fields]
    return uuid.uuid5(_NAMESPACE, "\n".join([str(spec.spec_id), *named]))


# ---- the 32-bit hash for buckets (docs/format/memwal.md, 5)
#
# It is Murmur3, except for the bytes after the last whole word of a text: each counts as a word.

#: values hashed at a time: the temporaries then fit into the processor's cache
_BLOCK = 1 << 13

# 64-bit copies of the constants: their products fit into 64 bits.
_FIRST, _SECOND, _ADDED = np.uint64(0xCC9E2D51), np.uint64(0x1B873593), np.uint64(0xE6546B64)
_THIRD, _FOURTH = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
_LOW, _SIGN = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFF00)


@kernel("u1 i8 =u4", saves=100)
def murmur(data: Values, offsets: Values, out: Values) -> int:
    """Hash texts one by one; like `_hash_block`."""
    for value in range(out.size):
        at, stop = offsets[np.uint64(value)], offsets[np.uint64(value + 1)]
        length = stop - at
        if at < 0 or length < 0 or stop > data.size:
            return -1
        state = np.uint64(0)
        while at < stop:
            word = np.uint64(data[np.uint64(at)])
            if stop - at >= 4:
                word |= np.uint64(data[np.uint64(at + 1)]) << np.uint64(8)
                word |= np.uint64(data[np.uint64(at + 2)]) << np.uint64(16)
                word |= np.uint64(data[np.uint64(at + 3)]) << np.uint64(24)
                at += 4
            else:
                if word >= np.uint64(128):
                    word |= _SIGN
                at += 1
            word = (word * _FIRST) & _LOW
            word = ((word << np.uint64(15)) | (word >> np.uint64(17))) & _LOW
            state ^= (word * _SECOND) & _LOW
            state = ((state << np.uint64(13)) | (state >> np.uint64(19))) & _LOW
            state = (state * np.uint64(5) + _ADDED) & _LOW
        state ^= np.uint64(length) & _LOW
        state = ((state ^ (state >> np.uint64(16))) * _THIRD) & _LOW
        state = ((state ^ (state >> np.uint64(13))) * _FOURTH) & _LOW
        out[np.uint64(value)] = state ^ (state >> np.uint64(16))
    return 0


def _mixed(state: _Words, words: _Words) -> _Words:
    """Mix one more word into each state."""
    words = words * np.uint32(0xCC9E2D51)
    words = (words << np.uint32(15)) | (words >> np.uint32(17))
    state = state ^ (words * np.uint32(0x1B873593))
    state = (state << np.uint32(13)) | (state >> np.uint32(19))
    return state * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(state: _Words, lengths: np.uint32 | _Words) -> _Words:
    state = state ^ lengths
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


def _blocks(count: int) -> list[slice]:
    return [slice(at, at + _BLOCK) for at in range(0, count, _BLOCK)]


def hash_short(numbers: NDArray[np.generic]) -> _Words:
    """Hash numbers of at most 32 bits as one word each."""
    out = np.empty(len(numbers), np.uint32)
    for part in _blocks(len(out)):
        words = numbers[part].astype(np.int64).astype(np.uint32)
        out[part] = _finished(_mixed(np.zeros(len(words), np.uint32), words), np.uint32(4))
    return out


def hash_long(numbers: NDArray[np.generic]) -> _Words:
    """Hash 64-bit numbers as two words each."""
    halves = np.ascontiguousarray(numbers).view(np.uint32).reshape(-1, 2)
    out = np.empty(len(halves), np.uint32)
    for part in _blocks(len(out)):
        low = _mixed(np.zeros(len(halves[part]), np.uint32), halves[part, 0])
        out[part] = _finished(_mixed(low, halves[part, 1]), np.uint32(8))
    return out


def hash_texts(texts: pa.Array) -> _Words:
    """Hash the bytes of each value of a `large_binary` array without nulls."""
    _, places, data = texts.buffers()
    offsets = viewed(places, "<i8")[texts.offset : texts.offset + len(texts) + 1]
    octets = viewed(data)
    out = np.zeros(len(texts), np.uint32)
    call = murmur.ready(len(texts))
    if call is None or call(octets, offsets, out) < 0:
        for part in _blocks(len(out)):
            out[part] = _hash_block(octets, offsets[part.start : part.stop + 1])
    return out


def _hash_block(octets: NDArray[np.uint8], offsets: NDArray[np.int64]) -> _Words:
    starts, lengths = offsets[:-1], np.diff(offsets)
    state = np.zeros(len(lengths), np.uint32)
    # overlapping words, one from each byte
    words: _Words = np.ndarray((max(len(octets) - 3, 0),), "<u4", octets, strides=(1,))
    # word k of all texts that have it, for each k: few texts are long
    place, texts = 0, np.flatnonzero(lengths >= 4)
    while len(texts):
        state[texts] = _mixed(state[texts], words[starts[texts] + place])
        place += 4
        texts = texts[lengths[texts] >= place + 4]
    behind = starts + (lengths & ~3)
    for trailing in range(3):
        texts = np.flatnonzero(lengths & 3 > trailing)
        # unlike Murmur3, each trailing byte is a sign-extended word
        single = octets[behind[texts] + trailing].view(np.int8)
        state[texts] = _mixed(state[texts], single.astype(np.int32).view(np.uint32))
    return _finished(state, lengths.astype(np.uint32))


# ---- composite primary keys as one order-preserving value (docs/format/memwal.md, 4)

_TESTS: tuple[Callable[[pa.DataType], bool], ...] = (
    pt.is_integer,
    pt.is_boolean,
    pt.is_string,
    pt.is_large_string,
    pt.is_binary,
    pt.is_large_binary,
)
#: the key types, for errors
KEY_TYPES = "integers, bool, text and binary"


def is_key_type(kind: pa.DataType) -> bool:
    """Return True if columns of a type can be in the primary key of a table with shards."""
    return any(test(kind) for test in _TESTS)


def one_key(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the keys of rows as one column; a single column is returned unchanged."""
    return columns[0] if len(columns) == 1 else key_tuples(columns)


def key_tuples(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    r"""Encode the key of each row as bytes with the same order as the keys.

    For each column, a null is a zero byte; another value follows a byte 1.  Whole numbers are 8
    big-endian bytes with the sign bit inverted, bool is one byte.  In text and binary each zero
    byte is followed by 0xFF, and two zero bytes mark the end.

    Raises UnsupportedTypeError: keys cannot have a column of this type.

    Examples
    --------
    >>> key_tuples([pa.array([1], pa.uint8()), pa.array(["a"])])[0].as_py()
    b'\x01\x00\x00\x00\x00\x00\x00\x00\x01\x01a\x00\x00'
    """
    parts = [part for column in columns for part in _parts(column)]
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))
    return cast("pa.BinaryArray", joined)


def _parts(column: pa.Array) -> list[pa.Array]:
    marks = np.ones(len(column), np.uint8)
    if not ak.null_count(column):
        return [_fixed(marks[:, None]), _value_bytes(column)]
    valid = column.is_valid()
    marks[~valid.to_numpy(zero_copy_only=False)] = 0
    empty = pa.scalar(b"", pa.binary())
    return [_fixed(marks[:, None]), pc.if_else(valid, _value_bytes(_filled(column)), empty)]


def _filled(column: pa.Array) -> pa.Array:
    """Replace nulls by any value of the type."""
    kind = column.type
    value: bytes | str | int = b"" if pt.is_binary(kind) or pt.is_large_binary(kind) else 0
    value = "" if pt.is_string(kind) or pt.is_large_string(kind) else value
    return column.fill_null(pa.scalar(value, pa.int64()).cast(kind) if value == 0 else value)


def _value_bytes(values: pa.Array) -> pa.Array:
    kind = values.type
    if pt.is_boolean(kind):
        return _fixed(values.cast(pa.uint8()).to_numpy()[:, None])
    if pt.is_integer(kind):
        signed = pt.is_signed_integer(kind)
        words = values.cast(pa.int64() if signed else pa.uint64()).to_numpy().view(np.uint64)
        turned = words ^ np.uint64(1 << 63) if signed else words
        return _fixed(turned.astype(">u8").view(np.uint8).reshape(-1, 8))
    if not is_key_type(kind):
        raise UnsupportedTypeError(
            f"Columns of type {kind} cannot be keys of shards.",
            hint=f"Supported key types are {KEY_TYPES}.",
            type=str(kind),
        )
    octets = values.cast(pa.binary())
    escaped = pc.replace_substring(octets, pattern=b"\x00", replacement=b"\x00\xff")
    end = pa.scalar(b"\x00\x00", pa.binary())
    ended = pc.binary_join_element_wise(escaped, end, pa.scalar(b"", pa.binary()))
    return cast("pa.Array", ended)


def _fixed(octets: NDArray[np.uint8]) -> pa.Array:
    """Convert rows of bytes to binary values."""
    rows, width = octets.shape
    data = pa.py_buffer(np.ascontiguousarray(octets))
    made = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, data])
    return made.cast(pa.binary())
