"""The explorer of `LanceDataset.explore`: browse versions, branches and tags of a dataset.

`state` has the selection as immutable state, changed by the user's events.  `pages` reads versions
and rows, `views` builds their cards, and `changes` plans restores, tags, branches and promotions.
`visit` combines these, and `shell` has the widgets.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from lancekit._api.lance_dataset import LanceDataset
from lancekit._api.time_travel import Ref
from lancekit._notebook.explorer.state import ExplorerState
from lancekit._notebook.explorer.views import code_of
from lancekit._notebook.explorer.visit import Visit
from lancekit._notebook.render.controls import Interactive
from lancekit._notebook.render.models import Card, Fact


class Explorer(Interactive):
    """A browser for the versions of a dataset; `LanceDataset.explore` returns one.

    A cell shows it as a widget, and without widgets as the card of the selected version.
    """

    def __init__(self, ds: LanceDataset, at: Ref | None = None, against: Ref | None = None) -> None:
        self._visit = Visit(ds, at, against)

    @property
    def state(self) -> ExplorerState:
        """The selected version and its view."""
        return self._visit.state

    @property
    def handle(self) -> LanceDataset:
        """A new handle at the selected version."""
        return self._visit.reader.fresh(self.state.place)

    @property
    def code(self) -> str:
        """The code that returns the shown object."""
        return code_of(self.state)

    def _card(self, now: datetime) -> Card:
        visit = self._visit
        card = visit.head(visit.state, visit.stops(visit.state), now)
        return replace(card, facts=(*card.facts, Fact("code", self.code, code=True)))

    def _made(self) -> object:
        from lancekit._notebook.explorer.shell import Shell  # with ipywidgets

        return Shell(self._visit).widget

    def _plain(self) -> str:
        return f"Explorer({self._visit.name!r}, {':'.join(map(str, self.state.place))})"
