"""Rows of a version, as tasks tell them: a bitmap for each fragment, two bytes a row at most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit.format import row_address
from lancekit.format.deletions import to_bitmap, to_offsets

__all__ = ["RowSet"]


@dataclass
class RowSet:
    """Rows by the ids of their fragments, and how many were added, repeated ones included.

    Examples
    --------
    >>> rows = RowSet()
    >>> rows.add(np.array([5, 7, (1 << 32) + 2, 5]))
    >>> len(rows), rows.added, {id_: list(found) for id_, found in rows.by_fragment.items()}
    (3, 4, {0: [5, 7], 1: [2]})
    """

    by_fragment: dict[int, BitMap] = field(default_factory=dict)
    added: int = 0

    def add(self, addresses: npt.NDArray[np.integer[Any]]) -> None:
        """Add rows by their addresses, in any order."""
        self.added += len(addresses)
        for id_, offsets in row_address.by_fragment(np.sort(addresses)):
            self.add_bitmap(id_, to_bitmap(offsets))

    def add_bitmap(self, fragment_id: int, offsets: BitMap) -> None:
        """Add rows of a fragment, which do not count as added."""
        known = self.by_fragment.get(fragment_id)
        self.by_fragment[fragment_id] = offsets if known is None else known | offsets

    @classmethod
    def union(cls, parts: Iterable[RowSet]) -> RowSet:
        """Return the rows of several sets."""
        out = cls()
        for part in parts:
            out.added += part.added
            for id_, offsets in part.by_fragment.items():
                out.add_bitmap(id_, offsets)
        return out

    def offsets(self) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Yield the ids of fragments, ascending, with the ascending offsets of the rows."""
        for id_ in sorted(self.by_fragment):
            yield id_, to_offsets(self.by_fragment[id_]).astype(np.int64)

    def __len__(self) -> int:
        """Return the number of different rows."""
        return sum(map(len, self.by_fragment.values()))
