"""Where an explorer stands, and how each thing that a person does changes that.

Nothing is read here: a state is made of numbers, names and texts, and its methods are pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
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
    """Where an explorer stands; methods return where it stands after what somebody did.

    What leads nowhere leaves it where it was.

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

    Examples
    --------
    >>> state = ExplorerState(branch="main", versions=(1, 2, 5), version=5)
    >>> state.move(-1).version, state.go(4).version, state.move(7).version
    (2, 2, 5)
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

    def go(self, version: int) -> ExplorerState:
        """Go to a version; where it is gone, to the next one on the way there."""
        return self._at(self._next(version))

    def move(self, by: int) -> ExplorerState:
        """Go so many versions on, or back."""
        at = bisect_left(self.versions, self.version) + by
        return self._at(self.versions[min(max(at, 0), len(self.versions) - 1)])

    def end(self, *, newest: bool) -> ExplorerState:
        """Go to the newest version that is known, or to the oldest."""
        return self._at(self.versions[-1 if newest else 0])

    def switch(
        self, branch: str, versions: tuple[int, ...], version: int | None = None
    ) -> ExplorerState:
        """Go to a branch, as it was just listed, and a version of it, by default the newest."""
        there = replace(self, branch=branch, versions=versions, version=versions[-1])
        goal = versions[-1] if version is None else there._next(version)
        stays = (branch, goal) == self.place
        return replace(self, versions=versions) if stays else there._at(goal)

    def pin(self, *, on: bool = True) -> ExplorerState:
        """Compare with this stop from now on, or with the version before again."""
        return replace(self, pinned=self.place if on else None, is_asked=False)

    def look(self, view: View) -> ExplorerState:
        """Show something else of the stop."""
        return replace(self, view=view, is_asked=False)

    def where(self, condition: str) -> ExplorerState:
        """Show the rows that meet a condition; all for none."""
        return replace(self, filter=condition.strip(), view="rows", page=0, is_asked=False)

    def sort(self, column: str, ascending: bool | None = None) -> ExplorerState:
        """Sort by a column, by none if it has no name; without a direction turn it round."""
        if ascending is None:
            ascending = self.order != (column, True)
        order = (column, ascending) if column else None
        return replace(self, order=order, view="rows", page=0, is_asked=False)

    def turn(self, by: int) -> ExplorerState:
        """Show the page that comes so many pages later, or before."""
        page = self.page + by
        if self.order is not None:
            page = min(page, MOST_SORTED // self.page_rows - 1)
        return replace(self, page=max(page, 0))

    def summarize(self, column: str) -> ExplorerState:
        """Tell what the values of a column are like."""
        return replace(self, column=column, view="column", is_asked=bool(column))

    def ask(self) -> ExplorerState:
        """Read what takes reading all rows."""
        return replace(self, is_asked=True)

    def _at(self, version: int) -> ExplorerState:
        return replace(self, version=version, page=0, is_asked=False)

    def _next(self, version: int) -> int:
        """Return a version, or where it is gone the next one that is there on the way to it."""
        versions = self.versions
        if version >= self.version:
            return versions[min(bisect_left(versions, version), len(versions) - 1)]
        return versions[max(bisect_right(versions, version) - 1, 0)]


#: what somebody did: a method of a state, with its arguments
Event: TypeAlias = Callable[[ExplorerState], ExplorerState]
