"""Rows that a merge restores, and rows that cannot be matched by their row ids.

A restored row must keep its row id: under a new id, the next merge would insert the row again.
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
from lancekit._operations.lineage.diff import Changes, compare_rows
from lancekit._operations.lineage.diff_plan import DiffPlan, shared_ids
from lancekit._pipeline.diff.column_identity import spans_since
from lancekit._pipeline.diff.row_values import Addresses, read_rows
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.ancestor import common_ancestor
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.commit_graph import CommitGraph
from lancekit._versions.listing import list_versions
from lancekit._versions.merge_edges import SharedIds
from lancekit._versions.row_sequences import sequence_of
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, InvalidArgumentError

Numbers = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Returned:
    """Rows that a merge restores, by their addresses on the source side, ascending.

    `ids` are their row ids, `created` the target versions that created them.
    """

    rows: Addresses
    ids: Numbers
    created: Numbers

    def where(self, rows: npt.NDArray[np.bool_]) -> Returned:
        """Return the rows that a mask selects."""
        return Returned(self.rows[rows], self.ids[rows], self.created[rows])

    def first(self, rows: Addresses) -> tuple[npt.NDArray[np.int64], int]:
        """Return an order of ``rows`` with restored rows first, and the number of restored rows."""
        back = np.isin(rows, self.rows)
        return np.argsort(~back, kind="stable"), int(back.sum())

    def of(self, rows: Addresses) -> tuple[Numbers, Numbers]:
        """Return the row ids and creating versions of restored rows."""
        at = np.searchsorted(self.rows, rows)
        return self.ids[at], self.created[at]


#: a history longer than this is not read
_READ_VERSIONS = 1000
_UNKNOWN = np.iinfo(np.uint64).max
_NONE = np.empty(0, np.uint64)
NONE_RETURNED = Returned(_NONE, _NONE, _NONE)


def returned_rows(theirs: Snapshot, ours: Snapshot, rows: Addresses) -> Returned:
    """Return the rows that the target had before under the same ids.

    ``rows`` are rows of the source that the target lacks.
    """
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
    # a restored table assigns ids again
    known &= ids < ours.manifest.next_row_id
    back = Returned(rows, ids, created).where(known)
    return back.where(~_other_rows(ours, back)) if len(back.rows) else back


def may_return(
    base: Snapshot, theirs: Snapshot, ours: Snapshot, rows: Addresses, inserted: Addresses
) -> bool:
    """Return True if rows inserted under new ids may be rows that the target had under other ids.

    base, theirs, ours: the versions of the merge.
    rows: the rows of the source that get new ids.
    inserted: the rows of the source that the base lacks.
    """
    if not len(rows) or not ours.manifest.has_stable_row_ids or ours.manifest.schema.primary_key:
        return False
    if not np.isin(rows, inserted).all():
        return True  # the target deleted rows of the base, and the source changed them
    if theirs.location.root != ours.location.root:
        return False
    graph, sides = CommitGraph(ours.location), (base, theirs, ours)
    return graph.have_merged_since(*sides) or graph.have_undone_since(*sides)


def _created_here(ours: Snapshot, ancestor: Snapshot, taken: SharedIds, ids: Numbers) -> Numbers:
    """Return the target versions that created the rows shared since a fast-forward.

    The newest version with a row records it, even for rows that are older than the fast-forward.
    For rows that no version has any more, the version of the fast-forward is returned.
    """
    created, left = np.full(len(ids), taken.target, np.uint64), np.arange(len(ids))
    graph, places = CommitGraph(ours.location), _versions_since(ancestor, ours)
    for location, version in places[:_READ_VERSIONS]:
        if not len(left):
            return created
        side, found = graph.load(location, version), np.zeros(len(left), bool)
        with suppress(CorruptFileError):  # a pylance cleanup can remove files of a version it keeps
            for at, versions, _ in () if side is None else places_of_ids(side, ids[left]):
                created[left[at]], found[at] = versions, True
        left = left[~found]
    if not 0 < len(places) <= _READ_VERSIONS:
        created[left] = _UNKNOWN
    return created


def _versions_since(ancestor: Snapshot, side: Snapshot) -> list[tuple[BranchLocation, int]]:
    """Return the existing versions from an ancestor to a side, newest first."""
    return [
        (span.location, version)
        for span in reversed(spans_since(ancestor, side) or [])
        for version in reversed(list_versions(span.location).versions)
        # a branch begins with a copy of the version that it forked from
        if span.versions.start - 1 <= version < span.versions.stop
    ]


def _other_rows(ours: Snapshot, back: Returned) -> npt.NDArray[np.bool_]:
    """Return which ids are taken in the target: by a live row, or by a different deleted row."""
    out = np.zeros(len(back.ids), bool)
    for at, created, deleted in places_of_ids(ours, back.ids):
        out[at] |= ~deleted | (created != back.created[at])
    return out


def places_of_ids(
    side: Snapshot, ids: Numbers
) -> Iterator[tuple[Offsets, Numbers, npt.NDArray[np.bool_]]]:
    """Yield for each fragment: the indices of ids found, creating versions, and deleted flags."""
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


# ---- created and updated versions of the rows of a fast-forward

#: the ids of rows, and the versions that created and last updated them
Stamps = tuple[Numbers, Numbers, Numbers]


class RowStamps:
    """Created and updated versions for the rows of a branch, as version numbers of its target.

    ours: the target.
    touched: the ids of target fragments that lost rows, or in which values changed.
    theirs: the newest version of the branch.
    fragments: the fragments of the branch whose rows the target gets.
    base: the version of the branch up to which the target already has its rows.
    version: the version of the target that gets the rows.
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
        """Return a fragment with created and updated versions of the target."""
        if is_new(fragment, self.next_row_id):
            one = uniform_versions(fragment.physical_rows, int(self.version))
            return replace(fragment, created_at=one, last_updated_at=one)
        at, known = self._find(ids_of(fragment))
        # a restored branch may have assigned an id for the second time
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
        """Store the versions of rows, sorted by row id."""
        ids, created, updated = map(np.concatenate, zip((_NONE,) * 3, *rows, strict=True))
        order = np.argsort(ids)
        self.ids, self.created, self.updated = ids[order], created[order], updated[order]

    def _find(self, ids: Numbers) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return the indices of ids among the stored ids, and which ids are stored."""
        at = np.minimum(np.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        return at, self.ids[at] == ids if len(self.ids) else np.zeros(len(ids), bool)

    def _lacked(self, theirs: Snapshot, fragments: Sequence[Fragment]) -> Iterator[Addresses]:
        """Yield rows of the branch that it created up to the base, and that the target lacks."""
        for fragment in fragments:
            if not is_new(fragment, self.next_row_id):
                _, known = self._find(ids_of(fragment))
                lacks = ~known & (_versions(fragment, fragment.created_at) <= self.base)
                lacks[to_offsets(theirs.deleted_rows(fragment))] = False
                offsets = np.flatnonzero(lacks).astype(np.uint64)
                yield row_address.addresses(fragment.id, offsets)


def with_changed(fragment: Fragment, rows: BitMap, version: int) -> Fragment:
    """Return a fragment with ``version`` as the last-updated version of some rows."""
    updated = _versions(fragment, fragment.last_updated_at).copy()
    updated[to_offsets(rows)] = version
    return replace(fragment, last_updated_at=encode_row_versions(updated))


def is_new(fragment: Fragment, next_row_id: int) -> bool:
    """Return True if all row ids of a fragment are new to the target, by its smallest row id."""
    bounds = read_row_id_bounds(fragment.row_ids or b"", f"fragment {fragment.id}")
    return bounds[0] >= next_row_id


def live_rows(side: Snapshot, fragment: Fragment) -> Stamps:
    """Return ids and versions of the rows of a fragment that are not deleted.

    An updated row has its id in another fragment, too.
    """
    gone = to_offsets(side.deleted_rows(fragment))
    created, updated = (
        _versions(fragment, encoded) for encoded in (fragment.created_at, fragment.last_updated_at)
    )
    return np.delete(ids_of(fragment), gone), np.delete(created, gone), np.delete(updated, gone)


def ids_of(fragment: Fragment) -> Numbers:
    """Return the row ids of a fragment, including deleted rows."""
    return parse_row_ids(fragment.row_ids or b"", fragment.physical_rows, f"fragment {fragment.id}")


def _versions(fragment: Fragment, encoded: bytes | None) -> Numbers:
    return read_row_versions(encoded, fragment.physical_rows, f"fragment {fragment.id}").values()


# ---- rows that cannot be matched by row id
#
# A merge of a table without a key assigns new row ids of the target to the rows that it inserts.
# So one row can have two ids, and one id can mean two rows.  Equal rows are interchangeable.


def paired_by_values(plan: DiffPlan, found: Changes) -> Changes:
    """Pair equal rows to which each side assigned its own id, so that they are no changes.

    Example: a branch merged a row of main, which got a new id there.  No row was deleted or added.
    """
    if not _both_assigned_ids(plan) or any(pair.old is None for pair in plan.columns):
        return found
    gone = _with_own_ids(plan, plan.old, found.deleted)
    come = _with_own_ids(plan, plan.new, found.inserted) if len(gone) else gone
    if not len(come):
        return found
    olds, news = compare_rows(replace(plan, matched_by="whole rows"), gone, come).same
    return replace(
        found,
        deleted=np.setdiff1d(found.deleted, olds, assume_unique=True),
        inserted=np.setdiff1d(found.inserted, news, assume_unique=True),
        same=(np.concatenate([found.same[0], olds]), np.concatenate([found.same[1], news])),
    )


def check_identified(plan: DiffPlan, found: Changes) -> None:
    """Refuse to merge changes of rows if the rows of both sides cannot be matched.

    Raises InvalidArgumentError: there is no key, and no row ids of a common version.
    """
    if plan.matched_by == "whole rows" or _may_be_updates(plan, found):
        raise _error(plan, "both sides changed rows")


def check_rows_of_new(brings: DiffPlan, other: DiffPlan, found: Changes) -> None:
    """Refuse new columns of a side if the other side may have some of its rows under other ids.

    Those rows would get no values in the new columns.
    """
    new = [pair.name for pair in brings.columns if pair.old is None]
    if new and _may_be_updates(other, found):
        raise _error(other, f"one side has new columns ({', '.join(map(repr, new))})")


def check_inserted(between: DiffPlan, base: Snapshot, theirs: Changes, ours: Changes) -> None:
    """Refuse rows that both sides inserted since a base if the two sides merged since that base.

    One side may have rows of the other side under different ids.  A target that contains the source
    may have lost the rows and got them back since.
    """
    sides = between.old, between.new
    if between.matched_by != "row ids" or sides[0].location.root != sides[1].location.root:
        return
    if not (len(theirs.inserted) and len(_with_own_ids(between, between.new, ours.inserted))):
        return
    graph = CommitGraph(between.new.location)
    have_met = len(_with_own_ids(between, between.old, theirs.inserted)) > 0 and (
        graph.have_merged_since(base, *sides)
    )
    # a version that is reverted, or picked again
    is_contained = any(graph.contains(one, between.old) for one in (base, between.new))
    if have_met or (is_contained and graph.have_returned_since([base], between.new)):
        why = "a merge or a pick copied rows of one side to the other"
        raise _error(between, f"both sides inserted rows since {base.called}, and then {why}")


def check_returned(
    plan: DiffPlan, found: Changes, other: DiffPlan, changed: Changes, bases: Sequence[Snapshot]
) -> None:
    """Refuse rows that a side deleted and got back under new ids, if the other side changed them.

    plan, found: the changes of the side since a merge base.
    other, changed: the changes of the other side; its new columns have values for all rows.
    bases: all merge bases.
    """
    if plan.matched_by != "row ids" or not (len(found.deleted) and len(found.inserted)):
        return
    both = np.isin(found.deleted, np.concatenate([changed.deleted, changed.updated[0]])).any()
    has_new = any(pair.old is None for pair in other.columns)
    if (both or has_new) and CommitGraph(plan.new.location).have_returned_since(bases, plan.new):
        why = "changed some of these rows" if both else "has new columns"
        brought = f"a merge or a pick restored rows that {plan.new.called} had deleted"
        raise _error(plan, f"{brought}, and {other.new.called} {why}")


def _error(plan: DiffPlan, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"The rows of {plan.old.called} and {plan.new.called} cannot be matched: {why}, and there "
        "is no key and no row ids from a common version.",
        hint='Pass columns that identify each row: on=["id"].',
    )


def _may_be_updates(plan: DiffPlan, found: Changes) -> bool:
    """Return True if deleted rows may be inserted rows with other values."""
    return (
        _both_assigned_ids(plan)
        and len(_with_own_ids(plan, plan.old, found.deleted)) > 0
        and len(_with_own_ids(plan, plan.new, found.inserted)) > 0
    )


def _both_assigned_ids(plan: DiffPlan) -> bool:
    """Return True if both sides assigned row ids, so that one id can mean two rows."""
    ends = {(side.location, side.version) for side in (plan.old, plan.new)}
    parted = (
        plan.ancestor is not None and (plan.ancestor.location, plan.ancestor.version) not in ends
    )
    return (
        plan.matched_by == "row ids" and parted and plan.old.manifest.next_row_id > plan.common_ids
    )


def _with_own_ids(plan: DiffPlan, side: Snapshot, rows: Addresses) -> Addresses:
    """Return the rows of a side whose ids mean nothing on the other side."""
    if not len(rows):
        return rows
    ids = read_rows(side, rows).read(["_rowid"], rows)["_rowid"].to_numpy()
    return rows[ids >= plan.common_ids]
