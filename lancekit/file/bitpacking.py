"""Bit-packed blocks of 1024 integers, in the order of FastLanes.

A block of T-bit integers packed to W bits is W rows of ``1024 / T`` lanes.  Logical row r of lane l
holds value ``_first(r) + l`` at bits ``r * W`` and up of the lane's little-endian bit string.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK", "bits_needed", "pack_blocks", "unpack_blocks"]

BLOCK = 1024

_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)

#: Blocks worked on together: temporaries of this many bytes stay in the cache.
_TILE = 1 << 17


def _first(row: int) -> int:
    """Return the index of the value that lane 0 holds in logical row ``row``."""
    return 16 * _ORDER[row // 8] + 128 * (row % 8)


def bits_needed(largest: int) -> int:
    """Return the width that holds every value up to ``largest``."""
    return int(largest).bit_length()


def unpack_blocks(packed: NDArray[Any], width: int) -> NDArray[Any]:
    """Unpack blocks of shape (blocks, ``width`` * lanes) to values of shape (blocks, 1024).

    The word type is the unpacked type.
    """
    dtype = packed.dtype
    bits = dtype.itemsize * 8
    lanes = BLOCK // bits
    blocks = packed.shape[0]
    if width == 0:
        return np.zeros((blocks, BLOCK), dtype)
    out = np.empty((blocks, BLOCK), dtype)
    tile = max(1, _TILE // (BLOCK * dtype.itemsize))
    for start in range(0, blocks, tile):
        part = packed[start : start + tile].reshape(-1, width, lanes)
        _unpack_tile(part, width, bits, out[start : start + tile])
    return out


def _unpack_tile(planes: NDArray[Any], width: int, bits: int, out: NDArray[Any]) -> None:
    dtype = out.dtype.type
    lanes = BLOCK // bits
    mask = dtype((1 << width) - 1)
    for row in range(bits):
        word, shift = divmod(row * width, bits)
        first = _first(row)
        target = out[:, first : first + lanes]
        np.right_shift(planes[:, word], dtype(shift), out=target)
        if shift + width > bits:
            target |= planes[:, word + 1] << dtype(bits - shift)
        if shift + width != bits:
            target &= mask


def pack_blocks(values: NDArray[Any], width: int) -> NDArray[Any]:
    """Pack values of shape (blocks, 1024), all below ``2 ** width``; mirrors `unpack_blocks`."""
    dtype = values.dtype.type
    bits = values.dtype.itemsize * 8
    lanes = BLOCK // bits
    blocks = values.shape[0]
    out = np.zeros((blocks, width, lanes), dtype)
    if width == 0:
        return out.reshape(blocks, 0)
    tile = max(1, _TILE // (BLOCK * values.dtype.itemsize))
    for start in range(0, blocks, tile):
        source = values[start : start + tile]
        planes = out[start : start + tile]
        for row in range(bits):
            word, shift = divmod(row * width, bits)
            first = _first(row)
            part = source[:, first : first + lanes]
            planes[:, word] |= part << dtype(shift)
            if shift + width > bits:
                planes[:, word + 1] |= part >> dtype(bits - shift)
    return out.reshape(blocks, width * lanes)
