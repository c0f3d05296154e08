"""Partitions of full-text indices in the form they are written in, new or from other segments.

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
#: building a map takes about 100 bytes of memory for each letter of its words
_MOST_LETTERS = 32 << 20
#: a partition this many times larger is not merged with new documents
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
    """Return the metadata of files that describes the form of posting lists."""
    return _CODEC | (_POSITIONS if with_position else {})


class TextPartition(Protocol):
    """Documents and their tokens."""

    @property
    def rows(self) -> Rows:
        """The row of each document."""

    def moved(self, row_map: RowMap) -> TextPartition:
        """Return the content with new row addresses, without rows that no longer exist."""

    def whole(self) -> WholePartition:
        """Return the decoded content."""

    @property
    def fits_map(self) -> bool:
        """True if its tokens are few enough to be stored as a map."""

    def files(self, number: int, tokens: str) -> Iterator[SegmentFile]:
        """Yield the files; `number` is the partition's number, `tokens` the form of tokens."""


@dataclass(frozen=True, eq=False, slots=True)
class NewPartition:
    """A partition in memory, to be written."""

    content: WholePartition

    @property
    def rows(self) -> Rows:
        """The row of each document."""
        return self.content.rows

    def moved(self, row_map: RowMap) -> NewPartition:
        """Return the content with new row addresses, without rows that no longer exist."""
        rows, kept = row_map(self.rows)
        return NewPartition(replace(self.content, rows=rows).among(kept))

    def whole(self) -> WholePartition:
        """Return the decoded content."""
        return self.content

    @property
    def fits_map(self) -> bool:
        """True if its tokens are few enough to be stored as a map."""
        return sum(map(len, self.content.tokens)) <= _MOST_LETTERS

    def files(self, number: int, tokens: str) -> Iterator[NewFile]:
        """Yield the files."""
        content = self.content
        yield _tokens(number, pa.array(content.tokens, pa.string()), tokens)
        yield _documents(number, content.rows, content.lengths)
        codec = codec_of(with_position=content.positions is not None)
        sizes = (content.ends - content.starts).astype(np.uint32)
        schema, columns = _POSTINGS, [*posting_blocks(content, self._scores()), sizes]
        if content.positions is not None:
            schema = pa.schema([*schema, *_PLACES])
            columns += position_blocks(content, content.positions)
        yield _file(_POSTINGS_FILE.format(number), schema, columns, codec)

    def _scores(self) -> npt.NDArray[np.float32]:
        """Return the score of each token in each of its documents, within this partition."""
        content = self.content
        sizes = content.ends - content.starts
        known = Statistics(
            len(content.rows),
            int(content.lengths.sum(dtype=np.int64)),
            dict(zip(content.tokens, sizes.tolist(), strict=True)),
        )
        rarities = np.array([known.rarity(token) for token in content.tokens], np.float32)
        return weights(rarities, 1).repeat(sizes) * known.shares(
            content.counts, content.lengths[content.docs]
        )


@dataclass(frozen=True, eq=False, slots=True)
class _StoredPartition:
    """A partition of a segment, whose posting lists are copied.

    rows: the row of each document, which may have moved.
    """

    stored: StoredPartition
    rows: Rows

    def moved(self, row_map: RowMap) -> TextPartition:
        """Return the content with new row addresses, without rows that no longer exist."""
        rows, kept = row_map(self.rows)
        moved = replace(self, rows=rows)
        return moved if kept.all() else NewPartition(moved.whole().among(kept))

    def whole(self) -> WholePartition:
        """Return the decoded content."""
        return replace(read_whole(self.stored), rows=self.rows)

    @property
    def fits_map(self) -> bool:
        """True if its tokens are few enough to be stored as a map."""
        content = self.stored.token_set
        return content.form == FST or content.words().nbytes <= _MOST_LETTERS

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
    """Return stored partitions to be written again; partitions of another form are decoded.

    Raises CorruptFileError, UnsupportedFeatureError: as `read_whole`.
    """
    return tuple(
        _StoredPartition(one, one.row_ids)
        if codec_of(with_position=one.has_positions).items() <= metadata.metadata.items()
        else NewPartition(read_whole(one))
        for one in opened
    )


