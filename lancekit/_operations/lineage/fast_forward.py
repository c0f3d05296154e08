"""Fast-forward a target that did not move since the branch forked, without writing rows.

The target gets the fragments and the columns of the branch.  Files of the branch are hard-linked
into the target on a local disk, and copied by the server in an object store.  So the branch can be
deleted.  With ``files="reference"``, the target refers to the files in the branch instead.
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
from lancekit._operations.lineage.apply_changes import edges_only, unchanged_result, with_columns
from lancekit._operations.lineage.carry_columns import (
    commit_with_files,
    field_locations,
    relink_missing,
    with_deletions,
)
from lancekit._operations.lineage.changed import Changed, Rules, commit_properties
from lancekit._operations.lineage.column_conflicts import (
    ColumnChanges,
    column_changes,
    takes_old_rows,
)
from lancekit._operations.lineage.columns import with_parts
from lancekit._operations.lineage.contained_columns import known_columns
from lancekit._operations.lineage.diff import find_changes, read_sides
from lancekit._operations.lineage.diff_plan import plan_diff
from lancekit._operations.lineage.merge_base import fast_forward_mark, implied_marks
from lancekit._operations.lineage.returned_rows import (
    RowStamps,
    ids_of,
    is_new,
    live_rows,
    places_of_ids,
    with_changed,
)
from lancekit._operations.maintenance.copies import Copy, carried_fragments, referred_fragments
from lancekit._pipeline.diff.column_identity import target_id_property
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._versions.snapshot import Snapshot, load_snapshot


@dataclass(frozen=True, slots=True)
class FastForward:
    """The changes that a fast-forward makes to its target.

    `new` are fragments that the target lacks.  `updated` have other deletions, `patched` columns in
    other files.  `removed` are ids of fragments that the target loses.  `columns` and `pairs` are
    empty if the schema does not change.  `rows_only`: schema and column files stay the same.
    """

    new: tuple[Fragment, ...]
    updated: tuple[Fragment, ...]
    patched: tuple[Fragment, ...]
    removed: tuple[int, ...]
    columns: ColumnChanges
    pairs: tuple[ColumnPair, ...]
    rows_only: bool

    @property
    def is_empty(self) -> bool:
        """True if the target already has the rows and the columns of the branch."""
        return self.rows_only and not (self.new or self.updated or self.removed)

    @property
    def touched(self) -> tuple[int, ...]:
        """The ids of the fragments that lost rows, or in which values changed."""
        return (*self.removed, *(fragment.id for fragment in (*self.updated, *self.patched)))


def plan_fast_forward(change: Changed, ours: Snapshot) -> FastForward | None:
    """Plan a fast-forward; ``None`` if the target moved, or must be merged row by row."""
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
        # data files refer to a managed blob by a base id, which is valid on one branch only
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
                return None  # a restore brought it back; the target would give it another id
            new.append(fragment)
        elif _files(base, before) != _files(theirs, fragment):
            if before.physical_rows != fragment.physical_rows:
                return None
            patched.append(fragment)
        elif _deletion(base, before) != _deletion(theirs, fragment):
            updated.append(fragment)
    kept = set(other.fragments.ids.tolist())
    removed = tuple(id_ for id_ in mine.fragments.ids.tolist() if id_ not in kept)
    rows_only = mine.schema == other.schema and not patched
    pairs = () if mine.schema == other.schema else tuple(known_columns(base, theirs))
    columns = column_changes(pairs, base.manifest.schema.names if pairs else ())
    return FastForward(
        tuple(new), tuple(updated), tuple(patched), removed, columns, pairs, rows_only
    )


def fast_forward(
    change: Changed, ours: Snapshot, rules: Rules
) -> tuple[Snapshot, ApplyResult] | None:
    """Commit a fast-forward; ``None`` if it is not possible.

    Rows keep their ids.  Rows that the branch created or changed get the new target version as
    their created or updated version: the branch's version numbers mean other versions here.

    Raises RetryableConflictError: another writer landed first.
    """
    plan = plan_fast_forward(change, ours)
    if plan is None:
        return None
    theirs, version = change.theirs, ours.version + 1
    # the target already has the data files of fragments with only other deletions
    bare = [replace(fragment, files=()) for fragment in plan.updated]
    whole = [*plan.new, *plan.patched]
    copies, bases = list[Copy](), list[BasePath]()
    if rules.files == "reference":
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
            stamps = RowStamps(ours, plan.touched, theirs, whole, base, version)
            stamped = {fragment.id: stamps.on(fragment) for fragment in carried}
        # a restored row has other values than the row that had replaced it
        for fragment in (*plan.updated, *plan.patched):
            back, _ = _deletion_changes(change, fragment)
            if back:
                side = stamped if fragment.id in stamped else known
                side[fragment.id] = with_changed(side[fragment.id], back, version)
        carried = [*stamped.values()]
    mark = None if change.mark is None else fast_forward_mark(change.mark, theirs, version)
    schema = theirs.manifest.schema
    implied = implied_marks(change.implied, schema, theirs, [(one, one) for one in schema.walk()])
    operation: Update | Merge | UpdateConfig
    if plan.is_empty:
        operation = edges_only(mark, implied)
    elif plan.rows_only:
        operation = Update(
            removed_fragment_ids=plan.removed,
            updated_fragments=tuple(with_deletions(known, deleted)),
            new_fragments=tuple(carried),
            fields_for_preserving_frag_bitmap=tuple(f.id for f in ours.manifest.schema.walk()),
        )
    else:
        operation = _operation_on_columns(ours, known, theirs, plan, carried, deleted)
    # a column that was dropped and added again has a new id: record it as new, not as the old one
    columns = [(p.new, p.old if p.old is None or p.is_cast or p.new.id == p.old.id else None)
               for p in with_parts(plan.pairs)]  # fmt: skip
    pending = Pending(
        operation=operation,
        doing=rules.doing,
        properties={**commit_properties(change, rules), **target_id_property(columns, ours)},
        mark=mark,
        implied=implied,
        next_row_id=theirs.manifest.next_row_id,
        moves_rows=not plan.rows_only,
        covers=_covers(ours, theirs),
        bases=tuple(bases),
    )
    landed = commit_with_files(pending, copies, theirs, ours)
    relink_missing(copies, theirs, ours)
    result = fast_forward_result(plan, change, ours, rules, landed)
    return landed, replace(result, version=landed.version, location=landed.location)


def _operation_on_columns(
    ours: Snapshot,
    known: Mapping[int, Fragment],
    theirs: Snapshot,
    plan: FastForward,
    carried: Iterable[Fragment],
    deleted: Iterable[Fragment],
) -> Merge:
    """Return the operation for a fast-forward that changes columns: the whole state of the branch.

    In both libraries a `Merge` conflicts with every change of rows and columns, whichever lands
    first.  A writer that read the previous version retries, or lands an append that the new schema
    can read.  The reference refuses its own `Merge` without some fragments, because it may land on
    a newer version than it read.  This one is committed as the next version or not at all.
    """
    gone = set(plan.removed)
    fragments = {id_: fragment for id_, fragment in known.items() if id_ not in gone}
    fragments |= {f.id: f for f in with_deletions(fragments, deleted)}
    fragments |= {f.id: f for f in carried}
    return Merge(
        fragments=tuple(fragments.values()),
        schema=theirs.manifest.schema,
        preserves_nullability=takes_old_rows(ours.manifest.schema, theirs.manifest.schema),
    )


def _covers(ours: Snapshot, theirs: Snapshot) -> Mapping[UUID, BitMap] | None:
    """Return the fragments that each index of the target covers in the fragments of the source.

    The branch has the same indices since its fork, and tracked their coverage.
    """
    if any(index.is_system for index in (*ours.indices, *theirs.indices)):
        return None  # ids of removed fragments may be reused
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


def fast_forward_result(
    plan: FastForward, change: Changed, ours: Snapshot, rules: Rules, landed: Snapshot | None = None
) -> ApplyResult:
    """Return the result of a fast-forward, with row counts from metadata alone.

    Without stable row ids, a moved row counts as new.  Changed values are counted on request,
    between the base and the branch.  Once the merge has ``landed``, they are counted in the target,
    because the branch may be deleted.
    """
    mine, theirs = ours.manifest, change.theirs.manifest
    inserted, updated = sum(fragment.num_rows for fragment in plan.new), 0
    if mine.has_stable_row_ids:
        inserted = 0
        for fragment in plan.new:
            if is_new(fragment, mine.next_row_id):
                inserted += fragment.num_rows
                continue
            ids, created, changed = live_rows(change.theirs, fragment)
            # a row counts as new, too, if the target deleted it and the branch restored it
            new = (created > change.before.version) | ~_has_ids(ours, ids)
            inserted += int(new.sum())
            updated += int((~new & (changed > change.before.version)).sum())
    came, went = bool(plan.new), bool(plan.removed)
    for fragment in (*plan.updated, *plan.patched):
        back, lost = _deletion_changes(change, fragment)
        came, went = came or bool(back), went or lost
        here = 0
        if back and mine.has_stable_row_ids:  # the target has the row in another fragment
            here = int(_has_ids(ours, ids_of(fragment)[to_offsets(back)]).sum())
        inserted, updated = inserted + len(back) - here, updated + here
    rewritten = [fragment for fragment in plan.patched if _is_rewritten(change, fragment)]
    updated += sum(_num_rewritten(change, fragment) for fragment in rewritten)
    deleted = mine.num_rows + inserted - theirs.num_rows
    ends = (change.before, change.theirs) if landed is None else (ours, landed)
    # an added row may be a removed row, and a column with a new id may hold other values
    may_change = (came and went) or rewritten or any(map(_has_new_ids, plan.pairs))
    return replace(
        with_columns(unchanged_result(change, ours, rules), plan.columns),
        how="fast-forward",
        num_inserted_rows=inserted,
        num_updated_rows=updated,
        num_deleted_rows=deleted,
        _cells=_counting_cells(ends, plan.pairs, rules) if may_change else 0,
    )


def _counting_cells(
    ends: tuple[Snapshot, Snapshot], pairs: Sequence[ColumnPair], rules: Rules
) -> Callable[[], int]:
    """Return a function that counts the values that differ between two versions.

    It loads both versions again, so that the result of a merge keeps no manifests in memory.
    """
    places = [(side.location, side.version) for side in ends]

    def count() -> int:
        old, new = (load_snapshot(*place) for place in places)
        found = plan_diff(old, new, on=rules.on, pairs=pairs or None)
        kept = [pair.name for pair in found.columns if pair.old is not None]
        if len(kept) < len(found.columns):
            found = plan_diff(old, new, on=rules.on, columns=kept, pairs=pairs or None)
        return sum(find_changes(found, read_sides(found)).cells.values())

    return count


def _has_new_ids(pair: ColumnPair) -> bool:
    """Return True if a column or a part has a new field id, for example after a cast."""
    if pair.old is None:
        return False
    return [part.id for part in pair.old.walk()] != [part.id for part in pair.new.walk()]


def _deletion_changes(change: Changed, fragment: Fragment) -> tuple[BitMap, bool]:
    """Return the rows that a restore undeleted, and True if other rows were deleted."""
    before = change.before.fragment(fragment.id)
    if before is None or not before.num_deletions:
        return BitMap(), fragment.num_deletions > 0
    was, now = change.before.deleted_rows(before), change.theirs.deleted_rows(fragment)
    return was - now, bool(now - was)


def _has_ids(ours: Snapshot, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return which row ids the target has on rows that are not deleted."""
    found = np.zeros(len(ids), bool)
    for at, _, deleted in places_of_ids(ours, ids):
        found[at] |= ~deleted
    return found


def _is_rewritten(change: Changed, fragment: Fragment) -> bool:
    """Return True if a fragment has columns of the base (neither new nor cast) in other files."""
    base, theirs = change.before, change.theirs
    before = base.fragment(fragment.id)
    old, new = ({f.id for f in side.manifest.schema.walk()} for side in (base, theirs))
    ids = old & new
    places = field_locations(base, before), field_locations(theirs, fragment)
    return before is not None and any(places[0].get(id_) != places[1].get(id_) for id_ in ids)


def _num_rewritten(change: Changed, fragment: Fragment) -> int:
    """Return the number of rows of a fragment whose values were rewritten in place."""
    base, theirs = change.before, change.theirs
    if not theirs.manifest.has_stable_row_ids:
        return fragment.num_rows
    _, created, changed = live_rows(theirs, fragment)
    return int(((created <= base.version) & (changed > base.version)).sum())
