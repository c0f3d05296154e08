"""Column changes of each side of a merge, and the conflicts between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lancekit._format.schema import LanceField, LanceSchema
from lancekit._legible import clean
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

#: returns the side chosen for a column, by the column's name; "fail" if no side was chosen
Choose = Callable[[str], str]
Value = TypeVar("Value")
#: the names of conflicts that do not belong to one column
SCHEMA, KEY = "the schema", "the primary key"


@dataclass(frozen=True, slots=True)
class ColumnConflict:
    """A column that each side changed differently.

    column: the column's name: in the merge base if that has the column, else on a side.
        ``"the schema"`` for metadata of the schema, ``"the primary key"`` for the key.
    ours, theirs: what each side did to it: ``"dropped"``, ``"cast to int32"``, ``"changed 2
        values"``.
    sides: the sides that can settle the conflict: ``conflicts="ours"`` or ``"theirs"``.
    side: the chosen side, if it is in `sides`.
    """

    column: str
    ours: str
    theirs: str
    sides: tuple[str, ...] = ("ours", "theirs")
    side: str | None = None

    def __str__(self) -> str:
        subject = self.column if self.column in (SCHEMA, KEY) else f"column {self.column!r}"
        return f"{subject} was {_done(self.ours)} here and {_done(self.theirs)} there"


def _done(what: str) -> str:
    """Return the phrase for a change in a sentence: ``"changed in 2 values"``."""
    return what.replace("changed ", "changed in ", 1)


def new_side(bases: Sequence[object], theirs: object, ours: object) -> str | None:
    """Return the side with the new value, "ours" or "theirs"; ``None`` for a conflict.

    A change counts only if it is new with regard to each merge base.
    """
    if theirs == ours:
        return "ours"
    in_theirs, in_ours = (all(side != base for base in bases) for side in (theirs, ours))
    if in_theirs == in_ours:
        return None
    return "theirs" if in_theirs else "ours"


@dataclass(slots=True)
class Settlement:
    """Collects column conflicts, and settles each by the side chosen for its column."""

    choose: Choose
    conflicts: list[ColumnConflict] = field(default_factory=list)

    def settled(
        self,
        column: str,
        ours: Iterable[str],
        theirs: Iterable[str],
        sides: tuple[str, ...] = ("ours", "theirs"),
    ) -> str | None:
        """Record a conflict; return its chosen side, or ``None`` if no valid side was chosen."""
        wanted = self.choose(column)
        side = wanted if wanted in sides else None
        done = " and ".join(ours), " and ".join(theirs)
        self.conflicts.append(ColumnConflict(column, *done, sides=sides, side=side))
        return side

    def one_of(
        self, column: str, what: str, bases: Sequence[object], theirs: Value, ours: Value
    ) -> Value:
        """Return the changed value; if both sides changed it, the value of the chosen side."""
        side = new_side(bases, theirs, ours)
        if side is None:
            here, there = (what.format(clean(str(value))) for value in (ours, theirs))
            side = self.settled(column, [here], [there])
        return theirs if side == "theirs" else ours


# ---- the column changes of a side since an earlier version


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """Names of the columns that were added, dropped, renamed, cast, or altered.

    `renamed` has (old name, new name); `altered` has columns with new nullability or metadata.
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    cast: tuple[str, ...] = ()
    altered: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        return any((self.added, self.dropped, self.renamed, self.cast, self.altered))


def column_changes(pairs: Sequence[ColumnPair], before: Iterable[str]) -> ColumnChanges:
    """Return the changes of columns.

    pairs: the new columns, each with its old column.
    before: the names of all old columns.
    """
    kept = [(pair, pair.old) for pair in pairs if pair.old is not None]
    there = {old.name for _, old in kept}
    return ColumnChanges(
        added=tuple(pair.name for pair in pairs if pair.old is None),
        dropped=tuple(name for name in before if name not in there),
        renamed=tuple((old.name, pair.name) for pair, old in kept if old.name != pair.name),
        cast=tuple(pair.name for pair, _ in kept if pair.is_cast),
        altered=tuple(pair.name for pair, old in kept if is_altered(old, pair.new)),
    )


def is_altered(old: LanceField, new: LanceField) -> bool:
    """Return True if the metadata or nullability of a column, or of an old part, changed."""
    before, after = ({part.id: part for part in one.walk()} for one in (old, new))
    both = [(old, new), *((before[id_], after[id_]) for id_ in before.keys() & after.keys())]
    shown = ((a.to_arrow(), b.to_arrow()) for a, b in both)
    return any((a.nullable, a.metadata) != (b.nullable, b.metadata) for a, b in shown)


def takes_old_rows(old: LanceSchema, new: LanceSchema) -> bool:
    """Return True if rows written for an old schema keep all their values in a new schema.

    A column or part that keeps its name but has a new id (cast or recreated) reads old rows as
    null.
    """
    strict = {field.id for field in old.walk() if not field.nullable}
    return _keep_ids(old.fields, new.fields) and all(
        field.nullable or field.id in strict for field in new.walk()
    )


