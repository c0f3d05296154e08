"""Where the rows of an index's documents are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lancekit._format import row_address
from lancekit._format.deletions import to_offsets
from lancekit._lazy import cached_property
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource

__all__ = ["Moves", "Places"]

Numbers = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

_ABSENT = -1


class Moves(Protocol):
    """What tells where the rows that an index names are."""

    def moved(self, rows: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Return what rows are called now, and which of them are still there."""


@dataclass(frozen=True)
class Places:
    """Finds rows by their ids in some fragments; `sources` are those that an index covers.

    `reuse` tells where rows went since the index was made, if that is still to be followed, or
    the addresses that rows of an external table have here.
    """

    sources: Sequence[FragmentSource]
    reuse: Moves | None = None

    def positions(self, row_ids: Numbers) -> Positions:
        """Return the positions of rows in the dataset, -1 for what is deleted or elsewhere."""
        if not self.sources:
            return np.full(len(row_ids), _ABSENT)
        if self.sources[0].stable_row_ids:
            return self._of_ids(row_ids)
        return self._of_addresses(self.ids(row_ids))

    def ids(self, row_ids: Numbers) -> Numbers:
        """Return what rows are called now; those that are gone, as no row here is."""
        if self.reuse is None or not self.sources or self.sources[0].stable_row_ids:
            return row_ids
        return self.reuse.moved(row_ids)[0]

    def _of_addresses(self, addresses: Numbers) -> Positions:
        ids, firsts, rows = self._table
        owners = row_address.fragment_ids(addresses).astype(np.int64)
        offsets = row_address.offsets(addresses).astype(np.int64)
        at = np.minimum(np.searchsorted(ids, owners), len(ids) - 1)
        known = (ids[at] == owners) & (offsets < rows[at])
        out = np.where(known, firsts[at] + offsets, _ABSENT)
        for place, reader in self._with_deletions:
            mine = np.flatnonzero(known & (at == place))
            out[mine] = _live_positions(reader, offsets[mine])
        return out

    def _of_ids(self, row_ids: Numbers) -> Positions:
        # an updated row keeps its id and lies behind others: they need not come in order
        order = np.argsort(row_ids, kind="stable")
        ascending, out = row_ids[order], np.full(len(row_ids), _ABSENT)
        for reader in self._readers:
            known = reader.stable_ids
            if known is not None:
                offsets = known.find(ascending)
                mine = np.flatnonzero(offsets >= 0)
                out[order[mine]] = _live_positions(reader, offsets[mine])
        return out

    @cached_property
    def _readers(self) -> list[FragmentReader]:
        return [FragmentReader(source) for source in self.sources]

    @cached_property
    def _table(self) -> tuple[Positions, Positions, Positions]:
        """The ids of the fragments, ascending, and of each the first row and how many it had."""
        return tuple(  # type: ignore[return-value]
            np.array(numbers, np.int64)
            for numbers in zip(
                *(
                    (source.fragment.id, source.first_row, source.fragment.physical_rows)
                    for source in self._ascending
                ),
                strict=True,
            )
        )

    @cached_property
    def _ascending(self) -> list[FragmentSource]:
        return sorted(self.sources, key=lambda source: source.fragment.id)

    @cached_property
    def _with_deletions(self) -> list[tuple[int, FragmentReader]]:
        return [
            (place, FragmentReader(source))
            for place, source in enumerate(self._ascending)
            if source.deletion is not None
        ]


def _live_positions(reader: FragmentReader, offsets: Positions) -> Positions:
    found = reader.row_positions(offsets).astype(np.int64)
    if reader.deleted:
        found[np.isin(offsets, to_offsets(reader.deleted))] = _ABSENT
    return found
