"""Indices that map keys to row sets: bitmap, label and n-gram indices."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._file.kernels.arrow_buffers import list_offsets, null_flags
from lancekit._format.arrow_parts import item_field, items_of
from lancekit._index.build.column import IndexedColumn, RowMap
from lancekit._index.build.files import NewFile
from lancekit._index.build.sorting import Places, Words, differs, order_of, stable_order, whole
from lancekit._index.row_sets import RowSets, SetForm, encoded_set, encoded_sets
from lancekit._index.trigrams import NULL_TOKEN, trigrams


@dataclass(frozen=True, slots=True)
class Postings:
    """Distinct keys in order, null first, and the row set of each."""

    keys: pa.Array
    sets: RowSets

    @classmethod
    def of(cls, keys: pa.Array, rows: Words, places: Places | None = None) -> Postings:
        """Collect the rows of each key.

        keys: the keys, in any order, with repetitions.
        rows: the row of each key; with `places`, the row of each of these indices into `keys`.
        """
        order = order_of(keys)
        ordered = ak.take(keys, order)
        new = differs(ordered)
        groups = np.empty(len(keys), np.uint64)
        groups[order] = np.cumsum(new) - 1
        if places is not None:
            groups = groups[places]
        if (rows[1:] < rows[:-1]).any():
            by_row = stable_order(rows)
            groups, rows = groups[by_row], rows[by_row]
        by_group = stable_order(groups)
        groups, rows = groups[by_group], rows[by_group]
        kept = _first_of_each(groups, rows)
        if not kept.all():
            groups, rows = groups[kept], rows[kept]
        distinct = np.flatnonzero(new)
        sizes = np.bincount(groups.astype(np.int64), minlength=len(distinct))
        starts = np.concatenate([[0], np.cumsum(sizes)])
        found = cls(ak.take(ordered, distinct), RowSets(starts, rows))
        return found if sizes.all() else found._without_empty()

    @classmethod
    def merged(cls, parts: Sequence[Postings]) -> Postings:
        """Merge the rows of each key in several indices."""
        keys = whole(pa.chunked_array([part.keys for part in parts]))
        before = np.cumsum([0, *(len(part.keys) for part in parts)])
        places = [part._places + start for part, start in zip(parts, before, strict=False)]
        rows = [part.sets.rows for part in parts]
        return cls.of(keys, np.concatenate(rows), np.concatenate(places))

    def moved(self, row_map: RowMap) -> Postings:
        """Return the content with new row addresses, without rows that no longer exist."""
        rows, kept = row_map(self.sets.rows)
        return Postings.of(self.keys, rows[kept], self._places[kept])

    @property
    def _places(self) -> Places:
        """The index of each row's key."""
        return np.repeat(np.arange(len(self.keys)), np.diff(self.sets.starts))

    def _without_empty(self) -> Postings:
        sizes = np.diff(self.sets.starts)
        starts = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
        keys = ak.take(self.keys, np.flatnonzero(sizes))
        return Postings(keys, RowSets(starts, self.sets.rows))


def _first_of_each(groups: Words, rows: Words) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that differ from the previous one in their group."""
    found = np.ones(len(rows), bool)
    found[1:] = (groups[1:] != groups[:-1]) | (rows[1:] != rows[:-1])
    return found


# ---- bitmap and label indices: the rows of each value, and of each item of lists
#
# See docs/format/indices.md, 8 and 11.


@dataclass(frozen=True, slots=True)
class _OfPostings:
    """The content of an index that maps keys to row sets."""

    postings: Postings

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        """Merge several segments."""
        return replace(parts[0], postings=Postings.merged([part.postings for part in parts]))

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that it was built with: none."""
        return {}

    def moved(self, row_map: RowMap) -> Self:
        """Return the content with new row addresses, without rows that no longer exist."""
        return replace(self, postings=self.postings.moved(row_map))


@dataclass(frozen=True, slots=True)
class ValueRows(_OfPostings):
    """The content of a bitmap index: the rows of each value, including null."""

    kind: pa.DataType

    @classmethod
    def build(cls, column: IndexedColumn) -> ValueRows:
        """Collect the rows of each value."""
        return cls(Postings.of(column.values, column.rows), column.kind)

    def files(self) -> Iterator[NewFile]:
        """Yield the file to write."""
        yield _key_file(self.kind, self.postings, {})


