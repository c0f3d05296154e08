"""State of an explorer, and the events that change it.

A state has only numbers, names and texts.  Its methods are pure and read nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

#: a branch and a version number
Place: TypeAlias = tuple[str, int]
#: view of the selected version, shown below its manifest's metadata
View = Literal["rows", "schema", "column", "compare", "change"]
#: pages of sorted rows end here, since a sort keeps all rows up to the page in memory
MOST_SORTED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerState:
    """The selected version and its view; methods return the state after a user's event.

    An event without a possible target returns the same selection.

    branch, versions: the branch and its version numbers, ascending, without cleaned-up versions.
    version: the selected version.
    home: the branch of the handle from which the explorer was made.
    pinned: the version for comparison; ``None`` for the previous version.
    view: the view of the selected version.
    filter, order: the rows: an SQL condition or ``""``, and a column with True for ascending.
    page, page_rows: the number of the page, from 0, and its rows.
    column: the column to summarize, or ``""``.
    is_confirmed: True if the user has confirmed a read of all rows for this state.

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
    is_confirmed: bool = False

    @property
    def place(self) -> Place:
        """Branch and number of the selected version."""
        return self.branch, self.version

    @property
    def before(self) -> Place | None:
        """The previous version on the branch; ``None`` for the oldest."""
        at = bisect_left(self.versions, self.version)
        return (self.branch, self.versions[at - 1]) if at else None

    @property
    def against(self) -> Place | None:
        """The version for comparison: the pinned one, or the previous version."""
        return self.pinned or self.before

    @property
    def start(self) -> int:
        """The number of rows before the page."""
        return self.page * self.page_rows

    @property
    def is_plain(self) -> bool:
        """True if the rows are neither filtered nor sorted."""
        return not self.filter and self.order is None

    def go(self, version: int) -> ExplorerState:
        """Select a version; if it was cleaned up, the next existing one in that direction."""
        return self._at(self._next(version))

    def move(self, by: int) -> ExplorerState:
        """Select the version ``by`` steps ahead; a negative number goes back."""
        at = bisect_left(self.versions, self.version) + by
        return self._at(self.versions[min(max(at, 0), len(self.versions) - 1)])

    def end(self, *, newest: bool) -> ExplorerState:
        """Select the newest listed version, or the oldest."""
        return self._at(self.versions[-1 if newest else 0])

    def switch(
        self, branch: str, versions: tuple[int, ...], version: int | None = None
    ) -> ExplorerState:
        """Select a branch by its current list of versions, at a version, by default the newest."""
        there = replace(self, branch=branch, versions=versions, version=versions[-1])
        goal = versions[-1] if version is None else there._next(version)
        stays = (branch, goal) == self.place
        return replace(self, versions=versions) if stays else there._at(goal)

    def pin(self, *, on: bool = True) -> ExplorerState:
        """Pin the selected version for comparisons, or compare with the previous version again."""
        return replace(self, pinned=self.place if on else None, is_confirmed=False)

    def show(self, view: View) -> ExplorerState:
        """Switch the view of the selected version."""
        return replace(self, view=view, is_confirmed=False)

    def where(self, condition: str) -> ExplorerState:
        """Filter the rows by an SQL condition; ``""`` shows all rows."""
        return replace(self, filter=condition.strip(), view="rows", page=0, is_confirmed=False)

    def sort(self, column: str, ascending: bool | None = None) -> ExplorerState:
        """Sort by a column, or not at all for ``""``; without a direction toggle the order."""
        if ascending is None:
            ascending = self.order != (column, True)
        order = (column, ascending) if column else None
        return replace(self, order=order, view="rows", page=0, is_confirmed=False)

    def turn(self, by: int) -> ExplorerState:
        """Turn ``by`` pages ahead; a negative number goes back."""
        page = self.page + by
        if self.order is not None:
            page = min(page, MOST_SORTED // self.page_rows - 1)
        return replace(self, page=max(page, 0))

    def summarize(self, column: str) -> ExplorerState:
        """Show the statistics of a column's values."""
        return replace(self, column=column, view="column", is_confirmed=bool(column))

    def confirm(self) -> ExplorerState:
        """Confirm a read of all rows."""
        return replace(self, is_confirmed=True)

    def _at(self, version: int) -> ExplorerState:
        return replace(self, version=version, page=0, is_confirmed=False)

    def _next(self, version: int) -> int:
        """Return a version; if it was cleaned up, the next existing one in that direction."""
        versions = self.versions
        if version >= self.version:
            return versions[min(bisect_left(versions, version), len(versions) - 1)]
        return versions[max(bisect_right(versions, version) - 1, 0)]


#: an action of the user: a method of a state, with its arguments
Event: TypeAlias = Callable[[ExplorerState], ExplorerState]
