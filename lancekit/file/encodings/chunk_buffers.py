"""Writing mini-block chunks: levels, values and headers of all chunks at once."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancekit.file.kernels.memory import Bytes, Ints, starts_of

__all__ = [
    "ChunkOverflow",
    "Part",
    "chunk_counts",
    "interleave",
    "join_chunks",
    "pack_flags",
]

#: Bytes of a chunk whose size is a 16-bit number.
_SMALL_CHUNK = 1 << 15


class ChunkOverflow(Exception):  # noqa: N818  # never leaves this package
    """A chunk with more bytes than the version allows."""


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


def join_chunks(
    counts: Ints,
    entries: Ints,
    levels: Sequence[Sequence[Part]],
    buffers: Sequence[Sequence[Part]],
    *,
    large: bool,
) -> tuple[Bytes, Bytes]:
    """Return the chunk metadata and the chunks.

    Parameters
    ----------
    counts, entries
        The values and the levels of every chunk; without level streams the latter do not matter.
    levels, buffers
        The level streams and the value buffers, each as parts that follow each other without
        padding.
    large
        Version 2.2: 32-bit chunk sizes.

    Raises
    ------
    ChunkOverflow
        A chunk is too large for the version.
    """
    if len(counts) == 1:
        return _one_chunk(int(entries[0]) if levels else 0, levels, buffers, large)
    width = 4 if large else 2
    length = 2 + 2 * len(levels) + width * len(buffers)
    header = np.zeros((len(counts), -(-length // 8) * 8), np.uint8)
    if levels:
        header[:, :2] = _numbers(entries, 2)
    at = 2
    for size, parts in [(2, parts) for parts in levels] + [(width, parts) for parts in buffers]:
        header[:, at : at + size] = _numbers(_total(parts, len(counts)), size)
        at += size

    ordered = [Part(header.reshape(-1), np.full(len(counts), header.shape[1]))]
    for parts in (*levels, *buffers):
        ordered += parts
        padding = -_total(parts, len(counts)) % 8
        if padding.any():
            ordered.append(Part(np.zeros(int(padding.sum()), np.uint8), padding))
    total = _total(ordered, len(counts))
    if not large and total.max() > _SMALL_CHUNK:
        raise ChunkOverflow
    logs = np.log2(np.maximum(counts, 1)).astype(np.int64)
    logs[-1] = 0
    words = (total // 8 - 1) << 4 | logs
    return words.astype(f"<u{width}").view(np.uint8), interleave(ordered)


def _one_chunk(
    entries: int,
    levels: Sequence[Sequence[Part]],
    buffers: Sequence[Sequence[Part]],
    large: bool,
) -> tuple[Bytes, Bytes]:
    """Do what `join_chunks` does, with fewer calls: wide tables have very many such pages."""
    pieces = [[part.data.data for part in parts] for parts in (*levels, *buffers)]
    sizes = [sum(piece.nbytes for piece in group) for group in pieces]
    numbers = "H" * (1 + len(levels)) + ("I" if large else "H") * len(buffers)
    if not large and sum(sizes) > _SMALL_CHUNK:
        raise ChunkOverflow
    header = struct.pack("<" + numbers, entries, *sizes)
    ordered: list[bytes | memoryview] = [header, bytes(-len(header) % 8)]
    for group, size in zip(pieces, sizes, strict=True):
        ordered += [*group, bytes(-size % 8)]
    chunk = np.frombuffer(b"".join(ordered), np.uint8)
    if not large and chunk.size > _SMALL_CHUNK:
        raise ChunkOverflow
    words = np.array([(chunk.size // 8 - 1) << 4], "<u4" if large else "<u2")
    return words.view(np.uint8), chunk


def _numbers(values: Ints, size: int) -> Bytes:
    return values.astype(f"<u{size}").view(np.uint8).reshape(-1, size)


def _total(parts: Sequence[Part], chunks: int) -> Ints:
    """Return the bytes of every chunk over all parts."""
    total = np.zeros(chunks, np.int64)
    for part in parts:
        total += part.lengths
    return total


def _nothing() -> pa.Scalar:
    """Return an empty string; ``pyarrow.scalar`` would import pandas."""
    buffers = [None, pa.py_buffer(np.zeros(2, np.int64)), pa.py_buffer(b"")]
    return pa.Array.from_buffers(pa.large_binary(), 1, buffers)[0]


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
    joined = pc.binary_join_element_wise(*arrays, _nothing()).buffers()[2]
    total = sum(int(part.lengths.sum()) for part in parts)
    out: Bytes = np.frombuffer(joined, np.uint8)[:total]
    return out
