"""Merge keys as bytes, and their XXH64 hashes, for key-existence filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import numbers_of
from lancekit._compiled.kernel import Values, kernel
from lancekit._format.arrow_parts import strings_of, unit_and_zone, viewed
from lancekit.errors import InvalidArgumentError, UnsupportedTypeError

Hashes: TypeAlias = npt.NDArray[np.uint64]
T = TypeVar("T")
#: (type test, encoder) pairs; the first matching test decides
_Encoders: TypeAlias = Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], T]]]


def _words(values: pa.Array) -> Hashes:
    """Sign-extend an integer-like array without nulls to 64-bit words."""
    signed = not pt.is_unsigned_integer(values.type)
    numbers = numbers_of(pc.cast(values, pa.int64() if signed else pa.uint64()))
    return cast(Hashes, numbers.view(np.uint64))


def _storage_words(values: pa.Array) -> Hashes:
    """Return the stored integers of dates, times and durations as words."""
    bits = values.type.bit_width
    return _words(values.view(pa.int64() if bits == 64 else pa.int32()))


def _date64_words(values: pa.Array) -> Hashes:
    milliseconds = _storage_words(values).view(np.int64)
    return (milliseconds // 86_400_000).view(np.uint64)


def _timestamp_words(values: pa.Array) -> Hashes:
    """Convert timestamps to microseconds; lost nanoseconds can only cause false matches."""
    stored = _storage_words(values).view(np.int64)
    unit, _ = unit_and_zone(values.type)
    factor = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}[unit]
    micros = stored // 1_000 if unit == "ns" else stored * np.int64(factor)
    return micros.view(np.uint64)


def _float_words(values: pa.Array) -> Hashes:
    """Normalise zeros to one bit pattern, and all NaN to one."""
    numbers = numbers_of(values).astype(np.float64) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return cast(Hashes, numbers.view(np.uint64))


def _decimal_bytes(values: pa.Array) -> pa.Array:
    """Encode unscaled values big-endian in the fewest bytes that keep the sign, like Java."""
    width = values.type.byte_width
    raw = viewed(values.buffers()[1]).reshape(-1, width)
    big_endian = raw[values.offset : values.offset + len(values), ::-1]
    sign = np.where(big_endian[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte is redundant if it, and the top bit after it, only repeat the sign.
    redundant = (big_endian[:, :-1] == sign) & ((big_endian[:, 1:] ^ sign) < 0x80)
    keep = np.ones(big_endian.shape, bool)
    keep[:, :-1] = ~np.logical_and.accumulate(redundant, axis=1)
    offsets = np.concatenate([[0], np.cumsum(keep.sum(axis=1))]).astype(np.int64)
    return strings_of(offsets, np.ascontiguousarray(big_endian[keep]))


# Types whose key bytes are 64-bit words.  The first two rows are the reference's.  lance-spark
# defines small integers, bool, float, date and timestamp (and decimal below).  Time and duration,
# as stored in the column's own unit, are lancekit's.
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
    (_is_bytes, lambda values: values.cast(pa.large_binary())),
    (pt.is_decimal, _decimal_bytes),
)


def _encoder(table: _Encoders[T], kind: pa.DataType) -> Callable[[pa.Array], T] | None:
    return next((encode for test, encode in table if test(kind)), None)


def _part_bytes(values: pa.Array) -> pa.Array:
    """Encode one column without nulls to key bytes."""
    words = _encoder(_WORD_ENCODERS, values.type)
    if words is not None:
        data = pa.py_buffer(np.ascontiguousarray(words(values), dtype="<u8"))
        fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(values), [None, data])
        return fixed.cast(pa.large_binary())
    encode = _encoder(_BYTE_ENCODERS, values.type)
    if encode is None:
        raise UnsupportedTypeError(
            f"Columns of type {values.type} cannot be keys.",
            hint="Use columns of plain, not nested, types as the key.",
            type=str(values.type),
        )
    return encode(values)


def _plain(values: pa.Array) -> pa.Array:
    """Convert dictionaries, extension types, and views, which Arrow has no filter kernel for."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if pt.is_string_view(values.type):
        return values.cast(pa.large_string())
    return values.cast(pa.large_binary()) if pt.is_binary_view(values.type) else values


def _whole(values: pa.ChunkedArray) -> pa.Array:
    # small dictionary keys may suffice only for the values of one chunk, so decode chunks first
    return ak.concat_arrays(map(_plain, values.chunks or [pa.nulls(0, values.type)]))


