"""By which versions rows were created and changed that a fast-forward takes over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lancekit.format import row_address
from lancekit.format.deletions import to_offsets
from lancekit.format.fragment import Fragment
from lancekit.format.row_ids import parse_row_ids, read_row_id_bounds, read_row_versions
from lancekit.format.row_ids_encode import encode_row_versions, uniform_versions
from lancekit.operations.lineage.returned_rows import returned_rows
from lancekit.pipeline.diff.side import Addresses
from lancekit.versions.snapshot import Snapshot

__all__ = ["RowStamps", "ids_of", "is_new", "live_rows", "rows_of"]

Numbers = npt.NDArray[np.uint64]
#: the ids of rows, and by which versions they were created and changed
Stamps = tuple[Numbers, Numbers, Numbers]

_NONE = np.empty(0, np.uint64)


class RowStamps:
    """By which versions rows of a branch were created and changed, in the numbers of its target.

    Parameters
    ----------
    ours
        The target.
    touched
        The fragments of the target from which rows went, or in which values changed, by their ids.
    theirs
        The newest version of the branch.
    fragments
        The fragments of the branch whose rows the target gets.
    base
        Up to which version of the branch the target has its rows already.
    version
        The version of the target that takes the others over.
    """

    def __init__(
        self,
        ours: Snapshot,
        touched: Iterable[int],
        theirs: Snapshot,
        fragments: Sequence[Fragment],
        base: int,
        version: int,
    ) -> None:
        self.base, self.version = base, np.uint64(version)
        self.next_row_id = ours.manifest.next_row_id
        ids, created, updated = rows_of(ours, touched)
        gone = [_NONE, *self._not_among(ids, theirs, fragments)]
        back = returned_rows(theirs, ours, np.concatenate(gone))
        self.ids = np.concatenate([ids, back.ids])
        order = np.argsort(self.ids)
        self.ids = self.ids[order]
        self.created = np.concatenate([created, back.created])[order]
        now = np.full(len(back.ids), self.version)
        self.updated = np.concatenate([updated, now])[order]

    def on(self, fragment: Fragment) -> Fragment:
        """Return a new fragment with the target's versions."""
        if is_new(fragment, self.next_row_id):
            one = uniform_versions(fragment.physical_rows, int(self.version))
            return replace(fragment, created_at=one, last_updated_at=one)
        ids = ids_of(fragment)
        at = np.minimum(np.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        known = self.ids[at] == ids if len(self.ids) else np.zeros(len(ids), bool)
        # a restored branch may have handed out an id for the second time
        known &= _versions(fragment, fragment.created_at) <= self.base
        created, updated = np.full(len(ids), self.version), np.full(len(ids), self.version)
        created[known] = self.created[at[known]]
        kept = known & (_versions(fragment, fragment.last_updated_at) <= self.base)
        updated[kept] = self.updated[at[kept]]
        return replace(
            fragment,
            created_at=encode_row_versions(created),
            last_updated_at=encode_row_versions(updated),
        )

    def _not_among(
        self, known: Numbers, theirs: Snapshot, fragments: Sequence[Fragment]
    ) -> Iterator[Addresses]:
        """Yield rows of the branch that came up to the base, and that the target lacks."""
        for fragment in fragments:
            if not is_new(fragment, self.next_row_id):
                lacks = ~np.isin(ids_of(fragment), known)
                lacks &= _versions(fragment, fragment.created_at) <= self.base
                lacks[to_offsets(theirs.deleted_rows(fragment))] = False
                offsets = np.flatnonzero(lacks).astype(np.uint64)
                yield row_address.addresses(fragment.id, offsets)


def is_new(fragment: Fragment, next_row_id: int) -> bool:
    """Return whether the target has none of a fragment's rows, by the least of their ids alone."""
    where = f"fragment {fragment.id}"
    return read_row_id_bounds(fragment.row_ids or b"", where)[0] >= next_row_id


def rows_of(side: Snapshot, fragments: Iterable[int]) -> Stamps:
    """Return the rows of some fragments, without the deleted rows."""
    found = [side.manifest.fragments.get(id_) for id_ in fragments]
    known = [live_rows(side, fragment) for fragment in found if fragment is not None]
    ids, created, updated = map(np.concatenate, zip((_NONE,) * 3, *known, strict=True))
    return ids, created, updated


def live_rows(side: Snapshot, fragment: Fragment) -> Stamps:
    """Return the rows of a fragment, without the deleted rows.

    A row that was updated has its id in another fragment, too.
    """
    gone = to_offsets(side.deleted_rows(fragment))
    created, updated = (
        _versions(fragment, encoded) for encoded in (fragment.created_at, fragment.last_updated_at)
    )
    return np.delete(ids_of(fragment), gone), np.delete(created, gone), np.delete(updated, gone)


def ids_of(fragment: Fragment) -> Numbers:
    """Return the row ids of a fragment, of deleted rows, too."""
    where = f"fragment {fragment.id}"
    return parse_row_ids(fragment.row_ids or b"", fragment.physical_rows, where)


def _versions(fragment: Fragment, encoded: bytes | None) -> Numbers:
    where = f"fragment {fragment.id}"
    return read_row_versions(encoded, fragment.physical_rows, where).values()
