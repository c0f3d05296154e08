"""Plan the columns of a merge from the schemas, and from counts of changed values.

Columns merge like cells.  A change of one side is applied; different changes of both sides are a
conflict, which the chosen side settles.  With several merge bases, a change counts only if it is
new with regard to each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from lancekit._format.schema import LanceField
from lancekit._legible import clean, plural
from lancekit._operations.lineage.column_conflicts import (
    SCHEMA,
    Choose,
    ColumnChanges,
    Settlement,
    Track,
    is_altered,
    new_side,
)
from lancekit._operations.lineage.column_key import (
    has_key,
    marked,
    marking_fields,
    merged_metadata,
    refused_key,
    side_of_key,
    with_metadata,
)
from lancekit._operations.lineage.merged_columns import (
    ColumnPlan,
    DroppedPart,
    MergedColumn,
    Values,
    counted_as,
)
from lancekit._operations.lineage.three_way_plan import PlannedParts


def plan_columns(top: PlannedParts, choose: Choose, values: Values) -> ColumnPlan:
    """Plan the columns of a merge.

    top: the columns of the merge bases, the source, and the target.
    choose: returns the side that settles a conflict.
    values: counts of changed values; before they are counted, the plan uses the schemas alone.
    """
    return _Planning(top, choose, values).run()


class _Planning:
    def __init__(self, top: PlannedParts, choose: Choose, values: Values) -> None:
        self.top, self.values = top, values
        self.ours = top.versions.ours.manifest.schema
        self.settlement = Settlement(choose)
        self.dropped = list[DroppedPart]()
        # a new column with the id of a dropped column would pass for that column
        self.free = 1 + max(side.manifest.max_field_id() for side in top.versions.all)

    def run(self) -> ColumnPlan:
        columns = self._with_key(self._merged(self.top))
        *bases, there, here = (side.manifest.schema.metadata for side in self.top.versions.all)
        metadata = merged_metadata(self.settlement, (SCHEMA,), bases, there, here)
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
        """Return the columns of the result, or the parts of one column."""
        found = (self._column_of(level, track) for track in level.tracks)
        return self._with_distinct_names(level, [column for column in found if column is not None])

    def _settled(
        self,
        level: PlannedParts,
        name: str,
        ours: Iterable[str],
        theirs: Iterable[str],
        sides: tuple[str, ...] = ("ours", "theirs"),
    ) -> str | None:
        """Record a conflict of a column, or of a part; return the side chosen for it."""
        column, *parts = *level.path, name
        where = f" in field {clean('.'.join(parts))}" if parts else ""
        here, there = ([f"{what}{where}" for what in side] for side in (ours, theirs))
        return self.settlement.settled(column, here, there, sides=sides)

    def _column_of(self, level: PlannedParts, track: Track) -> MergedColumn | None:
        other, mine = track.theirs, track.ours
        if other is None or mine is None:
            return self._one_sided(level, track)
        if track.known:
            return self._two_sided(level, track, other, mine)
        if _type_of(mine) == _type_of(other):
            path = level.parts_of(mine.name)
            merged = with_metadata(self.settlement, mine, [], other, mine, path)
            return _column(track, replace(merged, nullable=mine.nullable or other.nullable))
        what = [f"added as {_type_of(mine)}"], [f"added as {_type_of(other)}"]
        if self._settled(level, mine.name, *what) == "theirs":
            return _column(replace(track, ours=None), self._new(level, other))
        return _column(replace(track, theirs=None), mine)

    def _one_sided(self, level: PlannedParts, track: Track) -> MergedColumn | None:
        """Return the merged column of a column that one side lacks; ``None`` if it is dropped."""
        mine, values = track.ours, self.values
        if mine is not None:
            side, field, counts, rows = "ours", mine, values.ours, values.their_rows
        elif track.theirs is not None:
            side, field, counts, rows = "theirs", track.theirs, values.theirs, values.own_rows
        else:
            return None
        if track.known and level.path:  # a part; the changed values of columns are always counted
            chain = (*level.chains[side == "theirs"], (track.known[0], field))
            key = level.key(field.name, track.known[0].name)
            self.dropped.append(DroppedPart(key=key, in_theirs=side == "theirs", chain=chain))
        done = _schema_changes(track.known, field)
        if changed := counts.get(level.key(field.name, track.name), 0):
            done.append(f"changed {plural(changed, 'value')}")
        # relative to a base without the column, the other side did not drop it
        is_dropped = len(track.known) == len(track.bases)
        if is_dropped and not done:
            return None
        # if only some bases have the column, its changed values decide; they must be counted first
        is_certain = is_dropped or values.are_counted
        if track.known and is_certain and is_dropped == bool(done):
            is_dropped_there = side == "ours" or self.top.versions.has_bases
            both = done or ["added"], ["dropped" if is_dropped_there else "missing"]
            drops = "theirs" if side == "ours" else "ours"
            sides = (drops,) if level.in_lists else ("ours", "theirs")
            here, there = both if side == "ours" else both[::-1]
            chosen = self._settled(level, track.name, here, there, sides)
            if (chosen or "ours") != side:
                return None
        # rows of the other side have no value in this column
        nullable = field.nullable or bool(level.path or rows)
        kept = field if side == "ours" else self._new(level, field)
        return _column(track, replace(kept, nullable=nullable))

    def _two_sided(
        self, level: PlannedParts, track: Track, other: LanceField, mine: LanceField
    ) -> MergedColumn:
        bases, path = track.known, level.parts_of(track.name)
        found = self._by_parts(level, track, other, mine)
        if found is None:
            kept = self._merged_type(level, track, other, mine)
            found = _column(track, with_metadata(self.settlement, kept, bases, other, mine, path))
        else:
            kept, *sides = (replace(one, children=()) for one in (found.field, other, mine, *bases))
            bare = with_metadata(self.settlement, kept, sides[2:], sides[0], sides[1], path)
            found = replace(found, field=replace(bare, children=found.field.children))
        where = f" in field {clean('.'.join(path[1:]))}" if path[1:] else ""
        names = [base.name for base in bases]
        renamed = f"renamed to {{}}{where}"
        name = self.settlement.one_of(path[0], renamed, names, other.name, mine.name)
        nullable = self._nullable(level, track, other, mine)
        return replace(found, field=replace(found.field, name=name, nullable=nullable))

    def _by_parts(
        self, level: PlannedParts, track: Track, other: LanceField, mine: LanceField
    ) -> MergedColumn | None:
        """Return a column whose parts merge like columns; ``None`` if it merges as a whole."""
        below = level.below(track)
        if below is None:
            return None
        before = len(self.settlement.conflicts)
        parts = tuple(self._merged(below))
        field = replace(mine, children=tuple(part.field for part in parts))
        found = replace(_column(track, field), parts=parts)
        is_struct = mine.logical_type == "struct"
        # Items of two lists cannot be matched, and a struct needs at least one part.  With several
        # bases, it is unknown whether a side's own parts of a null struct count.
        is_whole = not is_struct or len(track.bases) > 1
        if not parts or (is_whole and any(part.is_of_one_side for part in parts)):
            if len(self.settlement.conflicts) == before:
                kinds = list(map(_type_of, track.known))
                done = _type_changes(kinds, _type_of(mine), _type_of(other))
                self._settled(level, track.name, *done, sides=())
            return _column(track, mine)
        if not is_struct and any(part.carried is not None for part in parts):
            # all parts of list items must be in one file
            return self._renumbered(found, mine.parent_id)
        return found

    def _renumbered(self, column: MergedColumn, parent: int) -> MergedColumn:
        """Return a column whose field and parts have ids that no column had."""
        own, self.free = self.free, self.free + 1
        parts = tuple(self._renumbered(part, own) for part in column.parts)
        children = tuple(part.field for part in parts) or tuple(
            self._with_new_ids(child, own) for child in column.field.children
        )
        field = replace(column.field, id=own, parent_id=parent, children=children)
        return replace(column, field=field, parts=parts)

    def _merged_type(
        self, level: PlannedParts, track: Track, other: LanceField, mine: LanceField
    ) -> LanceField:
        """Return the field with the merged type of a column that both sides have."""
        before, there, here = list(map(_type_of, track.known)), _type_of(other), _type_of(mine)
        if there == here:
            return mine
        name, side = track.name, new_side(before, there, here)
        misfits = self.values.misfits.get(level.key(mine.name, name), 0)
        cannot = f"{plural(misfits, 'value')} that {{}} cannot hold"
        casts = f"cast to {here}", f"cast to {there}"
        if any(map(_has_struct, (*before, there, here))):
            # values of parts that the new type lacks would silently become nulls
            if side == "ours" and not self.values.any_theirs:
                return mine
            self._settled(level, name, *_type_changes(before, here, there), sides=())
            return mine
        if side == "theirs":
            if not misfits:
                return self._new(level, other)
            changed = [f"changed {cannot.format(there)}"]
            self._settled(level, name, changed, [casts[1]], sides=("ours",))
            return mine
        if side == "ours":
            if misfits:
                changed = [f"changed {cannot.format(here)}"]
                self._settled(level, name, [casts[0]], changed, sides=())
            return mine
        if misfits:
            # values of the other side do not fit the cast of the chosen side (ours by default)
            wanted = self.settlement.choose(level.parts_of(name)[0])
            tried = "theirs" if wanted == "theirs" else "ours"
            did = {"ours": casts[0], "theirs": casts[1]}
            did[tried] += f", which cannot hold {plural(misfits, 'value')}"
            left = tuple(side for side in did if side != tried)
            self._settled(level, name, [did["ours"]], [did["theirs"]], sides=left)
            return mine
        chosen = self._settled(level, name, [casts[0]], [casts[1]])
        return self._new(level, other) if chosen == "theirs" else mine

    def _nullable(
        self, level: PlannedParts, track: Track, other: LanceField, mine: LanceField
    ) -> bool:
        """Return True if the merged column is nullable: the side that changed it decides."""
        nulls = self.values.nulls.get(level.key(mine.name, track.name), 0)
        strict = "made not nullable"
        before = [base.nullable for base in track.known]
        side = new_side(before, other.nullable, mine.nullable)
        relaxed = side is not None and (other if side == "theirs" else mine).nullable
        if nulls and mine.nullable != other.nullable and not relaxed:
            wrote = f"given {plural(nulls, 'null')}"
            both = ([wrote], [strict]) if mine.nullable else ([strict], [wrote])
            keeps = "ours" if mine.nullable else "theirs"
            self._settled(level, track.name, *both, sides=(keeps,))
            return True
        if side is None:
            here, there = ("made nullable" if one.nullable else strict for one in (mine, other))
            side = self._settled(level, track.name, [here], [there])
        return other.nullable if side == "theirs" else mine.nullable

    # ---- all columns together

    def _with_key(self, columns: list[MergedColumn]) -> list[MergedColumn]:
        """Return the columns with the primary key of the side that changed the key."""
        versions, values = self.top.versions, self.values
        side = side_of_key(self.settlement, versions, columns)
        source = versions.theirs if side == "theirs" else versions.ours
        own = marking_fields(columns, side)
        rows = values.own_rows if side == "theirs" else values.their_rows
        lacks = "ours" if side == "theirs" else "theirs"
        is_lacked = any(
            has_key(field) and one.on(lacks) is None
            for field, one in zip(own, columns, strict=True)
        )
        nulls = sum(_nulls_in_key(one, side, values) for one in columns)
        if (rows and is_lacked) or nulls:
            has = plural(nulls, "null") if nulls else "new rows"
            side = refused_key(self.settlement, side, source.manifest.schema, has)
            own = marking_fields(columns, side)
        return [_marked(one, field, side) for one, field in zip(columns, own, strict=True)]

    def _with_distinct_names(
        self, level: PlannedParts, columns: list[MergedColumn]
    ) -> list[MergedColumn]:
        """Return the columns under distinct names: of two with the same name, one yields.

        It takes the name that it has on the other side, or is left out if that side lacks it.
        """
        kept = dict[str, str]()  # the winner, by the name that the loser took: it takes none back
        while (clash := _name_clash(columns)) is not None:
            mine, other = clash
            name = mine.field.name
            sides = (kept[name],) if name in kept else ("ours", "theirs")
            done = [_name_change(mine, mine.ours)], [_name_change(other, other.theirs)]
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
        """Return a field of the source with ids that no column had before."""
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
            cast=tuple(new.name for new, mine in kept if _type_of(new) != _type_of(mine)),
            altered=tuple(new.name for new, mine in kept if is_altered(mine, new)),
        )


def _type_changes(
    before: Sequence[pa.DataType], here: pa.DataType, there: pa.DataType
) -> tuple[list[str], list[str]]:
    """Return the conflict texts about the type of a column: for the target, for the source."""
    done = [f"{'kept as' if now in before else 'given the type'} {now}" for now in (here, there)]
    return done[:1], done[1:]


def _nulls_in_key(column: MergedColumn, side: str, values: Values) -> int:
    """Count the nulls that the other side wrote into a side's key column, or into its parts."""
    of_key = (chain for chain in column.chains() if has_key(chain[-1].on(side)))
    return sum(values.nulls.get(counted_as(chain), 0) for chain in of_key)


