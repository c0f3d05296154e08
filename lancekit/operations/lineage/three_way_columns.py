"""Columns of a three-way merge: counts of values, pairs of fields, and the error for conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.errors import SchemaMismatchError
from lancekit.format.schema import LanceField
from lancekit.operations.lineage.column_plan import ColumnPlan, MergedColumn, Values
from lancekit.operations.lineage.diff import Changes
from lancekit.operations.lineage.diff_plan import DiffPlan
from lancekit.operations.lineage.rows import read_rows, seen
from lancekit.pipeline.diff.fragments import ColumnPair
from lancekit.pipeline.diff.retyped import retyped
from lancekit.pipeline.diff.side import Addresses
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
    plan: ColumnPlan, changes: Changes, mine: Changes, *, theirs: Snapshot, ours: Snapshot
) -> Values:
    """Count what rows that each side changed say of columns; rows are read where types differ."""
    came = np.concatenate([changes.inserted, changes.updated[1]])
    kept = np.concatenate([mine.inserted, mine.updated[1]])
    misfits, nulls = dict[str, int](), dict[str, int]()
    for column in plan.columns:
        for side, rows, field, other in _sides(column, (theirs, came), (ours, kept)):
            is_cast = field.to_arrow().type != column.field.to_arrow().type
            is_strict = field.nullable and not other.nullable
            if not len(rows) or not (is_cast or is_strict):
                continue
            name = "" if column.ours is None else column.ours.name
            found = _values(side, rows, field)
            if is_cast:
                misfits[name] = misfits.get(name, 0) + _misfits(found, column.field)
            if is_strict:
                nulls[name] = ak.null_count(found)
    lost = np.intersect1d(changes.deleted, mine.updated[0], assume_unique=True)
    gone = np.intersect1d(mine.deleted, changes.updated[0], assume_unique=True)
    return Values(
        ours=mine.cells,
        theirs=changes.cells,
        misfits={name: number for name, number in misfits.items() if number},
        nulls={name: number for name, number in nulls.items() if number},
        own_rows=len(mine.inserted) + len(lost),
        their_rows=len(changes.inserted) + len(gone),
        any_theirs=bool(len(came)),
    )


def _sides(
    column: MergedColumn, theirs: tuple[Snapshot, Addresses], ours: tuple[Snapshot, Addresses]
) -> Iterator[tuple[Snapshot, Addresses, LanceField, LanceField]]:
    if column.theirs is not None and column.ours is not None:
        yield *theirs, column.theirs, column.ours
        yield *ours, column.ours, column.theirs


def _values(side: Snapshot, rows: Addresses, field: LanceField) -> pa.Array:
    table = read_rows(side, rows).read([field.name], rows)
    return ak.combine_chunks(table[field.name])


def _misfits(values: pa.Array, other: LanceField) -> int:
    """Return how many values are none of another type."""
    try:
        cast = retyped(values, other.to_arrow().type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return len(values)
    return ak.null_count(cast) - ak.null_count(values)


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
