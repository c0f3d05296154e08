"""Mini-block encoder: levels, values and headers of all chunks at once.

See docs/format/data-files.md, 7.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lancekit._file.encodings.request import EncodedValues, Part, interleave
from lancekit._file.kernels.arrow_buffers import Encoded
from lancekit._file.kernels.memory import Bytes, Ints, starts_of
from lancekit._file.layouts.repdef_build import (
    Shredded,
    chunk_borders,
    pack_levels,
    repetition_index,
)
from lancekit._format.pb import encodings_v21_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Buffer

#: Maximum bytes of a chunk whose size is a 16-bit number.
_SMALL_CHUNK = 1 << 15


class ChunkOverflow(Exception):  # noqa: N818  # never leaves this package
    """A chunk has more bytes than the version allows."""


def mini_block(page: Shredded, values: EncodedValues, *, large_chunks: bool) -> Encoded:
    """Encode a page in chunks of encoded values; raise `ChunkOverflow` if one is too large."""
    layout = pb.MiniBlockLayout(
        value_compression=values.encoding,
        layers=page.layers,
        num_buffers=len(values.buffers),
        num_items=len(page.values),
        has_large_chunk=large_chunks,
    )
    levels = []
    with_levels = page.repetition is not None or page.definition is not None
    borders = chunk_borders(page, values.counts) if with_levels else starts_of(values.counts)
    if page.repetition is not None:
        encoding, parts = pack_levels(page.repetition, borders, large_chunks=large_chunks)
        layout.rep_compression.CopyFrom(encoding)
        layout.repetition_index_depth = 1
        levels.append(parts)
    if page.definition is not None:
        encoding, parts = pack_levels(page.definition, borders, large_chunks=large_chunks)
        layout.def_compression.CopyFrom(encoding)
        levels.append(parts)
    stored: tuple[Buffer, ...] = _join_chunks(
        values.counts, np.diff(borders), levels, values.buffers, large_chunks=large_chunks
    )
    if values.dictionary is not None:
        items, count, data = values.dictionary
        layout.dictionary.CopyFrom(items)
        layout.num_dictionary_items = count
        stored = (*stored, data)
    if page.repetition is not None:
        stored = (*stored, repetition_index(page.repetition, page.max_repetition, borders))
    return Encoded(page.rows, pb.PageLayout(mini_block=layout), stored)


def _join_chunks(
    counts: Ints,
    entries: Ints,
    levels: Sequence[Sequence[Part]],
    buffers: Sequence[Sequence[Part]],
    *,
    large_chunks: bool,
) -> tuple[Bytes, Bytes]:
    """Return the chunk metadata and the chunks.

    counts, entries: number of values and of levels in every chunk; without level streams
        ``entries`` is ignored.
    levels, buffers: level streams and value buffers, each as consecutive parts without padding.
    large_chunks: version 2.2, with 32-bit chunk sizes.

    Raises ChunkOverflow: a chunk is too large for the version.
    """
    if len(counts) == 1:
        return _one_chunk(int(entries[0]) if levels else 0, levels, buffers, large_chunks)
    width = 4 if large_chunks else 2
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
    if not large_chunks and total.max() > _SMALL_CHUNK:
        raise ChunkOverflow
    logs = np.log2(np.maximum(counts, 1)).astype(np.int64)
    logs[-1] = 0
    words = (total // 8 - 1) << 4 | logs
    return words.astype(f"<u{width}").view(np.uint8), interleave(ordered)


def _one_chunk(
    entries: int,
    levels: Sequence[Sequence[Part]],
    buffers: Sequence[Sequence[Part]],
    large_chunks: bool,
) -> tuple[Bytes, Bytes]:
    """Join a single chunk with fewer calls: wide tables have very many pages of one chunk."""
    pieces = [[part.data.data for part in parts] for parts in (*levels, *buffers)]
    sizes = [sum(piece.nbytes for piece in group) for group in pieces]
    numbers = "H" * (1 + len(levels)) + ("I" if large_chunks else "H") * len(buffers)
    if not large_chunks and sum(sizes) > _SMALL_CHUNK:
        raise ChunkOverflow
    header = struct.pack("<" + numbers, entries, *sizes)
    ordered: list[bytes | memoryview] = [header, bytes(-len(header) % 8)]
    for group, size in zip(pieces, sizes, strict=True):
        ordered += [*group, bytes(-size % 8)]
    chunk = np.frombuffer(b"".join(ordered), np.uint8)
    if not large_chunks and chunk.size > _SMALL_CHUNK:
        raise ChunkOverflow
    words = np.array([(chunk.size // 8 - 1) << 4], "<u4" if large_chunks else "<u2")
    return words.view(np.uint8), chunk


def _numbers(values: Ints, size: int) -> Bytes:
    return values.astype(f"<u{size}").view(np.uint8).reshape(-1, size)


def _total(parts: Sequence[Part], chunks: int) -> Ints:
    """Return the bytes of every chunk, summed over all parts."""
    total = np.zeros(chunks, np.int64)
    for part in parts:
        total += part.lengths
    return total
