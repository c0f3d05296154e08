"""Posting lists: the documents, counts and positions of a token; and their packed forms.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit._file.kernels.memory import ranges

# ---- numbers in posting lists: packed 128 at a time, or as variable-length integers
#
# See docs/format/indices.md, 14.


#: numbers that are packed together, and the bits of a word, which are also the numbers of a lane
PACKED, _WORD = 128, 32


def packed_bytes(widths: Bytes, count: int = PACKED) -> Places:
    """Return the bytes of packed numbers, given the bits of each."""
    return widths.astype(np.int64) * (count // 8)


def unpacked(data: Bytes, starts: Places, widths: Bytes, count: int = PACKED) -> Numbers:
    """Return the numbers of some blocks, shape (blocks, count).

    Number ``j`` is in lane ``j % 4`` of 128 numbers, ``j % 8`` of 256. In a lane, the lowest bits
    come first. The words of all lanes alternate.

    starts, widths: the start of each block, and the bits of its numbers.
    """
    out = np.zeros((len(starts), count), np.uint32)
    for width in np.unique(widths).tolist():
        if not width:
            continue
        if width > _WORD:
            raise ValueError(f"numbers of {width} bits")
        mine = np.flatnonzero(widths == width)
        raw = data[starts[mine][:, np.newaxis] + np.arange(width * count // 8)]
        words = raw.view("<u4").reshape(len(mine), width, count // _WORD)
        out[mine] = _unpacked(words, width).reshape(len(mine), count)
    return out


def _unpacked(words: Numbers, width: int) -> Numbers:
    out = np.empty((len(words), _WORD, words.shape[2]), np.uint32)
    mask = np.uint32((1 << width) - 1)
    for place in range(_WORD):
        word, bit = divmod(place * width, _WORD)
        value = words[:, word] >> np.uint32(bit)
        if bit + width > _WORD:
            value |= words[:, word + 1] << np.uint32(_WORD - bit)
        out[:, place] = value & mask
    return out


def varints(data: Bytes) -> Numbers:
    """Return numbers of seven bits per byte, the lowest first; all bytes but the last have a mark.

    Examples
    --------
    >>> varints(np.array([5, 0x81, 1, 0], np.uint8)).tolist()
    [5, 129, 0]
    """
    ends = np.flatnonzero(data < 0x80)
    if not len(data):
        return np.empty(0, np.uint32)
    if not len(ends) or ends[-1] != len(data) - 1:
        raise ValueError("a number that does not end")
    starts = np.concatenate([[0], ends[:-1] + 1])
    places = np.arange(len(data)) - np.repeat(starts, ends - starts + 1)
    if places.max() > 4:
        raise ValueError("a number of more than 32 bits")
    parts = (data & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.add.reduceat(parts, starts).astype(np.uint32)


def packed(numbers: Numbers) -> tuple[Bytes, Places]:
    """Return blocks of packed numbers, and the end of each; the input has shape (blocks, 128).

    A block is its width, followed by the bytes that `unpacked` reads.

    Examples
    --------
    >>> block = np.arange(128, dtype=np.uint32).reshape(1, 128)
    >>> data, ends = packed(block)
    >>> int(data[0]), ends.tolist()
    (7, [113])
    >>> bool((unpacked(data, np.array([1]), data[:1]) == block).all())
    True
    """
    most = numbers.max(axis=1, initial=0).astype(np.float64)
    widths = np.ceil(np.log2(most + 1)).astype(np.uint8)
    sizes = 1 + packed_bytes(widths)
    ends = np.cumsum(sizes)
    out = np.empty(int(sizes.sum()), np.uint8)
    for width in np.unique(widths).tolist():
        mine = np.flatnonzero(widths == width)
        words = _packed(numbers[mine].reshape(len(mine), _WORD, PACKED // _WORD), width)
        at = (ends - sizes)[mine]
        out[at] = width
        places = at[:, np.newaxis] + np.arange(1, 1 + width * PACKED // 8)
        out[places] = words.astype("<u4").reshape(len(mine), -1).view(np.uint8)
    return out, ends


def _packed(numbers: Numbers, width: int) -> Numbers:
    words = np.zeros((len(numbers), width, numbers.shape[2]), np.uint32)
    for place in range(numbers.shape[1] if width else 0):
        word, bit = divmod(place * width, _WORD)
        words[:, word] |= numbers[:, place] << np.uint32(bit)
        if bit + width > _WORD:
            words[:, word + 1] |= numbers[:, place] >> np.uint32(_WORD - bit)
    return words


def varint_bytes(numbers: Numbers) -> tuple[Bytes, Places]:
    """Return numbers in the form that `varints` reads, and the end of each.

    Examples
    --------
    >>> [part.tolist() for part in varint_bytes(np.array([5, 129], np.uint32))]
    [[5, 129, 1], [1, 3]]
    """
    sizes = np.ones(len(numbers), np.int64)
    for bits in range(7, _WORD, 7):
        sizes += numbers >= 1 << bits
    ends = np.cumsum(sizes)
    places = np.arange(int(sizes.sum())) - np.repeat(ends - sizes, sizes)
    data = (np.repeat(numbers.astype(np.uint64), sizes) >> (7 * places).astype(np.uint64)) & 0x7F
    data[places < np.repeat(sizes, sizes) - 1] |= 0x80
    return data.astype(np.uint8), ends


def streams(data: Bytes, starts: Places, stops: Places, sizes: Places) -> Numbers:
    """Return the numbers of streams: packed 128 at a time, with varints for the rest."""
    if (sizes > PACKED * (stops - starts)).any():  # the most that one byte has, if all are 0
        raise ValueError("more positions than its bytes can hold")
    out = np.empty(int(sizes.sum()), np.uint32)
    begins = np.cumsum(sizes) - sizes
    at, left = starts.copy(), sizes.copy()
    while len(more := np.flatnonzero(left >= PACKED)):
        found, at[more] = packed_at(data, at[more])
        out[(begins + sizes - left)[more][:, np.newaxis] + np.arange(PACKED)] = found
        left[more] -= PACKED
    raw = gathered(data, at, stops)
    ends = np.append(0, np.cumsum(raw < 0x80))[np.append(0, np.cumsum(stops - at))]
    if not np.array_equal(np.diff(ends), left):
        raise ValueError("positions that do not match the counts of a token")
    within = np.arange(len(out)) - np.repeat(begins, sizes)
    out[within >= np.repeat(sizes - left, sizes)] = varints(raw)
    return out


def packed_at(data: Bytes, at: Places, count: int = PACKED) -> tuple[Numbers, Places]:
    """Return the packed numbers at some offsets, preceded by their widths, and their ends."""
    widths = data[at]
    return unpacked(data, at + 1, widths, count), at + 1 + packed_bytes(widths, count)


def _patched_at(data: Bytes, at: Places, count: int) -> tuple[Numbers, Places]:
    """Return packed numbers of blocks in which some numbers have more bits than the others.

    The number of exceptions follows the width. The exceptions follow the packed numbers: the index
    of each in the block, and its upper bits.
    """
    widths, more = data[at], data[at + 1]
    out = unpacked(data, at + 2, widths, count)
    at = at + 2 + packed_bytes(widths, count)
    for step in range(int(more.max(initial=0))):
        mine = np.flatnonzero(more > step)
        places = data[at[mine]]
        above, at[mine] = _varint_at(data, at[mine] + 1)
        out[mine, places] |= above << widths[mine]
    return out, at


def _varint_at(data: Bytes, at: Places) -> tuple[Numbers, Places]:
    """Return the varints at some offsets, and their ends."""
    out, left = np.zeros(len(at), np.uint32), np.arange(len(at))
    ends = at.copy()
    for bits in range(0, _WORD, 7):
        byte = data[ends[left]]
        ends[left] += 1
        out[left] |= (byte & 0x7F).astype(np.uint32) << np.uint32(bits)
        left = left[byte >= 0x80]
    if len(left):
        raise ValueError("a number of more than 32 bits")
    return out, ends


def gathered(data: Bytes, starts: Places, ends: Places) -> Bytes:
    """Return ranges of bytes, concatenated."""
    sizes = ends - starts
    if (sizes < 0).any():
        raise ValueError("blocks that do not end where they should")
    return data[ranges(starts, sizes)]


def interleaved(parts: Sequence[tuple[Bytes, Places]]) -> tuple[Bytes, Places]:
    """Return byte strings that concatenate an item of each part, and the end of each.

    parts: concatenated items, and the size of each.

    Examples
    --------
    >>> letters = np.frombuffer(b"abc", np.uint8), np.array([2, 1])
    >>> data, ends = interleaved([letters, (np.frombuffer(b"X", np.uint8), np.array([0, 1]))])
    >>> data.tobytes(), ends.tolist()
    (b'abcX', [2, 4])
    """
    total = np.sum([sizes for _, sizes in parts], axis=0)
    ends = np.cumsum(total)
    begins = ends - total
    out = np.empty(int(total.sum()), np.uint8)
    for data, sizes in parts:
        out[ranges(begins, sizes)] = data
        begins = begins + sizes
    return out, ends


Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Postings:
    """The ascending documents of a token, and its count in each."""

    docs: Numbers
    counts: Numbers

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
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


#: the number of documents that a block can have
BLOCKS = (PACKED, 2 * PACKED)
#: decoders for the last documents, which are fewer than a block
TAILS: Mapping[str, Callable[[Bytes, int], tuple[Numbers, Numbers]]] = {
    "varint_delta_v1": _varint_tail,
    "fixed32_v1": _fixed_tail,
}


@dataclass(frozen=True, slots=True)
class PostingForm:
    """The form of posting lists.

    tail: the encoding of the last documents, one of `TAILS`.
    block: the number of documents in a block, one of `BLOCKS`.
    """

    tail: str
    block: int

    @property
    def head(self) -> int:
        """The bytes at the start of a block with its best score."""
        return 4 if self.is_plain else 0

    @property
    def is_plain(self) -> bool:
        """True if blocks are small; documents in large blocks are scored by rounded lengths."""
        return self.block == PACKED

    def counts_at(self, data: Bytes, at: Places) -> tuple[Numbers, Places]:
        """Return the counts in blocks at some offsets, and their ends."""
        return (packed_at if self.is_plain else _patched_at)(data, at, self.block)


def decode_postings(data: Bytes, ends: Places, length: int, form: PostingForm) -> Postings:
    """Return the documents of a token.

    data, ends: its blocks, one after the other, and the end of each.
    length: the number of documents.

    Raises ValueError, IndexError: the bytes are damaged.
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
    """Return the word positions of a token in its documents, one document after the other.

    data, starts: its blocks, one after the other, and the start of each.
    counts: the token's count in each document.
    block: the number of documents in a block.

    Raises ValueError, IndexError: the bytes are damaged.
    """
    before = np.append(0, np.cumsum(counts, dtype=np.int64))
    if len(starts) != -(-len(counts) // block):
        raise ValueError(f"{len(starts)} blocks of positions for {len(counts)} documents")
    ends = np.append(before[:-1:block], before[-1])
    deltas = streams(data, starts, np.append(starts[1:], len(data)), np.diff(ends))
    totals = np.cumsum(deltas, dtype=np.uint32)
    firsts = before[:-1]  # positions of a document are relative to its first one
    base = totals[firsts] - deltas[firsts]
    positions: Numbers = totals - np.repeat(base, counts)
    return positions


def _joined(parts: list[Numbers]) -> Numbers:
    return np.concatenate(parts) if len(parts) > 1 else parts[0]
