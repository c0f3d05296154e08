"""Versions of a table, branches and merges of them, in plain Python: rows, columns, and a graph.

A row is the same row on two sides if its key is equal.  A column is the same column if the two
sides share an identity, whatever its names: an added column gets a new identity, and a merge of two
columns that both sides added alike has the identities of both.  Columns of which the other side has
none are the same if they have one name and one type, unless the version that both sides come from
has both: who drops a column and adds it again, or takes the drop back, means the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, takewhile
from typing import Any, Literal

__all__ = ["Ambiguous", "Column", "Merged", "Node", "Table", "bases_of_merge", "between"]
__all__ += ["merge_bases", "three_way"]

Whose = Literal["ours", "theirs"]
Cells = Mapping[str, Any]
#: what one side has of a row, a column or a cell; ABSENT if it has none
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()

_identities = count()


class Ambiguous(Exception):
    """The rules do not say what comes of it."""


@dataclass(frozen=True)
class Column:
    """A column: its identities, its type, and whether it may be null."""

    type: str
    nullable: bool = True
    ids: frozenset[int] = field(default_factory=lambda: frozenset([next(_identities)]))

    def is_same(self, other: Column) -> bool:
        return bool(self.ids & other.ids)


@dataclass(frozen=True)
class Table:
    """What a version holds: columns by their names, rows by their keys.

    ``has_key`` tells that a table which began without a primary key has one by now.
    """

    columns: Mapping[str, Column]
    rows: Mapping[int, Cells]
    has_key: bool = False

    def __eq__(self, other: object) -> bool:
        """Compare what a reader sees: names, types, rows, in any order."""
        return isinstance(other, Table) and self.seen == other.seen

    __hash__ = None  # type: ignore[assignment]

    @property
    def seen(self) -> tuple[dict[str, str], dict[int, dict[str, Any]]]:
        types = {name: column.type for name, column in self.columns.items()}
        return types, {key: dict(row) for key, row in self.rows.items()}

    # ---- changes of one side

    def upserted(self, rows: Iterable[Cells]) -> Table:
        """Replace rows of the same key, insert the others; columns that a row lacks are kept."""
        new = dict(self.rows)
        for row in rows:
            old = new.get(row["k"], dict.fromkeys(self.columns))
            new[row["k"]] = {**old, **row}
        return replace(self, rows=new)

    def updated(self, keys: Iterable[int], values: Cells) -> Table:
        changed = {key: {**self.rows[key], **values} for key in keys if key in self.rows}
        return replace(self, rows={**self.rows, **changed})

    def deleted(self, keys: Iterable[int]) -> Table:
        gone = set(keys)
        return replace(self, rows={k: row for k, row in self.rows.items() if k not in gone})

    def added(self, name: str, column: Column, values: Mapping[int, Any]) -> Table:
        rows = {key: {**row, name: values.get(key)} for key, row in self.rows.items()}
        return replace(self, columns={**self.columns, name: column}, rows=rows)

    def dropped(self, name: str) -> Table:
        rows = {k: {n: v for n, v in row.items() if n != name} for k, row in self.rows.items()}
        left = {n: c for n, c in self.columns.items() if n != name}
        return replace(self, columns=left, rows=rows)

    def renamed(self, names: Mapping[str, str]) -> Table:
        def new(cells: Mapping[str, Any]) -> dict[str, Any]:
            return {names.get(name, name): value for name, value in cells.items()}

        rows = {key: new(row) for key, row in self.rows.items()}
        return replace(self, columns=new(self.columns), rows=rows)

    def cast(self, name: str, to: str) -> Table:
        return replace(self, columns={**self.columns, name: replace(self.columns[name], type=to)})


# ---- the graph


@dataclass(eq=False)
class Node:
    """A version: its table, and all versions that it contains.

    A merge into a version that the merged one contains makes the same once more: `repeats`.
    """

    table: Table
    contains: frozenset[Node] = frozenset()
    repeats: Node | None = None
    #: later versions have higher numbers
    number: int = field(default_factory=lambda: next(_identities))
    #: the version before it on its line, or on the one that this forked from
    parent: Node | None = None
    #: a merge made it that took a renamed or cast column for two: versions were gone that tell it
    is_untold: bool = False

    def follow(self, table: Table, *merged: Node) -> Node:
        """Return the next version; of merged ones it contains what they do."""
        known = self.contains | {self}
        for other in merged:
            known |= other.contains | {other}
        repeats = next((other for other in merged if self.is_merged_into(other)), None)
        return Node(table, known, repeats, parent=self)

    def is_merged_into(self, other: Node) -> bool:
        """Tell whether a merge of this version into another one has nothing to record."""
        if self in (other, *other.contains):
            return True
        return self.repeats is not None and self.repeats.is_merged_into(other)

    @property
    def chain(self) -> Iterator[Node]:
        """The version and those before it, newest first."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def restored(self, old: Node, chain: Iterable[Node]) -> Node:
        """Return the next version with an old table: what was merged since is taken back.

        `chain` are the versions of this line and of those that it forked from.
        """
        return Node(old.table, old.contains | {old} | set(chain), parent=self)


