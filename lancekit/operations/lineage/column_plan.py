"""What becomes of the columns of two sides: planned from three schemas, and counts of values.

Columns merge by the rules of cells.  What one side did is done; where both did something else, it
is a conflict, which a side settles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lancekit.format.schema import LanceField, LanceSchema
from lancekit.legible import clean, plural
from lancekit.operations.lineage.column_changes import ColumnChanges, is_altered
from lancekit.operations.lineage.column_conflicts import (
    SCHEMA,
    Choose,
    ColumnConflict,
    Settlement,
)
from lancekit.operations.lineage.column_key import has_key, marked, refused_key, side_of_key
from lancekit.operations.lineage.column_metadata import merged_metadata, with_metadata
from lancekit.pipeline.diff.fragments import ColumnPair
from lancekit.versions.snapshot import Snapshot

__all__ = ["ColumnPlan", "MergedColumn", "Values", "plan_columns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedColumn:
    """A column of the result, and the one that it is on each side, if it is there."""

    base: LanceField | None = None
    theirs: LanceField | None = None
    ours: LanceField | None = None
    field: LanceField

    @property
    def is_from_theirs(self) -> bool:
        """Whether ours lacks the column in the form that it gets: it is new, or was cast there."""
        return self.ours is None or self.field.id != self.ours.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """How many values of columns each side changed, by the side's own name of the column.

    `misfits` counts those of ours that are none of the type to which theirs cast the column, or the
    other way round, `nulls` those that a column must not have that the other side made not
    nullable; `own_rows` are rows of ours that theirs lacks, `their_rows` those of theirs that ours
    lacks, `any_theirs` tells whether theirs changed rows.
    """

    ours: Mapping[str, int] = field(default_factory=dict)
    theirs: Mapping[str, int] = field(default_factory=dict)
    misfits: Mapping[str, int] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)
    own_rows: int = 0
    their_rows: int = 0
    any_theirs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """The columns that come of a merge, and the conflicts, settled or not.

    Where a conflict is not settled, the column is as ours has it.
    """

    schema: LanceSchema
    columns: tuple[MergedColumn, ...]
    conflicts: tuple[ColumnConflict, ...]
    changes: ColumnChanges

    @property
    def unsettled(self) -> tuple[ColumnConflict, ...]:
        """The conflicts for which no side was chosen that can settle them."""
        return tuple(one for one in self.conflicts if one.side is None)


def plan_columns(
    sides: tuple[Snapshot, Snapshot, Snapshot],
    to_theirs: Sequence[ColumnPair],
    to_ours: Sequence[ColumnPair],
    choose: Choose,
    values: Values | None = None,
) -> ColumnPlan:
    """Plan what becomes of columns.

    Parameters
    ----------
    sides
        The common version, theirs, and ours.
    to_theirs, to_ours
        The columns of each side, with those of the common version.
    choose
        Whose column counts where both sides made something else.
    values
        What rows tell; without it schemas alone are looked at.
    """
    return _Planning(sides, to_theirs, to_ours, choose, values or Values()).run()


class _Planning:
    def __init__(
        self,
        sides: tuple[Snapshot, Snapshot, Snapshot],
        to_theirs: Sequence[ColumnPair],
        to_ours: Sequence[ColumnPair],
        choose: Choose,
        values: Values,
    ) -> None:
        base, theirs, ours = (side.manifest.schema for side in sides)
        self.ours, self.theirs, self.values = ours, theirs, values
        self.settlement = Settlement(choose)
        self._settled, self._one_of = self.settlement.settled, self.settlement.one_of
        self.base_of_ours = {
            pair.name: base.field(pair.old.name) for pair in to_ours if pair.old is not None
        }
        kept = [(pair, pair.old) for pair in to_theirs if pair.old is not None]
        self.of_theirs = {old.name: theirs.field(pair.name) for pair, old in kept}
        self.added_there = {
            pair.name: theirs.field(pair.name) for pair in to_theirs if pair.old is None
        }
        self.base = base
        # an id that a dropped column had would make a new one look like that
        self.free = 1 + max(side.manifest.max_field_id() for side in sides)

    def run(self) -> ColumnPlan:
        columns = [*self._of_ours(), *self._of_theirs()]
        columns = self._with_key(self._without_clashes(columns))
        metadata = merged_metadata(
            self.settlement, (SCHEMA,), *(s.metadata for s in (self.base, self.theirs, self.ours))
        )
        fields = tuple(column.field for column in columns)
        return ColumnPlan(
            schema=replace(self.ours, fields=fields, metadata=metadata),
            columns=tuple(columns),
            conflicts=tuple(self.settlement.conflicts),
            changes=self._changes(columns),
        )

    # ---- column by column

    def _of_ours(self) -> Iterator[MergedColumn]:
        for mine in self.ours.fields:
            base = self.base_of_ours.get(mine.name)
            if base is None:
                yield from self._added_here(mine, self.added_there.pop(mine.name, None))
                continue
            other = self.of_theirs.get(base.name)
            if other is not None:
                yield self._of_both(base, other, mine)
                continue
            done = [*_did(base, mine), *_changed(self.values.ours.get(mine.name, 0))]
            if not done or self._settled(base.name, done, ["dropped"]) == "theirs":
                continue
            yield MergedColumn(base=base, ours=mine, field=mine)

    def _added_here(self, mine: LanceField, other: LanceField | None) -> Iterator[MergedColumn]:
        if other is None:
            # rows of theirs have no value of it
            nullable = mine.nullable or bool(self.values.their_rows)
            yield MergedColumn(ours=mine, field=replace(mine, nullable=nullable))
        elif _kind(mine) == _kind(other):
            merged = with_metadata(self.settlement, mine, None, other, mine)
            merged = replace(merged, nullable=mine.nullable or other.nullable)
            yield MergedColumn(theirs=other, ours=mine, field=merged)
        else:
            what = [f"added as {_kind(mine)}"], [f"added as {_kind(other)}"]
            if self._settled(mine.name, *what) == "theirs":
                yield MergedColumn(theirs=other, field=self._new(other))
            else:
                yield MergedColumn(ours=mine, field=mine)

    def _of_theirs(self) -> Iterator[MergedColumn]:
        """Yield the columns that ours lacks."""
        here = {base.name for base in self.base_of_ours.values()}
        back = {new.name: old for old, new in self.of_theirs.items() if old not in here}
        for other in self.theirs.fields:
            if other.name in self.added_there:
                # rows of ours have no value of it
                needed = other.nullable or bool(self.values.own_rows)
                yield MergedColumn(theirs=other, field=replace(self._new(other), nullable=needed))
            elif other.name in back:
                base = self.base.field(back[other.name])
                done = [*_did(base, other), *_changed(self.values.theirs.get(other.name, 0))]
                if done and self._settled(base.name, ["dropped"], done) == "theirs":
                    new = replace(self._new(other), nullable=True)
                    yield MergedColumn(base=base, theirs=other, field=new)

    def _of_both(self, base: LanceField, other: LanceField, mine: LanceField) -> MergedColumn:
        kept = self._kind_of_both(base, other, mine)
        name = self._one_of(base.name, "renamed to {}", base.name, other.name, mine.name)
        nullable = self._nullable(base, other, mine)
        described = with_metadata(self.settlement, kept, base, other, mine)
        merged = replace(described, name=name, nullable=nullable)
        return MergedColumn(base=base, theirs=other, ours=mine, field=merged)

    def _kind_of_both(self, base: LanceField, other: LanceField, mine: LanceField) -> LanceField:
        """Return the field with the type that a column gets."""
        before, there, here = _kind(base), _kind(other), _kind(mine)
        if there == here:
            return mine
        nested = any(map(_has_struct, (before, there, here)))
        misfits = self.values.misfits.get(mine.name, 0)
        casts = f"cast to {here}", f"cast to {there}"
        if nested:
            # values of other parts would silently become nulls
            if here != before and there == before and not self.values.any_theirs:
                return mine
            done = [
                f"given the type {now}" if now != before else "kept while rows changed"
                for now in (here, there)
            ]
            self._settled(base.name, done[:1], done[1:], sides=())
            return mine
        if here == before:
            if not misfits:
                return self._new(other)
            changed = [f"changed {plural(misfits, 'value')} that {there} cannot hold"]
            self._settled(base.name, changed, [casts[1]], sides=("ours",))
            return mine
        if there == before:
            if misfits:
                changed = [f"changed {plural(misfits, 'value')} that {here} cannot hold"]
                self._settled(base.name, [casts[0]], changed, sides=())
            return mine
        chosen = self._settled(base.name, [casts[0]], [casts[1]])
        return self._new(other) if chosen == "theirs" else mine

    def _nullable(self, base: LanceField, other: LanceField, mine: LanceField) -> bool:
        """Return whether a column takes nulls: as the side says that changed it."""
        nulls = self.values.nulls.get(mine.name, 0)
        if nulls and mine.nullable != other.nullable:
            wrote, strict = [f"given {plural(nulls, 'null')}"], ["made not nullable"]
            both = (wrote, strict) if mine.nullable else (strict, wrote)
            keeps = "ours" if mine.nullable else "theirs"
            self._settled(base.name, *both, sides=(keeps,))
            return True
        return other.nullable if other.nullable != base.nullable else mine.nullable

    # ---- all of them

    def _with_key(self, columns: list[MergedColumn]) -> list[MergedColumn]:
        """Return the columns with the primary key of the side that changed the key."""
        there = {field.name: name for name, field in self.of_theirs.items()}
        here = {name: field.name for name, field in self.base_of_ours.items()}
        side = side_of_key(self.settlement, self.base, (self.theirs, there), (self.ours, here))
        # rows of the other side have no values of a new column
        new_there = any(has_key(one.theirs) for one in columns if one.ours is None)
        new_here = any(has_key(one.ours) for one in columns if one.theirs is None)
        if side == "theirs" and self.values.own_rows and new_there:
            side = refused_key(self.settlement, side, self.theirs)
        elif side == "ours" and self.values.their_rows and new_here:
            side = refused_key(self.settlement, side, self.ours)
        return [
            replace(one, field=marked(one.field, one.theirs if side == "theirs" else one.ours))
            for one in columns
        ]

    def _without_clashes(self, columns: list[MergedColumn]) -> list[MergedColumn]:
        """Return the columns under distinct names: where two have one, a column gives way.

        It takes the name that it has on the other side, or goes if that lacks it.
        """
        kept = dict[str, str]()  # whose names columns took that gave way: they cannot go back
        while (clash := _clash(columns)) is not None:
            mine, other = clash
            name = mine.field.name
            sides = (kept[name],) if name in kept else ("ours", "theirs")
            done = [_got_name(mine.base, mine.ours)], [_got_name(other.base, other.theirs)]
            winner = self._settled(name, *done, sides=sides) or sides[0]
            loser, own = (other, other.ours) if winner == "ours" else (mine, mine.theirs)
            rest = []
            if own is not None:
                rest = [replace(loser, field=replace(loser.field, name=own.name))]
                kept[own.name] = winner
            at = next(at for at, column in enumerate(columns) if column is loser)
            columns = [*columns[:at], *rest, *columns[at + 1 :]]
        return columns

    def _new(self, other: LanceField) -> LanceField:
        """Return a field of theirs with ids that no column had."""

        def renumbered(part: LanceField, parent: int) -> LanceField:
            own, self.free = self.free, self.free + 1
            children = tuple(renumbered(child, own) for child in part.children)
            return replace(part, id=own, parent_id=parent, children=children)

        return renumbered(other, -1)

    def _changes(self, columns: Sequence[MergedColumn]) -> ColumnChanges:
        kept = [(one.field, one.ours) for one in columns if one.ours is not None]
        there = {mine.name for _, mine in kept}
        return ColumnChanges(
            added=tuple(one.field.name for one in columns if one.ours is None),
            dropped=tuple(name for name in self.ours.names if name not in there),
            renamed=tuple((mine.name, new.name) for new, mine in kept if mine.name != new.name),
            cast=tuple(new.name for new, mine in kept if _kind(new) != _kind(mine)),
            altered=tuple(new.name for new, mine in kept if is_altered(mine, new)),
        )


def _clash(columns: Sequence[MergedColumn]) -> tuple[MergedColumn, MergedColumn] | None:
    """Return two columns of one name, that which has it by ours first; ``None`` if there are none.

    The names of each side are distinct, so that the other one has it by theirs.
    """
    found = dict[str, MergedColumn]()
    for column in columns:
        name = column.field.name
        first = found.setdefault(name, column)
        if first is not column:
            by_ours = first.ours is not None and first.ours.name == name
            return (first, column) if by_ours else (column, first)
    return None


def _got_name(base: LanceField | None, now: LanceField | None) -> str:
    """Return how a column came to its name on a side."""
    if base is None or now is None:
        return "added"
    return "kept" if base.name == now.name else f"made of {clean(base.name)}"


def _has_struct(kind: pa.DataType) -> bool:
    """Return True if a type holds structs, whose parts a merge does not tell apart."""
    if pa.types.is_struct(kind):
        return True
    return any(_has_struct(kind.field(at).type) for at in range(kind.num_fields))


def _kind(one: LanceField) -> pa.DataType:
    return one.to_arrow().type


def _did(base: LanceField, now: LanceField) -> list[str]:
    """Return what a side did to a column, besides its values."""
    done = []
    if now.name != base.name:
        done.append(f"renamed to {clean(now.name)}")
    if _kind(now) != _kind(base):
        done.append(f"cast to {_kind(now)}")
    return done


def _changed(cells: int) -> list[str]:
    return [f"changed {plural(cells, 'value')}"] if cells else []
