"""A three-way merge of versions that have several merge bases, as criss-cross merges leave them.

A change counts only if it is new with regard to each base.  So the value of one side is used if
only that side's value differs from every base.  All other cells where the sides differ are
conflicts, including cells where each side has the value of another base.

Each base has a separate plan, which decides for each cell: take, keep or conflict.  A cell that one
plan takes and no plan keeps is taken, and the other way round.  Another base settles a conflict of
one plan if a side has the value of that base.  The columns are already planned for all bases.  The
plan of a base does not decide cells of columns that the base lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lancekit._operations.lineage.merged_columns import Cells, Clashes, Rewritten, Settled
from lancekit._operations.lineage.paired_rows import PairedRows, check_paired
from lancekit._operations.lineage.three_way_columns import rows_with_new_values
from lancekit._operations.lineage.three_way_plan import By, ThreeWay
from lancekit._pipeline.diff.row_values import (
    NOWHERE,
    Addresses,
    read_rows,
    row_values,
    rows_at_a_time,
)
from lancekit._pipeline.diff.values import differing


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that a plan decides, by their addresses on both sides, with its decisions."""

    theirs: Addresses
    ours: Addresses
    take: Cells
    conflict: Cells


def combined(plans: Sequence[ThreeWay], by: By) -> ThreeWay:
    """Combine the plans of all merge bases; messages name the base of the first plan.

    Raises InvalidArgumentError: the bases match the rows of the two sides differently.
    """
    plan, width = plans[0], len(plans[0].columns)
    decided = [_joined(list(_rows_of(one, width))) for one in plans]
    pairs, places = np.unique(
        np.concatenate([np.stack([rows.theirs, rows.ours], axis=1) for rows in decided]),
        axis=0,
        return_inverse=True,
    )
    theirs, ours = pairs[:, 0], pairs[:, 1]
    check_paired(plan.theirs, plan.ours, (theirs, ours))
    differ = _differing_cells(plan, theirs, ours)
    on_both = differ & ((theirs != NOWHERE) & (ours != NOWHERE))[:, np.newaxis]
    lacked = _lacked(plans)
    changed = _changed_in_lacked(plans, lacked, theirs, ours)
    places = places.reshape(-1)
    take, keep = np.zeros_like(differ), np.zeros_like(differ)
    start = 0
    for one, rows, lacks in zip(plans, decided, lacked, strict=True):
        at = places[start : start + len(rows.theirs)]
        start += len(rows.theirs)
        # rows that a plan does not list are kept
        taken, clash = np.zeros_like(differ), np.zeros_like(differ)
        taken[at], clash[at] = rows.take, rows.conflict
        # Both values are new to a base without the column.  A new value changes the row.
        others: npt.NDArray[np.bool_] = np.logical_or.reduce(changed & lacks, axis=1)
        others &= ~np.isin(theirs, one.changes.inserted) & ~np.isin(ours, one.mine.inserted)
        unknown = on_both & lacks | others[:, np.newaxis]
        taken, clash = taken & ~unknown, clash | unknown
        if by == "row":
            clash = _whole_rows(clash)
            taken = _whole_rows(taken) & ~clash
        keep |= ~(taken | clash)
        take |= taken
    taken, clash = take & ~keep & differ, (take == keep) & differ
    agreed, clashes = _decided(plan, theirs, ours, taken, clash)
    return replace(plan, agreed=agreed, clashes=clashes)


def _lacked(plans: Sequence[ThreeWay]) -> Cells:
    """Return a mask by plan and column: columns that its base lacks and another base has."""
    there = np.array([[pair.old is not None for pair in plan.before] for plan in plans])
    there = there.reshape(len(plans), -1)
    some: npt.NDArray[np.bool_] = np.logical_or.reduce(there, axis=0)
    return ~there & some


