"""Many whole numbers as keys, looked up by bisection: in the least memory that holds them.

A hash table of ten million keys is a gigabyte while it is made, in each of several processes.
Sorted, they are as large as they are, and values that are sorted too find them almost as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._pipeline.keys.find_values import Found, Indices
from lancekit._pipeline.keys.probe import KeyTable

__all__ = ["SortedKeys", "sorted_keys"]

#: below this a table of slots is faster, and small enough
_LEAST_KEYS = 100_000
#: values that are sorted at a time: they stay in the processor's cache
_BLOCK = 1 << 16

_KINDS = {8: np.int64, 4: np.int32, 2: np.int16, 1: np.int8}


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """Keys of one column, distinct and ascending, and the source row of each.

    It answers as a `KeyTable` does.
    """

    names: tuple[str, ...]
    values: npt.NDArray[np.int64]
    first_rows: npt.NDArray[np.integer]

    def find(
        self, place: int, values: pa.Array | pa.ChunkedArray, before: Indices | None = None
    ) -> Found:
        """Return the places of values that are keys, ascending, and which keys they are."""
        if place or before is not None:
            raise ValueError("sorted keys have one column")
        places, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for start, block in _blocks(values):
            at, found = self._find(block)
            places.append(at + start)
            positions.append(found)
        return np.concatenate(places), np.concatenate(positions)

    def _find(self, block: pa.Array) -> Found:
        wanted = _numbers(block)
        order = np.argsort(wanted)
        ascending = wanted[order]
        at = np.minimum(np.searchsorted(self.values, ascending), len(self.values) - 1)
        hit = self.values[at] == ascending
        if ak.null_count(block):
            hit &= block.is_valid().to_numpy(zero_copy_only=False)[order]
        places, positions = order[hit], at[hit]
        again = np.argsort(places)
        return places[again], positions[again]


def _blocks(values: pa.Array | pa.ChunkedArray) -> Iterator[tuple[int, pa.Array]]:
    before = 0
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        for start in range(0, len(chunk), _BLOCK):
            yield before + start, chunk.slice(start, _BLOCK)
        before += len(chunk)


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return whole numbers as 64 bits with a sign; unsigned ones keep their bits."""
    kind = _KINDS[values.type.bit_width // 8]
    data = values.buffers()[1]
    numbers = np.frombuffer(b"" if data is None else data, kind)
    numbers = numbers[values.offset : values.offset + len(values)]
    return numbers.astype(np.int64, copy=False)


def sorted_keys(table: KeyTable) -> SortedKeys | None:
    """Return keys, of which there is each one once, sorted; ``None`` if it does not pay."""
    kind = table.columns[0].type
    whole = pa.types.is_integer(kind) or pa.types.is_temporal(kind)
    if len(table.columns) > 1 or not whole or len(table.columns[0]) < _LEAST_KEYS:
        return None
    column = table.columns[0]
    small = np.int32 if len(column) < 1 << 31 else np.int64
    numbers, rows = _numbers(column), None
    if ak.null_count(column):
        rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).astype(small)
        if not len(rows):
            return None
        numbers = numbers[rows]
    order: npt.NDArray[np.integer] = np.argsort(numbers).astype(small, copy=False)
    values = np.empty_like(numbers)
    for start in range(0, len(order), _BLOCK):  # at once, NumPy would widen the whole order again
        part = slice(start, start + _BLOCK)
        values[part] = numbers[order[part]]
    return SortedKeys(table.names, values, order if rows is None else rows[order])