def merge_bases(one: Node, other: Node) -> list[Node]:
    """Return the nearest versions that both contain.

    A version that was taken back stays one of its line, but no longer brings what it had merged:
    so only the nearest versions say what is farther away.
    """
    common = (one.contains | {one}) & (other.contains | {other})
    found: list[Node] = []
    for node in sorted(common, key=lambda node: -node.number):
        if not any(node in base.contains for base in found):
            found.append(node)
    return found


def bases_of_merge(theirs: Node, ours: Node) -> list[Node]:
    """Return the merge bases; that alone which ours repeats, since ours changed nothing then."""
    bases, repeated = merge_bases(theirs, ours), ours.repeats
    while repeated is not None and repeated not in bases:
        repeated = repeated.repeats
    return bases if repeated is None else [repeated]


def parted(one: Node, other: Node) -> Node:
    """Return the newest version that both come from, by their lines alone."""
    known = set(other.chain)
    return next(node for node in one.chain if node in known)


def between(one: Node, other: Node) -> Iterator[Node]:
    """Yield the versions since two parted, with both."""
    start = parted(one, other)
    for side in (one, other):
        yield from takewhile(lambda node: node is not start, side.chain)


# ---- merges


@dataclass(frozen=True)
class Merged:
    """What a merge makes of three versions.

    `clashes` are cells by key and column, with no column for a row that one side lacks or that both
    inserted; `column_clashes` are names of columns.  `counts` are rows inserted, updated, deleted,
    and values that changed in updated rows.
    """

    table: Table
    clashes: frozenset[tuple[int, str | None]]
    column_clashes: frozenset[str]
    counts: tuple[int, int, int, int]
    added: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    renamed: frozenset[tuple[str, str]] = frozenset()
    cast: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Track:
    """One column through all versions: its name in each base, in theirs, and in ours."""

    bases: tuple[str | None, ...]
    theirs: str | None
    ours: str | None


def _decided(bases: Sequence[Any], theirs: Any, ours: Any) -> Any:
    """Return the side that counts, "both" if they are equal, `None` for a conflict.

    A change counts only if it is new with regard to each base.
    """
    if theirs == ours:
        return "both"
    new_there, new_here = (all(side != base for base in bases) for side in (theirs, ours))
    if new_there != new_here:
        return "theirs" if new_there else "ours"
    return None


def _others_by_name(base: Node, side: Node) -> Iterator[str]:
    """Yield the names of columns that share no identity, and are the same by name and type."""
    before, after = base.table.columns, side.table.columns
    start = parted(base, side).table.columns.values()

    def is_known(column: Column) -> bool:
        return any(column.is_same(one) for one in start)

    for name in before.keys() & after.keys():
        was, now = before[name], after[name]
        left = not any(was.is_same(c) for c in after.values())
        came = not any(now.is_same(c) for c in before.values())
        if left and came and was.type == now.type and not (is_known(was) and is_known(now)):
            yield name


def _tracks(bases: Sequence[Node], theirs: Node, ours: Node) -> list[_Track]:
    versions = [*bases, theirs, ours]
    groups: list[dict[int, str]] = []  # for each column its name in each version

    def join(places: Iterable[tuple[int, str]]) -> None:
        wanted = set(places)
        found = [group for group in groups if wanted & group.items()]
        if not found:
            groups.append({})
            found = groups[-1:]
        for group in found[1:]:
            wanted |= group.items()
            groups.remove(group)
        for at, name in wanted:
            if found[0].setdefault(at, name) != name:
                raise Ambiguous("one column is two on another side")

    for at, version in enumerate(versions):
        for name, column in version.table.columns.items():
            same = (
                (other, called)
                for other, one in enumerate(versions)
                for called, known in one.table.columns.items()
                # without a base names tell which columns both sides have
                if known.is_same(column) and min(at, other) < len(bases)
            )
            join([(at, name), *same])
    for at, base in enumerate(bases):
        for side in (len(bases), len(bases) + 1):
            for name in _others_by_name(base, versions[side]):
                join([(at, name), (side, name)])
    count = len(bases)
    tracks = [
        _Track(tuple(map(group.get, range(count))), group.get(count), group.get(count + 1))
        for group in groups
    ]
    return list(_added_alike(tracks, theirs.table, ours.table))


