"""Merge keys as bytes, and their XXH64 hashes: what a key-existence filter is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import numbers_of
from lancekit._format._xxh64 import hash_binary, hash_words
from lancekit._format.arrow_parts import unit_and_zone, viewed
from lancekit.errors import InvalidArgumentError, UnsupportedTypeError

__all__ = ["Hashes", "encode_keys", "hash_keys"]

Hashes: TypeAlias = npt.NDArray[np.uint64]
T = TypeVar("T")
#: how values are encoded, for the first of the tests of types that says yes
_Encoders: TypeAlias = Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], T]]]


def _words(values: pa.Array) -> Hashes:
    """Sign-extend an integer-like array without nulls to 64-bit words."""
    signed = not pt.is_unsigned_integer(values.type)
    numbers = numbers_of(pc.cast(values, pa.int64() if signed else pa.uint64()))
    return cast(Hashes, numbers.view(np.uint64))


def _storage_words(values: pa.Array) -> Hashes:
    """Take the integers that dates, times and durations are stored as."""
    bits = values.type.bit_width
    return _words(values.view(pa.int64() if bits == 64 else pa.int32()))


def _date64_words(values: pa.Array) -> Hashes:
    milliseconds = _storage_words(values).view(np.int64)
    return (milliseconds // 86_400_000).view(np.uint64)


def _timestamp_words(values: pa.Array) -> Hashes:
    """Count microseconds; what ns resolution loses can only make two keys look alike."""
    stored = _storage_words(values).view(np.int64)
    unit, _ = unit_and_zone(values.type)
    factor = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}[unit]
    micros = stored // 1_000 if unit == "ns" else stored * np.int64(factor)
    return micros.view(np.uint64)


def _float_words(values: pa.Array) -> Hashes:
    """Give one bit pattern to both zeros, and one to all NaN."""
    numbers = numbers_of(values).astype(np.float64) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return cast(Hashes, numbers.view(np.uint64))


def _decimal_bytes(values: pa.Array) -> pa.Array:
    """Write the unscaled value big-endian in as few bytes as keep its sign, as Java does."""
    width = values.type.byte_width
    raw = viewed(values.buffers()[1]).reshape(-1, width)
    big_endian = raw[values.offset : values.offset + len(values), ::-1]
    sign = np.where(big_endian[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte is redundant if it, and the top bit after it, only repeat the sign.
    redundant = (big_endian[:, :-1] == sign) & ((big_endian[:, 1:] ^ sign) < 0x80)
    keep = np.ones(big_endian.shape, bool)
    keep[:, :-1] = ~np.logical_and.accumulate(redundant, axis=1)
    offsets = np.concatenate([[0], np.cumsum(keep.sum(axis=1))]).astype(np.int64)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        len(values),
        [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(big_endian[keep]))],
    )


def _raw_bytes(values: pa.Array) -> pa.Array:
    return values.cast(pa.large_binary())


# Which types have 64-bit words as their key bytes.  The first two rows are the reference's; of
# the others, lance-spark defines the small integers, bool, float, date and timestamp (and decimal
# below); time and duration, as stored in the column's own unit, are lancekit's.
_WORD_ENCODERS: _Encoders[Hashes] = (
    (pt.is_integer, _words),
    (pt.is_boolean, _words),
    (pt.is_floating, _float_words),
    (pt.is_date32, _storage_words),
    (pt.is_date64, _date64_words),
    (pt.is_timestamp, _timestamp_words),
    (pt.is_time, _storage_words),
    (pt.is_duration, _storage_words),
)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            pt.is_string,
            pt.is_large_string,
            pt.is_binary,
            pt.is_large_binary,
            pt.is_fixed_size_binary,
        )
    )


_BYTE_ENCODERS: _Encoders[pa.Array] = (
    (_is_bytes, _raw_bytes),
    (pt.is_decimal, _decimal_bytes),
)


def _encoder(table: _Encoders[T], kind: pa.DataType) -> Callable[[pa.Array], T] | None:
    return next((encode for test, encode in table if test(kind)), None)


def _part_bytes(values: pa.Array) -> pa.Array:
    """Encode one column without nulls."""
    words = _encoder(_WORD_ENCODERS, values.type)
    if words is not None:
        data = pa.py_buffer(np.ascontiguousarray(words(values), dtype="<u8"))
        fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(values), [None, data])
        return fixed.cast(pa.large_binary())
    encode = _encoder(_BYTE_ENCODERS, values.type)
    if encode is None:
        raise UnsupportedTypeError(
            f"a key column of type {values.type} cannot be used.",
            hint="Use columns of plain, not nested, types as the key.",
            type=str(values.type),
        )
    return encode(values)


def _plain(values: pa.Array) -> pa.Array:
    """Decode dictionaries, extension types, and views, which Arrow has no filter kernel for."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if pt.is_string_view(values.type):
        return values.cast(pa.large_string())
    return values.cast(pa.large_binary()) if pt.is_binary_view(values.type) else values


def _whole_rows(columns: Sequence[pa.Array | pa.ChunkedArray]) -> list[pa.Array]:
    """Combine chunks, bring values to plain types, drop every row that has a null key."""
    if not columns:
        raise InvalidArgumentError("a key needs at least one column.")
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(str(len(column)) for column in columns)
        raise InvalidArgumentError(f"key columns of different lengths: {lengths}.")
    arrays = [ak.combine_chunks(c) if isinstance(c, pa.ChunkedArray) else c for c in columns]
    arrays = [_plain(a) for a in arrays]
    if not any(ak.null_count(a) for a in arrays):
        return arrays
    valid = reduce(pc.and_, (a.is_valid() for a in arrays))
    return [ak.filter(a, valid) for a in arrays]


def _join(arrays: list[pa.Array]) -> pa.LargeBinaryArray:
    parts = [_part_bytes(array) for array in arrays]
    if len(parts) == 1:
        return cast("pa.LargeBinaryArray", parts[0])
    end = pa.scalar(b"", pa.large_binary())
    zero = pa.scalar(b"\x00", pa.large_binary())
    return cast("pa.LargeBinaryArray", pc.binary_join_element_wise(*parts, end, zero))


def encode_keys(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.LargeBinaryArray:
    r"""Encode each row's key as the bytes that are hashed.

    Integers, booleans, dates (days), timestamps (microseconds), times and durations (the
    column's own unit) are 8 bytes, little-endian; floats the bits of the double, with one zero
    and one NaN; decimals the shortest big-endian two's complement of the unscaled value; strings
    and binary are themselves.  In a key of several columns each part is followed by a zero byte.
    Rows with a null in any key column are left out: null equals nothing.

    Raises
    ------
    UnsupportedTypeError
        A column of a nested type.

    Examples
    --------
    >>> encode_keys([pa.array([7]), pa.array(["yz"])])[0].as_py()
    b'\x07\x00\x00\x00\x00\x00\x00\x00\x00yz\x00'
    """
    return _join(_whole_rows(columns))


def hash_keys(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Hashes:
    """Hash each row's key, rows with a null in it left out (see ``encode_keys``).

    Examples
    --------
    >>> hex(hash_keys([pa.array([10])])[0])
    '0x185b704547c3cf22'
    """
    arrays = _whole_rows(columns)
    if len(arrays) == 1:
        words = _encoder(_WORD_ENCODERS, arrays[0].type)
        if words is not None:
            return hash_words(words(arrays[0]))
    return hash_binary(_join(arrays))
