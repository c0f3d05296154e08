"""Plan a three-way merge of a source (theirs) into a target (ours).  Nothing is written.

Rows of the merge base are identified by their address there; each side's rows are matched to it.
Rows that are new on both sides are matched by shared row ids or by a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit._arrow_values import flags_of
from lancekit._legible import literals, python_value
from lancekit._operations.lineage.column_conflicts import Versions, tracks
from lancekit._operations.lineage.column_plan import plan_columns
from lancekit._operations.lineage.columns import pairs_of_sides
from lancekit._operations.lineage.contained_columns import contained_columns
from lancekit._operations.lineage.diff import (
    Changes,
    compare_rows,
    find_changes,
    joined_pairs,
    read_sides,
)
from lancekit._operations.lineage.diff_plan import DiffPlan, plan_diff
from lancekit._operations.lineage.merged_columns import (
    Cells,
    Clashes,
    ColumnPlan,
    Rewritten,
    Settled,
    Values,
)
from lancekit._operations.lineage.paired_rows import (
    PairedRows,
    check_paired,
    paired_in_others,
    with_keys_once,
)
from lancekit._operations.lineage.returned_rows import (
    check_identified,
    check_inserted,
    check_returned,
    check_rows_of_new,
    paired_by_values,
)
from lancekit._operations.lineage.three_way_columns import (
    check_settled,
    merged_pairs,
    rows_unlike,
    values_of,
)
from lancekit._operations.lineage.three_way_plan import (
    By,
    ColumnSides,
    PlannedParts,
    Since,
    ThreeWay,
)
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.match import contained_in
from lancekit._pipeline.diff.parts import common_parts, own_values
from lancekit._pipeline.diff.row_values import (
    NOWHERE,
    Addresses,
    Side,
    read_rows,
    row_digests,
    row_values,
    rows_at_a_time,
    unlike,
)
from lancekit._pipeline.diff.values import Seeds, differing
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import MergeConflictError


def three_ways(
    bases: Sequence[tuple[Snapshot, Snapshot, Snapshot]],
    theirs: Snapshot,
    ours: Snapshot,
    *,
    on: Sequence[str] | None = None,
    by: By = "cell",
    named: Mapping[str, str] | None = None,
    default: str = "fail",
    has_bases: bool = True,
    refuse: bool = False,
) -> list[ThreeWay]:
    """Plan the merge of the source into the target, once for each merge base.

    The columns are planned once for all bases.  The plan of a base has the row changes since it.

    bases: each base, and the versions to compare the source and the target with: the base, or a
        version that fast-forwarded to it, with the same rows at the same addresses.
    named, default: the chosen sides of column conflicts, by column name, and of other columns.
    has_bases: whether the target descends from the bases.
    refuse: whether unsettled column conflicts are an error.

    Raises InvalidArgumentError: rows or columns cannot be matched, a key occurs more than once, or
        a name fits two columns.
    Raises SchemaMismatchError: a column conflict is not settled.
    """
    versions = Versions([base for base, _, _ in bases], theirs, ours, has_bases)
    plans = [
        tuple(
            plan_diff(old, new, on=on, pairs=contained_columns(old, new))
            for old, new in ((of_theirs, theirs), (of_ours, ours))
        )
        for _, of_theirs, of_ours in bases
    ]
    pairs = [(to_theirs.columns, to_ours.columns) for to_theirs, to_ours in plans]
    followed = tracks(versions, pairs)
    sides = ColumnSides(named or {}, default, versions, followed)

    def planned(values: Values) -> ColumnPlan:
        found = plan_columns(PlannedParts(versions, followed, pairs), sides.of, values)
        if refuse:
            check_settled(found, versions)
        return found

    columns = planned(Values(any_theirs=any(_moves_rows(to_theirs) for to_theirs, _ in plans)))
    both = {c.ours.name for c in columns.columns if c.ours is not None and c.is_added_by_both}
    since = list[Since]()
    for (base, _, _), one in zip(bases, plans, strict=True):
        to_theirs, to_ours = (_of_rows(plan, both, on) for plan in one)
        changes = _changes(to_theirs)
        # changes of the target matter only if the source changed something, or has other bases
        needed = len(bases) > 1 or not changes.is_empty or columns.schema != ours.manifest.schema
        mine = _changes(to_ours) if needed else changes
        since.append(
            Since(base=base, to_theirs=to_theirs, to_ours=to_ours, changes=changes, mine=mine)
        )
    columns = planned(values_of(columns, followed, since))
    merge_bases = [one.base for one in since]
    for found, (to_theirs, to_ours) in zip(since, plans, strict=True):
        if not (found.mine.is_empty or found.changes.is_empty):
            check_identified(found.to_theirs, found.changes)
            check_identified(found.to_ours, found.mine)
        else:
            check_rows_of_new(to_theirs, found.to_ours, found.mine)
            check_rows_of_new(to_ours, found.to_theirs, found.changes)
        check_returned(found.to_theirs, found.changes, to_ours, found.mine, merge_bases)
        check_returned(found.to_ours, found.mine, to_theirs, found.changes, merge_bases)
    between = plan_diff(theirs, ours, on=on, pairs=pairs_of_sides(pairs))
    if len(since) == 1:
        check_inserted(between, since[0].base, since[0].changes, since[0].mine)
    has_new = [any(pair.old is None for one in pairs for pair in one[at]) for at in (0, 1)]
    since = [with_keys_once(one, between, has_new, versions.bases) for one in since]
    in_ours = [PairedRows.to_new(one.to_ours, one.mine) for one in since]
    several = since if len(since) > 1 else ()
    in_bases = [PairedRows.to_old(one.to_theirs, one.changes) for one in several]
    merges = list[ThreeWay]()
    for at, last in enumerate(since):
        shown = merged_pairs(columns, between, last.to_ours, at)
        # rows that both sides inserted since this base, and that another base matches
        others = [pair for of, pair in enumerate(zip(in_bases, in_ours, strict=False)) if of != at]
        new_pairs = paired_in_others(last.changes.inserted, last.mine.inserted, others)
        check_paired(theirs, ours, new_pairs)
        merges.append(_RowMerge(last, in_ours[at], *shown, columns, sides, by, new_pairs).run())
    return merges


def _of_rows(plan: DiffPlan, both: Set[str], on: Sequence[str] | None) -> DiffPlan:
    """Return a comparison without new columns of one side: their values do not change rows."""
    kept = [p.name for p in plan.columns if p.old is not None or p.name in both]
    if len(kept) == len(plan.columns):
        return plan
    return plan_diff(plan.old, plan.new, on=on, columns=kept, pairs=plan.columns)


def _moves_rows(plan: DiffPlan) -> bool:
    """Return True if a side changed or compacted rows, judged by metadata alone."""
    found = plan.shared
    return bool(found.old or found.new) or any(
        pair.deletions_differ or any(one.old and not one.is_cast for one in pair.columns)
        for pair in found.pairs
    )


def _is_cast_or_dropped(plan: DiffPlan) -> bool:
    kept = [pair for pair in plan.columns if pair.old is not None]
    return len(kept) < len(plan.old.manifest.schema.fields) or any(pair.is_cast for pair in kept)


def _changes(plan: DiffPlan) -> Changes:
    return paired_by_values(plan, find_changes(plan, read_sides(plan)))


@dataclass
class _RowMerge:
    """Merges the row changes of both sides since one merge base."""

    since: Since
    in_ours: PairedRows
    between: DiffPlan
    before: tuple[ColumnPair, ...]
    merged: ColumnPlan
    sides: ColumnSides
    by: By
    new_pairs: tuple[Addresses, Addresses]

    def __post_init__(self) -> None:
        columns = self.between.columns
        #: columns that both sides have
        self.shared = np.array([p.old is not None and not p.is_lacked for p in columns])
        #: structs with parts that only one side has
        self.unlike_parts = [at for at, pair in enumerate(columns) if common_parts(pair) != pair]

    def run(self) -> ThreeWay:
        """Return the plan: agreed changes and conflicts."""
        since, between = self.since, self.between
        theirs, mine = since.changes, since.mine
        olds, news = theirs.updated
        # rows that the source deleted, and the target left, changed, or deleted, too
        gone = np.setdiff1d(theirs.deleted, mine.deleted, assume_unique=True)
        _, at, place = _both(gone, mine.updated[0])
        stays, kept = gone[at], mine.updated[1][place]
        changed = self._changed_before(since.to_ours, stays, kept)
        deleted = np.concatenate([self.in_ours.find(np.delete(gone, at)), kept[~changed]])
        clashes = [self._clashes(stays[changed], None, kept[changed])]
        # rows that the source updated
        _, at, _ = _both(olds, mine.deleted)
        lost = at[self._changed_before(since.to_theirs, olds[at], news[at])]
        clashes.append(self._clashes(olds[lost], news[lost], None))
        olds, news = np.delete(olds, at), np.delete(news, at)
        widths = np.delete(theirs.widths, at)
        _, at, place = _both(olds, mine.updated[0])
        mixed, clash = self._compared(olds[at], news[at], mine.updated[1][place])
        clashes.append(clash)
        olds, news, widths = np.delete(olds, at), np.delete(news, at), np.delete(widths, at)
        if _is_cast_or_dropped(since.to_ours):
            # take no values in columns that the target cast or dropped
            alone, _ = self._compared(olds, news, self.in_ours.find(olds))
        else:
            alone = Rewritten(news, self.in_ours.find(olds), None, int(widths.sum()))
        # rows that both sides inserted
        inserted, both, clash = self._inserted()
        clashes.append(clash)
        agreed = Settled(deleted=np.sort(deleted), rewritten=(alone, mixed), inserted=inserted)
        plan = ThreeWay(
            **{name: getattr(since, name) for name in Since.__slots__},
            theirs=between.old,
            ours=between.new,
            key=between.key,
            by_ids="row ids" in since.to_ours.matched_by + between.matched_by,
            columns=between.columns,
            before=self.before,
            merged=self.merged,
            sides=self.sides,
            new_pairs=both,
            agreed=agreed,
            clashes=_joined(clashes),
        )
        if between.key and between.matched_by.endswith("key"):
            _check_keys(plan)
        return plan

    def _changed_before(
        self, side: DiffPlan, base: Addresses, rows: Addresses
    ) -> npt.NDArray[np.bool_]:
        """Return which updated rows of a side have new values in columns of the base.

        The other side can delete a row whose only new values are in new columns.
        """
        known = [pair for pair in side.columns if pair.old is not None]
        if len(known) == len(side.columns):
            return np.ones(len(base), bool)
        return rows_unlike(known, side, base, rows)

    def _compared(
        self, base: Addresses, theirs: Addresses, ours: Addresses
    ) -> tuple[Rewritten, Clashes]:
        """Compare the values of rows that both sides changed."""
        columns, before = self.between.columns, self.before
        both = [common_parts(pair) for pair in columns]
        was_both = [common_parts(was, like=pair) for was, pair in zip(before, columns, strict=True)]
        shape = (len(base), len(columns))
        taken, cells, own = (np.zeros(shape, bool) for _ in range(3))
        olds = read_rows(self.since.to_ours.old, base)
        lefts, rights = read_rows(self.between.old, theirs), read_rows(self.between.new, ours)
        step = rows_at_a_time(columns)
        for start in range(0, len(base), step):
            part = slice(start, start + step)
            was = row_values(was_both, olds, base[part], new=False)
            left = row_values(both, lefts, theirs[part], new=False)
            right = row_values(both, rights, ours[part], new=True)
            changed = np.zeros((3, len(was[0]), len(columns)), bool)
            for at, is_shared in enumerate(self.shared):
                if is_shared:
                    changed[0, :, at] = differing(was[at], left[at])
                    changed[1, :, at] = differing(was[at], right[at])
                    changed[2, :, at] = differing(left[at], right[at])
            for at in self.unlike_parts:
                other = _own_values(columns[at], lefts, theirs[part], new=False)
                mine = _own_values(columns[at], rights, ours[part], new=True)
                # values in own parts count as a change if the other side made the struct null
                changed[0, :, at] |= other & flags_of(right[at].is_null())
                changed[1, :, at] |= mine & flags_of(left[at].is_null())
                own[part, at] = other
            taken[part], cells[part] = _merged_cells(*changed, by=self.by)
        clash: npt.NDArray[np.bool_] = np.logical_or.reduce(cells, axis=1)
        merged = (taken | own).any(axis=1) & ~clash
        compared = Clashes(base=base, theirs=theirs, ours=ours, cells=cells, taken=taken)
        mixed = Rewritten(
            theirs[merged], ours[merged], taken[merged], int((taken | own)[merged].sum())
        )
        return mixed, compared.where(clash)

    def _clashes(
        self, base: Addresses, theirs: Addresses | None, ours: Addresses | None
    ) -> Clashes:
        """Return conflicts of rows that one side deleted."""
        nowhere = np.full(len(base), NOWHERE)
        sides = [nowhere if rows is None else rows for rows in (theirs, ours)]
        cells = np.ones((len(base), len(self.between.columns)), bool)
        return Clashes(
            base=base, theirs=sides[0], ours=sides[1], cells=cells, taken=np.zeros_like(cells)
        )

    def _inserted(self) -> tuple[Addresses, tuple[Addresses, Addresses], Clashes]:
        """Return rows that only the source inserted, pairs that both did, and their conflicts."""
        inserted, known = [self.since.changes.inserted, self.since.mine.inserted], self.new_pairs
        left, right = (
            np.setdiff1d(rows, paired, assume_unique=True)
            for rows, paired in zip(inserted, known, strict=True)
        )
        if not (len(left) and len(right)):
            return left, known, self._both_inserted(*known)
        found = compare_rows(self.between, left, right)
        differ = joined_pairs([known, found.updated])
        return found.deleted, joined_pairs([found.same, differ]), self._both_inserted(*differ)

    def _both_inserted(self, theirs: Addresses, ours: Addresses) -> Clashes:
        """Return the conflicts of row pairs that both sides inserted with different values."""
        columns = self.between.columns
        both = [pair for pair, is_shared in zip(columns, self.shared, strict=True) if is_shared]
        sides = read_rows(self.between.old, theirs), read_rows(self.between.new, ours)
        cells = np.zeros((len(theirs), len(columns)), bool)
        step = rows_at_a_time(columns)
        for start in range(0, len(theirs), step):
            part = slice(start, start + step)
            cells[part, self.shared] = unlike(both, sides, theirs[part], ours[part]).T
        found = Clashes(
            base=np.full(len(theirs), NOWHERE),
            theirs=theirs,
            ours=ours,
            cells=cells,
            taken=np.zeros_like(cells),
        )
        clash: npt.NDArray[np.bool_] = np.logical_or.reduce(cells, axis=1)
        return found.where(clash)


def _own_values(
    pair: ColumnPair, side: Side, rows: Addresses, *, new: bool
) -> npt.NDArray[np.bool_]:
    """Return which rows of a side have values in struct parts that the other side lacks."""
    (values,) = row_values([pair], side, rows, new=new)
    return own_values(values, pair.parts, new=new)


def _both(
    one: Addresses, other: Addresses
) -> tuple[Addresses, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    return np.intersect1d(one, other, assume_unique=True, return_indices=True)


def _merged_cells(theirs: Cells, ours: Cells, apart: Cells, *, by: By) -> tuple[Cells, Cells]:
    """Return the cells to take from the source, and the conflicting cells."""
    if by == "cell":
        return theirs & ~ours & apart, theirs & ours & apart
    both = np.logical_and(*(np.logical_or.reduce(side, axis=1) for side in (theirs, ours)))
    return theirs & apart & ~both[:, None], apart & both[:, None]


def _joined(parts: Sequence[Clashes]) -> Clashes:
    return Clashes(
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in Clashes.__slots__
        }
    )


# ---- keys that would occur twice in the result of a three-way merge


def _check_keys(plan: ThreeWay) -> None:
    """Refuse keys that would occur twice in the result.

    If rows are matched by ids, the sides may have set one key on different rows.  Or a side wrote a
    second row of a key without a check, as pylance does, and the other side updated the first row.
    """
    seeds = Seeds.drawn()
    key = [pair for pair in plan.columns if pair.name in plan.key]
    kept = np.concatenate([plan.mine.inserted, plan.mine.updated[1]])
    came = np.concatenate([plan.agreed.inserted, plan.changes.updated[1]])
    if not (len(kept) and len(came)):
        return
    ours = row_digests(key, read_rows(plan.ours, kept), kept, seeds, new=True)
    theirs = row_digests(key, read_rows(plan.theirs, came), came, seeds, new=False)
    twice = contained_in(theirs, ours)
    # one row has its key on both sides: that is no duplicate
    _, left, right = np.intersect1d(
        plan.changes.updated[0], plan.mine.updated[0], assume_unique=True, return_indices=True
    )
    left += len(plan.agreed.inserted)
    one, other = theirs.at(left), ours.at(right + len(plan.mine.inserted))
    twice[left[(one.first == other.first) & (one.second == other.second)]] = False
    if twice.any():
        raise _duplicate_key(plan, key, came[twice][0])


def _duplicate_key(plan: ThreeWay, key: Sequence[ColumnPair], row: object) -> MergeConflictError:
    rows = np.array([row], np.uint64)
    values = row_values(key, read_rows(plan.theirs, rows), rows, new=False)
    named = literals({p.name: python_value(v[0]) for p, v in zip(key, values, strict=True)})
    return MergeConflictError(
        f"{plan.theirs.called} and {plan.ours.called} each have a row with {named}, but these are "
        "different rows.",
        hint="Change the key of one row or delete it, then repeat the call.",
        key=named,
    )
