"""What becomes of the columns of two sides: planned from three schemas, and counts of values.

Columns merge by the rules of cells.  What one side did is done; where both did something else, it
is a conflict, which a side settles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lancekit.format.schema import LanceField
from lancekit.legible import clean, plural
from lancekit.operations.lineage.column_changes import ColumnChanges, is_altered
from lancekit.operations.lineage.column_conflicts import SCHEMA, Choose, Settlement
from lancekit.operations.lineage.column_key import has_key, marked, refused_key, side_of_key
from lancekit.operations.lineage.column_metadata import merged_metadata, with_metadata
from lancekit.operations.lineage.merged_columns import (
    ColumnPlan,
    DroppedPart,
    MergedColumn,
    Values,
)
from lancekit.operations.lineage.planned_parts import PlannedParts
from lancekit.pipeline.diff.fragments import ColumnPair
from lancekit.versions.snapshot import Snapshot

__all__ = ["plan_columns"]


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
        self.base, self.theirs, self.ours = (side.manifest.schema for side in sides)
        self.values = values
        self.settlement = Settlement(choose)
        fields = self.base.fields, self.theirs.fields, self.ours.fields
        self.top = PlannedParts(fields, to_theirs, to_ours)
        self.dropped = list[DroppedPart]()
        # an id that a dropped column had would make a new one look like that
        self.free = 1 + max(side.manifest.max_field_id() for side in sides)

    def run(self) -> ColumnPlan:
        columns = self._with_key(self._merged(self.top))
        metadata = merged_metadata(
            self.settlement, (SCHEMA,), *(s.metadata for s in (self.base, self.theirs, self.ours))
        )
        fields = tuple(column.field for column in columns)
        return ColumnPlan(
            schema=replace(self.ours, fields=fields, metadata=metadata),
            columns=tuple(columns),
            conflicts=tuple(self.settlement.conflicts),
            changes=self._changes(columns),
            dropped_parts=tuple(self.dropped),
        )

    # ---- column by column, or part by part of a column

    def _merged(self, level: PlannedParts) -> list[MergedColumn]:
        """Return the columns of the result, or the parts of one."""
        columns = [*self._of_ours(level), *self._of_theirs(level)]
        return self._without_clashes(level, columns)

    def _settled(
        self,
        level: PlannedParts,
        name: str,
        ours: Iterable[str],
        theirs: Iterable[str],
        sides: tuple[str, ...] = ("ours", "theirs"),
    ) -> str | None:
        """Record a conflict of a column, or of a part; return the side that was chosen for it."""
        column, *parts = *level.path, name
        where = f" in part {clean('.'.join(parts))}" if parts else ""
        here, there = ([f"{what}{where}" for what in side] for side in (ours, theirs))
        return self.settlement.settled(column, here, there, sides=sides)

    def _of_ours(self, level: PlannedParts) -> Iterator[MergedColumn]:
        for mine in level.ours:
            base = level.base_of_ours.get(mine.name)
            if base is None:
                yield from self._added_here(level, mine, level.added_there.pop(mine.name, None))
                continue
            other = level.of_theirs.get(base.name)
            if other is not None:
                yield self._of_both(level, base, other, mine)
                continue
            self._count_values(level, base, mine, in_theirs=False)
            changed = self.values.ours.get(level.key(mine.name, base.name), 0)
            done = [*_did(base, mine), *_changed(changed)]
            sides = ("theirs",) if level.in_lists else ("ours", "theirs")
            if not done or self._settled(level, base.name, done, ["dropped"], sides) == "theirs":
                continue
            kept = replace(mine, nullable=True) if level.path else mine
            yield MergedColumn(base=base, ours=mine, field=kept)

    def _count_values(
        self, level: PlannedParts, base: LanceField, own: LanceField, *, in_theirs: bool
    ) -> None:
        """Note a part whose changed values have to be counted; those of columns always are."""
        if level.path:
            chain = (*level.chains[in_theirs], (base, own))
            key = level.key(own.name, base.name)
            self.dropped.append(DroppedPart(key=key, in_theirs=in_theirs, chain=chain))

    def _added_here(
        self, level: PlannedParts, mine: LanceField, other: LanceField | None
    ) -> Iterator[MergedColumn]:
        if other is None:
            # rows of theirs have no value of it
            nullable = mine.nullable or bool(level.path or self.values.their_rows)
            yield MergedColumn(ours=mine, field=replace(mine, nullable=nullable))
        elif _kind(mine) == _kind(other):
            merged = with_metadata(
                self.settlement, mine, None, other, mine, level.parts_of(mine.name)
            )
            merged = replace(merged, nullable=mine.nullable or other.nullable)
            yield MergedColumn(theirs=other, ours=mine, field=merged)
        else:
            what = [f"added as {_kind(mine)}"], [f"added as {_kind(other)}"]
            if self._settled(level, mine.name, *what) == "theirs":
                yield MergedColumn(theirs=other, field=self._new(level, other))
            else:
                yield MergedColumn(ours=mine, field=mine)

    def _of_theirs(self, level: PlannedParts) -> Iterator[MergedColumn]:
        """Yield the columns that ours lacks."""
        here = {base.name for base in level.base_of_ours.values()}
        back = {new.name: old for old, new in level.of_theirs.items() if old not in here}
        for other in level.theirs:
            if other.name in level.added_there:
                # rows of ours have no value of it
                needed = other.nullable or bool(level.path or self.values.own_rows)
                field = replace(self._new(level, other), nullable=needed)
                yield MergedColumn(theirs=other, field=field)
            elif other.name in back:
                base = next(one for one in level.base if one.name == back[other.name])
                self._count_values(level, base, other, in_theirs=True)
                changed = self.values.theirs.get(level.key(other.name, base.name), 0)
                done = [*_did(base, other), *_changed(changed)]
                sides = ("ours",) if level.in_lists else ("ours", "theirs")
                if done and self._settled(level, base.name, ["dropped"], done, sides) == "theirs":
                    new = replace(self._new(level, other), nullable=True)
                    yield MergedColumn(base=base, theirs=other, field=new)

    def _of_both(
        self, level: PlannedParts, base: LanceField, other: LanceField, mine: LanceField
    ) -> MergedColumn:
        path = level.parts_of(base.name)
        found = self._by_parts(level, base, other, mine)
        if found is None:
            kept = self._kind_of_both(level, base, other, mine)
            described = with_metadata(self.settlement, kept, base, other, mine, path)
            found = MergedColumn(base=base, theirs=other, ours=mine, field=described)
        else:
            kept, *sides = (replace(side, children=()) for side in (found.field, base, other, mine))
            bare = with_metadata(self.settlement, kept, sides[0], sides[1], sides[2], path)
            found = replace(found, field=replace(bare, children=found.field.children))
        where = f" in part {clean('.'.join(path[1:]))}" if path[1:] else ""
        renamed = f"renamed to {{}}{where}"
        name = self.settlement.one_of(path[0], renamed, base.name, other.name, mine.name)
        nullable = self._nullable(level, base, other, mine)
        return replace(found, field=replace(found.field, name=name, nullable=nullable))

    def _by_parts(
        self, level: PlannedParts, base: LanceField, other: LanceField, mine: LanceField
    ) -> MergedColumn | None:
        """Return a column whose parts merge like columns; ``None`` if it merges as a whole."""
        below = level.below(base, other, mine)
        if below is None:
            return None
        before = len(self.settlement.conflicts)
        parts = tuple(self._merged(below))
        field = replace(mine, children=tuple(part.field for part in parts))
        found = MergedColumn(base=base, theirs=other, ours=mine, field=field, parts=parts)
        is_struct = mine.logical_type == "struct"
        # nothing tells which items of two lists are the same; a struct has one part at least
        if not parts or (not is_struct and any(part.is_of_one_side for part in parts)):
            if len(self.settlement.conflicts) > before:
                return MergedColumn(base=base, theirs=other, ours=mine, field=mine)
            here, there = ([f"given the type {_kind(side)}"] for side in (mine, other))
            self._settled(level, base.name, here, there, sides=())
            return MergedColumn(base=base, theirs=other, ours=mine, field=mine)
        if not is_struct and any(part.carried is not None for part in parts):
            # the items of lists lie in one file
            return self._renumbered(found, mine.parent_id)
        return found

    def _renumbered(self, column: MergedColumn, parent: int) -> MergedColumn:
        """Return a column with ids that no column had, and its parts, too."""
        own, self.free = self.free, self.free + 1
        parts = tuple(self._renumbered(part, own) for part in column.parts)
        children = tuple(part.field for part in parts) or tuple(
            self._with_new_ids(child, own) for child in column.field.children
        )
        field = replace(column.field, id=own, parent_id=parent, children=children)
        return replace(column, field=field, parts=parts)

    def _kind_of_both(
        self, level: PlannedParts, base: LanceField, other: LanceField, mine: LanceField
    ) -> LanceField:
        """Return the field with the type that a column gets."""
        before, there, here = _kind(base), _kind(other), _kind(mine)
        if there == here:
            return mine
        nested = any(map(_has_struct, (before, there, here)))
        misfits = self.values.misfits.get(level.key(mine.name, base.name), 0)
        casts = f"cast to {here}", f"cast to {there}"
        if nested:
            # values of other parts would silently become nulls
            if here != before and there == before and not self.values.any_theirs:
                return mine
            done = [
                f"given the type {now}" if now != before else "kept while rows changed"
                for now in (here, there)
            ]
            self._settled(level, base.name, done[:1], done[1:], sides=())
            return mine
        if here == before:
            if not misfits:
                return self._new(level, other)
            changed = [f"changed {plural(misfits, 'value')} that {there} cannot hold"]
            self._settled(level, base.name, changed, [casts[1]], sides=("ours",))
            return mine
        if there == before:
            if misfits:
                changed = [f"changed {plural(misfits, 'value')} that {here} cannot hold"]
                self._settled(level, base.name, [casts[0]], changed, sides=())
            return mine
        chosen = self._settled(level, base.name, [casts[0]], [casts[1]])
        return self._new(level, other) if chosen == "theirs" else mine

    def _nullable(
        self, level: PlannedParts, base: LanceField, other: LanceField, mine: LanceField
    ) -> bool:
        """Return whether a column takes nulls: as the side says that changed it."""
        nulls = self.values.nulls.get(level.key(mine.name, base.name), 0)
        if nulls and mine.nullable != other.nullable:
            wrote, strict = [f"given {plural(nulls, 'null')}"], ["made not nullable"]
            both = (wrote, strict) if mine.nullable else (strict, wrote)
            keeps = "ours" if mine.nullable else "theirs"
            self._settled(level, base.name, *both, sides=(keeps,))
            return True
        return other.nullable if other.nullable != base.nullable else mine.nullable

    # ---- all of them

    def _with_key(self, columns: list[MergedColumn]) -> list[MergedColumn]:
        """Return the columns with the primary key of the side that changed the key."""
        there = {field.name: name for name, field in self.top.of_theirs.items()}
        here = {name: field.name for name, field in self.top.base_of_ours.items()}
        side = side_of_key(self.settlement, self.base, (self.theirs, there), (self.ours, here))
        # rows of the other side have no values of a new column
        new_there = any(has_key(one.theirs) for one in columns if one.ours is None)
        new_here = any(has_key(one.ours) for one in columns if one.theirs is None)
        if side == "theirs" and self.values.own_rows and new_there:
            side = refused_key(self.settlement, side, self.theirs)
        elif side == "ours" and self.values.their_rows and new_here:
            side = refused_key(self.settlement, side, self.ours)
        return [_marked(one, side) for one in columns]

    def _without_clashes(
        self, level: PlannedParts, columns: list[MergedColumn]
    ) -> list[MergedColumn]:
        """Return the columns under distinct names: where two have one, a column gives way.

        It takes the name that it has on the other side, or goes if that lacks it.
        """
        kept = dict[str, str]()  # whose names columns took that gave way: they cannot go back
        while (clash := _clash(columns)) is not None:
            mine, other = clash
            name = mine.field.name
            sides = (kept[name],) if name in kept else ("ours", "theirs")
            done = [_got_name(mine.base, mine.ours)], [_got_name(other.base, other.theirs)]
            winner = self._settled(level, name, *done, sides=sides) or sides[0]
            loser, own = (other, other.ours) if winner == "ours" else (mine, mine.theirs)
            rest = []
            if own is not None:
                rest = [replace(loser, field=replace(loser.field, name=own.name))]
                kept[own.name] = winner
            at = next(at for at, column in enumerate(columns) if column is loser)
            columns = [*columns[:at], *rest, *columns[at + 1 :]]
        return columns

    def _new(self, level: PlannedParts, other: LanceField) -> LanceField:
        """Return a field of theirs with ids that no column had."""
        return self._with_new_ids(other, level.parent_id)

    def _with_new_ids(self, part: LanceField, parent: int) -> LanceField:
        own, self.free = self.free, self.free + 1
        children = tuple(self._with_new_ids(child, own) for child in part.children)
        return replace(part, id=own, parent_id=parent, children=children)

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


def _marked(column: MergedColumn, side: str) -> MergedColumn:
    """Return a column with the marks of the primary key that it has on a side."""
    own = column.theirs if side == "theirs" else column.ours
    if not column.parts:
        return replace(column, field=marked(column.field, own))
    parts = tuple(_marked(part, side) for part in column.parts)
    field = marked(replace(column.field, children=()), own)
    return replace(
        column, field=replace(field, children=tuple(part.field for part in parts)), parts=parts
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
