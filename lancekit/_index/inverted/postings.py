"""Posting lists: in which documents a token is, how often, and where.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit._index.inverted.packed import PACKED, packed_at, patched_at, streams, varints

__all__ = ["BLOCKS", "TAILS", "PostingForm", "Postings", "decode_positions", "decode_postings"]

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Postings:
    """The documents of a token, ascending, and how often it is in each."""

    docs: Numbers
    counts: Numbers

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return int(self.docs.nbytes + self.counts.nbytes)


def _varint_tail(data: Bytes, rows: int) -> tuple[Numbers, Numbers]:
    both = varints(data)
    if len(both) != 2 * rows:
        raise ValueError(f"{len(both)} numbers for {rows} documents")
    return np.cumsum(both[:rows], dtype=np.uint32), both[rows:]


def _fixed_tail(data: Bytes, rows: int) -> tuple[Numbers, Numbers]:
    if len(data) != 8 * rows:
        raise ValueError(f"{len(data)} bytes for {rows} documents")
    both = np.ascontiguousarray(data).view("<u4")
    return both[:rows], both[rows:]


#: how many documents a block may have
BLOCKS = (PACKED, 2 * PACKED)
#: how the last documents are held, which are fewer than a block has
TAILS: Mapping[str, Callable[[Bytes, int], tuple[Numbers, Numbers]]] = {
    "varint_delta_v1": _varint_tail,
    "fixed32_v1": _fixed_tail,
}


@dataclass(frozen=True, slots=True)
class PostingForm:
    """How posting lists are held.

    Attributes
    ----------
    tail
        How the last documents are, one of `TAILS`.
    block
        How many documents are in a block, one of `BLOCKS`.
    """

    tail: str
    block: int

    @property
    def head(self) -> int:
        """How many bytes a block begins with that tell the best score in it."""
        return 4 if self.is_plain else 0

    @property
    def is_plain(self) -> bool:
        """Whether blocks are small; those that are not are scored by rounded lengths."""
        return self.block == PACKED

    def counts_at(self, data: Bytes, at: Places) -> tuple[Numbers, Places]:
        """Return the counts of blocks, which begin at some places, and where they end."""
        return (packed_at if self.is_plain else patched_at)(data, at, self.block)


def decode_postings(data: Bytes, ends: Places, length: int, form: PostingForm) -> Postings:
    """Return the documents of a token.

    Parameters
    ----------
    data, ends
        Its blocks, one after the other, and where each ends.
    length
        How many documents there are.

    Raises
    ------
    ValueError, IndexError
        The bytes are damaged.
    """
    full, rest = divmod(length, form.block)
    if len(ends) != full + (rest > 0):
        raise ValueError(f"{len(ends)} blocks for {length} documents")
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    heads = starts[:full]
    first = data[(heads + form.head)[:, np.newaxis] + np.arange(4)].view("<u4").reshape(-1, 1)
    deltas, after = packed_at(data, heads + form.head + 4, form.block)
    counts, after = form.counts_at(data, after)
    if not np.array_equal(after, ends[:full]):
        raise ValueError("blocks that do not end where they should")
    docs = [(first + np.cumsum(deltas, axis=1, dtype=np.uint32)).ravel()]
    often = [counts.ravel()]
    if rest:
        last = TAILS[form.tail](data[starts[-1] + form.head : ends[-1]], rest)
        docs.append(last[0])
        often.append(last[1])
    return Postings(_joined(docs), _joined(often))


def decode_positions(data: Bytes, starts: Places, counts: Numbers, block: int) -> Numbers:
    """Return at which words of its documents a token is, one document after the other.

    Parameters
    ----------
    data, starts
        Its blocks, one after the other, and where each begins.
    counts
        How often it is in each document.
    block
        How many documents are in a block.

    Raises
    ------
    ValueError, IndexError
        The bytes are damaged.
    """
    before = np.append(0, np.cumsum(counts, dtype=np.int64))
    if len(starts) != -(-len(counts) // block):
        raise ValueError(f"{len(starts)} blocks of positions for {len(counts)} documents")
    ends = np.append(before[:-1:block], before[-1])
    deltas = streams(data, starts, np.append(starts[1:], len(data)), np.diff(ends))
    totals = np.cumsum(deltas, dtype=np.uint32)
    firsts = before[:-1]  # positions of a document are counted from its first word
    base = totals[firsts] - deltas[firsts]
    positions: Numbers = totals - np.repeat(base, counts)
    return positions


def _joined(parts: list[Numbers]) -> Numbers:
    return np.concatenate(parts) if len(parts) > 1 else parts[0]