def _changed_in_lacked(
    plans: Sequence[ThreeWay], lacked: Cells, theirs: Addresses, ours: Addresses
) -> Cells:
    """Return the cells with new values in columns that a base lacks, for rows of one side alone."""
    out = np.zeros((len(theirs), lacked.shape[1]), bool)
    alone = (theirs == NOWHERE) != (ours == NOWHERE)
    for at in np.flatnonzero(lacked.any(axis=0)).tolist() if alone.any() else ():
        pair = plans[0].columns[at]
        if pair.old is not None:
            sides = [(one.to_theirs, one.changes) for one in plans]
            out[:, at] |= np.isin(theirs, rows_with_new_values(pair.old.name, sides))
        if not pair.is_lacked:
            sides = [(one.to_ours, one.mine) for one in plans]
            out[:, at] |= np.isin(ours, rows_with_new_values(pair.new.name, sides))
    out &= alone[:, np.newaxis]
    return out


def _whole_rows(cells: Cells) -> Cells:
    """Return a mask with all cells set in rows where any cell is set."""
    rows: npt.NDArray[np.bool_] = np.logical_or.reduce(cells, axis=1)
    return np.broadcast_to(rows[:, np.newaxis], cells.shape)


def _rows_of(plan: ThreeWay, width: int) -> Iterator[_Rows]:
    """Yield the rows that a plan changes, or that conflict in it."""
    agreed, clashes = plan.agreed, plan.clashes

    def rows(theirs: Addresses, ours: Addresses, take: Cells | None = None) -> _Rows:
        none = np.zeros((len(theirs), width), bool)
        return _Rows(theirs, ours, ~none if take is None else take, none)

    yield rows(_nowhere(agreed.deleted), agreed.deleted)
    yield rows(agreed.inserted, _nowhere(agreed.inserted))
    for part in agreed.rewritten:
        yield rows(part.theirs, part.ours, part.taken)
    yield _Rows(clashes.theirs, clashes.ours, clashes.taken, clashes.cells)


def _nowhere(rows: Addresses) -> Addresses:
    return np.full(len(rows), NOWHERE)


def _joined(parts: Sequence[_Rows]) -> _Rows:
    return _Rows(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in _Rows.__slots__)
    )


def _differing_cells(plan: ThreeWay, theirs: Addresses, ours: Addresses) -> Cells:
    """Return the cells that differ between the sides; all cells if one side lacks the row."""
    both = np.flatnonzero((theirs != NOWHERE) & (ours != NOWHERE))
    out = np.ones((len(theirs), len(plan.columns)), bool)
    lefts, rights = read_rows(plan.theirs, theirs[both]), read_rows(plan.ours, ours[both])
    step = rows_at_a_time(plan.columns)
    for start in range(0, len(both), step):
        part = both[start : start + step]
        left = row_values(plan.columns, lefts, theirs[part], new=False)
        right = row_values(plan.columns, rights, ours[part], new=True)
        for at, pair in enumerate(plan.columns):
            shared = pair.old is not None and not pair.is_lacked
            out[part, at] = differing(left[at], right[at]) if shared else False
    return out


def _decided(
    plan: ThreeWay,
    theirs: Addresses,
    ours: Addresses,
    taken: npt.NDArray[np.bool_],
    cells: npt.NDArray[np.bool_],
) -> tuple[Settled, Clashes]:
    clash: npt.NDArray[np.bool_] = np.logical_or.reduce(cells, axis=1)
    comes = np.logical_or.reduce(taken, axis=1) & ~clash
    here, there = ours != NOWHERE, theirs != NOWHERE
    both = comes & here & there
    agreed = Settled(
        deleted=np.sort(ours[comes & ~there]),
        rewritten=(Rewritten.of_cells(theirs[both], ours[both], taken[both]),),
        inserted=theirs[comes & ~here],
    )
    decided = Clashes(base=theirs, theirs=theirs, ours=ours, cells=cells, taken=taken).where(clash)
    base = PairedRows.to_old(plan.to_theirs, plan.changes).find(decided.theirs)
    gone = decided.theirs == NOWHERE
    base[gone] = PairedRows.to_old(plan.to_ours, plan.mine).find(decided.ours[gone])
    return agreed, replace(decided, base=base)
