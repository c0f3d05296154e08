"""New columns whose values arrive in the order of the rows that they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._pipeline.keys.source_keys import repeated_in_columns

__all__ = ["Arriving"]


class Arriving:
    """A maker of columns that takes its values from batches.  Stays in its process.

    A row for which none arrives gets nulls.

    Parameters
    ----------
    batches
        The values, and in a last column the addresses, ascending over all batches.
    schema
        The values' columns.
    key
        The dataset's column by which rows were matched, to name one that was matched twice.
    """

    calls = None

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, key: str) -> None:
        self.columns: Sequence[str] = list(dict.fromkeys([key, "_rowaddr"]))
        self._key = key
        self._schema = schema
        self._batches = batches
        self._next: pa.RecordBatch | None = None

    def address(self) -> int | None:
        """Return the address of the next value, ``None`` behind the last one."""
        while self._next is None or self._next.num_rows == 0:
            self._next = next(self._batches, None)
            if self._next is None:
                return None
        first: int = self._next.column(-1)[0].as_py()
        return first

    def make(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """Take the values of some rows, which come in the order of their addresses."""
        wanted = rows.column("_rowaddr").to_numpy().astype(np.int64)
        parts = list(self._until(int(wanted[-1])))
        if not parts:
            return [pa.nulls(len(wanted), kind) for kind in self._schema.types]
        taken = pa.Table.from_batches(parts)
        addresses = taken.column(taken.num_columns - 1).to_numpy()
        found = np.minimum(np.searchsorted(addresses, wanted), len(addresses) - 1)
        repeated = np.flatnonzero(np.diff(addresses) == 0)
        if len(repeated):
            self._refuse(rows, int(np.searchsorted(wanted, addresses[repeated[0]])))
        places = pa.array(found, mask=addresses[found] != wanted)
        return [ak.take(taken.column(at), places) for at in range(len(self._schema))]

    def _until(self, last: int) -> Iterator[pa.RecordBatch]:
        while (first := self.address()) is not None and first <= last and self._next is not None:
            batch, addresses = self._next, self._next.column(-1).to_numpy()
            count = int(np.searchsorted(addresses, last, side="right"))
            yield batch.slice(0, count)
            self._next = batch.slice(count)

    def _refuse(self, rows: pa.Table, row: int) -> None:
        value = rows.column(self._key)[row].as_py()
        raise repeated_in_columns(self._key, value)
