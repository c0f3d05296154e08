"""Tables that are read as fragments of another one, with indices of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit.format import row_address
from lancekit.format.index import IndexMetadata
from lancekit.index.kinds import IndexKind, first_of
from lancekit.scan.fragments.source import FragmentSource
from lancekit.versions.snapshot import Snapshot

__all__ = ["Guest"]

Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Guest:
    """A table of one fragment, which has the ids of another one's fields.

    Attributes
    ----------
    source
        Its fragment as one of the other table's, by whose number rows are called.
    snapshot
        The table, whose indices name rows by addresses of their own.
    """

    source: FragmentSource
    snapshot: Snapshot

    @property
    def fragment_id(self) -> int:
        """The number of its fragment in the other table."""
        return self.source.fragment.id

    def moved(self, row_ids: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Return what rows that an index names are called, and that all are there."""
        offsets = row_address.offsets(row_ids)
        return row_address.addresses(self.fragment_id, offsets), np.ones(len(row_ids), bool)

    def indices(self, kind: IndexKind, field_id: int) -> tuple[IndexMetadata, ...]:
        """Return the segments of the first index of a kind that a field has; there may be none.

        If they do not cover all its rows, none are.
        """
        found = first_of(kind, self.snapshot.indices, field_id)
        own = BitMap(self.snapshot.manifest.fragments.ids.tolist())
        return found if len(own) == len(found) == 1 and own == found[0].fragment_ids else ()
