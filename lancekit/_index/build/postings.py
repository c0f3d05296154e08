"""Keys, and for each the set of rows that have it: what three kinds of indices are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._index.build.column import RowMap
from lancekit._index.build.sorting import Places, Words, differs, order_of, stable_order, whole
from lancekit._index.row_sets import RowSets

__all__ = ["Postings"]


@dataclass(frozen=True, slots=True)
class Postings:
    """Distinct keys in order, null first, and the rows of each."""

    keys: pa.Array
    sets: RowSets

    @classmethod
    def of(cls, keys: pa.Array, rows: Words, places: Places | None = None) -> Postings:
        """Collect the rows of each key.

        Parameters
        ----------
        keys
            In any order, and as often as they come.
        rows
            One for each key, or for each of `places`, which says where its key is.
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
        """Put together the rows that several have of each key."""
        keys = whole(pa.chunked_array([part.keys for part in parts]))
        before = np.cumsum([0, *(len(part.keys) for part in parts)])
        places = [part._places + start for part, start in zip(parts, before, strict=False)]
        rows = [part.sets.rows for part in parts]
        return cls.of(keys, np.concatenate(rows), np.concatenate(places))

    def moved(self, row_map: RowMap) -> Postings:
        """Return the same for rows that are elsewhere now, or gone."""
        rows, kept = row_map(self.sets.rows)
        return Postings.of(self.keys, rows[kept], self._places[kept])

    @property
    def _places(self) -> Places:
        """The place of each row's key."""
        return np.repeat(np.arange(len(self.keys)), np.diff(self.sets.starts))

    def _without_empty(self) -> Postings:
        sizes = np.diff(self.sets.starts)
        starts = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
        keys = ak.take(self.keys, np.flatnonzero(sizes))
        return Postings(keys, RowSets(starts, self.sets.rows))


def _first_of_each(groups: Words, rows: Words) -> npt.NDArray[np.bool_]:
    """Return which rows are not those before them, in their groups."""
    found = np.ones(len(rows), bool)
    found[1:] = (groups[1:] != groups[:-1]) | (rows[1:] != rows[:-1])
    return found
