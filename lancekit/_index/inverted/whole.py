"""Decoding of all posting lists of a partition at once, to write them again.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._file.kernels.arrow_buffers import list_offsets
from lancekit._file.kernels.memory import ranges
from lancekit._format.arrow_parts import string_parts
from lancekit._index.inverted.partition import StoredPartition
from lancekit._index.inverted.postings import PostingForm, gathered, packed_at, streams, varints
from lancekit.errors import CorruptFileError

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]

#: bytes of the first document's number in a block
_FIRST = 4


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class WholePartition:
    """The decoded content of a partition.

    rows, lengths: the row and the number of tokens of each document.
    tokens, ends: all tokens by their numbers, and the end of each token's documents in `docs`.
    docs, counts: the ascending documents of each token, and its count in each.
    positions: the word positions in these documents; ``None`` if they are not stored.
    """

    rows: npt.NDArray[np.uint64]
    lengths: Numbers
    tokens: list[str]
    ends: Places
    docs: Numbers
    counts: Numbers
    positions: Numbers | None

    @classmethod
    def joined(cls, parts: Sequence[WholePartition]) -> WholePartition:
        """Merge several partitions, all with or all without positions.

        The documents of the first come first.
        """
        known: dict[str, int] = {}
        codes = [
            np.array([known.setdefault(token, len(known)) for token in part.tokens], np.int64)
            for part in parts
        ]
        owners = np.concatenate(
            [np.repeat(code, part.sizes) for code, part in zip(codes, parts, strict=True)]
        )
        order = np.argsort(owners, kind="stable")
        before = np.cumsum([0, *(len(part.rows) for part in parts)]).astype(np.uint32)
        docs = np.concatenate([part.docs + b for part, b in zip(parts, before, strict=False)])
        counts = np.concatenate([part.counts for part in parts])
        positions = [part.positions for part in parts if part.positions is not None]
        return cls(
            rows=np.concatenate([part.rows for part in parts]),
            lengths=np.concatenate([part.lengths for part in parts]),
            tokens=list(known),
            ends=np.cumsum(np.bincount(owners, minlength=len(known))),
            docs=docs[order],
            counts=counts[order],
            positions=_in_order(np.concatenate(positions), counts, order) if positions else None,
        )

    @property
    def sizes(self) -> Places:
        """The number of documents of each token."""
        return np.diff(self.ends, prepend=0)

    @property
    def starts(self) -> Places:
        """The start of each token's documents."""
        return np.append(0, self.ends)[:-1].astype(np.int64)

    def among(self, kept: npt.NDArray[np.bool_]) -> WholePartition:
        """Return only some of the documents, and the tokens that they have."""
        if kept.all():
            return self
        there = kept[self.docs]
        sizes = np.diff(np.append(0, np.cumsum(there))[np.append(0, self.ends)])
        used = sizes > 0
        positions = self.positions
        if positions is not None:
            positions = positions[np.repeat(there, self.counts)]
        return WholePartition(
            rows=self.rows[kept],
            lengths=self.lengths[kept],
            tokens=[token for token, is_used in zip(self.tokens, used, strict=True) if is_used],
            ends=np.cumsum(sizes[used]),
            docs=(np.cumsum(kept, dtype=np.uint32) - 1)[self.docs[there]].astype(np.uint32),
            counts=self.counts[there],
            positions=positions,
        )


def read_whole(partition: StoredPartition) -> WholePartition:
    """Decode a partition.

    Raises CorruptFileError: it is damaged.
    Raises UnsupportedFeatureError: it has an unknown form.
    """
    file = partition.postings_file
    try:
        rows = partition.row_ids
        sizes = file.read("_length").to_numpy().astype(np.int64)
        tokens = _tokens(partition, len(sizes))
        docs, counts = _postings(file.read("_posting"), sizes, partition.form)
        _check_documents(docs, len(rows))
        ends = np.cumsum(sizes)
        positions = _positions(partition, tokens, counts, ends)
    except (ValueError, IndexError) as error:
        raise CorruptFileError(f"{file.where} has {error}.") from error
    return WholePartition(
        rows=rows,
        lengths=partition.lengths,
        tokens=[token for token, size in zip(tokens, sizes.tolist(), strict=True) if size],
        ends=ends[sizes > 0],
        docs=docs,
        counts=counts,
        positions=positions,
    )


def _check_documents(docs: Numbers, count: int) -> None:
    if len(docs) and int(docs.max()) >= count:
        raise ValueError(f"document {docs.max()}, which does not exist")


def _tokens(partition: StoredPartition, count: int) -> list[str]:
    found: list[str] = partition.token_set.words().to_pylist()
    if len(found) != count:
        raise ValueError(f"{count} posting lists for {len(found)} tokens")
    return found