def _marked(column: MergedColumn, own: LanceField | None, side: str) -> MergedColumn:
    """Return a column with the primary-key marks of its field on a side."""
    if not column.parts:
        return replace(column, field=marked(column.field, own))
    parts = tuple(_marked(part, part.on(side), side) for part in column.parts)
    field = marked(replace(column.field, children=()), own)
    return replace(
        column, field=replace(field, children=tuple(part.field for part in parts)), parts=parts
    )


def _name_clash(columns: Sequence[MergedColumn]) -> tuple[MergedColumn, MergedColumn] | None:
    """Return two columns with the same name; ``None`` if all names are distinct.

    The first has the name in the target, the second in the source: names of a side are distinct.
    """
    found = dict[str, MergedColumn]()
    for column in columns:
        name = column.field.name
        first = found.setdefault(name, column)
        if first is not column:
            by_ours = first.ours is not None and first.ours.name == name
            return (first, column) if by_ours else (column, first)
    return None


def _name_change(column: MergedColumn, now: LanceField | None) -> str:
    """Return the text that says how a column got its name on a side."""
    known = [base.name for base in column.bases if base is not None]
    if not known or now is None:
        return "added"
    return "kept" if now.name in known else f"made from {clean(known[0])}"


def _has_struct(kind: pa.DataType) -> bool:
    """Return True if a type contains a struct, whose parts this merge does not match."""
    if pa.types.is_struct(kind):
        return True
    return any(_has_struct(kind.field(at).type) for at in range(kind.num_fields))


def _type_of(one: LanceField) -> pa.DataType:
    return one.to_arrow().type


def _column(track: Track, field: LanceField) -> MergedColumn:
    """Return a column of the result; a side that the track lacks has no values for it."""
    return MergedColumn(bases=track.bases, theirs=track.theirs, ours=track.ours, field=field)


def _schema_changes(bases: Sequence[LanceField], now: LanceField) -> list[str]:
    """Return texts for a side's renames, casts and key changes that are new to each merge base."""
    if not bases:
        return []
    done = []
    if all(now.name != base.name for base in bases):
        done.append(f"renamed to {clean(now.name)}")
    if all(_type_of(now) != _type_of(base) for base in bases):
        done.append(f"cast to {_type_of(now)}")
    if has_key(now) and not any(map(has_key, bases)):
        done.append("added to the primary key")
    return done
