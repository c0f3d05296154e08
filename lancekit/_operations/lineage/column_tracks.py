"""Columns followed through all versions of a merge: the merge bases, theirs and ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lancekit._format.schema import LanceField
from lancekit._legible import clean
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

__all__ = ["Pairs", "Track", "Versions", "named_bases", "tracks"]

#: the columns of theirs, then of ours, each with the column of one merge base
Pairs = tuple[Sequence[ColumnPair], Sequence[ColumnPair]]
#: a version by its place among the versions of a merge, and the name of a column there
_Place = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that a merge puts together.

    `has_bases` tells that ours comes from the bases: a pick and a diff bring others.
    """

    bases: Sequence[Snapshot]
    theirs: Snapshot
    ours: Snapshot
    has_bases: bool = True

    @property
    def all(self) -> list[Snapshot]:
        """The merge bases, theirs, and ours."""
        return [*self.bases, self.theirs, self.ours]


@dataclass(frozen=True, slots=True)
class Track:
    """One column in each merge base, in theirs, and in ours; ``None`` where it is not there."""

    bases: tuple[LanceField | None, ...]
    theirs: LanceField | None
    ours: LanceField | None

    @property
    def known(self) -> list[LanceField]:
        """The column in those merge bases that have it."""
        return [base for base in self.bases if base is not None]

    @property
    def name(self) -> str:
        """The name of the column in a merge base, or else on a side."""
        named = (*self.known, self.ours, self.theirs)
        return next(field.name for field in named if field is not None)

    @property
    def is_dropped(self) -> bool:
        """Whether a merge base has the column, and a side lacks it."""
        return bool(self.known) and (self.theirs is None or self.ours is None)


def tracks(
    versions: Versions, pairs: Sequence[Pairs], fields: Sequence[Sequence[LanceField]] | None = None
) -> list[Track]:
    """Return the columns of both sides: those of ours in their order, then those of theirs alone.

    ``fields`` are those of each version, in the order of the versions, if they are parts of a
    column.

    Columns are the same if both are the same column of a merge base.  Columns that no merge base
    has are the same if their names are equal.

    Raises
    ------
    InvalidArgumentError
        The merge bases match the columns of the two sides differently.
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
    """Make one column of two that no merge base has, and that have one name."""
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
    """Refuse a column that is two columns of another version."""
    named = dict[int, str]()
    for at, name in sorted(group):
        other = named.setdefault(at, name)
        if other == name:
            continue
        raise InvalidArgumentError(
            f"{versions.theirs.called} and {versions.ours.called} have several merge bases, which "
            f"match columns differently: columns {clean(other)} and {clean(name)} of "
            f"{versions.all[at].called} are one column by way of another version.",
            hint=f"Name the base from which changes count: {named_bases(versions.bases)}.",
        )


def named_bases(bases: Iterable[Snapshot]) -> str:
    """Return the arguments that name one of the merge bases."""
    return " or ".join(f"base={base.reference!r}" for base in bases)
