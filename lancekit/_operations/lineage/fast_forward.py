"""A merge of a branch whose target did not move since it forked: its fragments become the target's.

So do its columns.  No row is written.  Files of the branch get names in the target, too: hard links
on a disk, copies by the server in an object store; so the branch can be deleted.  If that is asked
for, the target reads them where they are instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit._commit.rules.pending import Pending
from lancekit._format.deletions import to_offsets
from lancekit._format.external_sequences import is_external
from lancekit._format.fragment import Fragment
from lancekit._format.manifest import BasePath
from lancekit._format.operations import Merge, Update, UpdateConfig
from lancekit._operations.common.results import ApplyResult
from lancekit._operations.lineage.apply_changes import edges_alone, nothing_done, with_columns
from lancekit._operations.lineage.carry_columns import (
    bring_again,
    commit_with_files,
    places_of_fields,
    with_deletions,
)
from lancekit._operations.lineage.changed import Changed, How, said_in
from lancekit._operations.lineage.column_conflicts import (
    ColumnChanges,
    column_changes,
    takes_old_rows,
)
from lancekit._operations.lineage.columns import with_parts
from lancekit._operations.lineage.contained_columns import known_columns
from lancekit._operations.lineage.diff import find_changes, read_sides
from lancekit._operations.lineage.diff_plan import plan_diff
from lancekit._operations.lineage.merge_base import implied_marks, taken_mark
from lancekit._operations.lineage.returned_rows import (
    RowStamps,
    ids_of,
    is_new,
    live_rows,
    places_of_ids,
    with_changed,
)
from lancekit._operations.maintenance.copies import Copy, carried_fragments, referred_fragments
from lancekit._pipeline.diff.column_identity import ids_said
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._versions.snapshot import Snapshot, load_snapshot


@dataclass(frozen=True, slots=True)
class Taken:
    """The fragments of a branch that its target gets.

    `new` are those that it lacks, `updated` those with more deletions, `patched` those with columns
    in other files; `removed` are the ids of those that it loses.  `columns` says what becomes of
    its columns, `pairs` has those of the branch with what they were, if columns change.
    """

    new: tuple[Fragment, ...]
    updated: tuple[Fragment, ...]
    patched: tuple[Fragment, ...]
    removed: tuple[int, ...]
    columns: ColumnChanges
    pairs: tuple[ColumnPair, ...]
    is_of_rows: bool

    @property
    def is_empty(self) -> bool:
        """True if the target has the rows and the columns already."""
        return self.is_of_rows and not (self.new or self.updated or self.removed)

    @property
    def touched(self) -> tuple[int, ...]:
        """The ids of the fragments from which rows went, or in which values changed."""
        return (*self.removed, *(fragment.id for fragment in (*self.updated, *self.patched)))


def what_is_taken(change: Changed, ours: Snapshot) -> Taken | None:
    """Return what ours would take over; ``None`` if it moved, or has to be changed row by row."""
    base, theirs = change.before, change.theirs
    start = change.start
    if change.is_merged or start is None:
        return None
    if (start.location, start.version) != (ours.location, ours.version):
        return None
    mine, other, known = ours.manifest, theirs.manifest, base.manifest.fragments
    same = (
        mine.storage_version == other.storage_version
        and mine.has_stable_row_ids == other.has_stable_row_ids
        # data files name the base of a managed blob by its number in one line's list
        and not (mine.has_managed_blobs or other.has_managed_blobs)
    )
    if not same:
        return None
    new, updated, patched = [], [], []
    highest = -1 if mine.max_fragment_id is None else mine.max_fragment_id
    for fragment in other.fragments:
        if is_external(fragment):
            return None
        before = known.get(fragment.id)
        if before is None:
            if fragment.id <= highest:
                return None  # a restore brought it back; here it would get another id
            new.append(fragment)
        elif _files(base, before) != _files(theirs, fragment):
            if before.physical_rows != fragment.physical_rows:
                return None
            patched.append(fragment)
        elif _deletion(base, before) != _deletion(theirs, fragment):
            updated.append(fragment)
    kept = set(other.fragments.ids.tolist())
    removed = tuple(id_ for id_ in mine.fragments.ids.tolist() if id_ not in kept)
    is_of_rows = mine.schema == other.schema and not patched
    pairs = () if mine.schema == other.schema else tuple(known_columns(base, theirs))
    columns = column_changes(pairs, base.manifest.schema.names if pairs else ())
    return Taken(tuple(new), tuple(updated), tuple(patched), removed, columns, pairs, is_of_rows)


def fast_forward(change: Changed, ours: Snapshot, how: How) -> tuple[Snapshot, ApplyResult] | None:
    """Take over the rows of a branch as they are; ``None`` if they cannot be.

    Rows keep their ids.  What the branch created or changed counts as done by the new version: its
    own numbers mean other versions here.

    Raises RetryableConflictError: another writer landed first.
    """
    taken = what_is_taken(change, ours)
    if taken is None:
        return None
    theirs, version = change.theirs, ours.version + 1
    # of a fragment that lost rows the files are here already
    bare = [replace(fragment, files=()) for fragment in taken.updated]
    whole = [*taken.new, *taken.patched]
    copies, bases = list[Copy](), list[BasePath]()
    if how.files == "reference":
        both, bases = referred_fragments(theirs, [*whole, *bare], ours)
        carried, deleted = both[: len(whole)], both[len(whole) :]
    else:
        carried, copies = carried_fragments(theirs, whole, ours)
        deleted, more = carried_fragments(theirs, bare, ours)
        copies += more
    known = {fragment.id: fragment for fragment in ours.manifest.fragments}
    if ours.manifest.has_stable_row_ids:
        stamped = dict[int, Fragment]()
        if carried:
            base = change.before.version
            stamps = RowStamps(ours, taken.touched, theirs, whole, base, version)
            stamped = {fragment.id: stamps.on(fragment) for fragment in carried}
        # a row that a restore brought back has other values than the row that took its place
        for fragment in (*taken.updated, *taken.patched):
            back, _ = _moved_rows(change, fragment)
            if back:
                side = stamped if fragment.id in stamped else known
                side[fragment.id] = with_changed(side[fragment.id], back, version)
        carried = [*stamped.values()]
    mark = None if change.mark is None else taken_mark(change.mark, theirs, version)
    schema = theirs.manifest.schema
    implied = implied_marks(change.implied, schema, theirs, [(one, one) for one in schema.walk()])
    operation: Update | Merge | UpdateConfig
    if taken.is_empty:
        operation = edges_alone(mark, implied)
    elif taken.is_of_rows:
        operation = _operation(ours, known, taken, carried, deleted)
    else:
        operation = _operation_on_columns(ours, known, theirs, taken, carried, deleted)
    # a column that was dropped and added again under its name is new, though it counts as the same
    columns = [(p.new, p.old if p.old is None or p.is_cast or p.new.id == p.old.id else None)
               for p in with_parts(taken.pairs)]  # fmt: skip
    pending = Pending(
        operation=operation,
        doing=how.doing,
        properties={**said_in(change, how), **ids_said(columns, ours)},
        mark=mark,
        implied=implied,
        next_row_id=theirs.manifest.next_row_id,
        moves_rows=not taken.is_of_rows,
        covers=_covers(ours, theirs),
        bases=tuple(bases),
    )
    landed = commit_with_files(pending, copies, theirs, ours)
    bring_again(copies, theirs, ours)
    result = result_of_taken(taken, change, ours, how, landed)
    return landed, replace(result, version=landed.version, location=landed.location)


def _operation(
    ours: Snapshot,
    known: Mapping[int, Fragment],
    taken: Taken,
    new: Iterable[Fragment],
    deleted: Iterable[Fragment],
) -> Update:
    """Return the change that takes fragments over, and the deletions of those that are here."""
    return Update(
        removed_fragment_ids=taken.removed,
        updated_fragments=tuple(with_deletions(known, deleted)),
        new_fragments=tuple(new),
        fields_for_preserving_frag_bitmap=tuple(f.id for f in ours.manifest.schema.walk()),
    )


def _operation_on_columns(
    ours: Snapshot,
    known: Mapping[int, Fragment],
    theirs: Snapshot,
    taken: Taken,
    carried: Iterable[Fragment],
    deleted: Iterable[Fragment],
) -> Merge:
    """Return the change that takes columns over, too: the whole state of the branch.

    A `Merge` is what conflicts with every change of rows and of columns in both libraries, whoever
    lands first: a writer that read the version before works its change out again, or lands an
    append that the new schema can read.  The reference refuses to commit one of its own that leaves
    fragments out, as it may be late; this one is committed as the next version or not at all.
    """
    gone = set(taken.removed)
    fragments = {id_: fragment for id_, fragment in known.items() if id_ not in gone}
    fragments |= {f.id: f for f in with_deletions(fragments, deleted)}
    fragments |= {f.id: f for f in carried}
    return Merge(
        fragments=tuple(fragments.values()),
        schema=theirs.manifest.schema,
        preserves_nullability=takes_old_rows(ours.manifest.schema, theirs.manifest.schema),
    )


def _covers(ours: Snapshot, theirs: Snapshot) -> Mapping[UUID, BitMap] | None:
    """Return which fragments the indices of ours cover in the state of theirs.

    The branch has the indices that it forked with, and kept up what each covers.
    """
    if any(index.is_system for index in (*ours.indices, *theirs.indices)):
        return None  # ids of fragments that are gone may mean others
    known = {index.uuid for index in ours.indices}
    return {
        index.uuid: index.fragment_ids
        for index in theirs.indices
        if index.uuid in known and index.fragment_ids is not None
    }


def _files(side: Snapshot, fragment: Fragment) -> list[tuple[str, tuple[int, ...]]]:
    return [(str(side.data_file(file)), file.fields) for file in fragment.files]


def _deletion(side: Snapshot, fragment: Fragment) -> str | None:
    found = side.deletion_file(fragment)
    return None if found is None else str(found)


def result_of_taken(
    taken: Taken, change: Changed, ours: Snapshot, how: How, landed: Snapshot | None = None
) -> ApplyResult:
    """Return the counts of rows, from metadata alone.

    Without stable row ids nothing there tells a row that moved from one that is new.  Values that
    changed are counted when somebody asks: in the target if the merge has ``landed``, as the branch
    may be deleted by then, else between the base and the branch.
    """
    mine, theirs = ours.manifest, change.theirs.manifest
    inserted, updated = sum(fragment.num_rows for fragment in taken.new), 0
    if mine.has_stable_row_ids:
        inserted = 0
        for fragment in taken.new:
            if is_new(fragment, mine.next_row_id):
                inserted += fragment.num_rows
                continue
            ids, created, changed = live_rows(change.theirs, fragment)
            # the target lacks a row that it deleted, and that came back on the branch
            new = (created > change.before.version) | ~_are_here(ours, ids)
            inserted += int(new.sum())
            updated += int((~new & (changed > change.before.version)).sum())
    came, went = bool(taken.new), bool(taken.removed)
    for fragment in (*taken.updated, *taken.patched):
        back, lost = _moved_rows(change, fragment)
        came, went = came or bool(back), went or lost
        here = 0
        if back and mine.has_stable_row_ids:  # the target has the row elsewhere
            here = int(_are_here(ours, ids_of(fragment)[to_offsets(back)]).sum())
        inserted, updated = inserted + len(back) - here, updated + here
    rewritten = [fragment for fragment in taken.patched if _is_rewritten(change, fragment)]
    updated += sum(_num_rewritten(change, fragment) for fragment in rewritten)
    deleted = mine.num_rows + inserted - theirs.num_rows
    ends = (change.before, change.theirs) if landed is None else (ours, landed)
    # a row that came may be one that went, a column with another id may hold other values
    may_change = (came and went) or rewritten or any(map(_moved, taken.pairs))
    return replace(
        with_columns(nothing_done(change, ours, how), taken.columns),
        how="fast-forward",
        num_inserted_rows=inserted,
        num_updated_rows=updated,
        num_deleted_rows=deleted,
        _cells=_counting_cells(ends, taken.pairs, how) if may_change else 0,
    )


def _counting_cells(
    ends: tuple[Snapshot, Snapshot], pairs: Sequence[ColumnPair], how: How
) -> Callable[[], int]:
    """Return the function that counts the values in which rows of two versions differ.

    It loads both versions again, so that the result of a merge holds no manifests.
    """
    places = [(side.location, side.version) for side in ends]

    def count() -> int:
        old, new = (load_snapshot(*place) for place in places)
        found = plan_diff(old, new, on=how.on, pairs=pairs or None)
        kept = [pair.name for pair in found.columns if pair.old is not None]
        if len(kept) < len(found.columns):
            found = plan_diff(old, new, on=how.on, columns=kept, pairs=pairs or None)
        return sum(find_changes(found, read_sides(found)).cells.values())

    return count


def _moved(pair: ColumnPair) -> bool:
    """Return True if a column has other field ids than it had, as a cast gives it."""
    if pair.old is None:
        return False
    return [part.id for part in pair.old.walk()] != [part.id for part in pair.new.walk()]


def _moved_rows(change: Changed, fragment: Fragment) -> tuple[BitMap, bool]:
    """Return the rows that a restore brought back, and True if other rows were deleted."""
    before = change.before.fragment(fragment.id)
    if before is None or not before.num_deletions:
        return BitMap(), fragment.num_deletions > 0
    was, now = change.before.deleted_rows(before), change.theirs.deleted_rows(fragment)
    return was - now, bool(now - was)


def _are_here(ours: Snapshot, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return which row ids are those of rows that the target has."""
    found = np.zeros(len(ids), bool)
    for at, _, deleted in places_of_ids(ours, ids):
        found[at] |= ~deleted
    return found


def _is_rewritten(change: Changed, fragment: Fragment) -> bool:
    """Return True if a fragment has values of the base's columns in other files.

    Values of new columns, and values that were cast, are none.
    """
    base, theirs = change.before, change.theirs
    before = base.fragment(fragment.id)
    old, new = ({f.id for f in side.manifest.schema.walk()} for side in (base, theirs))
    ids = old & new
    places = places_of_fields(base, before), places_of_fields(theirs, fragment)
    return before is not None and any(places[0].get(id_) != places[1].get(id_) for id_ in ids)


def _num_rewritten(change: Changed, fragment: Fragment) -> int:
    """Return how many rows of a fragment have values written anew in place."""
    base, theirs = change.before, change.theirs
    if not theirs.manifest.has_stable_row_ids:
        return fragment.num_rows
    _, created, changed = live_rows(theirs, fragment)
    return int(((created <= base.version) & (changed > base.version)).sum())
