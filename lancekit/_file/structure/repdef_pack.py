"""Level streams of chunks: where chunks begin, how levels are packed, the repetition index."""

from __future__ import annotations

import numpy as np

from lancekit._file.encodings import bitpacking, flat, rle
from lancekit._file.encodings.chunk_buffers import Part
from lancekit._file.kernels.bitpacking import bits_needed
from lancekit._file.kernels.memory import Bytes, Ints
from lancekit._file.structure.repdef_build import Shredded
from lancekit._format.pb import encodings_v21_pb2 as pb

__all__ = ["chunk_borders", "pack_levels", "repetition_index", "values_that_fit"]

#: The most levels of a chunk; packed and even raw, they keep within 16-bit sizes.
_MAX_LEVELS = 1 << 15

#: The most that the count of a chunk's levels says.
_MOST_LEVELS = (1 << 16) - 1

#: Bytes of levels in a chunk of 2.1, whose values leave so much room in 32 KiB.
_SMALL_BYTES = 12 << 10

_MIN_VALUES = 8

#: Levels of so small a page are not worth packing.
_FEW_LEVELS = 512


def values_that_fit(page: Shredded, *, large: bool, crowded: bool = False) -> int | None:
    """Return the most values of a chunk, a power of two, such that its levels fit too.

    ``None`` if even the smallest chunk would have too many, of null or empty lists. In a
    ``crowded`` chunk there may be as many as its 16-bit count says, if its bytes suffice.
    """
    widths = [
        bits_needed(int(levels.max()))
        for levels in (page.repetition, page.definition)
        if levels is not None
    ]
    limit = _MAX_LEVELS
    if crowded and max(widths, default=0) < 8:  # packed levels keep within 16-bit sizes
        limit = _MOST_LEVELS
    elif not large:
        limit = min(limit, _SMALL_BYTES * 8 // max(1, sum(widths)))
    fitting = 1 << limit.bit_length() - 1
    if page.slots is None:
        return fitting
    while fitting >= _MIN_VALUES:
        borders = _borders(page.slots, np.arange(fitting, len(page.slots), fitting), page.entries)
        if int(np.diff(borders, prepend=0).max()) <= limit:
            return fitting
        fitting //= 2
    return None


def _borders(slots: Ints, values: Ints, entries: int) -> Ints:
    """Return where chunks end, whose ends among the values are given but for the last."""
    return np.append(slots[values - 1] + 1, entries)


def chunk_borders(page: Shredded, counts: Ints) -> Ints:
    """Return the first entry of every chunk, and the end of the last.

    A chunk ends behind its last value; entries without a value go to the next one, and to the
    last.
    """
    ends = np.cumsum(counts)
    if page.slots is not None:
        ends = _borders(page.slots, ends[:-1], page.entries)
    return np.concatenate(([0], ends))


def repetition_index(repetition: Bytes, max_repetition: int, borders: Ints) -> bytes:
    """Return two numbers for every chunk.

    The rows that end in it, and the entries of its last row, if that goes on in the next chunk.
    """
    row_starts = np.flatnonzero(repetition == max_repetition)
    row_ends = np.append(row_starts[1:], borders[-1])
    ended = np.searchsorted(row_ends, borders, side="right")
    ends = borders[1:]
    last_start = np.maximum(row_starts[np.searchsorted(row_starts, ends) - 1], borders[:-1])
    whole = row_ends[np.maximum(ended[1:] - 1, 0)] == ends
    pairs = np.stack((np.diff(ended), np.where(whole, 0, ends - last_start)), axis=1)
    return pairs.astype("<u8").tobytes()


def pack_levels(
    levels: Bytes, borders: Ints, *, large: bool
) -> tuple[pb.CompressiveEncoding, list[Part]]:
    """Return the levels of every chunk, in the shortest of the forms that the version has."""
    if len(levels) <= _FEW_LEVELS:
        words = levels.astype("<u2").view(np.uint8)
        return flat.message(16), [Part(words, np.diff(borders) * 2)]
    width = bits_needed(int(levels.max()))
    if large:
        runs = rle.encode_blocks(levels, borders, at_most=len(levels) * width // 8)
        if runs is not None:
            return rle.message(16), runs
    packed = bitpacking.encode_out_of_line(levels, borders, width)
    return bitpacking.out_of_line_message(16, width), packed
