"""64-bit hashes of keys of any type: equal for equal keys, rarely equal for others.

An Arrow hash table of 10 million texts takes 1 GB in each process that uses it.  Hashes can be
sorted instead; after a hash is found, the keys themselves are compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._compiled.kernel import kernel
from lancekit._format.arrow_parts import viewed

Hashes = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]

# Odd numbers without a pattern.
_SPREAD, _NEXT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)
_HALF = np.uint64(32)

#: masks of the lowest 0 to 8 bytes of a word
_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)

#: longer values are hashed by a digest, because a blob of some MB takes seconds word by word
_LONG = 1 << 12

#: rows of a block: the temporaries then stay in the processor's cache
_BLOCK = 1 << 16

#: the float type to compare as, and the integer of its width; Arrow has few half-float kernels
FLOAT_BITS = {
    pa.float16(): (pa.float32(), pa.int32()),
    pa.float32(): (pa.float32(), pa.int32()),
    pa.float64(): (pa.float64(), pa.int64()),
}


@kernel("u1 i8 i8 =u8", saves=50)
def add_stretches(
    data: npt.NDArray[np.uint8], starts: Indices, sizes: Indices, block: Hashes
) -> int:
    """Run `_add_words` row by row, as a compiled kernel; return -1 if a range is invalid."""
    for row in range(block.size):
        at, left = starts[np.uint64(row)], sizes[np.uint64(row)]
        if at < 0 or left < 0 or at > data.size - left:
            return -1
        number = block[np.uint64(row)]
        word = np.uint64(left)
        while True:
            number = (number ^ word) * _SPREAD
            number = (number ^ (number >> _HALF)) * _NEXT
            number ^= number >> _HALF
            if left <= 0:
                break
            word = np.uint64(0)
            if left >= 8:
                for byte in range(8):
                    word |= np.uint64(data[np.uint64(at + byte)]) << np.uint64(8 * byte)
            else:
                for byte in range(left):
                    word |= np.uint64(data[np.uint64(at + byte)]) << np.uint64(8 * byte)
            at += 8
            left -= 8
        block[np.uint64(row)] = number
    return 0


def comparable(values: pa.Array) -> pa.Array:
    """Return a key column in a form in which equal keys have equal bytes; NaN equals NaN."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return comparable(values.cast(kind.value_type))
    if pa.types.is_boolean(kind):
        return values.cast(pa.uint8())
    if kind not in FLOAT_BITS:
        return values
    wide, bits = FLOAT_BITS[kind]
    values = values.cast(wide)
    return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), wide), values).view(bits)


def known_rows(columns: Sequence[pa.Array]) -> Indices:
    """Return the positions of the rows without a null in any column, ascending."""
    known = np.ones(len(columns[0]), bool)
    for column in columns:
        if ak.null_count(column):
            known &= column.is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(known)


def hash_rows(columns: Sequence[pa.Array], seed: int = 0) -> Hashes:
    """Return a hash of each row of columns in the form of `comparable`; arbitrary for nulls.

    columns: one or more, of equal length.
    seed: changes all hashes.
    """
    out = np.full(len(columns[0]), seed, np.uint64)
    for start in range(0, len(out), _BLOCK):
        block = out[start : start + _BLOCK]
        for column in columns:
            _add(block, column.slice(start, _BLOCK))
    return out


def _mix(block: Hashes, words: Hashes) -> None:
    block ^= words
    block *= _SPREAD
    block ^= block >> _HALF
    block *= _NEXT
    block ^= block >> _HALF


def _add(block: Hashes, values: pa.Array) -> None:
    """Mix the values of a column into hashes."""
    kind = values.type
    if pa.types.is_null(kind):
        return
    if _is_text(kind):
        large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        ends = viewed(values.buffers()[1], np.int64 if large else np.int32)
        mine = ends[values.offset : values.offset + len(values) + 1].astype(np.int64)
        _add_bytes(block, values.buffers()[2], mine[:-1], np.diff(mine))
        return
    width = kind.bit_width // 8
    if width in {1, 2, 4, 8}:
        numbers = viewed(values.buffers()[1], f"i{width}")
        numbers = numbers[values.offset : values.offset + len(values)].astype(np.int64, copy=False)
        _mix(block, numbers.view(np.uint64))
        return
    starts: Indices = np.arange(values.offset, values.offset + len(values)) * width
    sizes: Indices = np.full(len(values), width)
    _add_bytes(block, values.buffers()[1], starts, sizes)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _add_bytes(block: Hashes, data: pa.Buffer | None, starts: Indices, sizes: Indices) -> None:
    """Mix byte ranges into hashes; long values, such as blobs, by their digest."""
    is_long = sizes > _LONG
    if data is None or not is_long.any():
        _add_words(block, data, starts, sizes)
        return
    long, short = np.flatnonzero(is_long), np.flatnonzero(~is_long)
    view = memoryview(data)
    digests = b"".join(
        hashlib.blake2b(view[start : start + size], digest_size=8).digest()
        for start, size in zip(starts[long].tolist(), sizes[long].tolist(), strict=True)
    )
    part = block[long]
    _mix(part, sizes[long].view(np.uint64))
    _mix(part, np.frombuffer(digests, "<u8"))
    block[long] = part
    part = block[short]
    _add_words(part, data, starts[short], sizes[short])
    block[short] = part


def _add_words(block: Hashes, data: pa.Buffer | None, starts: Indices, sizes: Indices) -> None:
    """Mix byte ranges into hashes, one word of each at a time."""
    if data is not None and (call := add_stretches.ready(len(block))) is not None:
        found = block.copy()
        if call(np.frombuffer(data, np.uint8), starts, sizes, found) >= 0:
            block[:] = found
            return
    _mix(block, sizes.view(np.uint64))
    rows = np.flatnonzero(sizes)
    if data is None or not len(rows):
        return
    first, last = int(starts[0]), int(starts[-1] + sizes[-1])
    padded = np.zeros(last - first + 8, np.uint8)
    padded[:-8] = np.frombuffer(data, np.uint8)[first:last]
    # words start at any byte
    words: Hashes = np.ndarray((len(padded) - 7,), np.dtype("<u8"), padded, strides=(1,))
    at, left = starts[rows] - first, sizes[rows]
    while len(rows):
        part = block[rows]
        _mix(part, words[at] & _BYTES[np.minimum(left, 8)])
        block[rows] = part
        more = np.flatnonzero(left > 8)
        rows, at, left = rows[more], at[more] + 8, left[more] - 8
