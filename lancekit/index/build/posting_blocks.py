"""Posting lists as their files hold them: in blocks of 128 documents, all at once.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit.index.inverted.packed import PACKED, interleaved, packed, varint_bytes
from lancekit.index.inverted.whole import WholePartition

__all__ = ["position_blocks", "posting_blocks"]

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.float32]

_BYTES = pa.field("item", pa.large_binary(), False)
_OFFSETS = pa.field("item", pa.uint32(), False)


def posting_blocks(held: WholePartition, scores: Scores) -> tuple[pa.Array, Scores]:
    """Return the blocks of each token, and the best score of each token.

    Parameters
    ----------
    scores
        Of each token in each of its documents.
    """
    sizes, starts, firsts = _blocks(held)
    if not len(firsts):
        return pa.array([], pa.list_(_BYTES)), np.empty(0, np.float32)
    lengths = np.diff(np.append(firsts, len(held.docs)))
    full = lengths == PACKED
    in_full = np.repeat(full, lengths)
    deltas = np.diff(held.docs, prepend=np.uint32(0))
    deltas[firsts] = np.where(full, 0, held.docs[firsts])  # a full block has its first beside it
    heads = held.docs[firsts[full]].astype("<u4").view(np.uint8)
    four = np.full(len(firsts), 4)
    data, ends = interleaved(
        [
            (np.maximum.reduceat(scores, firsts).astype("<f4").view(np.uint8), four),
            (heads, four * full),
            _spread(packed(deltas[in_full].reshape(-1, PACKED)), full),
            _spread(packed(held.counts[in_full].reshape(-1, PACKED)), full),
            _varints(deltas[~in_full], lengths * ~full),
            _varints(held.counts[~in_full], lengths * ~full),
        ]
    )
    blocks = _list(_binary(data, ends), -(-sizes // PACKED), _BYTES)
    return blocks, np.maximum.reduceat(scores, starts)


def position_blocks(held: WholePartition, positions: Numbers) -> tuple[pa.Array, pa.Array]:
    """Return the positions of each token, and where those of its blocks begin."""
    sizes, _, firsts = _blocks(held)
    if not len(firsts):
        return pa.array([], pa.large_binary()), pa.array([], pa.list_(_OFFSETS))
    ends = np.append(0, np.cumsum(held.counts, dtype=np.int64))
    steps = np.diff(positions, prepend=np.uint32(0))
    steps[ends[:-1]] = positions[ends[:-1]]  # those of a document are counted from its first
    lengths = np.diff(np.append(ends[firsts], len(steps)))
    groups = lengths // PACKED
    within = np.arange(len(steps)) - np.repeat(ends[firsts], lengths)
    in_group = within < np.repeat(groups * PACKED, lengths)
    data, block_ends = interleaved(
        [
            _spread(packed(steps[in_group].reshape(-1, PACKED)), groups),
            _varints(steps[~in_group], lengths % PACKED),
        ]
    )
    count = -(-sizes // PACKED)
    stream_ends = block_ends[np.cumsum(count) - 1]
    starts = np.append(0, block_ends[:-1])
    starts -= np.repeat(np.append(0, stream_ends[:-1]), count)
    offsets = pa.array(starts.astype(np.uint32))
    return _binary(data, stream_ends), _list(offsets, count, _OFFSETS)


def _blocks(held: WholePartition) -> tuple[Places, Places, Places]:
    """Return how many documents tokens have, where these begin, and where each block begins."""
    starts = held.starts
    sizes = held.ends - starts
    within = np.arange(len(held.docs)) - np.repeat(starts, sizes)
    return sizes, starts, np.flatnonzero(within % PACKED == 0)


def _spread(groups: tuple[Bytes, Places], counts: Any) -> tuple[Bytes, Places]:
    """Return what packed groups take of each block, which has so many of them."""
    data, ends = groups
    return data, np.diff(np.append(0, ends)[np.append(0, np.cumsum(counts))])


def _varints(numbers: Numbers, counts: Places) -> tuple[Bytes, Places]:
    return _spread(varint_bytes(numbers), counts)


def _binary(data: Bytes, ends: Places) -> pa.Array:
    offsets = np.append(0, ends).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)


def _list(values: pa.Array, counts: Places, item: Any) -> pa.Array:
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(item), len(counts), buffers, children=[values])