def _whole_rows(columns: Sequence[pa.Array | pa.ChunkedArray]) -> list[pa.Array]:
    """Concatenate chunks, convert values to plain types, and drop rows with a null key."""
    if not columns:
        raise InvalidArgumentError("A key needs at least one column.")
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(str(len(column)) for column in columns)
        raise InvalidArgumentError(f"Key columns must have the same length, got {lengths}.")
    arrays = [_whole(c) if isinstance(c, pa.ChunkedArray) else _plain(c) for c in columns]
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
    column's own unit) are 8 little-endian bytes.  Floats are the bits of the double, with one
    zero and one NaN.  Decimals are the shortest big-endian two's complement of the unscaled
    value.  Strings and binary are unchanged.  In a key of several columns a zero byte follows
    each part.  Rows with a null in a key column are omitted: null equals nothing.

    Raises UnsupportedTypeError: a column of a nested type.

    Examples
    --------
    >>> encode_keys([pa.array([7]), pa.array(["yz"])])[0].as_py()
    b'\x07\x00\x00\x00\x00\x00\x00\x00\x00yz\x00'
    """
    return _join(_whole_rows(columns))


def hash_keys(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Hashes:
    """Hash each row's key; rows with a null in it are omitted (see ``encode_keys``).

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


# ---- XXH64 (seed 0) of many short byte strings at once, in NumPy
#
# Values of equal length are hashed together: each step runs once per group, on a vector of values.
# Arithmetic is modulo 2^64, which ``uint64`` vectors provide.

Words: TypeAlias = npt.NDArray[np.uint64]
Positions: TypeAlias = npt.NDArray[np.int64]

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_MASK = (1 << 64) - 1

# Rows hashed at a time: the temporaries then fit into the processor's cache, which makes a million
# rows four times as fast as whole columns.
_CHUNK = 8_192


def _rotate(x: Words, bits: int) -> Words:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def _round(acc: Words, lane: Words) -> Words:
    return _rotate(acc + lane * _P2, 31) * _P1


def _lane_step(h: Words, lane: Words) -> Words:
    mixed = _rotate(lane * _P2, 31) * _P1
    return _rotate(h ^ mixed, 27) * _P1 + _P4


def _avalanche(h: Words) -> Words:
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