@dataclass(frozen=True, slots=True)
class Labels(_OfPostings):
    """The content of a label index: the rows of each item, and the rows of null lists."""

    kind: pa.DataType
    without: Words

    @classmethod
    def build(cls, column: IndexedColumn) -> Labels:
        """Collect the rows of each item."""
        lists = column.values
        gone = null_flags(lists)
        gone = np.zeros(len(lists), bool) if gone is None else gone
        offsets = list_offsets(lists).astype(np.int64)
        sizes = np.where(gone, 0, np.diff(offsets))
        first, last = int(offsets[0]), int(offsets[-1])
        items = items_of(lists).slice(first, last - first)
        if int(sizes.sum()) != last - first:
            items = ak.filter(items, np.repeat(~gone, np.diff(offsets)))
        postings = Postings.of(items, np.repeat(column.rows, sizes))
        without = column.rows[gone]
        return cls(postings, column.kind, without[stable_order(without)])

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        """Merge several segments."""
        postings = Postings.merged([part.postings for part in parts])
        without = np.unique(np.concatenate([part.without for part in parts]))
        return replace(parts[0], postings=postings, without=without)

    def moved(self, row_map: RowMap) -> Self:
        """Return the content with new row addresses, without rows that no longer exist."""
        without, kept = row_map(self.without)
        postings = self.postings.moved(row_map)
        return replace(self, postings=postings, without=np.unique(without[kept]))

    def files(self) -> Iterator[NewFile]:
        """Yield the file to write."""
        nulls = {"lance:label_list_nulls": encoded_set(self.without)}
        yield _key_file(item_field(self.kind).type, self.postings, nulls)


def _key_file(kind: pa.DataType, postings: Postings, buffers: dict[str, bytes]) -> NewFile:
    schema = pa.schema([("keys", kind), ("bitmaps", pa.binary())])
    columns = [pc.cast(postings.keys, kind), pc.cast(encoded_sets(postings.sets), pa.binary())]
    return NewFile(
        name="bitmap_page_lookup.lance",
        schema=schema,
        batches=[pa.RecordBatch.from_arrays(columns, schema=schema)],
        metadata={"lance:index_stats": json.dumps({"num_bitmaps": len(postings.keys)})},
        buffers=buffers,
    )


# ---- n-gram indices: the rows of all three consecutive letters or digits
#
# See docs/format/indices.md, 12.

#: texts whose n-grams are collected at a time: each n-gram has its rows once
_AT_A_TIME = 1 << 14

_SCHEMA = pa.schema(
    [
        pa.field("tokens", pa.uint32()),
        pa.field(
            "posting_list", pa.binary(), False, metadata={"lance-encoding:compression": "none"}
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class TokenRows(_OfPostings):
    """The content of an n-gram index: the rows of each n-gram."""

    @classmethod
    def build(cls, column: IndexedColumn) -> TokenRows:
        """Collect the rows of each n-gram, and the null rows."""
        flags = null_flags(column.values)
        texts, rows, parts = column.values, column.rows, []
        if flags is not None:
            gone = rows[flags]
            parts.append((np.full(len(gone), NULL_TOKEN, np.uint32), gone))
            texts, rows = ak.drop_null(texts), rows[~flags]
        for start in range(0, len(texts), _AT_A_TIME):
            tokens, places = trigrams(texts.slice(start, _AT_A_TIME))
            # a text may have an n-gram several times
            pairs = np.unique(places.astype(np.uint64) << np.uint64(32) | tokens)
            owners = (pairs >> np.uint64(32)).astype(np.int64) + start
            parts.append((pairs.astype(np.uint32), rows[owners]))
        tokens = np.concatenate([part[0] for part in parts] or [np.empty(0, np.uint32)])
        found = np.concatenate([part[1] for part in parts] or [rows])
        return cls(Postings.of(pa.array(tokens), found))

    def files(self) -> Iterator[NewFile]:
        """Yield the file to write."""
        sets = encoded_sets(self.postings.sets, SetForm.PLAIN).cast(pa.binary())
        yield NewFile(
            name="ngram_postings.lance",
            schema=_SCHEMA,
            batches=[pa.RecordBatch.from_arrays([self.postings.keys, sets], schema=_SCHEMA)],
        )
