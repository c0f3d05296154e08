"""Columns of a three-way merge: counts of values, pairs of fields, and the error for conflicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import flags_of
from lancekit._format.arrow_parts import child_of, flattened, items_of, with_other_items
from lancekit._format.schema import LanceField
from lancekit._lazy import cached_property
from lancekit._operations.lineage.column_conflicts import Track, Versions, named_bases
from lancekit._operations.lineage.diff import Changes
from lancekit._operations.lineage.diff_plan import DiffPlan
from lancekit._operations.lineage.merged_columns import (
    ColumnPlan,
    DroppedPart,
    MergedColumn,
    Values,
    counted_as,
)
from lancekit._operations.lineage.three_way_plan import Since
from lancekit._pipeline.casts.values import convert
from lancekit._pipeline.diff.fragments import ColumnPair, retyped
from lancekit._pipeline.diff.parts import kind_of_parts
from lancekit._pipeline.diff.row_values import (
    NOWHERE,
    Addresses,
    Side,
    read_rows,
    rows_at_a_time,
    seen,
    unlike,
)
from lancekit._pipeline.diff.values import differing
from lancekit._scan.fragments.rebatch import joined
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import SchemaMismatchError


def check_settled(plan: ColumnPlan, versions: Versions) -> None:
    """Raise ``SchemaMismatchError`` if a conflict of columns is not settled."""
    conflicts = plan.unsettled
    if not conflicts:
        return
    ways = [side for side in ("ours", "theirs") if all(side in one.sides for one in conflicts)]
    hint = "Make the columns of both sides equal first"
    if ways:
        hint += "; or pass " + " or ".join(f'conflicts="{side}"' for side in ways)
        hint += ", or lk.Sides with a side for each column"
    bases = versions.bases
    if len(bases) > 1:
        hint += f"; or pass the base to compare with: {named_bases(bases)}"
    raise SchemaMismatchError(
        f"The columns of {versions.ours.called} and {versions.theirs.called} were changed "
        f"differently since {' and '.join(base.called for base in bases)}: "
        f"{'; '.join(map(str, conflicts))}.",
        hint=f"{hint}.",
        problems=[*map(str, conflicts)],
        conflicts=list(conflicts),
    )


def values_of(plan: ColumnPlan, columns: Sequence[Track], since: Sequence[Since]) -> Values:
    """Count changed values of columns by side; rows are read only if column types differ.

    With several merge bases, the highest counts of misfits and nulls are used: some of these values
    may stay in the result.
    """
    found = [_values_since(plan, at, one) for at, one in enumerate(since)]
    if len(found) == 1:
        return found[0]
    ours, theirs = dict[str, int](), dict[str, int]()
    for track in columns:
        if track.is_dropped and track.ours is not None:
            sides = [(one.to_ours, one.mine) for one in since]
            ours[track.ours.name] = len(rows_with_new_values(track.ours.name, sides))
        elif track.is_dropped and track.theirs is not None:
            sides = [(one.to_theirs, one.changes) for one in since]
            theirs[track.theirs.name] = len(rows_with_new_values(track.theirs.name, sides))
    for part in plan.dropped_parts:
        counts, own = (theirs, "theirs") if part.in_theirs else (ours, "ours")
        counts[part.key] = min(getattr(one, own)[part.key] for one in found)
    return Values(
        ours=ours,
        theirs=theirs,
        misfits=_most([one.misfits for one in found]),
        nulls=_most([one.nulls for one in found]),
        own_rows=max(one.own_rows for one in found),
        their_rows=max(one.their_rows for one in found),
        any_theirs=any(one.any_theirs for one in found),
        are_counted=True,
    )


def _most(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for one in counts for name in one)
    return {name: max(one.get(name, 0) for one in counts) for name in names}


def rows_with_new_values(name: str, sides: Iterable[tuple[DiffPlan, Changes]]) -> Addresses:
    """Return the rows of a side whose value in a column differs from each merge base.

    Bases without the column, and rows that no base has, do not count.
    """
    changed = np.empty(0, np.uint64)
    new: Addresses | None = None
    for plan, changes in sides:
        known = [pair for pair in plan.columns if pair.name == name and pair.old is not None]
        if known:
            olds, news = changes.updated
            found = news[rows_unlike(known, plan, olds, news)]
            since = np.union1d(found, changes.inserted)
            changed = np.union1d(changed, found)
            new = since if new is None else np.intersect1d(new, since)
    return changed if new is None else np.intersect1d(new, changed)


def rows_unlike(
    columns: Sequence[ColumnPair], plan: DiffPlan, olds: Addresses, news: Addresses
) -> npt.NDArray[np.bool_]:
    """Return which pairs of rows differ in some columns."""
    found = [part.any(axis=0) for part in _unlike(columns, plan, olds, news)]
    return np.concatenate([np.zeros(0, bool), *found])


def _unlike(
    columns: Sequence[ColumnPair], plan: DiffPlan, olds: Addresses, news: Addresses
) -> Iterator[npt.NDArray[np.bool_]]:
    """Yield for a batch of row pairs at a time which values differ, as (column, pair) masks."""
    sides = read_rows(plan.old, olds), read_rows(plan.new, news)
    step = rows_at_a_time(columns)
    for start in range(0, len(olds), step):
        part = slice(start, start + step)
        yield unlike(columns, sides, olds[part], news[part])


def _values_since(plan: ColumnPlan, at: int, since: Since) -> Values:
    """Count changed values of columns by side, since one merge base."""
    changes, mine = since.changes, since.mine
    lost = np.intersect1d(changes.deleted, mine.updated[0], assume_unique=True)
    gone = np.intersect1d(mine.deleted, changes.updated[0], assume_unique=True)
    theirs = _Rows.of(since.to_theirs, changes, gone)
    ours = _Rows.of(since.to_ours, mine, lost)
    misfits, nulls = dict[str, int](), dict[str, int]()
    for chain in (found for column in plan.columns for found in column.chains()):
        column = chain[-1]
        for side, field, other in _sides(column, theirs, ours):
            kinds = [one.to_arrow().type for one in (field, column.field)]
            is_cast = not column.parts and kinds[0] != kinds[1]
            is_strict = field.nullable and not other.nullable
            if not len(side.rows) or not (is_cast or is_strict):
                continue
            name = counted_as(chain)
            of_theirs = side is theirs
            fields = [_own(one, of_theirs) for one in chain]
            found = _values(side.column(fields[0].name), fields)
            if is_cast:
                number = _num_misfits(side, found, chain, at)
                misfits[name] = misfits.get(name, 0) + number
            if is_strict:
                nulls[name] = _num_new(side, found, found.nulls, chain, at)
    sides = [{**side_changes.cells} for side_changes in (mine, changes)]
    for at_theirs, own in enumerate(((since.to_ours, mine), (since.to_theirs, changes))):
        parts = [part for part in plan.dropped_parts if part.in_theirs == at_theirs]
        sides[at_theirs] |= _num_changed(parts, *own)
    return Values(
        ours=sides[0],
        theirs=sides[1],
        misfits={name: number for name, number in misfits.items() if number},
        nulls={name: number for name, number in nulls.items() if number},
        own_rows=len(mine.inserted) + len(lost),
        their_rows=len(changes.inserted) + len(gone),
        any_theirs=bool(len(theirs.rows)),
        are_counted=True,
    )


def _num_changed(parts: Sequence[DroppedPart], plan: DiffPlan, changes: Changes) -> dict[str, int]:
    """Count the updated rows in which a part changed that the other side dropped, by part key."""
    fields = seen(plan.old).fields, seen(plan.new).fields
    pairs = [_pair_of_chain(part, *fields) for part in parts]
    counts = np.zeros(len(parts), np.int64)
    for found in _unlike(pairs, plan, *changes.updated) if parts else ():
        counts += found.sum(axis=1)
    return dict(zip((part.key for part in parts), counts.tolist(), strict=True))


def _pair_of_chain(
    part: DroppedPart,
    olds: Sequence[LanceField],
    news: Sequence[LanceField],
    *,
    in_map: bool = False,
) -> ColumnPair:
    """Return the column pair that leads to a part, without the column's other parts."""
    (was, now), *rest = part.chain
    old = next(field for field in olds if field.name == was.name)
    new = next(field for field in news if field.name == now.name)
    kind = new.to_arrow().type
    if not rest:
        return ColumnPair(new.name, kind, old, new)
    rest_of_chain = replace(part, chain=tuple(rest))
    below = _pair_of_chain(rest_of_chain, old.children, new.children, in_map=pa.types.is_map(kind))
    parts: tuple[ColumnPair, ...] = (below,)
    if in_map:  # the entries of a map need both keys and values
        both = zip(old.children, new.children, strict=True)
        parts = tuple(
            below if end.name == below.name else ColumnPair(end.name, end.to_arrow().type, was, end)
            for was, end in both
        )
    return ColumnPair(new.name, kind_of_parts(kind, parts), old, new, parts=parts)


