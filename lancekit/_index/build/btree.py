"""Building of B-trees: sorted values with their rows, and a table of pages.

See docs/format/indices.md, 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import arrow_of
from lancekit._index.build.column import IndexedColumn, RowMap
from lancekit._index.build.files import NewFile
from lancekit._index.build.sorting import Words, order_of, whole

#: rows of a page; a search reads whole pages
PAGE_ROWS = 4096
_BATCH_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class SortedRows:
    """The content of a B-tree: values, nulls first, and the row of each value."""

    kind: pa.DataType
    values: pa.Array
    rows: Words
    page_rows: int = PAGE_ROWS

    @classmethod
    def build(cls, column: IndexedColumn, page_rows: int = PAGE_ROWS) -> SortedRows:
        """Sort the values of a column; rows with equal values keep their order."""
        order = order_of(column.values)
        values = ak.take(column.values, order)
        return cls(column.kind, values, column.rows[order], page_rows)

    @classmethod
    def merged(cls, parts: Sequence[SortedRows]) -> SortedRows:
        """Merge several B-trees; the result has the page size of the first."""
        first = parts[0]
        values = whole(pa.chunked_array([part.values.cast(first.kind) for part in parts]))
        rows = np.concatenate([part.rows for part in parts])
        return cls.build(IndexedColumn(first.kind, values, rows), first.page_rows)

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that it was built with."""
        return {"zone_size": self.page_rows}

    def moved(self, row_map: RowMap) -> SortedRows:
        """Return the content with new row addresses, without rows that no longer exist."""
        rows, kept = row_map(self.rows)
        values = self.values if kept.all() else ak.filter(self.values, kept)
        return replace(self, values=values, rows=rows[kept])

    def files(self) -> Iterator[NewFile]:
        """Yield the files to write."""
        yield NewFile(
            name="page_data.lance",
            schema=pa.schema(
                [pa.field("values", self.kind), pa.field("ids", pa.uint64(), nullable=False)]
            ),
            batches=self._batches(),
        )
        yield NewFile(
            name="page_lookup.lance",
            schema=_lookup_schema(self.kind),
            batches=[self._lookup()],
            metadata={"batch_size": str(self.page_rows), "range_partitioned": "false"},
        )

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(self.rows), _BATCH_ROWS):
            values = pc.cast(self.values.slice(start, _BATCH_ROWS), self.kind)
            ids = arrow_of(self.rows[start : start + _BATCH_ROWS])
            yield pa.record_batch([values, ids], ["values", "ids"])

    def _lookup(self) -> pa.RecordBatch:
        count = len(self.rows)
        first = np.arange(0, count, self.page_rows)
        last = np.minimum(first + self.page_rows, count)
        nulls = np.clip(ak.null_count(self.values) - first, 0, last - first)
        columns = [
            pc.cast(ak.take(self.values, first), self.kind),
            pc.cast(ak.take(self.values, last - 1), self.kind),
            arrow_of(nulls.astype(np.uint32)),
            arrow_of(np.arange(len(first), dtype=np.uint32)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_lookup_schema(self.kind))


def _lookup_schema(kind: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            pa.field("min", kind),
            pa.field("max", kind),
            pa.field("null_count", pa.uint32(), nullable=False),
            pa.field("page_idx", pa.uint32(), nullable=False),
        ]
    )