def _added_alike(tracks: list[_Track], theirs: Table, ours: Table) -> Iterator[_Track]:
    """Make one of two columns that both sides added under one name, of one type."""
    there = {t.theirs: t for t in tracks if t.ours is None and not any(t.bases)}
    for track in tracks:
        mate = None if any(track.bases) or track.theirs else there.get(track.ours)
        if mate and theirs.columns[str(mate.theirs)].type == ours.columns[str(track.ours)].type:
            del there[track.ours]
            yield replace(track, theirs=mate.theirs)
        elif there.get(track.theirs) is not track:
            yield track
    yield from there.values()


class _ThreeWay:
    def __init__(self, bases: Sequence[Node], theirs: Node, ours: Node, whose: Whose) -> None:
        self.bases = [base.table for base in bases]
        self.theirs, self.ours, self.whose = theirs.table, ours.table, whose
        self.tracks = _tracks(bases, theirs, ours)
        self.column_clashes: set[str] = set()
        self.clashes: set[tuple[int, str | None]] = set()

    # ---- columns

    def columns(self) -> dict[str, tuple[_Track, Column]]:
        """Return the columns that come of it, by name.

        Where two have one name, that of the other side gives way: it takes the name that it has on
        the side that counts, or goes.
        """
        left = [(track, *made) for track in self.tracks if (made := self._column(track))]
        found: dict[str, tuple[_Track, Column]] = {}
        while left:
            track, name, column = left.pop()
            if name not in found:
                found[name] = track, column
                continue
            self.column_clashes.add(name)
            both = [(track, column), found[name]]
            mine, loser = sorted(both, key=lambda one: name != getattr(one[0], self.whose))
            found[name] = mine
            own = getattr(loser[0], self.whose)
            if own is not None:
                left.append((loser[0], own, loser[1]))
        return found

    def _column(self, track: _Track) -> tuple[str, Column] | None:
        names = track.theirs, track.ours
        here = None if track.ours is None else self.ours.columns[track.ours]
        there = None if track.theirs is None else self.theirs.columns[track.theirs]
        if here is None or there is None:
            return self._of_one_side(track)
        name = self._attribute(track, track.bases, *names)
        types = [None if n is None else self.bases[at].columns[n].type
                 for at, n in enumerate(track.bases)]  # fmt: skip
        kind = self._attribute(track, types, there.type, here.type)
        column = Column(kind, here.nullable and there.nullable, here.ids | there.ids)
        return name, column

    def _attribute(self, track: _Track, bases: Sequence[Any], theirs: Any, ours: Any) -> Any:
        side = _decided(bases, theirs, ours)
        if side is None:
            self.column_clashes.add(str(track.ours))
            side = self.whose
        return theirs if side == "theirs" else ours

    def _has_key(self) -> bool:
        side = _decided(
            [base.has_key for base in self.bases], self.theirs.has_key, self.ours.has_key
        )
        if side is None:
            self.column_clashes.add("the primary key")
            side = self.whose
        return (self.theirs if side == "theirs" else self.ours).has_key

    def _of_one_side(self, track: _Track) -> tuple[str, Column] | None:
        """Return a column that one side has, unless the other dropped it."""
        side, table = ("theirs", self.theirs) if track.ours is None else ("ours", self.ours)
        name = track.theirs or track.ours
        if name is None:
            return None  # both dropped it
        there = [n is not None for n in track.bases]
        # that the column is gone is new with regard to each base, or that it is as it is
        is_dropped, is_changed = all(there), self._is_changed(track, name, table)
        if is_dropped and not is_changed:
            return None
        if any(there) and is_dropped == is_changed:
            self.column_clashes.add(name)
            if side != self.whose:
                return None
        return name, table.columns[name]

    def _is_changed(self, track: _Track, name: str, table: Table) -> bool:
        """Tell whether a side changed a column that the other one lacks, or a value of it."""
        known = [(was, base) for was, base in zip(track.bases, self.bases, strict=True) if was]
        if all(was != name for was, _ in known):
            return True
        if all(base.columns[was].type != table.columns[name].type for was, base in known):
            return True
        return any(self._is_new(track, key, row[name]) for key, row in table.rows.items())

    def _is_new(self, track: _Track, key: int, value: Any) -> bool:
        """Tell whether a value is unlike that of each base that has the row and the column."""
        known = zip(track.bases, self.bases, strict=True)
        olds = [base.rows[key][was] for was, base in known if was and key in base.rows]
        return bool(olds) and all(old != value for old in olds)

    # ---- rows

    def run(self) -> Merged:
        columns, has_key = self.columns(), self._has_key()
        rows, counts = {}, [0, 0, 0, 0]
        for key in {key for table in (self.theirs, self.ours) for key in table.rows}:
            row = self._row(key, columns)
            before = self.ours.rows.get(key)
            if row is not None:
                rows[key] = row
            if before is None or row is None:
                counts[0] += before is None and row is not None
                counts[2] += row is None and before is not None
            else:
                cells = sum(
                    track.ours is not None and before[track.ours] != row[name]
                    for name, (track, _) in columns.items()
                )
                counts[1] += cells > 0
                counts[3] += cells
        both = [(name, track) for name, (track, _) in columns.items()]
        kept = {track.ours for _, track in both}
        return Merged(
            Table({name: column for name, (_, column) in columns.items()}, rows, has_key),
            frozenset(self.clashes),
            frozenset(self.column_clashes),
            (counts[0], counts[1], counts[2], counts[3]),
            added=frozenset(name for name, track in both if track.ours is None),
            dropped=frozenset(set(self.ours.columns) - kept),
            renamed=frozenset((t.ours, n) for n, t in both if t.ours not in (None, n)),
            cast=frozenset(
                name
                for name, (track, column) in columns.items()
                if track.ours is not None and self.ours.columns[track.ours].type != column.type
            ),
        )

    def _row(self, key: int, columns: Mapping[str, tuple[_Track, Column]]) -> Cells | None:
        bases = [base.rows.get(key) for base in self.bases]
        left, right = self.theirs.rows.get(key), self.ours.rows.get(key)
        if left is None or right is None:
            return self._row_of_one_side(key, columns)
        if not any(base is not None for base in bases):
            alike = all(
                left[track.theirs] == right[track.ours]
                for track, _ in columns.values()
                if track.theirs is not None and track.ours is not None
            )
            if not alike:
                self.clashes.add((key, None))
        out = {}
        for name, (track, _) in columns.items():
            if track.theirs is None or track.ours is None:
                out[name] = left[track.theirs] if track.theirs else right[str(track.ours)]
                continue
            there, here = left[track.theirs], right[track.ours]
            known = [ABSENT if base is None or was is None else base[was]
                     for base, was in zip(bases, track.bases, strict=True)]  # fmt: skip
            side = _decided(known, there, here)
            both_there = any(base is not None for base in bases)
            if side is None and both_there and not any(track.bases) and None in (there, here):
                side = "ours" if there is None else "theirs"  # nulls do not overwrite
            if side is None:
                side = self.whose
                if both_there:
                    self.clashes.add((key, name))
            out[name] = there if side == "theirs" else here
        return out

    def _row_of_one_side(
        self, key: int, columns: Mapping[str, tuple[_Track, Column]]
    ) -> Cells | None:
        mine = key in self.ours.rows
        row = (self.ours if mine else self.theirs).rows[key]
        names = [(track.ours if mine else track.theirs, name)
                 for name, (track, _) in columns.items()]  # fmt: skip
        out = {name: None if own is None else row[own] for own, name in names}
        bases = [base.rows.get(key) for base in self.bases]
        # the row is new if it is unlike each base, its absence if each base has it
        changed = all(base is None or self._differs(at, key, mine) for at, base in enumerate(bases))
        gone = all(base is not None for base in bases)
        side = "ours" if mine else "theirs"
        if changed == gone:
            self.clashes.add((key, None))
            return out if side == self.whose else None
        return out if changed else None

    def _differs(self, at: int, key: int, mine: bool) -> bool:
        row = (self.ours if mine else self.theirs).rows[key]
        for track in self.tracks:
            was, now = track.bases[at], track.ours if mine else track.theirs
            if was is not None and now is not None and self.bases[at].rows[key][was] != row[now]:
                return True
            # of a column that this base lacks, the other bases say whether the value is new
            if was is None and now is not None and self._is_new(track, key, row[now]):
                return True
        return False


def three_way(bases: Sequence[Node], theirs: Node, ours: Node, whose: Whose) -> Merged:
    """Merge rows and columns by identity; a change counts only if it is new to each base."""
    return _ThreeWay(bases, theirs, ours, whose).run()
