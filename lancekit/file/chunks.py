"""Writing mini-block chunks: levels, values and headers of all chunks at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancekit.file import bits
from lancekit.file.bitpacking import BLOCK
from lancekit.file.memory import Bytes, Ints, starts_of
from lancekit.file.messages21 import flat
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["Part", "chunk_counts", "interleave", "join_chunks", "level_part", "pack_flags"]

#: Levels of so small a page are not worth packing.
_FEW_LEVELS = 512


@dataclass(frozen=True, slots=True)
class Part:
    """One buffer of every chunk, back to back: `lengths` bytes each, without padding."""

    data: Bytes
    lengths: Ints


def chunk_counts(rows: int, size: int) -> Ints:
    """Return the values of every chunk: ``size`` each, and what is left in the last."""
    full = max(0, -(-rows // size) - 1)
    return np.array([size] * full + [rows - full * size], np.int64)


def pack_flags(flags: Bytes) -> Bytes:
    """Pack blocks of 1024 flags, one byte each, as 16-bit integers of width 1.

    In a block value ``128 * s + 64 * o + l`` is bit ``8 * o + s`` of word ``l``.
    """
    block = np.packbits(flags.reshape(-1, 8, 2, 64), axis=1, bitorder="little")
    return np.ascontiguousarray(block.reshape(-1, 2, 64).transpose(0, 2, 1)).reshape(-1)


def level_part(validity: Bytes, counts: Ints) -> tuple[pb.CompressiveEncoding, Part]:
    """Return the definition levels of every chunk: 0 for a value, 1 for a null."""
    rows = int(counts.sum())
    levels = 1 - bits.unpack(validity, rows)
    if rows <= _FEW_LEVELS:
        return flat(16), Part(levels.astype("<u2").view(np.uint8), counts * 2)
    packed = pb.OutOfLineBitpacking(uncompressed_bits_per_value=16, values=flat(1))
    encoding = pb.CompressiveEncoding(out_of_line_bitpacking=packed)
    size, full = int(counts[0]), len(counts) - 1
    head = _packed_levels(levels[: full * size].reshape(full, size))
    tail = _packed_levels(levels[full * size :].reshape(1, -1))
    each = head.size // full if full else 0
    lengths = np.array([each] * full + [tail.size], np.int64)
    return encoding, Part(np.concatenate((head, tail)), lengths)


def _packed_levels(levels: Bytes) -> Bytes:
    """Pack the levels of chunks of one size, of shape (chunks, size)."""
    chunks, size = levels.shape
    rest = size % BLOCK
    if size == 0 or chunks == 0:
        return np.empty(0, np.uint8)
    if rest == 0:
        return pack_flags(levels.reshape(-1))
    whole = pack_flags(np.ascontiguousarray(levels[:, : size - rest]).reshape(-1))
    end = levels[:, size - rest :]
    if BLOCK - rest >= 15 * rest:  # raw 16-bit words are no longer than a padded block
        tail = end.astype("<u2").view(np.uint8)
    else:
        padded = np.zeros((chunks, BLOCK), np.uint8)
        padded[:, :rest] = end
        tail = pack_flags(padded.reshape(-1)).reshape(chunks, -1)
    return np.concatenate((whole.reshape(chunks, -1), tail), axis=1).reshape(-1)


def join_chunks(
    counts: Ints,
    levels: Part | None,
    buffers: Sequence[Sequence[Part]],
    *,
    large: bool,
) -> tuple[Bytes, Bytes]:
    """Return the chunk metadata and the chunks.

    Every value buffer is a sequence of parts that follow each other without padding.
    """
    sizes = [_total(parts) for parts in buffers]
    length = 2 + 2 * (levels is not None) + (4 if large else 2) * len(buffers)
    header = np.zeros((len(counts), -(-length // 8) * 8), np.uint8)
    at = 2
    if levels is not None:
        header[:, :2] = counts.astype("<u2").view(np.uint8).reshape(-1, 2)
        header[:, 2:4] = levels.lengths.astype("<u2").view(np.uint8).reshape(-1, 2)
        at = 4
    width = 4 if large else 2
    for size in sizes:
        header[:, at : at + width] = size.astype(f"<u{width}").view(np.uint8).reshape(-1, width)
        at += width

    ordered = [Part(header.reshape(-1), np.full(len(counts), header.shape[1]))]
    for parts in ([[levels]] if levels is not None else []) + [list(b) for b in buffers]:
        ordered += parts
        padding = -_total(parts) % 8
        if padding.any():
            ordered.append(Part(np.zeros(int(padding.sum()), np.uint8), padding))
    total = _total(ordered)
    logs = np.log2(np.maximum(counts, 1)).astype(np.int64)
    logs[-1] = 0
    words = (total // 8 - 1) << 4 | logs
    return words.astype("<u4" if large else "<u2").view(np.uint8), interleave(ordered)


def _total(parts: Sequence[Part]) -> Ints:
    """Return the bytes of every chunk over all parts."""
    total: Ints = np.sum([part.lengths for part in parts], axis=0, dtype=np.int64)
    return total


def interleave(parts: Sequence[Part]) -> Bytes:
    """Return the first pieces of all parts, then the second ones, and so on."""
    arrays = [
        pa.LargeBinaryArray.from_buffers(
            pa.large_binary(),
            len(part.lengths),
            [None, pa.py_buffer(starts_of(part.lengths)), pa.py_buffer(part.data)],
        )
        for part in parts
    ]
    separator = pa.scalar(b"", pa.large_binary())
    joined = pc.binary_join_element_wise(*arrays, separator).buffers()[2]
    total = sum(int(part.lengths.sum()) for part in parts)
    out: Bytes = np.frombuffer(joined, np.uint8)[:total]
    return out
