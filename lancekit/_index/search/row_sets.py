"""Sets of rows in memory: by the upper 32 bits of ids or addresses.

See docs/format/indices.md, 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit._format import row_address
from lancekit._format.deletions import to_bitmap, to_offsets

__all__ = ["Rows", "common", "joined", "rows_of", "union"]

#: lower halves of ids or addresses, by their upper halves; an address' are fragment and offset
Rows: TypeAlias = Mapping[int, BitMap]

Numbers = npt.NDArray[np.uint64]


def rows_of(numbers: Numbers) -> Rows:
    """Return ids or addresses, in any order, as a set of rows."""
    if (numbers[1:] > numbers[:-1]).all():  # as where a column is in order
        return {upper: _bitmap(lower) for upper, lower in row_address.by_fragment(numbers)}
    parts = row_address.by_fragment(np.sort(numbers))
    return {upper: to_bitmap(lower) for upper, lower in parts}


def _bitmap(ascending: Numbers) -> BitMap:
    """Return a set of distinct rows, which may be a range."""
    first, last = int(ascending[0]), int(ascending[-1])
    if last - first + 1 == len(ascending):
        return BitMap(range(first, last + 1))
    return to_bitmap(ascending)


def union(sets: Iterable[Rows]) -> Rows:
    """Return the rows of all sets."""
    by_upper: dict[int, list[BitMap]] = {}
    for rows in sets:
        for upper, lower in rows.items():
            by_upper.setdefault(upper, []).append(lower)
    return {
        upper: parts[0] if len(parts) == 1 else BitMap.union(*parts)
        for upper, parts in by_upper.items()
    }


def common(one: Rows, other: Rows) -> Rows:
    """Return the rows that are in both sets."""
    return {upper: one[upper] & other[upper] for upper in one.keys() & other.keys()}


def joined(rows: Rows) -> Numbers:
    """Return rows as ids or addresses, ascending."""
    parts = [
        row_address.addresses(upper, to_offsets(rows[upper]).astype(np.uint64))
        for upper in sorted(rows)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)