def joined(parts: Sequence[TextPartition]) -> tuple[TextPartition, ...]:
    """Merge the last partition, if it is new, with earlier ones that have less than twice its rows.

    This keeps partitions few, and rewrites each document only a few times over many additions.
    """
    *before, last = parts
    if not isinstance(last, NewPartition):
        return tuple(parts)
    join = [last.content]
    while before and len(before[-1].rows) < _LARGER * sum(len(one.rows) for one in join):
        join.insert(0, before.pop().whole())
    return (*before, NewPartition(WholePartition.joined(join)) if len(join) > 1 else last)


def _tokens(number: int, words: pa.Array, form: str) -> NewFile:
    """Return the file of some tokens; the number of a token is its index in `words`."""
    order = order_of(words)
    ascending = ak.take(words, order)
    if form == FST:
        offsets, data = string_buffers(ascending)
        content = fst_bytes(data, offsets.astype(np.int64), order.astype(np.uint64))
        columns: list[object] = [[content], [len(words)], [len(data)]]
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


# ---- encoded posting lists: blocks of 128 documents, encoded all at once
#
# See docs/format/indices.md, 14.

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]

_BYTES = pa.field("item", pa.large_binary(), False)
_OFFSETS = pa.field("item", pa.uint32(), False)


def posting_blocks(content: WholePartition, scores: Scores) -> tuple[pa.Array, Scores]:
    """Return the blocks of each token, and the best score of each token.

    scores: of each token in each of its documents.
    """
    sizes, starts, firsts = _blocks(content)
    if not len(firsts):
        return pa.array([], pa.list_(_BYTES)), np.empty(0, np.float32)
    lengths = np.diff(np.append(firsts, len(content.docs)))
    full = lengths == PACKED
    in_full = np.repeat(full, lengths)
    deltas = np.diff(content.docs, prepend=np.uint32(0))
    # a full block stores its first document separately
    deltas[firsts] = np.where(full, 0, content.docs[firsts])
    heads = content.docs[firsts[full]].astype("<u4").view(np.uint8)
    four = np.full(len(firsts), 4)
    data, ends = interleaved(
        [
            (np.maximum.reduceat(scores, firsts).astype("<f4").view(np.uint8), four),
            (heads, four * full),
            _spread(packed(deltas[in_full].reshape(-1, PACKED)), full),
            _spread(packed(content.counts[in_full].reshape(-1, PACKED)), full),
            _varints(deltas[~in_full], lengths * ~full),
            _varints(content.counts[~in_full], lengths * ~full),
        ]
    )
    blocks = _list(_binary(data, ends), -(-sizes // PACKED), _BYTES)
    return blocks, np.maximum.reduceat(scores, starts)


def position_blocks(content: WholePartition, positions: Numbers) -> tuple[pa.Array, pa.Array]:
    """Return the encoded positions of each token, and the start of each block in them."""
    sizes, _, firsts = _blocks(content)
    if not len(firsts):
        return pa.array([], pa.large_binary()), pa.array([], pa.list_(_OFFSETS))
    ends = np.append(0, np.cumsum(content.counts, dtype=np.int64))
    steps = np.diff(positions, prepend=np.uint32(0))
    steps[ends[:-1]] = positions[ends[:-1]]  # positions of a document are relative to its first
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


def _blocks(content: WholePartition) -> tuple[Places, Places, Places]:
    """Return each token's number of documents, their start, and the start of each block."""
    starts = content.starts
    sizes = content.ends - starts
    within = np.arange(len(content.docs)) - np.repeat(starts, sizes)
    return sizes, starts, np.flatnonzero(within % PACKED == 0)


def _spread(groups: tuple[Bytes, Places], counts: Places) -> tuple[Bytes, Places]:
    """Return packed groups as they are, and their bytes in each block of `counts` groups."""
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
