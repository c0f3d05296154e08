"""Full-text indices: in which rows each token is, how often, and where.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit.index.build.column import IndexedColumn
from lancekit.index.build.files import NewFile
from lancekit.index.inverted.analyzer import analyzer
from lancekit.index.inverted.bm25 import Statistics, weights
from lancekit.index.inverted.packed import PACKED, packed, varint_bytes
from lancekit.index.inverted.settings import AnalyzerSettings

__all__ = ["TextRows"]

Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]

_CODEC = {
    "posting_tail_codec": "varint_delta_v1",
    "format_version": "2",
    "posting_block_size": str(PACKED),
}
_POSITIONS = {"positions_layout": "shared_stream_v2", "positions_codec": "packed_delta_v1"}
#: what the reference says of settings that this release does not have
_OTHERS = {"lance_tokenizer": "text", "min_ngram_length": 3, "max_ngram_length": 3}
_OTHERS |= {"prefix_only": False, "block_size": PACKED}


def _fields(**kinds: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, False) for name, kind in kinds.items()])


_BLOCKS = pa.list_(pa.field("item", pa.large_binary(), False))
_METADATA = _fields(deleted_fragments=pa.binary())
_TOKENS = _fields(_token=pa.string(), _token_id=pa.uint32())
_DOCUMENTS = _fields(_rowid=pa.uint64(), _num_tokens=pa.uint32())
_POSTINGS = _fields(_posting=_BLOCKS, _max_score=pa.float32(), _length=pa.uint32())
_PLACES = _fields(
    _compressed_position=pa.large_binary(),
    _position_block_offset=pa.list_(pa.field("item", pa.uint32(), False)),
)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class TextRows:
    """What a full-text index holds.

    Attributes
    ----------
    rows, lengths
        The documents: rows that have tokens, and how many.
    tokens, ends
        All tokens, and where the documents of each end among `docs`.
    docs, counts
        In which documents each token is, ascending, and how often.
    positions
        Which words of these documents it is; ``None`` if that is not kept.
    """

    settings: AnalyzerSettings
    rows: npt.NDArray[np.uint64]
    lengths: Numbers
    tokens: list[str]
    ends: Places
    docs: Numbers
    counts: Numbers
    positions: Numbers | None

    @classmethod
    def build(
        cls, column: IndexedColumn, settings: AnalyzerSettings, *, with_position: bool
    ) -> TextRows:
        """Collect the tokens of all rows.

        Raises
        ------
        UnsupportedFeatureError
            Stems or stop words of the language are not known.
        """
        table = analyzer(settings).table(_texts(column.values))
        lengths = np.bincount(table.texts, minlength=len(column.rows)).astype(np.uint32)
        filled = lengths > 0  # a row without tokens is no document
        documents = (np.cumsum(filled) - 1)[table.texts]
        order = np.argsort(table.codes, kind="stable")
        codes, docs = table.codes[order], documents[order]
        new = np.append(True, (codes[1:] != codes[:-1]) | (docs[1:] != docs[:-1]))
        firsts = np.flatnonzero(new[: len(codes)])
        return cls(
            settings=settings,
            rows=column.rows[filled],
            lengths=lengths[filled],
            tokens=list(table.vocabulary),
            ends=np.cumsum(np.bincount(codes[firsts], minlength=len(table.vocabulary))),
            docs=docs[firsts].astype(np.uint32),
            counts=np.diff(np.append(firsts, len(codes))).astype(np.uint32),
            positions=table.positions[order].astype(np.uint32) if with_position else None,
        )

    def files(self) -> Iterator[NewFile]:
        """Yield the files to write."""
        with_position = self.positions is not None
        codec = _CODEC | (_POSITIONS if with_position else {})
        settings = {**asdict(self.settings), "with_position": with_position, **_OTHERS}
        ascending = sorted(zip(self.tokens, range(len(self.tokens)), strict=True))
        tokens, numbers = zip(*ascending, strict=True) if ascending else ((), ())
        yield _file("part_0_tokens.lance", _TOKENS, [tokens, numbers])
        total = {"total_tokens": str(int(self.lengths.sum(dtype=np.int64)))}
        yield _file("part_0_docs.lance", _DOCUMENTS, [self.rows, self.lengths], total)
        schema, columns = _POSTINGS, self._postings()
        if self.positions is not None:
            schema = pa.schema([*schema, *_PLACES])
            columns += self._places(self.positions)
        yield _file("part_0_invert.lance", schema, columns, codec)
        said = {"partitions": "[0]", "params": json.dumps(settings), "token_set_format": "arrow"}
        yield _file("metadata.lance", _METADATA, [[BitMap().serialize()]], said | codec)

    @property
    def _starts(self) -> Places:
        return np.append(0, self.ends)[:-1].astype(np.int64)

    def _postings(self) -> list[Any]:
        """Return blocks, best scores and numbers of documents, for each token."""
        sizes = self.ends - self._starts
        scores = self._scores()
        within = np.arange(len(self.docs)) - np.repeat(self._starts, sizes)
        deltas = np.diff(self.docs, prepend=np.uint32(0))
        deltas[within == 0] = self.docs[within == 0]
        in_block = within < np.repeat(sizes // PACKED * PACKED, sizes)
        block_firsts = np.flatnonzero(in_block & (within % PACKED == 0))
        gaps = deltas[in_block].reshape(-1, PACKED)
        gaps[:, 0] = 0
        full = iter(
            first + documents + counts
            for first, documents, counts in zip(
                map(_u32, self.docs[block_firsts].tolist()),
                packed(gaps),
                packed(self.counts[in_block].reshape(-1, PACKED)),
                strict=True,
            )
        )
        # of what is left the first is not counted from the one before
        rest_first = ~in_block & (within % PACKED == 0)
        deltas[rest_first] = self.docs[rest_first]
        rest_deltas, delta_ends = varint_bytes(deltas)
        rest_counts, count_ends = varint_bytes(self.counts)
        delta_ends, count_ends = (np.append(0, ends) for ends in (delta_ends, count_ends))
        blocks, best = [], []
        for start, end in zip(self._starts.tolist(), self.ends.tolist(), strict=True):
            mine = []
            for first in range(start, end, PACKED):
                last = min(first + PACKED, end)
                score = scores[first:last].max()
                if last - first == PACKED:
                    body = next(full)
                else:
                    body = rest_deltas[delta_ends[first] : delta_ends[last]].tobytes()
                    body += rest_counts[count_ends[first] : count_ends[last]].tobytes()
                mine.append(score.astype("<f4").tobytes() + body)
            blocks.append(mine)
            best.append(scores[start:end].max())
        return [pa.array(blocks, _BLOCKS), np.array(best, np.float32), sizes.astype(np.uint32)]

    def _scores(self) -> npt.NDArray[np.float32]:
        """Return the score of each token in each of its documents, among these documents."""
        sizes = self.ends - self._starts
        known = Statistics(
            len(self.rows),
            int(self.lengths.sum(dtype=np.int64)),
            dict(zip(self.tokens, sizes.tolist(), strict=True)),
        )
        rarities = np.array([known.rarity(token) for token in self.tokens], np.float32)
        return weights(rarities, 1).repeat(sizes) * known.shares(
            self.counts, self.lengths[self.docs]
        )

    def _places(self, positions: Numbers) -> list[Any]:
        """Return the positions of each token, and where those of its blocks begin."""
        ends = np.append(0, np.cumsum(self.counts, dtype=np.int64))
        steps = np.diff(positions, prepend=np.uint32(0))
        steps[ends[:-1]] = positions[ends[:-1]]
        streams, offsets = [], []
        for start, end in zip(self._starts.tolist(), self.ends.tolist(), strict=True):
            bounds = [*range(start, end, PACKED), end]
            parts = [_stream(steps[ends[a] : ends[b]]) for a, b in pairwise(bounds)]
            streams.append(b"".join(parts))
            offsets.append([0, *np.cumsum([len(part) for part in parts])[:-1].tolist()])
        return [pa.array(streams, pa.large_binary()), pa.array(offsets, _PLACES.field(1).type)]


def _stream(steps: Numbers) -> bytes:
    whole = len(steps) // PACKED * PACKED
    blocks = packed(steps[:whole].reshape(-1, PACKED)) if whole else []
    return b"".join(blocks) + varint_bytes(steps[whole:])[0].tobytes()


def _u32(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _texts(values: pa.Array) -> Iterable[str | None]:
    """Yield the text of each row; those of a list are one."""
    for value in values.to_pylist():
        yield " ".join(filter(None, value)) if isinstance(value, list) else value


def _file(
    name: str, schema: pa.Schema, columns: list[Any], metadata: dict[str, str] | None = None
) -> NewFile:
    arrays = [
        one if isinstance(one, pa.Array) else pa.array(one, field.type)
        for one, field in zip(columns, schema, strict=True)
    ]
    batch = pa.record_batch(arrays, schema=schema)
    return NewFile(name=name, schema=schema, batches=[batch], metadata=metadata or {})
