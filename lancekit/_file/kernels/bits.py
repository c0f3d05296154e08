"""Bitmaps in Arrow's bit order, least significant bit first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancekit._file.kernels.faults import require
from lancekit._file.kernels.memory import Bytes, Ints, gather


def pack(flags: NDArray[np.bool_ | np.integer]) -> Bytes:
    """Pack flags into a bitmap, one bit for each."""
    return np.packbits(flags, bitorder="little")


def unpack(bitmap: Bytes, count: int) -> Bytes:
    """Return one byte, 0 or 1, for each of the first ``count`` bits."""
    require(bitmap.size * 8 >= count, "a bitmap is too short")
    return np.unpackbits(bitmap, count=count, bitorder="little")


def slice_bits(bitmap: Bytes, start: int, count: int) -> Bytes:
    """Return ``count`` bits from bit ``start`` on, shifted to start at bit 0."""
    require(bitmap.size * 8 >= start + count, "a bitmap is too short")
    first, shift = divmod(start, 8)
    size = -(-count // 8)
    if shift == 0:
        return bitmap[first : first + size]
    low = bitmap[first : first + size] >> np.uint8(shift)
    high = bitmap[first + 1 : first + 1 + size] << np.uint8(8 - shift)
    low[: high.size] |= high
    return low


def gather_bits(data: Bytes, starts: Ints, counts: Ints) -> Bytes:
    """Concatenate bitmaps that each start on a byte: ``counts`` bits from each of ``starts``."""
    sizes = -(-counts // 8)
    joined = gather(data, starts, sizes)
    if (counts[:-1] % 8 == 0).all():
        return joined
    flags = np.unpackbits(joined, bitorder="little")
    # position of each result bit among the padded bitmaps
    before = np.concatenate(([0], np.cumsum(sizes * 8 - counts)[:-1]))
    return pack(flags[np.arange(int(counts.sum())) + np.repeat(before, counts)])
