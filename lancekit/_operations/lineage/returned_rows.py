"""Rows that a merge brings back: the target had them and lacks them, so they keep their row ids.

With an id of its own, a row that comes back would be another row for the next merge, which would
bring it a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit._format import row_address
from lancekit._format.deletions import to_offsets
from lancekit._format.fragment import Fragment
from lancekit._format.row_ids import (
    parse_row_ids,
    read_row_id_bounds,
    read_row_ids,
    read_row_versions,
)
from lancekit._format.row_ids_encode import encode_row_versions, uniform_versions
from lancekit._operations.lineage.diff_plan import shared_ids
from lancekit._operations.lineage.rows import read_rows
from lancekit._pipeline.diff.column_identity import spans_since
from lancekit._pipeline.diff.side import Addresses
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.ancestor import common_ancestor
from lancekit._versions.commit_graph import CommitGraph
from lancekit._versions.line import Line
from lancekit._versions.listing import list_versions
from lancekit._versions.merge_edges import SharedIds
from lancekit._versions.row_sequences import sequence_of
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError

__all__ = [
    "NONE_RETURNED",
    "Returned",
    "RowStamps",
    "ids_of",
    "is_new",
    "live_rows",
    "may_return",
    "places_of_ids",
    "returned_rows",
    "with_changed",
]

Numbers = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Returned:
    """Rows that come back, by their addresses on the other side, ascending.

    `ids` are their row ids, `created` the versions of the target that created them.
    """

    rows: Addresses
    ids: Numbers
    created: Numbers

    def where(self, rows: npt.NDArray[np.bool_]) -> Returned:
        """Return some of the rows."""
        return Returned(self.rows[rows], self.ids[rows], self.created[rows])

    def first(self, rows: Addresses) -> tuple[npt.NDArray[np.int64], int]:
        """Return the order in which rows that come back are first, and how many these are."""
        back = np.isin(rows, self.rows)
        return np.argsort(~back, kind="stable"), int(back.sum())

    def of(self, rows: Addresses) -> tuple[Numbers, Numbers]:
        """Return ids and creating versions of rows, all of which come back."""
        at = np.searchsorted(self.rows, rows)
        return self.ids[at], self.created[at]


#: a history longer than this is not read
_READ_VERSIONS = 1000
_UNKNOWN = np.iinfo(np.uint64).max
_NONE = np.empty(0, np.uint64)
NONE_RETURNED = Returned(_NONE, _NONE, _NONE)


def returned_rows(theirs: Snapshot, ours: Snapshot, rows: Addresses) -> Returned:
    """Return the rows of theirs, of some that ours lacks, that ours had under the same ids."""
    stable = all(side.manifest.has_stable_row_ids for side in (theirs, ours))
    ancestor = common_ancestor(theirs, ours) if stable and len(rows) else None
    if ancestor is None:
        return NONE_RETURNED
    rows = np.sort(rows)
    found = read_rows(theirs, rows).read(["_rowid", "_row_created_at_version"], rows)
    ids, created = (column.to_numpy().astype(np.uint64) for column in found.columns)
    free, taken = ancestor.manifest.next_row_id, shared_ids(theirs, ours)
    known = (ids < free) & (created <= ancestor.version)
    if taken is not None:
        came = (ids >= free) & (ids < taken.next_row_id) & (created <= taken.source)
        created[came] = _created_here(ours, ancestor, taken, ids[came])
        known |= came & (created <= taken.target)
    # a restored table hands ids out again
    known &= ids < ours.manifest.next_row_id
    back = Returned(rows, ids, created).where(known)
    return back.where(~_other_rows(ours, back)) if len(back.rows) else back


def may_return(
    base: Snapshot, theirs: Snapshot, ours: Snapshot, rows: Addresses, inserted: Addresses
) -> bool:
    """Return True if rows that come under new ids may be rows that ours had under other ids.

    Parameters
    ----------
    base, theirs, ours
        The versions of the merge.
    rows
        The rows of theirs that come under new ids.
    inserted
        The rows of theirs that the base lacks.
    """
    if not len(rows) or not ours.manifest.has_stable_row_ids or ours.manifest.schema.primary_key:
        return False
    if not np.isin(rows, inserted).all():
        return True  # ours deleted rows of the base, and theirs changed them
    if theirs.line.root != ours.line.root:
        return False
    graph, sides = CommitGraph(ours.line), (base, theirs, ours)
    return graph.have_met_since(*sides) or graph.have_undone_since(*sides)


def _created_here(ours: Snapshot, ancestor: Snapshot, taken: SharedIds, ids: Numbers) -> Numbers:
    """Return the versions of ours that created rows which a fast-forward gave to both sides.

    The newest version with a row tells it, also where ours had the row before the fast-forward.  If
    no version has the row any more, none knows it as another row, and the fast-forward counts.
    """
    created, left = np.full(len(ids), taken.target, np.uint64), np.arange(len(ids))
    graph, places = CommitGraph(ours.line), _versions_since(ancestor, ours)
    for line, version in places[:_READ_VERSIONS]:
        if not len(left):
            return created
        side, found = graph.load(line, version), np.zeros(len(left), bool)
        with suppress(CorruptFileError):  # a cleanup of pylance left the version without its files
            for at, versions, _ in () if side is None else places_of_ids(side, ids[left]):
                created[left[at]], found[at] = versions, True
        left = left[~found]
    if not 0 < len(places) <= _READ_VERSIONS:
        created[left] = _UNKNOWN
    return created


def _versions_since(ancestor: Snapshot, side: Snapshot) -> list[tuple[Line, int]]:
    """Return the versions from an ancestor to a side that are there, newest first."""
    return [
        (span.line, version)
        for span in reversed(spans_since(ancestor, side) or [])
        for version in reversed(list_versions(span.line).versions)
        # a branch begins with a copy of the version that it forked from
        if span.versions.start - 1 <= version < span.versions.stop
    ]


def _other_rows(ours: Snapshot, back: Returned) -> npt.NDArray[np.bool_]:
    """Return which ids a row of ours has, or one that is marked as deleted and another row."""
    out = np.zeros(len(back.ids), bool)
    for at, created, deleted in places_of_ids(ours, back.ids):
        out[at] |= ~deleted | (created != back.created[at])
    return out


def places_of_ids(
    side: Snapshot, ids: Numbers
) -> Iterator[tuple[Offsets, Numbers, npt.NDArray[np.bool_]]]:
    """Yield for each fragment with some ids: which, their creating versions, and if deleted."""
    sources = fragment_sources(side)
    for place in sources.with_row_ids(np.sort(ids)).tolist():
        fragment = sources[place].fragment
        encoded = sequence_of(side, fragment, "row_ids")
        if encoded is None:
            continue
        count, where = fragment.physical_rows, f"fragment {fragment.id}"
        offsets = read_row_ids(encoded, count, where).find(ids)
        at = np.flatnonzero(offsets >= 0)
        if len(at):
            versions = read_row_versions(sequence_of(side, fragment, "created_at"), count, where)
            gone = np.isin(offsets[at], to_offsets(side.deleted_rows(fragment)))
            yield at, versions.at(offsets[at]), gone


# ---- by which versions rows were created and changed that a fast-forward takes over

#: the ids of rows, and by which versions they were created and changed
Stamps = tuple[Numbers, Numbers, Numbers]


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
