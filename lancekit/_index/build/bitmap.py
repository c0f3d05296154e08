"""Bitmap indices, and those of labels: the rows of each value, and of each item of lists.

See docs/format/indices.md, 8 and 11.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._file.kernels.arrow_buffers import list_offsets, null_flags
from lancekit._format.arrow_parts import item_field, items_of
from lancekit._index.build.column import IndexedColumn, RowMap
from lancekit._index.build.files import NewFile
from lancekit._index.build.postings import Postings
from lancekit._index.build.sorting import Words, stable_order
from lancekit._index.row_sets import encoded_set, encoded_sets

__all__ = ["Labels", "ValueRows"]


@dataclass(frozen=True, slots=True)
class ValueRows:
    """What a bitmap index holds: the rows of each value, null among them."""

    kind: pa.DataType
    postings: Postings

    @classmethod
    def build(cls, column: IndexedColumn) -> ValueRows:
        """Collect the rows of each value."""
        return cls(column.kind, Postings.of(column.values, column.rows))

    @classmethod
    def merged(cls, parts: Sequence[ValueRows]) -> ValueRows:
        """Put together what several hold."""
        return cls(parts[0].kind, Postings.merged([part.postings for part in parts]))

    @property
    def parameters(self) -> dict[str, Any]:
        """What users may ask of such an index: nothing."""
        return {}

    def moved(self, row_map: RowMap) -> ValueRows:
        """Return the same for rows that are elsewhere now, or gone."""
        return ValueRows(self.kind, self.postings.moved(row_map))

    def files(self) -> Iterator[NewFile]:
        """Yield the file to write."""
        yield _key_file(self.kind, self.postings, {})


@dataclass(frozen=True, slots=True)
class Labels:
    """What an index of labels holds: the rows of each item, and those without a list."""

    kind: pa.DataType
    postings: Postings
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
        return cls(column.kind, postings, without[stable_order(without)])

    @classmethod
    def merged(cls, parts: Sequence[Labels]) -> Labels:
        """Put together what several hold."""
        postings = Postings.merged([part.postings for part in parts])
        return cls(parts[0].kind, postings, np.unique(np.concatenate([p.without for p in parts])))

    @property
    def parameters(self) -> dict[str, Any]:
        """What users may ask of such an index: nothing."""
        return {}

    def moved(self, row_map: RowMap) -> Labels:
        """Return the same for rows that are elsewhere now, or gone."""
        without, kept = row_map(self.without)
        return Labels(self.kind, self.postings.moved(row_map), np.unique(without[kept]))

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
