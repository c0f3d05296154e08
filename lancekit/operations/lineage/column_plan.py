"""What becomes of the columns of two sides: planned from three schemas, and counts of values.

Columns merge by the rules of cells.  What one side did is done; where both did something else, it
is a conflict, which a side settles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from lancekit.format.schema import (
    PRIMARY_KEY,
    PRIMARY_KEY_POSITION,
    LanceField,
    LanceSchema,
)
from lancekit.legible import clean, plural
from lancekit.operations.lineage.column_changes import ColumnChanges
from lancekit.pipeline.diff.fragments import ColumnPair
from lancekit.versions.snapshot import Snapshot

__all__ = ["ColumnConflict", "ColumnPlan", "MergedColumn", "Values", "plan_columns"]

#: whose column counts, by its name; "fail" where nobody said it
Choose = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class ColumnConflict:
    """A column of which each side made something else.

    Attributes
    ----------
    column
        Its name, in the version that both sides come from if it was there.
    ours, theirs
        What each side did to it: ``"dropped"``, ``"cast to int32"``, ``"changed 2 values"``.
    sides
        The sides for which the merge can be done: ``conflicts="ours"`` or ``"theirs"``.
    side
        The one that was chosen, if it is one of these.
    """

    column: str
    ours: str
    theirs: str
    sides: tuple[str, ...] = ("ours", "theirs")
    side: str | None = None

    def __str__(self) -> str:
        return f"column {self.column!r} was {_done(self.ours)} here and {_done(self.theirs)} there"


def _done(what: str) -> str:
    """Return what became of a column, as a part of a sentence: ``"changed in 2 values"``."""
    return what.replace("changed ", "changed in ", 1)


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
        self.ours, self.theirs, self.values, self.choose = ours, theirs, values, choose
        self.base_of_ours = {
            pair.name: base.field(pair.old.name) for pair in to_ours if pair.old is not None
        }
        kept = [(pair, pair.old) for pair in to_theirs if pair.old is not None]
        self.of_theirs = {old.name: theirs.field(pair.name) for pair, old in kept}
        self.added_there = {
            pair.name: theirs.field(pair.name) for pair in to_theirs if pair.old is None
        }
        self.base = base
        self.conflicts: list[ColumnConflict] = []
        # an id that a dropped column had would make a new one look like that
        self.free = 1 + max(side.manifest.max_field_id() for side in sides)
        self.metadata = base.metadata

    def run(self) -> ColumnPlan:
        columns = [*self._of_ours(), *self._of_theirs()]
        columns = self._without_clashes(columns)
        metadata = self._metadata("the schema", *(s.metadata for s in self._schemas))
        fields = tuple(column.field for column in columns)
        return ColumnPlan(
            schema=replace(self.ours, fields=fields, metadata=metadata),
            columns=tuple(columns),
            conflicts=tuple(self.conflicts),
            changes=self._changes(columns),
        )

    @property
    def _schemas(self) -> tuple[LanceSchema, LanceSchema, LanceSchema]:
        return self.base, self.theirs, self.ours

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
            nullable = mine.nullable or other.nullable
            yield MergedColumn(theirs=other, ours=mine, field=replace(mine, nullable=nullable))
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
        metadata = self._metadata(base.name, base.metadata, other.metadata, mine.metadata)
        marks = (PRIMARY_KEY, PRIMARY_KEY_POSITION)
        alike = (
            side
            for side in (mine, other)
            if all(metadata.get(mark) == side.metadata.get(mark) for mark in marks)
        )
        marked = next(alike, mine)
        changed = replace(
            kept,
            name=name,
            nullable=nullable and marked.key_position is None,
            metadata=metadata,
            key_position=marked.key_position,
        )
        return MergedColumn(base=base, theirs=other, ours=mine, field=changed)

    def _kind_of_both(self, base: LanceField, other: LanceField, mine: LanceField) -> LanceField:
        """Return the field with the type that a column gets."""
        before, there, here = _kind(base), _kind(other), _kind(mine)
        if there == here:
            return mine
        nested = any(one.children for one in (base, other, mine))
        misfits = self.values.misfits.get(mine.name, 0)
        casts = f"cast to {here}", f"cast to {there}"
        if nested:
            # values of other parts would silently become nulls
            if here != before and there == before and not self.values.any_theirs:
                return mine
            done = (casts[0] if here != before else "", casts[1] if there != before else "")
            self._settled(base.name, [done[0] or "kept"], [done[1] or "changed rows"], sides=())
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
            wrote, strict = [f"wrote {plural(nulls, 'null')}"], ["made not nullable"]
            both = (wrote, strict) if mine.nullable else (strict, wrote)
            keeps = "ours" if mine.nullable else "theirs"
            self._settled(base.name, *both, sides=(keeps,))
            return True
        return other.nullable if other.nullable != base.nullable else mine.nullable

    def _metadata(
        self,
        name: str,
        base: Mapping[str, str],
        other: Mapping[str, str],
        mine: Mapping[str, str],
    ) -> Mapping[str, str]:
        if other in (base, mine):
            return mine
        found = dict(mine)
        for key in dict.fromkeys(chain(base, other)):
            what = f"given metadata {clean(key)} = {{}}"
            value = self._one_of(name, what, base.get(key), other.get(key), mine.get(key))
            found.pop(key, None)
            if value is not None:
                found[key] = value
        return found

    def _one_of(self, column: str, what: str, base: Any, other: Any, mine: Any) -> Any:
        """Return the value that one side gave, or the chosen one of two."""
        if other in (base, mine):
            return mine
        if mine == base:
            return other
        ours, theirs = ([what.format(clean(str(value)))] for value in (mine, other))
        return other if self._settled(column, ours, theirs) == "theirs" else mine

    def _settled(
        self,
        column: str,
        ours: Iterable[str],
        theirs: Iterable[str],
        sides: tuple[str, ...] = ("ours", "theirs"),
    ) -> str | None:
        """Note a conflict; return the side that was chosen for it."""
        wanted = self.choose(column)
        side = wanted if wanted in sides else None
        said = " and ".join(ours), " and ".join(theirs)
        self.conflicts.append(ColumnConflict(column, *said, sides=sides, side=side))
        return side

    # ---- all of them

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
            altered=tuple(
                new.name
                for new, mine in kept
                if (new.nullable, new.metadata) != (mine.nullable, mine.metadata)
            ),
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
