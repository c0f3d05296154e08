"""Tables that are read as fragments of another table, with indices of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit._format import row_address
from lancekit._format.index import IndexMetadata
from lancekit._index.kinds import IndexKind, first_of
from lancekit._scan.fragments.source import FragmentSource
from lancekit._versions.snapshot import Snapshot

Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class ExternalTable:
    """A table of one fragment that is read as a fragment of another table, with its field ids.

    source: the fragment, with its fragment id in the other table.
    snapshot: the table; its indices name rows by addresses in this table.
    """

    source: FragmentSource
    snapshot: Snapshot

    @property
    def fragment_id(self) -> int:
        """The id of the fragment in the other table."""
        return self.source.fragment.id

    def moved(self, row_ids: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Return the addresses of indexed rows in the other table, and a mask that is all True."""
        offsets = row_address.offsets(row_ids)
        return row_address.addresses(self.fragment_id, offsets), np.ones(len(row_ids), bool)

    def indices(self, kind: IndexKind, field_id: int) -> tuple[IndexMetadata, ...]:
        """Return the segment of a field's first index of the given kind.

        Empty if there is no index of this kind, or if it does not cover all rows.
        """
        found = first_of(kind, self.snapshot.indices, field_id)
        own = BitMap(self.snapshot.manifest.fragments.ids.tolist())
        return found if len(own) == len(found) == 1 and own == found[0].fragment_ids else ()
