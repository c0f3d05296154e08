"""Bit-packed blocks of 1024 integers in the FastLanes order.

A block of T-bit integers packed to W bits is W rows of ``1024 / T`` lanes.  Logical row r of lane l
holds value ``16 * _ORDER[r // 8] + 128 * (r % 8) + l`` at bits ``r * W`` and up of the lane's
little-endian bit string.
"""

from __future__ import annotations

import functools
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lancekit._compiled.kernel import Values, kernel
from lancekit._file.kernels.memory import Ints, scratch

BLOCK = 1024

_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)

#: Bytes of values processed together: they fit the cache and amortise the NumPy calls.
_TILE = 1 << 19

#: One row of all lanes, 128 bytes for every type; NumPy moves each row as one element.
_LANES = np.dtype("V128")


@kernel("T i8 i8 i8 =T", over="u1 u2 u4 u8", saves=1)
def unpack(packed: Values, starts: Values, widths: Values, counts: Values, out: Values) -> int:
    """Unpack one block for each entry of `starts`, `widths` and `counts`.

    `starts` are positions in words.  A width of -1 marks values that are not packed.  `out` has
    room for 1024 more values than all counts together.
    """
    bits = 8 * packed.itemsize
    lanes = 1024 // bits
    word_of = packed.dtype.type
    after = 0
    for block in range(starts.size):
        width, start = widths[np.uint64(block)], starts[np.uint64(block)]
        count, first = counts[np.uint64(block)], after
        after += count
        words = count if width == -1 else width * lanes
        if width < -1 or width > bits or start < 0 or start > packed.size - words:
            return -1
        if count < 0 or count > 1024 or first + 1024 > out.size:
            return -1
        if width == -1:
            for at in range(count):
                out[np.uint64(first + at)] = packed[np.uint64(start + at)]
            continue
        if width == 0:
            for at in range(1024):
                out[np.uint64(first + at)] = 0
            continue
        mask = word_of(word_of(-1) >> word_of(bits - width))
        for row in range(bits):
            word = row * width // bits
            shift = row * width - word * bits
            octet = row >> 3  # in the order 0, 4, 2, 6, 1, 5, 3, 7
            place = ((octet & 1) << 2 | octet & 2 | (octet & 4) >> 2) * 16 + (row & 7) * 128
            to, low = first + place, start + word * lanes
            down = word_of(shift)
            if shift + width <= bits:
                for lane in range(lanes):
                    value = word_of(packed[np.uint64(low + lane)] >> down)
                    out[np.uint64(to + lane)] = value & mask
            else:
                up, high = word_of(bits - shift), low + lanes
                for lane in range(lanes):
                    value = word_of(packed[np.uint64(low + lane)] >> down)
                    rest = word_of(packed[np.uint64(high + lane)] << up)
                    out[np.uint64(to + lane)] = word_of(value | rest) & mask
    return 0


@kernel("T int =T", over="u1 u2 u4 u8", saves=1)
def pack(values: Values, width: int, out: Values) -> int:
    """Pack blocks of 1024 values below ``2 ** width``; the words of the blocks are contiguous."""
    bits = 8 * values.itemsize
    lanes = 1024 // bits
    word_of = values.dtype.type
    blocks = values.size // 1024
    if width < 1 or width > bits or out.size < blocks * width * lanes:
        return -1
    for block in range(blocks):
        first, start = 1024 * block, block * width * lanes
        for at in range(width * lanes):
            out[np.uint64(start + at)] = 0
        for row in range(bits):
            word = row * width // bits
            shift = row * width - word * bits
            octet = row >> 3
            place = ((octet & 1) << 2 | octet & 2 | (octet & 4) >> 2) * 16 + (row & 7) * 128
            of, low = first + place, start + word * lanes
            up = word_of(shift)
            for lane in range(lanes):
                out[np.uint64(low + lane)] |= word_of(values[np.uint64(of + lane)] << up)
            if shift + width > bits:
                down, high = word_of(bits - shift), low + lanes
                for lane in range(lanes):
                    out[np.uint64(high + lane)] |= word_of(values[np.uint64(of + lane)] >> down)
    return 0


