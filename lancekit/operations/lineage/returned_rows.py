"""Rows that a merge brings back: the target had them and lacks them, so they keep their row ids.

With an id of its own, a row that comes back would be another row for the next merge, which would
bring it a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit.format.deletions import to_offsets
from lancekit.format.row_ids import read_row_ids, read_row_versions
from lancekit.operations.lineage.diff_plan import shared_ids
from lancekit.operations.lineage.rows import read_rows
from lancekit.pipeline.diff.side import Addresses
from lancekit.scan.fragments.source import fragment_sources
from lancekit.versions.ancestor import common_ancestor
from lancekit.versions.commit_graph import CommitGraph
from lancekit.versions.merge_edges import SharedIds
from lancekit.versions.row_sequences import sequence_of
from lancekit.versions.snapshot import Snapshot

__all__ = ["NONE_RETURNED", "Returned", "may_return", "returned_rows"]

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
        created[came] = _created_here(ours, taken, ids[came])
        known |= came
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
    is_here = theirs.line.root == ours.line.root
    return is_here and CommitGraph(ours.line).have_met_since(base, theirs, ours)


def _created_here(ours: Snapshot, taken: SharedIds, ids: Numbers) -> Numbers:
    """Return the versions of ours that created rows which a fast-forward gave to both sides."""
    created = np.full(len(ids), taken.target, np.uint64)
    then = CommitGraph(ours.line).load(ours.line, taken.target)
    for side in (ours, *(() if then is None else (then,))):
        for at, versions, _ in _places(side, ids):
            created[at] = versions
    return created


def _other_rows(ours: Snapshot, back: Returned) -> npt.NDArray[np.bool_]:
    """Return which ids a row of ours has, or one that is marked as deleted and another row."""
    out = np.zeros(len(back.ids), bool)
    for at, created, deleted in _places(ours, back.ids):
        out[at] |= ~deleted | (created != back.created[at])
    return out


def _places(
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
