"""Where an explorer stands, and how each thing that a person does changes that.

Nothing is read here: a state is made of numbers, names and texts, and `step` is a pure function.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

#: a branch and a version of it
Place: TypeAlias = tuple[str, int]
#: what is shown of a stop, below what its manifest says of it
View = Literal["rows", "schema", "column", "compare", "change"]
#: sorted rows are kept while all are looked at: pages end here
MOST_SORTED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerState:
    """Where an explorer stands.

    branch, versions: the branch, and its versions, ascending; gaps are versions that were cleaned
        up.
    version: the one that is looked at.
    home: the branch of the handle that the explorer was made from.
    pinned: what it is compared with; ``None`` for the version before.
    view: what is shown of it.
    filter, order, page, page_rows: which rows: an SQL condition, or none; a column and whether it
        ascends; which page.
    column: whose summary is wanted, if any.
    is_asked: whether somebody asked for what takes reading all rows, as it is now.
    """

    branch: str
    versions: tuple[int, ...]
    version: int
    home: str = "main"
    pinned: Place | None = None
    view: View = "rows"
    filter: str = ""
    order: tuple[str, bool] | None = None
    page: int = 0
    page_rows: int = 10
    column: str = ""
    is_asked: bool = False

    @property
    def place(self) -> Place:
        """The stop."""
        return self.branch, self.version

    @property
    def before(self) -> Place | None:
        """The version before on the branch, if it is there."""
        at = bisect_left(self.versions, self.version)
        return (self.branch, self.versions[at - 1]) if at else None

    @property
    def against(self) -> Place | None:
        """What the stop is compared with."""
        return self.pinned or self.before

    @property
    def start(self) -> int:
        """How many rows come before the page."""
        return self.page * self.page_rows

    @property
    def is_plain(self) -> bool:
        """Whether the page is one of the rows as they lie."""
        return not self.filter and self.order is None


@dataclass(frozen=True, slots=True)
class Go:
    """To a version; where it is gone, to the next one on the way there."""

    version: int


@dataclass(frozen=True, slots=True)
class Move:
    """So many versions on, or back."""

    by: int


@dataclass(frozen=True, slots=True)
class End:
    """To the newest version that is known, or to the oldest."""

    newest: bool


@dataclass(frozen=True, slots=True)
class Switch:
    """To a branch, as it was just listed, and a version of it, by default the newest."""

    branch: str
    versions: tuple[int, ...]
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """Compare with this stop from now on, or with the version before again."""

    on: bool = True


@dataclass(frozen=True, slots=True)
class Look:
    """Show something else of the stop."""

    view: View


@dataclass(frozen=True, slots=True)
class Filter:
    """Show the rows that meet a condition; all for none."""

    condition: str


@dataclass(frozen=True, slots=True)
class Sort:
    """Sort by a column, by none if it has no name; ``None`` for the direction turns it round."""

    column: str
    ascending: bool | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """So many pages on, or back."""

    by: int


@dataclass(frozen=True, slots=True)
class Summarize:
    """Tell what the values of a column are like."""

    column: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Read what takes reading all rows."""


Event: TypeAlias = Go | Move | End | Switch | Pin | Look | Filter | Sort | Turn | Summarize | Ask


def step(state: ExplorerState, event: Event) -> ExplorerState:
    """Return where an explorer stands after an event; what leads nowhere leaves it where it was.

    Examples
    --------
    >>> state = ExplorerState(branch="main", versions=(1, 2, 5), version=5)
    >>> step(state, Move(-1)).version, step(state, Go(4)).version, step(state, Move(7)).version
    (2, 2, 5)
    """
    match event:
        case Go(version):
            return _at(state, _next(state, version))
        case Move(by):
            at = bisect_left(state.versions, state.version) + by
            return _at(state, state.versions[min(max(at, 0), len(state.versions) - 1)])
        case End(newest):
            return _at(state, state.versions[-1 if newest else 0])
        case Switch(branch, versions, version):
            there = replace(state, branch=branch, versions=versions, version=versions[-1])
            goal = versions[-1] if version is None else _next(there, version)
            stays = (branch, goal) == state.place
            return replace(state, versions=versions) if stays else _at(there, goal)
        case Pin(on):
            return replace(state, pinned=state.place if on else None, is_asked=False)
        case Look(view):
            return replace(state, view=view, is_asked=False)
        case Filter(condition):
            return replace(state, filter=condition.strip(), view="rows", page=0, is_asked=False)
        case Sort(column, ascending):
            return replace(
                state, order=_order(state, column, ascending), view="rows", page=0, is_asked=False
            )
        case Turn(by):
            page = state.page + by
            if state.order is not None:
                page = min(page, MOST_SORTED // state.page_rows - 1)
            return replace(state, page=max(page, 0))
        case Summarize(column):
            return replace(state, column=column, view="column", is_asked=bool(column))
        case Ask():
            return replace(state, is_asked=True)


def _at(state: ExplorerState, version: int) -> ExplorerState:
    return replace(state, version=version, page=0, is_asked=False)


def _next(state: ExplorerState, version: int) -> int:
    """Return a version, or where it is gone the next one that is there on the way to it."""
    versions = state.versions
    if version >= state.version:
        return versions[min(bisect_left(versions, version), len(versions) - 1)]
    return versions[max(bisect_right(versions, version) - 1, 0)]


def _order(state: ExplorerState, column: str, ascending: bool | None) -> tuple[str, bool] | None:
    if not column:
        return None
    if ascending is None:
        ascending = state.order != (column, True)
    return column, ascending
