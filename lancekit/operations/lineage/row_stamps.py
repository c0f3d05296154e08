"""By which versions rows were created and changed that a fast-forward takes over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit.format import row_address
from lancekit.format.deletions import to_offsets
from lancekit.format.fragment import Fragment
from lancekit.format.row_ids import parse_row_ids, read_row_id_bounds, read_row_versions
from lancekit.format.row_ids_encode import encode_row_versions, uniform_versions
from lancekit.operations.lineage.returned_rows import returned_rows
from lancekit.pipeline.diff.side import Addresses
from lancekit.versions.snapshot import Snapshot

__all__ = ["RowStamps", "ids_of", "is_new", "live_rows", "with_changed"]

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
        found = [ours.manifest.fragments.get(id_) for id_ in touched]
        known = [live_rows(ours, fragment) for fragment in found if fragment is not None]
        self._keep(known)
        lacked = np.concatenate([_NONE, *self._lacked(theirs, fragments)])
        back = returned_rows(theirs, ours, lacked)
        if len(back.ids):
            now = np.full(len(back.ids), self.version)
            self._keep([*known, (back.ids, back.created, now)])

    def on(self, fragment: Fragment) -> Fragment:
        """Return a new fragment with the target's versions."""
        if is_new(fragment, self.next_row_id):
            one = uniform_versions(fragment.physical_rows, int(self.version))
            return replace(fragment, created_at=one, last_updated_at=one)
        at, known = self._find(ids_of(fragment))
        # a restored branch may have handed out an id for the second time
        known &= _versions(fragment, fragment.created_at) <= self.base
        created, updated = np.full(len(at), self.version), np.full(len(at), self.version)
        created[known] = self.created[at[known]]
        kept = known & (_versions(fragment, fragment.last_updated_at) <= self.base)
        updated[kept] = self.updated[at[kept]]
        return replace(
            fragment,
            created_at=encode_row_versions(created),
            last_updated_at=encode_row_versions(updated),
        )

    def _keep(self, rows: Sequence[Stamps]) -> None:
        """Keep rows, ascending by their ids."""
        ids, created, updated = map(np.concatenate, zip((_NONE,) * 3, *rows, strict=True))
        order = np.argsort(ids)
        self.ids, self.created, self.updated = ids[order], created[order], updated[order]

    def _find(self, ids: Numbers) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return the places of ids among those that are kept, and which are there."""
        at = np.minimum(np.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        return at, self.ids[at] == ids if len(self.ids) else np.zeros(len(ids), bool)

    def _lacked(self, theirs: Snapshot, fragments: Sequence[Fragment]) -> Iterator[Addresses]:
        """Yield rows of the branch that came up to the base, and that the target lacks."""
        for fragment in fragments:
            if not is_new(fragment, self.next_row_id):
                _, known = self._find(ids_of(fragment))
                lacks = ~known & (_versions(fragment, fragment.created_at) <= self.base)
                lacks[to_offsets(theirs.deleted_rows(fragment))] = False
                offsets = np.flatnonzero(lacks).astype(np.uint64)
                yield row_address.addresses(fragment.id, offsets)


def with_changed(fragment: Fragment, rows: BitMap, version: int) -> Fragment:
    """Return a fragment with some rows marked as changed by a version."""
    updated = _versions(fragment, fragment.last_updated_at).copy()
    updated[to_offsets(rows)] = version
    return replace(fragment, last_updated_at=encode_row_versions(updated))


def is_new(fragment: Fragment, next_row_id: int) -> bool:
    """Return whether the target has none of a fragment's rows, by the least of their ids alone."""
    where = f"fragment {fragment.id}"
    return read_row_id_bounds(fragment.row_ids or b"", where)[0] >= next_row_id


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