def _postings(lists: pa.Array, sizes: Places, form: PostingForm) -> tuple[Numbers, Numbers]:
    """Return the documents of all tokens, one token after the other, and their counts."""
    data, bounds = _flat(lists)
    full, rest = sizes // form.block, sizes % form.block
    blocks = full + (rest > 0)
    if not np.array_equal(np.diff(list_offsets(lists)), blocks):
        raise ValueError("blocks that do not match its documents")
    is_tail = np.zeros(int(blocks.sum()), bool)
    is_tail[np.cumsum(blocks)[rest > 0] - 1] = True
    starts, ends = bounds[:-1], bounds[1:]
    inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    in_full = inside < np.repeat(full * form.block, sizes)
    docs, counts = np.empty(len(inside), np.uint32), np.empty(len(inside), np.uint32)
    docs[in_full], counts[in_full] = _blocks(
        data, starts[~is_tail] + form.head, ends[~is_tail], form
    )
    starts, ends = starts[is_tail] + form.head, ends[is_tail]
    docs[~in_full], counts[~in_full] = _TAILS[form.tail](data, starts, ends, rest[rest > 0])
    return docs, counts


def _blocks(
    data: Bytes, starts: Places, ends: Places, form: PostingForm
) -> tuple[Numbers, Numbers]:
    first = data[starts[:, np.newaxis] + np.arange(_FIRST)].view("<u4").reshape(-1, 1)
    deltas, at = packed_at(data, starts + _FIRST, form.block)
    counts, at = form.counts_at(data, at)
    if not np.array_equal(at, ends):
        raise ValueError("blocks that do not end where they should")
    return (first + np.cumsum(deltas, axis=1, dtype=np.uint32)).ravel(), counts.ravel()


def _varint_tails(
    data: Bytes, starts: Places, ends: Places, rests: Places
) -> tuple[Numbers, Numbers]:
    raw, sizes = gathered(data, starts, ends), ends - starts
    numbers = varints(raw)
    last = np.append(0, np.cumsum(raw < 0x80))
    bounds = np.append(0, np.cumsum(sizes))
    if not np.array_equal(np.diff(last[bounds]), 2 * rests):
        raise ValueError("numbers that do not match its documents")
    is_doc = _alternating(rests)
    return _summed(numbers[is_doc], rests), numbers[~is_doc]


def _fixed_tails(
    data: Bytes, starts: Places, ends: Places, rests: Places
) -> tuple[Numbers, Numbers]:
    if not np.array_equal(ends - starts, 8 * rests):
        raise ValueError("bytes that do not match its documents")
    numbers = gathered(data, starts, ends).view("<u4")
    is_doc = _alternating(rests)
    return numbers[is_doc], numbers[~is_doc]


_TAILS = {"varint_delta_v1": _varint_tails, "fixed32_v1": _fixed_tails}


def _positions(
    partition: StoredPartition, tokens: list[str], counts: Numbers, ends: Places
) -> Numbers | None:
    """Return the word positions of each token in its documents."""
    file, block = partition.postings_file, partition.form.block
    if not partition.has_positions:
        return None
    if "_compressed_position" not in file.names:  # the form of release 4
        each = [np.empty(0, np.uint32), *(partition.positions(token) for token in tokens)]
        return np.concatenate(each)
    stored = file.read("_compressed_position")
    offsets = cast("pa.ListArray", file.read("_position_block_offset"))
    if not len(stored):
        return np.empty(0, np.uint32)
    edges, data = string_parts(stored)
    sizes = np.diff(ends, prepend=0)
    blocks = -(-sizes // block)
    if not np.array_equal(np.diff(list_offsets(offsets)), blocks):
        raise ValueError("positions that do not match its blocks")
    starts = offsets.flatten().to_numpy().astype(np.int64) + np.repeat(edges[:-1], blocks)
    stops = np.append(starts[1:], edges[-1])
    # the number of positions in each block
    totals = np.append(0, np.cumsum(counts, dtype=np.int64))
    inside = np.arange(int(blocks.sum())) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    firsts = np.repeat(ends - sizes, blocks) + inside * block
    lasts = np.minimum(firsts + block, np.repeat(ends, blocks))
    deltas = streams(data, starts, stops, totals[lasts] - totals[firsts])
    return _summed(deltas, counts.astype(np.int64))


def _flat(lists: pa.Array) -> tuple[Bytes, Places]:
    """Return the bytes of all blocks, and the end of each."""
    offsets = list_offsets(lists)
    if offsets[0] == offsets[-1]:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    values = cast("pa.ListArray", lists).values[int(offsets[0]) : int(offsets[-1])]
    bounds, data = string_parts(values)
    return data, bounds


def _in_order(positions: Numbers, counts: Numbers, order: Places) -> Numbers:
    """Return groups of the given sizes in another order."""
    sizes = counts[order].astype(np.int64)
    starts = (np.cumsum(counts, dtype=np.int64) - counts)[order]
    return positions[ranges(starts, sizes)]


def _alternating(sizes: Places) -> npt.NDArray[np.bool_]:
    """Return a mask of the first half of each group, given half of each group's size."""
    both = np.repeat(sizes, 2)
    return np.repeat(np.arange(len(both)) % 2 == 0, both)


def _summed(deltas: Numbers, sizes: Places) -> Numbers:
    """Return cumulative sums within groups of the given sizes."""
    totals = np.cumsum(deltas, dtype=np.int64)
    firsts = (np.cumsum(sizes) - sizes)[sizes > 0]
    before = totals[firsts] - deltas[firsts]
    sums: Places = totals - np.repeat(before, sizes[sizes > 0])
    return sums.astype(np.uint32)
