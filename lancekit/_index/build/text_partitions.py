"""Partitions of full-text indices as they are written: new ones, and those that others have.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._file.kernels.arrow_buffers import string_buffers
from lancekit._format.arrow_parts import strings_of
from lancekit._index.build.column import RowMap
from lancekit._index.build.files import NewFile, SegmentFile, SharedFile
from lancekit._index.build.fst_write import fst_bytes
from lancekit._index.build.sorting import order_of
from lancekit._index.inverted.bm25 import Statistics, weights
from lancekit._index.inverted.partition import StoredPartition
from lancekit._index.inverted.postings import PACKED, interleaved, packed, varint_bytes
from lancekit._index.inverted.token_set import ARROW, FST
from lancekit._index.inverted.whole import WholePartition, read_whole
from lancekit._index.segment import IndexFileReader

Rows = npt.NDArray[np.uint64]

_CODEC = {
    "posting_tail_codec": "varint_delta_v1",
    "format_version": "2",
    "posting_block_size": str(PACKED),
}
_POSITIONS = {"positions_layout": "shared_stream_v2", "positions_codec": "packed_delta_v1"}
#: a map takes about 100 bytes of memory for each letter of its words while it is made
_MOST_LETTERS = 32 << 20
#: how many times as large a partition is that new documents do not join
_LARGER = 2
_TOKENS_FILE, _DOCUMENTS_FILE = "part_{}_tokens.lance", "part_{}_docs.lance"
_POSTINGS_FILE = "part_{}_invert.lance"


def _fields(**kinds: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, False) for name, kind in kinds.items()])


_BLOCKS = pa.list_(pa.field("item", pa.large_binary(), False))
_TOKENS = {
    ARROW: _fields(_token=pa.string(), _token_id=pa.uint32()),
    FST: _fields(
        _token_fst_bytes=pa.large_binary(),
        _token_next_id=pa.uint32(),
        _token_total_length=pa.uint64(),
    ),
}
_DOCUMENTS = _fields(_rowid=pa.uint64(), _num_tokens=pa.uint32())
_POSTINGS = _fields(_posting=_BLOCKS, _max_score=pa.float32(), _length=pa.uint32())
_PLACES = _fields(
    _compressed_position=pa.large_binary(),
    _position_block_offset=pa.list_(pa.field("item", pa.uint32(), False)),
)


def codec_of(*, with_position: bool) -> dict[str, str]:
    """Return what the files say of how posting lists are held."""
    return _CODEC | (_POSITIONS if with_position else {})


class TextPartition(Protocol):
    """Documents, and which tokens they have."""

    @property
    def rows(self) -> Rows:
        """The row of each document."""

    def moved(self, row_map: RowMap) -> TextPartition:
        """Return the same for rows that are elsewhere now, or gone."""

    def whole(self) -> WholePartition:
        """Return all that it holds."""

    @property
    def fits_map(self) -> bool:
        """Whether its tokens can well be held as a map."""

    def files(self, number: int, tokens: str) -> Iterator[SegmentFile]:
        """Yield the files; `number` is that of the partition, `tokens` how these are held."""


@dataclass(frozen=True, eq=False, slots=True)
class NewPartition:
    """A partition that is written."""

    held: WholePartition

    @property
    def rows(self) -> Rows:
        """The row of each document."""
        return self.held.rows

    def moved(self, row_map: RowMap) -> NewPartition:
        """Return the same for rows that are elsewhere now, or gone."""
        rows, kept = row_map(self.rows)
        return NewPartition(replace(self.held, rows=rows).among(kept))

    def whole(self) -> WholePartition:
        """Return all that it holds."""
        return self.held

    @property
    def fits_map(self) -> bool:
        """Whether its tokens can well be held as a map."""
        return sum(map(len, self.held.tokens)) <= _MOST_LETTERS

    def files(self, number: int, tokens: str) -> Iterator[NewFile]:
        """Yield the files."""
        held = self.held
        yield _tokens(number, pa.array(held.tokens, pa.string()), tokens)
        yield _documents(number, held.rows, held.lengths)
        codec = codec_of(with_position=held.positions is not None)
        sizes = (held.ends - held.starts).astype(np.uint32)
        schema, columns = _POSTINGS, [*posting_blocks(held, self._scores()), sizes]
        if held.positions is not None:
            schema = pa.schema([*schema, *_PLACES])
            columns += position_blocks(held, held.positions)
        yield _file(_POSTINGS_FILE.format(number), schema, columns, codec)

    def _scores(self) -> npt.NDArray[np.float32]:
        """Return the score of each token in each of its documents, among these documents."""
        held = self.held
        sizes = held.ends - held.starts
        known = Statistics(
            len(held.rows),
            int(held.lengths.sum(dtype=np.int64)),
            dict(zip(held.tokens, sizes.tolist(), strict=True)),
        )
        rarities = np.array([known.rarity(token) for token in held.tokens], np.float32)
        return weights(rarities, 1).repeat(sizes) * known.shares(
            held.counts, held.lengths[held.docs]
        )


@dataclass(frozen=True, eq=False, slots=True)
class _StoredPartition:
    """A partition of a segment, whose posting lists stay as they are.

    rows: the row of each document, which may have moved.
    """

    stored: StoredPartition
    rows: Rows

    def moved(self, row_map: RowMap) -> TextPartition:
        """Return the same for rows that are elsewhere now, or gone."""
        rows, kept = row_map(self.rows)
        moved = replace(self, rows=rows)
        return moved if kept.all() else NewPartition(moved.whole().among(kept))

    def whole(self) -> WholePartition:
        """Return all that it holds."""
        return replace(read_whole(self.stored), rows=self.rows)

    @property
    def fits_map(self) -> bool:
        """Whether its tokens can well be held as a map."""
        held = self.stored.token_set
        return held.form == FST or held.words().nbytes <= _MOST_LETTERS

    def files(self, number: int, tokens: str) -> Iterator[SegmentFile]:
        """Yield the files."""
        stored = self.stored
        if stored.token_set.form == tokens:
            yield SharedFile(name=_TOKENS_FILE.format(number), file=stored.tokens_file)
        else:
            yield _tokens(number, stored.token_set.words(), tokens)
        if np.array_equal(self.rows, stored.row_ids):
            yield SharedFile(name=_DOCUMENTS_FILE.format(number), file=stored.documents_file)
        else:
            yield _documents(number, self.rows, stored.lengths)
        yield SharedFile(name=_POSTINGS_FILE.format(number), file=stored.postings_file)


def read_partitions(
    metadata: IndexFileReader, opened: Iterable[StoredPartition]
) -> tuple[TextPartition, ...]:
    """Return partitions to be written again; those of another form than ours are decoded.

    Raises CorruptFileError, UnsupportedFeatureError: as `read_whole`.
    """
    return tuple(
        _StoredPartition(one, one.row_ids)
        if codec_of(with_position=one.has_positions).items() <= metadata.metadata.items()
        else NewPartition(read_whole(one))
        for one in opened
    )


def joined(parts: Sequence[TextPartition]) -> tuple[TextPartition, ...]:
    """Return partitions of which the last is new, put together with those that are not much larger.

    So each document is written again a few times, however often new ones come, and there are few
    partitions.
    """
    *before, last = parts
    if not isinstance(last, NewPartition):
        return tuple(parts)
    join = [last.held]
    while before and len(before[-1].rows) < _LARGER * sum(len(one.rows) for one in join):
        join.insert(0, before.pop().whole())
    return (*before, NewPartition(WholePartition.joined(join)) if len(join) > 1 else last)


def _tokens(number: int, words: pa.Array, form: str) -> NewFile:
    """Return the file of tokens, which are given in the order of their numbers."""
    order = order_of(words)
    ascending = ak.take(words, order)
    if form == FST:
        offsets, data = string_buffers(ascending)
        held = fst_bytes(data, offsets.astype(np.int64), order.astype(np.uint64))
        columns: list[object] = [[held], [len(words)], [len(data)]]
    else:
        columns = [ascending, order]
    return _file(_TOKENS_FILE.format(number), _TOKENS[form], columns)


def _documents(number: int, rows: Rows, lengths: npt.NDArray[np.uint32]) -> NewFile:
    total = {"total_tokens": str(int(lengths.sum(dtype=np.int64)))}
    return _file(_DOCUMENTS_FILE.format(number), _DOCUMENTS, [rows, lengths], total)


def _file(
    name: str, schema: pa.Schema, columns: list[object], metadata: Mapping[str, str] | None = None
) -> NewFile:
    arrays = [
        one if isinstance(one, pa.Array) else pa.array(one, field.type)
        for one, field in zip(columns, schema, strict=True)
    ]
    batch = pa.record_batch(arrays, schema=schema)
    return NewFile(name=name, schema=schema, batches=[batch], metadata=metadata or {})


# ---- posting lists as their files hold them: in blocks of 128 documents, all at once
#
# See docs/format/indices.md, 14.

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.float32]

_BYTES = pa.field("item", pa.large_binary(), False)
_OFFSETS = pa.field("item", pa.uint32(), False)


def posting_blocks(held: WholePartition, scores: Scores) -> tuple[pa.Array, Scores]:
    """Return the blocks of each token, and the best score of each token.

    scores: of each token in each of its documents.
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


def _spread(groups: tuple[Bytes, Places], counts: Places) -> tuple[Bytes, Places]:
    """Return what packed groups take of each block, which has so many of them."""
    data, ends = groups
    return data, np.diff(np.append(0, ends)[np.append(0, np.cumsum(counts))])


def _varints(numbers: Numbers, counts: Places) -> tuple[Bytes, Places]:
    return _spread(varint_bytes(numbers), counts)


def _binary(data: Bytes, ends: Places) -> pa.Array:
    return strings_of(np.append(0, ends).astype(np.int64), data)


def _list(values: pa.Array, counts: Places, item: pa.DataType | pa.Field) -> pa.Array:
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(item), len(counts), buffers, children=[values])