def _keep_ids(old: Sequence[LanceField], new: Sequence[LanceField]) -> bool:
    """Return True if columns of the same name have the same id, and their parts, too."""
    before = {field.name: field for field in old}
    both = [(before[field.name], field) for field in new if field.name in before]
    return all(
        one.id == other.id and _keep_ids(one.children, other.children) for one, other in both
    )


# ---- columns followed through all versions of a merge

#: the columns of both sides (source, target), each paired with its column in one merge base
Pairs = tuple[Sequence[ColumnPair], Sequence[ColumnPair]]
#: the index of a version among the versions of a merge, and the name of a column in it
_Place = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of a merge.

    `has_bases` is True if the target descends from the bases.  It is False for a cherry-pick and an
    applied diff.
    """

    bases: Sequence[Snapshot]
    theirs: Snapshot
    ours: Snapshot
    has_bases: bool = True

    @property
    def all(self) -> list[Snapshot]:
        """The merge bases, the source, and the target."""
        return [*self.bases, self.theirs, self.ours]


@dataclass(frozen=True, slots=True)
class Track:
    """One column in each merge base, in the source and in the target; ``None`` if missing."""

    bases: tuple[LanceField | None, ...]
    theirs: LanceField | None
    ours: LanceField | None

    @property
    def known(self) -> list[LanceField]:
        """The fields of the column in the merge bases that have the column."""
        return [base for base in self.bases if base is not None]

    @property
    def name(self) -> str:
        """The name of the column in the first merge base that has the column, else on a side."""
        named = (*self.known, self.ours, self.theirs)
        return next(field.name for field in named if field is not None)

    @property
    def is_dropped(self) -> bool:
        """True if a merge base has the column, and a side lacks the column."""
        return bool(self.known) and (self.theirs is None or self.ours is None)


def tracks(
    versions: Versions, pairs: Sequence[Pairs], fields: Sequence[Sequence[LanceField]] | None = None
) -> list[Track]:
    """Return a track for each column: columns of the target in order, then of the source.

    Two columns are the same if both come from one column of a merge base.  Columns that no merge
    base has are the same if their names are equal.

    fields: for parts of a column: the parts in each version, in the order of the versions.

    Raises InvalidArgumentError: the merge bases match the columns of the two sides differently.
    """
    theirs, ours = len(pairs), len(pairs) + 1
    groups: dict[_Place, set[_Place]] = {}
    for at, both in enumerate(pairs):
        for side, found in zip((theirs, ours), both, strict=True):
            for pair in found:
                if pair.old is not None:
                    _join(groups, (at, pair.old.name), (side, pair.name))
    if fields is None:
        fields = [version.manifest.schema.fields for version in versions.all]
    named = [{field.name: field for field in side} for side in fields]
    left = [(at, name) for at in (ours, theirs) for name in named[at]]
    out, seen = list[Track](), set[_Place]()
    for place in left:
        if place not in seen:
            group = groups.get(place, {place})
            seen |= group
            _check_one(versions, group)
            there = {at: named[at][name] for at, name in group}
            bases = tuple(map(there.get, range(len(pairs))))
            out.append(Track(bases, there.get(theirs), there.get(ours)))
    return list(_added_by_both(out))


def _join(groups: dict[_Place, set[_Place]], one: _Place, other: _Place) -> None:
    merged = groups.get(one, {one}) | groups.get(other, {other})
    groups.update(dict.fromkeys(merged, merged))


def _added_by_both(found: Sequence[Track]) -> Iterator[Track]:
    """Join two tracks of the same name that no merge base has into one track."""
    there = {
        track.theirs.name: track
        for track in found
        if track.theirs is not None and track.ours is None and not track.known
    }
    for track in found:
        if track.ours is not None and track.theirs is None and not track.known:
            mate = there.pop(track.ours.name, None)
            yield track if mate is None else replace(track, theirs=mate.theirs)
        elif track.ours is not None or track.known or track.name in there:
            yield track


def _check_one(versions: Versions, group: Iterable[_Place]) -> None:
    """Refuse a column that corresponds to two columns of another version."""
    named = dict[int, str]()
    for at, name in sorted(group):
        other = named.setdefault(at, name)
        if other == name:
            continue
        raise InvalidArgumentError(
            f"{versions.theirs.called} and {versions.ours.called} have several merge bases, which "
            f"match columns differently: one makes {clean(other)} and {clean(name)} of "
            f"{versions.all[at].called} the same column.",
            hint=f"Pass the base to compare with: {named_bases(versions.bases)}.",
        )


def named_bases(bases: Iterable[Snapshot]) -> str:
    """Return the text of the ``base=`` arguments that name the merge bases, joined by "or"."""
    return " or ".join(f"base={base.reference!r}" for base in bases)
