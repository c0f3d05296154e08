"""Conflicts of columns: what each side did to a column, and the side that was chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lancekit._legible import clean

__all__ = ["KEY", "SCHEMA", "Choose", "ColumnConflict", "Settlement", "new_side"]

#: returns the side whose column counts, by its name; "fail" where no side was chosen
Choose = Callable[[str], str]
#: the names of conflicts that are not in one column
SCHEMA, KEY = "the schema", "the primary key"


@dataclass(frozen=True, slots=True)
class ColumnConflict:
    """A column that each side changed differently.

    Attributes
    ----------
    column
        The name of the column, in the merge base if the column was there.  ``"the schema"`` for
        metadata of the schema, ``"the primary key"`` for the key.
    ours, theirs
        What each side did to it: ``"dropped"``, ``"cast to int32"``, ``"changed 2 values"``.
    sides
        The sides for which the merge can be done: ``conflicts="ours"`` or ``"theirs"``.
    side
        The side that was chosen, if it is one of `sides`.
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
    """Return a change as a part of a sentence: ``"changed in 2 values"``."""
    return what.replace("changed ", "changed in ", 1)


def new_side(bases: Sequence[object], theirs: object, ours: object) -> str | None:
    """Return the side whose value counts: "ours" or "theirs"; ``None`` for a conflict.

    A change counts only if it is new with regard to each merge base.
    """
    if theirs == ours:
        return "ours"
    there, here = (all(side != base for base in bases) for side in (theirs, ours))
    if there == here:
        return None
    return "theirs" if there else "ours"


@dataclass(slots=True)
class Settlement:
    """Collects conflicts, and settles each by the side that was chosen for its column."""

    choose: Choose
    conflicts: list[ColumnConflict] = field(default_factory=list)

    def settled(
        self,
        column: str,
        ours: Iterable[str],
        theirs: Iterable[str],
        sides: tuple[str, ...] = ("ours", "theirs"),
    ) -> str | None:
        """Record a conflict; return the side that was chosen for it."""
        wanted = self.choose(column)
        side = wanted if wanted in sides else None
        said = " and ".join(ours), " and ".join(theirs)
        self.conflicts.append(ColumnConflict(column, *said, sides=sides, side=side))
        return side

    def one_of(
        self, column: str, what: str, bases: Sequence[object], theirs: object, ours: object
    ) -> Any:
        """Return the value that one side changed, or the chosen one of two changed values."""
        side = new_side(bases, theirs, ours)
        if side is None:
            here, there = (what.format(clean(str(value))) for value in (ours, theirs))
            side = self.settled(column, [here], [there])
        return theirs if side == "theirs" else ours
