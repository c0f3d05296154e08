"""Partitions of full-text indices as they are written: new ones, and those that others have.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.file.kernels.arrow_buffers import string_buffers
from lancekit.index.build.column import RowMap
from lancekit.index.build.files import NewFile, SegmentFile, SharedFile
from lancekit.index.build.fst_write import fst_bytes
from lancekit.index.build.posting_blocks import position_blocks, posting_blocks
from lancekit.index.build.sorting import order_of
from lancekit.index.inverted.bm25 import Statistics, weights
from lancekit.index.inverted.packed import PACKED
from lancekit.index.inverted.partition import StoredPartition
from lancekit.index.inverted.token_set import ARROW, FST
from lancekit.index.inverted.whole import WholePartition, read_whole
from lancekit.index.segment import IndexFileReader

__all__ = ["NewPartition", "TextPartition", "codec_of", "joined", "read_partitions"]

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

    Attributes
    ----------
    rows
        The row of each document, which may have moved.
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

    Raises
    ------
    CorruptFileError, UnsupportedFeatureError
        As `read_whole`.
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
        columns: list[Any] = [[held], [len(words)], [len(data)]]
    else:
        columns = [ascending, order]
    return _file(_TOKENS_FILE.format(number), _TOKENS[form], columns)


def _documents(number: int, rows: Rows, lengths: npt.NDArray[np.uint32]) -> NewFile:
    total = {"total_tokens": str(int(lengths.sum(dtype=np.int64)))}
    return _file(_DOCUMENTS_FILE.format(number), _DOCUMENTS, [rows, lengths], total)


def _file(
    name: str, schema: pa.Schema, columns: list[Any], metadata: Mapping[str, str] | None = None
) -> NewFile:
    arrays = [
        one if isinstance(one, pa.Array) else pa.array(one, field.type)
        for one, field in zip(columns, schema, strict=True)
    ]
    batch = pa.record_batch(arrays, schema=schema)
    return NewFile(name=name, schema=schema, batches=[batch], metadata=metadata or {})
