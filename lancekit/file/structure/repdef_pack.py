"""Level streams of chunks: where chunks begin, how levels are packed, the repetition index."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancekit.file.encodings.chunk_buffers import Part, interleave, pack_flags
from lancekit.file.encodings.messages import flat
from lancekit.file.kernels.bitpacking import BLOCK, bits_needed, pack_blocks
from lancekit.file.kernels.memory import Bytes, Ints, gather, starts_of
from lancekit.file.structure.repdef_build import Shredded
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["chunk_borders", "pack_levels", "repetition_index", "values_that_fit"]

#: The most levels of a chunk; packed and even raw, they keep within 16-bit sizes.
_MAX_LEVELS = 1 << 15

#: Bytes of levels in a chunk of 2.1, whose values leave so much room in 32 KiB.
_SMALL_BYTES = 12 << 10

_MIN_VALUES = 8

#: Levels of so small a page are not worth packing.
_FEW_LEVELS = 512

_LONGEST_RUN = 255


def values_that_fit(page: Shredded, *, large: bool) -> int | None:
    """Return the most values of a chunk, a power of two, such that its levels fit too.

    ``None`` if even the smallest chunk would have too many, of null or empty lists.
    """
    limit = _MAX_LEVELS
    if not large:
        bits = sum(
            bits_needed(int(levels.max()))
            for levels in (page.repetition, page.definition)
            if levels is not None
        )
        limit = min(limit, _SMALL_BYTES * 8 // max(1, bits))
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
        return flat(16), [_words(levels, np.diff(borders))]
    width = bits_needed(int(levels.max()))
    if large:
        runs = _runs(levels, borders, at_most=len(levels) * width // 8)
        if runs is not None:
            return runs
    return _bit_packed(levels, borders, width)


def _words(levels: Bytes, counts: Ints) -> Part:
    return Part(levels.astype("<u2").view(np.uint8), counts * 2)


def _bit_packed(
    levels: Bytes, borders: Ints, width: int
) -> tuple[pb.CompressiveEncoding, list[Part]]:
    packed = pb.OutOfLineBitpacking(uncompressed_bits_per_value=16, values=flat(width))
    encoding = pb.CompressiveEncoding(out_of_line_bitpacking=packed)
    starts, counts = borders[:-1], np.diff(borders)
    whole = counts // BLOCK * BLOCK
    tails = counts - whole
    # a tail is packed if that is shorter than raw words
    raw = width * (BLOCK - tails) >= (16 - width) * tails
    to_pack, as_words = np.where(raw, 0, tails), np.where(raw, tails, 0)
    block_bytes = width * BLOCK // 8
    parts = []
    if whole.any():
        blocks = gather(levels, starts, whole)
        parts.append(Part(_pack(blocks, width), whole // BLOCK * block_bytes))
    if to_pack.any():
        picked = to_pack > 0
        ends = gather(levels, (starts + whole)[picked], to_pack[picked])
        padding = np.where(picked, BLOCK - to_pack, 0)[picked]
        zeros = np.zeros(int(padding.sum()), np.uint8)
        padded = interleave([Part(ends, to_pack[picked]), Part(zeros, padding)])
        parts.append(Part(_pack(padded, width), picked * block_bytes))
    if as_words.any():
        picked = as_words > 0
        ends = gather(levels, (starts + whole)[picked], as_words[picked])
        parts.append(_words(ends, as_words))
    return encoding, parts


def _pack(levels: Bytes, width: int) -> Bytes:
    """Pack whole blocks of 16-bit levels."""
    if width == 1:
        return pack_flags(levels)
    words = pack_blocks(levels.astype("<u2").reshape(-1, BLOCK), width)
    return words.reshape(-1).view(np.uint8)


def _runs(
    levels: Bytes, borders: Ints, at_most: int
) -> tuple[pb.CompressiveEncoding, list[Part]] | None:
    """Encode levels as runs; ``None`` if that takes more bytes than it may."""
    changes = np.flatnonzero(levels[1:] != levels[:-1]) + 1
    if 3 * len(changes) > at_most:
        return None
    starts = np.union1d(changes, borders[:-1])
    lengths = np.diff(starts, append=borders[-1])
    pieces = -(-lengths // _LONGEST_RUN)
    first = starts_of(pieces)
    if 3 * int(first[-1]) + 8 * (len(borders) - 1) > at_most:
        return None
    values = np.repeat(levels[starts], pieces)
    sizes: NDArray[np.uint8] = np.full(int(first[-1]), _LONGEST_RUN, np.uint8)
    sizes[first[1:] - 1] = (lengths - _LONGEST_RUN * (pieces - 1)).astype(np.uint8)
    runs = np.diff(first[np.searchsorted(starts, borders)])
    encoding = pb.CompressiveEncoding(rle=pb.Rle(values=flat(16), run_lengths=flat(8)))
    head = Part((2 * runs).astype("<u8").view(np.uint8), np.full(len(runs), 8))
    return encoding, [head, _words(values, runs), Part(sizes, runs)]
