"""Columns of a three-way merge: counts of values, pairs of fields, and the error for conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.errors import SchemaMismatchError
from lancekit.file.kernels.bits import flags_of
from lancekit.format.schema import LanceField
from lancekit.operations.lineage.column_plan import ColumnPlan, MergedColumn, Values
from lancekit.operations.lineage.diff import Changes
from lancekit.operations.lineage.diff_plan import DiffPlan
from lancekit.operations.lineage.rows import NOWHERE, read_rows, seen
from lancekit.pipeline.casts.alter import convert
from lancekit.pipeline.diff.fragments import ColumnPair
from lancekit.pipeline.diff.retyped import retyped
from lancekit.pipeline.diff.side import Addresses
from lancekit.pipeline.diff.values import differing
from lancekit.versions.snapshot import Snapshot

__all__ = ["check_settled", "merged_pairs", "values_of"]


def check_settled(plan: ColumnPlan, base: Snapshot, theirs: Snapshot, ours: Snapshot) -> None:
    """Raise ``SchemaMismatchError`` if a conflict of columns is not settled."""
    conflicts = plan.unsettled
    if not conflicts:
        return
    ways = [side for side in ("ours", "theirs") if all(side in one.sides for one in conflicts)]
    hint = "Change the columns of one side to those of the other first"
    if ways:
        hint += "; or pass " + " or ".join(f'conflicts="{side}"' for side in ways)
        hint += ", or lk.Sides with a side for each column"
    raise SchemaMismatchError(
        f"The columns of {ours.called} and {theirs.called} were changed in different ways since "
        f"{base.called}: {'; '.join(map(str, conflicts))}.",
        hint=f"{hint}.",
        problems=[*map(str, conflicts)],
        conflicts=list(conflicts),
    )


def values_of(
    plan: ColumnPlan, changes: Changes, mine: Changes, to_theirs: DiffPlan, to_ours: DiffPlan
) -> Values:
    """Count what rows that each side changed say of columns; rows are read where types differ."""
    lost = np.intersect1d(changes.deleted, mine.updated[0], assume_unique=True)
    gone = np.intersect1d(mine.deleted, changes.updated[0], assume_unique=True)
    theirs = _Rows.of(to_theirs, changes, gone)
    ours = _Rows.of(to_ours, mine, lost)
    misfits, nulls = dict[str, int](), dict[str, int]()
    for column in plan.columns:
        for side, field, other in _sides(column, theirs, ours):
            is_cast = field.to_arrow().type != column.field.to_arrow().type
            is_strict = field.nullable and not other.nullable
            if not len(side.rows) or not (is_cast or is_strict):
                continue
            name = "" if column.ours is None else column.ours.name
            found = _values(side.version, side.rows, field)
            if is_cast:
                number = _num_misfits(side, found, field, column)
                misfits[name] = misfits.get(name, 0) + number
            if is_strict:
                nulls[name] = ak.null_count(found)
    return Values(
        ours=mine.cells,
        theirs=changes.cells,
        misfits={name: number for name, number in misfits.items() if number},
        nulls={name: number for name, number in nulls.items() if number},
        own_rows=len(mine.inserted) + len(lost),
        their_rows=len(changes.inserted) + len(gone),
        any_theirs=bool(len(theirs.rows)),
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that a side inserted or updated, and the rows of the base that they were.

    `conflicts` are rows of the base that the other side deleted.
    """

    base: Snapshot
    version: Snapshot
    rows: Addresses
    before: Addresses
    conflicts: Addresses

    @classmethod
    def of(cls, plan: DiffPlan, changes: Changes, conflicts: Addresses) -> _Rows:
        rows = np.concatenate([changes.inserted, changes.updated[1]])
        nowhere = np.full(len(changes.inserted), NOWHERE)
        before = np.concatenate([nowhere, changes.updated[0]])
        return cls(plan.old, plan.new, rows, before, conflicts)


def _sides(
    column: MergedColumn, theirs: _Rows, ours: _Rows
) -> Iterator[tuple[_Rows, LanceField, LanceField]]:
    if column.theirs is not None and column.ours is not None:
        yield theirs, column.theirs, column.ours
        yield ours, column.ours, column.theirs


def _values(side: Snapshot, rows: Addresses, field: LanceField) -> pa.Array:
    table = read_rows(side, rows).read([field.name], rows)
    return ak.combine_chunks(table[field.name])


def _num_misfits(side: _Rows, values: pa.Array, field: LanceField, column: MergedColumn) -> int:
    """Return how many values of a side do not fit the type that the column gets.

    Only values that the side changed count, and all values of rows that the other side deleted.
    The other side replaced every other value that did not fit before its cast.
    """
    kind = column.field.to_arrow().type
    try:
        # items that do not fit would become nulls inside of values
        cast = convert(values, kind) if pa.types.is_nested(kind) else retyped(values, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return len(values)
    if ak.null_count(cast) == ak.null_count(values):
        return 0
    unfit = np.flatnonzero(flags_of(cast.is_null()) & ~flags_of(values.is_null()))
    base, before = column.base, side.before[unfit]
    if base is None or base.to_arrow().type != field.to_arrow().type:
        return len(unfit)
    known = (before != NOWHERE) & ~np.isin(before, side.conflicts)
    if not known.any():
        return len(unfit)
    now = ak.take(values, pa.array(unfit[known]))
    same = ~differing(_values(side.base, before[known], base), now)
    return len(unfit) - int(same.sum())


def merged_pairs(
    plan: ColumnPlan, between: DiffPlan, start: Snapshot
) -> tuple[DiffPlan, tuple[ColumnPair, ...]]:
    """Return the comparison of theirs and ours by the columns of the result, and these at first.

    Parameters
    ----------
    plan
        The columns of the result.
    between
        The comparison, by the columns of ours.
    start
        The version that both sides are compared with.
    """
    theirs, ours, base = seen(between.old), seen(between.new), seen(start)
    pairs, before = list[ColumnPair](), list[ColumnPair]()
    for column in plan.columns:
        old = None if column.theirs is None else theirs.field(column.theirs.name)
        mine = None if column.ours is None else ours.field(column.ours.name)
        new = mine or old
        if new is None:
            continue
        typed = old if old is not None and column.is_from_theirs else new
        pair = ColumnPair(column.field.name, typed.to_arrow().type, old, new, mine is None)
        pairs.append(pair)
        known = column.base is not None and column.base.name in base
        was = base.field(column.base.name) if column.base is not None and known else None
        before.append(replace(pair, old=was, is_lacked=False))
    names = {c.ours.name: c.field.name for c in plan.columns if c.ours is not None}
    key = tuple(names[name] for name in between.key if name in names)
    if len(key) < len(between.key):
        key = ()
    return replace(between, columns=tuple(pairs), key=key), tuple(before)