@dataclass(frozen=True)
class _Rows:
    """Rows that a side inserted or updated, with their rows in the base.

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
        before = np.concatenate([np.full(len(changes.inserted), NOWHERE), changes.updated[0]])
        return cls(plan.old, plan.new, rows, before, conflicts)

    # each opens its files once for all columns

    @cached_property
    def column(self) -> Callable[[str], pa.ChunkedArray]:
        """A function that reads a column of the rows; it caches the last column for its parts."""
        side = read_rows(self.version, self.rows)
        return lru_cache(1)(lambda name: side.read([name], self.rows)[name])

    @cached_property
    def then(self) -> Side:
        """The reader of the rows in the base."""
        return read_rows(self.base, self.before[self.before != NOWHERE])


def _sides(
    column: MergedColumn, theirs: _Rows, ours: _Rows
) -> Iterator[tuple[_Rows, LanceField, LanceField]]:
    if column.theirs is not None and column.ours is not None:
        yield theirs, column.theirs, column.ours
        yield ours, column.ours, column.theirs


def _own(column: MergedColumn, of_theirs: bool) -> LanceField:
    found = column.theirs if of_theirs else column.ours
    if found is None:
        raise AssertionError("a part that a side lacks has no parts")
    return found


@dataclass(frozen=True, slots=True)
class _Found:
    """Values of a column, or of a part: one per row, except for parts inside of lists.

    `nulls` marks null values whose struct is not null.
    """

    values: pa.Array
    nulls: npt.NDArray[np.bool_]
    has_rows: bool


def _values(column: pa.ChunkedArray, chain: Sequence[LanceField]) -> _Found:
    """Return the values of a column, or of one of its parts.

    A part of a null struct is null, but is not counted as a null.
    """
    values, has_rows = joined(column.chunks, column.type), True
    above = np.zeros(len(values), bool)
    for field in chain[1:]:
        above = flags_of(values.is_null())
        if pa.types.is_struct(values.type):
            places = pa.array(np.arange(len(values)), mask=~flags_of(values.is_valid()))
            values = ak.take(child_of(values, field.name), places)
        else:
            if pa.types.is_map(values.type):  # Arrow flattens no maps
                entries = items_of(values)
                kind = pa.list_(pa.field("entries", entries.type, False))
                values = with_other_items(values, kind, entries)
            values, has_rows = flattened(values), False
            above = np.zeros(len(values), bool)
    return _Found(values, flags_of(values.is_null()) & ~above, has_rows)


def _num_misfits(side: _Rows, found: _Found, chain: Sequence[MergedColumn], at: int) -> int:
    """Count the values of a side that do not fit the merged type of the column."""
    values, kind = found.values, chain[-1].field.to_arrow().type
    try:
        # a failed cast of a list item would become a null inside of a value, and not be counted
        cast = convert(values, kind) if pa.types.is_nested(kind) else retyped(values, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return len(values)
    if ak.null_count(cast) == ak.null_count(values):
        return 0
    unfit = flags_of(cast.is_null()) & ~flags_of(values.is_null())
    return _num_new(side, found, unfit, chain, at)


def _num_new(
    side: _Rows, found: _Found, flags: npt.NDArray[np.bool_], chain: Sequence[MergedColumn], at: int
) -> int:
    """Count the marked values of a side that the merged column would have to hold, but cannot.

    Only values that the side changed count, and all values of rows that the other side deleted.
    The other side replaced every other marked value before it changed the column.
    """
    marked = np.flatnonzero(flags)
    base = [was for one in chain if (was := one.bases[at]) is not None]
    if not len(marked) or not found.has_rows or len(base) < len(chain):
        return len(marked)
    before = side.before[marked]
    known = (before != NOWHERE) & ~np.isin(before, side.conflicts)
    if not known.any():
        return len(marked)
    now = ak.take(found.values, marked[known])
    try:
        table = side.then.read([base[0].name], before[known])
        old = retyped(_values(table.column(0), base).values, now.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return len(marked)
    same = ~differing(old, now)
    return len(marked) - int(same.sum())


def merged_pairs(
    plan: ColumnPlan, between: DiffPlan, to_ours: DiffPlan, at: int
) -> tuple[DiffPlan, tuple[ColumnPair, ...]]:
    """Return the comparison of both sides by columns of the result, and their base columns.

    plan: the columns of the result.
    between: the comparison, by the columns of the target.
    to_ours: the comparison of the target with a merge base, or with the base's copy on our side.
    at: the index of the base among the merge bases.
    """
    theirs, ours, base = (seen(side).by_name for side in (between.old, between.new, to_ours.old))
    since = {one.name: one for one in to_ours.columns}
    found = [paired(c, theirs, ours) for c in plan.columns]
    pairs = [pair for pair in found if pair is not None]
    before = [
        _with_own_parts(_before(pair, column, base, at), since.get(pair.new.name))
        for pair, column in zip(found, plan.columns, strict=True)
        if pair is not None
    ]
    names = {c.ours.name: c.field.name for c in plan.columns if c.ours is not None}
    key = tuple(names[name] for name in between.key if name in names)
    if len(key) < len(between.key):
        key = ()
    return replace(between, columns=tuple(pairs), key=key), tuple(before)


def paired(
    column: MergedColumn, theirs: Mapping[str, LanceField], ours: Mapping[str, LanceField]
) -> ColumnPair | None:
    """Return a column or part of the result, paired with both sides; ``None`` if no side has it.

    ``theirs`` and ``ours`` are the fields to read, by name: columns of a side, or parts of a
    column.
    """
    old, mine = _named(theirs, column.theirs), _named(ours, column.ours)
    new = mine or old
    if new is None:
        return None
    typed = old if old is not None and column.is_from_theirs else new
    kind, below = typed.to_arrow().type, tuple[ColumnPair, ...]()
    if column.parts:
        children = [_parts_by_name(side) for side in (old, mine)]
        parts = [paired(part, *children) for part in column.parts]
        below = tuple(part for part in parts if part is not None)
        kind = kind_of_parts(kind, below)
    return ColumnPair(column.field.name, kind, old, new, mine is None, below)


def _before(
    pair: ColumnPair, column: MergedColumn, base: Mapping[str, LanceField], at: int
) -> ColumnPair:
    """Return a pair with the field of the merge base in place of the field of the source."""
    was = _named(base, column.bases[at])
    below = _parts_by_name(was) if pair.parts else {}
    parts = zip(pair.parts, column.parts, strict=True)
    return replace(
        pair,
        old=was,
        is_lacked=False,
        parts=tuple(_before(part, merged, below, at) for part, merged in parts),
    )


def _with_own_parts(pair: ColumnPair, since: ColumnPair | None) -> ColumnPair:
    """Return a column of a merge base with the parts that the target changed since.

    The column plan has no parts if both sides have one type, which another base can have, too.
    """
    if since is None or pair.parts or pair.old is None or pair.kind != since.kind:
        return pair
    return replace(pair, parts=since.parts)


def _named(fields: Mapping[str, LanceField], wanted: LanceField | None) -> LanceField | None:
    return None if wanted is None else fields.get(wanted.name)


def _parts_by_name(field: LanceField | None) -> Mapping[str, LanceField]:
    return {} if field is None else {part.name: part for part in field.children}
