"""The rows of one side of a comparison, by their addresses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._format import row_address
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import selected_rows
from lancekit._scan.fragments.reader import FragmentReader, Offsets, as_offsets
from lancekit._scan.fragments.rebatch import taken
from lancekit._scan.fragments.source import FragmentSource

__all__ = ["Addresses", "Side"]

Addresses = npt.NDArray[np.uint64]


class Side:
    """The fragments that are looked at of a version, and which rows of them count.

    Parameters
    ----------
    sources
        Fragments.
    predicate
        What a row has to be to count; ``None`` for all that are not deleted.
    among
        Addresses: other rows do not count.
    """

    def __init__(
        self,
        sources: Iterable[FragmentSource],
        predicate: Predicate | None,
        among: Addresses | None = None,
    ) -> None:
        self._readers = {source.fragment.id: FragmentReader(source) for source in sources}
        self._predicate = predicate
        self._among = among
        self.rows_read = 0

    def sources(self, addresses: Addresses) -> tuple[FragmentSource, ...]:
        """Return the fragments that some rows are in."""
        ids = np.unique(row_address.fragment_ids(addresses)).tolist()
        return tuple(self._readers[id_].source for id_ in ids)

    def rows(self, fragment_id: int) -> Offsets:
        """Return the offsets of the rows of a fragment that count, ascending."""
        found = self._selected(fragment_id)
        if self._among is None:
            return found
        mine = self._among[row_address.fragment_ids(self._among) == fragment_id]
        return np.intersect1d(found, row_address.offsets(mine).astype(np.int64))

    def _selected(self, fragment_id: int) -> Offsets:
        reader = self._readers[fragment_id]
        if self._predicate is None:
            return as_offsets(reader.live_between(0, reader.physical_rows))
        return selected_rows(reader, self._predicate)

    def read(self, columns: Sequence[str], addresses: Addresses) -> pa.Table:
        """Read columns of some rows, at least one, in the order given.

        Hidden columns go by their names.
        """
        if (addresses[1:] > addresses[:-1]).all():
            return self._ascending(columns, addresses)
        wanted, inverse = np.unique(addresses, return_inverse=True)
        return taken(self._ascending(columns, wanted), inverse)

    def _ascending(self, columns: Sequence[str], wanted: Addresses) -> pa.Table:
        self.rows_read += len(wanted)
        parts = [
            self._readers[id_].read(columns, _dense(offsets.astype(np.int64)))
            for id_, offsets in row_address.by_fragment(wanted)
        ]
        return pa.concat_tables(parts)


def _dense(offsets: Offsets) -> Offsets | range:
    """Return offsets as a range where they are one, which is read without a selection."""
    first, last = int(offsets[0]), int(offsets[-1])
    return range(first, last + 1) if last - first + 1 == len(offsets) else offsets