def bits_needed(largest: int) -> int:
    """Return the bit width of values up to ``largest``."""
    return int(largest).bit_length()


class _Plan(NamedTuple):
    """Instructions to unpack one width.

    Every row of the result comes from one *word row*.  A word row is a row of words as stored or,
    for values that span two words, a row computed from both.  `source` is the word row of each
    result row, in the order of the values.  `left` multiplies a word so that its value ends at the
    highest bit; a right shift by all unused bits then isolates the value.

    `middle` is True for narrow widths: a value that crosses a word border is then within the word
    that starts in the middle of the first.  For others, it is the bitwise or of word row `first`
    shifted right by `down` and of the next word row multiplied by `up`.
    """

    source: Ints
    left: NDArray[np.unsignedinteger]
    middle: bool
    first: Ints
    down: NDArray[np.unsignedinteger]
    up: NDArray[np.unsignedinteger]

    @property
    def computed(self) -> int:
        """Number of word rows that are computed, not stored."""
        return len(self.first)


@functools.cache
def _plan(bits: int, width: int) -> _Plan:
    lanes, half = BLOCK // bits, bits // 2
    dtype = np.dtype(f"u{bits // 8}")
    row = np.arange(bits)
    order = np.empty(bits, np.int64)
    order[(16 * np.array(_ORDER)[row // 8] + 128 * (row % 8)) // lanes] = row
    word, shift = np.divmod(order * width, bits)
    over = shift + width > bits
    middle = bits > 8 and width <= half + 1
    first = np.arange(width - 1 if over.any() else 0) if middle else word[over]
    start = shift[over]
    if middle:
        shift[over] -= half
        word[over] += width
    else:
        shift[over] = bits - width
        word[over] = width + np.arange(len(first))

    def lanewise(numbers: Ints) -> NDArray[np.unsignedinteger]:
        return np.repeat(numbers.astype(dtype), lanes)

    one = dtype.type(1)
    return _Plan(
        source=word,
        left=one << lanewise(bits - width - shift),
        middle=middle,
        first=first,
        down=lanewise(start + width - bits),
        up=one << lanewise(2 * bits - width - start),
    )


def unpack_blocks(
    packed: NDArray[np.generic], width: int, into: NDArray[np.generic] | None = None
) -> NDArray[np.generic]:
    """Unpack blocks of shape (blocks, ``width`` * lanes) to values of shape (blocks, 1024).

    The word type is the unpacked type, and ``width`` is not 0.  Only the words within a block must
    be contiguous.  ``into`` is an optional output array of the result's shape.

    All steps but the last stay in the cache.  Each tile is first reordered to the order of the
    values, one row of all lanes as one element, and then shifted as a whole.
    """
    dtype = packed.dtype
    bits = dtype.itemsize * 8
    lanes = BLOCK // bits
    blocks = len(packed)
    out = _table(blocks, BLOCK, dtype) if into is None else into
    whole = packed.flags.c_contiguous and out.flags.c_contiguous
    if whole and (call := unpack.ready(blocks * BLOCK)) is not None:
        starts = np.arange(blocks) * (width * lanes)
        each = np.full(blocks, BLOCK)
        if call(packed.reshape(-1), starts, np.full(blocks, width), each, out) >= 0:
            return out
    plan = _plan(bits, width)
    computed = plan.computed * lanes
    stored = width * lanes
    tile = max(1, min(blocks, _TILE // (BLOCK * dtype.itemsize)))
    words, rows = _table(tile, stored + computed, dtype), _table(tile, BLOCK, dtype)
    unused = dtype.type(bits - width)
    for start in range(0, blocks, tile):
        part = packed[start : start + tile]
        count = len(part)
        known, values = words[:count], rows[:count]
        known[:, :stored] = part
        if plan.computed and plan.middle:
            halves = np.dtype(f"u{dtype.itemsize // 2}")
            between, of_part = known[:, stored:].view(halves), known[:, :stored].view(halves)
            between[:, ::2] = of_part[:, 1 : -2 * lanes : 2]
            between[:, 1::2] = of_part[:, 2 * lanes :: 2]
        elif plan.computed:
            low = known.view(_LANES).take(plan.first, 1).view(dtype)
            high = known.view(_LANES).take(plan.first + 1, 1).view(dtype)
            low >>= plan.down
            high *= plan.up
            np.bitwise_or(low, high, out=known[:, stored:])
        # "clip" keeps NumPy from buffering the result
        np.take(known.view(_LANES), plan.source, 1, values.view(_LANES), "clip")
        values *= plan.left
        np.right_shift(values, unused, out=out[start : start + count])
    return out


def _table(rows: int, columns: int, dtype: np.dtype) -> NDArray[Any]:
    """Return an uninitialised two-dimensional array, aligned to 64 bytes."""
    table: NDArray[np.generic] = scratch(rows * columns * dtype.itemsize).view(dtype)
    return table.reshape(rows, columns)


def pack_blocks(values: NDArray[np.unsignedinteger], width: int) -> NDArray[np.unsignedinteger]:
    """Pack values of shape (blocks, 1024), all below ``2 ** width``: inverse of `unpack_blocks`."""
    dtype = values.dtype
    bits = dtype.itemsize * 8
    lanes = BLOCK // bits
    blocks = values.shape[0]
    out = np.empty((blocks, width, lanes), dtype)
    if width == 0:
        return out.reshape(blocks, 0)
    if (call := pack.ready(blocks * BLOCK)) is not None and call(values, width, out) >= 0:
        return out.reshape(blocks, width * lanes)
    groups = gcd(width, bits)
    period, words = bits // groups, width // groups
    tile = max(1, _TILE // (BLOCK * dtype.itemsize))
    for start in range(0, blocks, tile):
        source = values[start : start + tile]
        count = len(source)
        by_octet = np.empty((bits // 8, 8, count, lanes), dtype)
        octets = source.reshape(count, 8, 128)
        for octet in range(bits // 8):
            first = 16 * _ORDER[octet]
            by_octet[octet] = octets[:, :, first : first + lanes].transpose(1, 0, 2)
        rows = by_octet.reshape(groups, period, count * lanes)
        planes = np.zeros((groups, words, count * lanes), dtype)
        for row in range(period):
            word, shift = divmod(row * width, bits)
            planes[:, word] |= rows[:, row] << dtype.type(shift)
            if shift + width > bits:
                planes[:, word + 1] |= rows[:, row] >> dtype.type(bits - shift)
        out[start : start + tile] = planes.reshape(width, count, lanes).transpose(1, 0, 2)
    return out.reshape(blocks, width * lanes)


def place_of(positions: Ints, width: Ints | int, bits: int) -> tuple[Ints, Ints]:
    """Return the first word of each value, relative to its block, and the bit shift in that word.

    positions: positions of the values in their blocks, 0 to 1023.
    width: packed width, one for all values or one for each.
    bits: unpacked width.
    """
    lanes = BLOCK // bits
    word, shift = np.divmod(_rows_of(bits)[positions] * width, bits)
    return word * lanes + positions % lanes, shift


def value_at(words: NDArray[np.generic], place: int, width: int) -> int:
    """Return the value at position `place` of a block of words; ``width`` is not 0."""
    bits = words.dtype.itemsize * 8
    word, shift = divmod(int(_rows_of(bits)[place]) * width, bits)
    lanes = BLOCK // bits
    at = word * lanes + place % lanes
    value = int(words[at]) >> shift
    if shift + width > bits:
        value |= int(words[at + lanes]) << (bits - shift)
    return value & ((1 << width) - 1)


@functools.cache
def _rows_of(bits: int) -> Ints:
    """Return the row within its lane of each position of a block."""
    lanes = BLOCK // bits
    row_of = np.empty(BLOCK, np.int64)
    for row in range(bits):
        first = 16 * _ORDER[row // 8] + 128 * (row % 8)
        row_of[first : first + lanes] = row
    return row_of