class _Data:
    """Bytes that can be read as words at any vector of positions, aligned or not."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        self._views = {
            width: np.ndarray((max(len(data) - width + 1, 0),), dtype, data, strides=(1,))
            for width, dtype in ((8, "<u8"), (4, "<u4"), (1, "u1"))
        }

    def read(self, width: int, at: Positions) -> Words:
        return self._views[width][at].astype(np.uint64, copy=False)


def _stripes(data: _Data, starts: Positions, length: int) -> Words:
    """Process the whole 32-byte stripes of values of at least 32 bytes."""
    seeds = ((int(_P1) + int(_P2)) & _MASK, int(_P2), 0, (-int(_P1)) & _MASK)
    accs = [np.full(len(starts), seed, np.uint64) for seed in seeds]
    for at in range(0, length - 31, 32):
        accs = [_round(acc, data.read(8, starts + (at + 8 * i))) for i, acc in enumerate(accs)]
    h = np.zeros(len(starts), np.uint64)
    for acc, bits in zip(accs, (1, 7, 12, 18), strict=True):
        h += _rotate(acc, bits)
    for acc in accs:
        h = (h ^ (_rotate(acc * _P2, 31) * _P1)) * _P1 + _P4
    return h


def _hash_at(data: _Data, starts: Positions, length: int) -> Words:
    """Hash the values of one length that start at the positions."""
    if length >= 32:
        h = _stripes(data, starts, length)
        at = length - length % 32
    else:
        h = np.full(len(starts), _P5, np.uint64)
        at = 0
    h = h + np.uint64(length)
    while length - at >= 8:
        h = _lane_step(h, data.read(8, starts + at))
        at += 8
    if length - at >= 4:
        h = _rotate(h ^ (data.read(4, starts + at) * _P1), 23) * _P2 + _P3
        at += 4
    for rest in range(at, length):
        h = _rotate(h ^ (data.read(1, starts + rest) * _P5), 11) * _P1
    return _avalanche(h)


def _chunks(count: int) -> list[slice]:
    return [slice(at, at + _CHUNK) for at in range(0, count, _CHUNK)]


def hash_words(words: Words) -> Words:
    """Hash each word as its eight little-endian bytes."""
    seed = np.uint64((int(_P5) + 8) & _MASK)
    out = np.empty(len(words), np.uint64)
    for part in _chunks(len(words)):
        lanes = words[part]
        out[part] = _avalanche(_lane_step(np.full(len(lanes), seed, np.uint64), lanes))
    return out


@kernel("u1 i8 =u8", saves=100)
def xxh64(data: Values, offsets: Values, out: Values) -> int:
    """Hash values one by one; like `hash_binary`."""
    for value in range(out.size):
        at, stop = offsets[np.uint64(value)], offsets[np.uint64(value + 1)]
        length = stop - at
        if at < 0 or length < 0 or stop > data.size:
            return -1
        if length >= 32:
            a, b, c, d = _P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1
            while stop - at >= 32:
                w, x, y, z = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
                for byte in range(8):
                    up = np.uint64(8 * byte)
                    w |= np.uint64(data[np.uint64(at + byte)]) << up
                    x |= np.uint64(data[np.uint64(at + 8 + byte)]) << up
                    y |= np.uint64(data[np.uint64(at + 16 + byte)]) << up
                    z |= np.uint64(data[np.uint64(at + 24 + byte)]) << up
                a, b, c, d = a + w * _P2, b + x * _P2, c + y * _P2, d + z * _P2
                a = (a << np.uint64(31) | a >> np.uint64(33)) * _P1
                b = (b << np.uint64(31) | b >> np.uint64(33)) * _P1
                c = (c << np.uint64(31) | c >> np.uint64(33)) * _P1
                d = (d << np.uint64(31) | d >> np.uint64(33)) * _P1
                at += 32
            h = (a << np.uint64(1) | a >> np.uint64(63)) + (b << np.uint64(7) | b >> np.uint64(57))
            h += c << np.uint64(12) | c >> np.uint64(52)
            h += d << np.uint64(18) | d >> np.uint64(46)
            for lane in (a, b, c, d):
                mixed = lane * _P2
                h = (h ^ ((mixed << np.uint64(31) | mixed >> np.uint64(33)) * _P1)) * _P1 + _P4
        else:
            h = _P5
        h += np.uint64(length)
        while stop - at >= 8:
            word = np.uint64(0)
            for byte in range(8):
                word |= np.uint64(data[np.uint64(at + byte)]) << np.uint64(8 * byte)
            word *= _P2
            h ^= (word << np.uint64(31) | word >> np.uint64(33)) * _P1
            h = (h << np.uint64(27) | h >> np.uint64(37)) * _P1 + _P4
            at += 8
        if stop - at >= 4:
            word = np.uint64(0)
            for byte in range(4):
                word |= np.uint64(data[np.uint64(at + byte)]) << np.uint64(8 * byte)
            h ^= word * _P1
            h = (h << np.uint64(23) | h >> np.uint64(41)) * _P2 + _P3
            at += 4
        while at < stop:
            h ^= np.uint64(data[np.uint64(at)]) * _P5
            h = (h << np.uint64(11) | h >> np.uint64(53)) * _P1
            at += 1
        h = (h ^ (h >> np.uint64(33))) * _P2
        h = (h ^ (h >> np.uint64(29))) * _P3
        out[np.uint64(value)] = h ^ (h >> np.uint64(32))
    return 0


def hash_binary(values: pa.LargeBinaryArray) -> Words:
    """Hash each value of an array without nulls."""
    count = len(values)
    out = np.empty(count, np.uint64)
    if not count:
        return out
    _, offset_buffer, data_buffer = values.buffers()
    offsets = viewed(offset_buffer, "<i8")[values.offset : values.offset + count + 1]
    raw = viewed(data_buffer)
    call = xxh64.ready(count)
    if call is not None and call(raw, offsets, out) >= 0:
        return out
    data = _Data(raw)
    lengths = np.diff(offsets)
    # NumPy sorts 16-bit keys by radix, several times as fast.
    order = np.argsort(
        lengths.astype(np.uint16) if lengths.max() < 1 << 16 else lengths, kind="stable"
    )
    small = []
    for group in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        length = int(lengths[group[0]])
        if len(group) < 64 + 10 * length:  # faster row by row (measured)
            small.append(group)
            continue
        for part in _chunks(len(group)):
            rows = group[part]
            out[rows] = _hash_at(data, offsets[rows], length)
    if small:
        rest = np.concatenate(small)
        view = memoryview(raw.data)
        spans = zip(offsets[rest].tolist(), offsets[rest + 1].tolist(), strict=True)
        out[rest] = [xxhash.xxh64_intdigest(view[start:stop]) for start, stop in spans]
    return out
