"""Bit-packed blocks of 1024 integers, in the order of FastLanes.

A block of T-bit integers packed to W bits is W rows of ``1024 / T`` lanes.  Logical row r of lane l
holds value ``16 * _ORDER[r // 8] + 128 * (r % 8) + l`` at bits ``r * W`` and up of the lane's
little-endian bit string.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancekit.file.memory import Ints, scratch

__all__ = ["BLOCK", "bits_needed", "pack_blocks", "place_of", "unpack_blocks"]

BLOCK = 1024

_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)

#: Bytes of values worked on together: few enough for the cache, enough to amortise the calls.
_TILE = 1 << 21

#: A row of all lanes is 128 bytes, whatever the type; rows are moved as one element each.
_LANES = np.dtype("V128")


def bits_needed(largest: int) -> int:
    """Return the width that holds every value up to ``largest``."""
    return int(largest).bit_length()


def unpack_blocks(packed: NDArray[Any], width: int) -> NDArray[Any]:
    """Unpack blocks of shape (blocks, ``width`` * lanes) to values of shape (blocks, 1024).

    The word type is the unpacked type; ``width`` is not 0.
    """
    dtype = packed.dtype
    bits = dtype.itemsize * 8
    lanes = BLOCK // bits
    blocks = packed.shape[0]
    out = scratch(blocks * BLOCK * dtype.itemsize).view(dtype).reshape(blocks, BLOCK)
    mask = dtype.type((1 << width) - 1)
    # rows whose bits start at the same place in a word are shifted together
    groups = gcd(width, bits)
    period, words = bits // groups, width // groups
    tile = max(1, _TILE // (BLOCK * dtype.itemsize))
    stored = np.ascontiguousarray(packed).view(_LANES)
    targets = out.view(_LANES).reshape(blocks, 8, bits // 8)
    for start in range(0, blocks, tile):
        part = stored[start : start + tile]
        count = len(part)
        planes = np.ascontiguousarray(part.T).view(dtype).reshape(groups, words, count * lanes)
        rows = np.empty((groups, period, count * lanes), dtype)
        for row in range(period):
            word, shift = divmod(row * width, bits)
            target = rows[:, row]
            np.right_shift(planes[:, word], dtype.type(shift), out=target)
            if shift + width > bits:
                target |= planes[:, word + 1] << dtype.type(bits - shift)
        if width < bits:
            rows &= mask
        by_octet = rows.reshape(-1).view(_LANES).reshape(bits // 8, 8, count)
        for octet in range(bits // 8):
            place = 16 * _ORDER[octet] // lanes
            targets[start : start + tile, :, place] = by_octet[octet].T
    return out


def pack_blocks(values: NDArray[Any], width: int) -> NDArray[Any]:
    """Pack values of shape (blocks, 1024), all below ``2 ** width``; mirrors `unpack_blocks`."""
    dtype = values.dtype
    bits = dtype.itemsize * 8
    lanes = BLOCK // bits
    blocks = values.shape[0]
    out = np.empty((blocks, width, lanes), dtype)
    if width == 0:
        return out.reshape(blocks, 0)
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


def place_of(positions: Ints, width: Any, bits: int) -> tuple[Ints, Ints]:
    """Return the word, within its block, and the shift at which values start.

    Parameters
    ----------
    positions
        Places of the values in their blocks, 0 to 1023.
    width
        Their packed width, one for all or one for each.
    bits
        The unpacked width.
    """
    lanes = BLOCK // bits
    row_of = np.empty(BLOCK, np.int64)
    for row in range(bits):
        first = 16 * _ORDER[row // 8] + 128 * (row % 8)
        row_of[first : first + lanes] = row
    word, shift = np.divmod(row_of[positions] * width, bits)
    return word * lanes + positions % lanes, shift
