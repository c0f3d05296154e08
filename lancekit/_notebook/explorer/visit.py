"""The explorer's model without widgets: its state, the reads for it, and the cards of a state."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from lancekit._api.lance_dataset import LanceDataset
from lancekit._api.time_travel import Ref
from lancekit._notebook.cards.common import place_of
from lancekit._notebook.explorer.pages import ManifestDiff, Reader, Stop, manifest_diff, read_page
from lancekit._notebook.explorer.state import Event, ExplorerState
from lancekit._notebook.explorer.views import (
    checkout_code,
    compare_card,
    read_summary,
    schema_card,
    stop_card,
    summary_card,
    unread_card,
    view_of_page,
)
from lancekit._notebook.render.models import Card
from lancekit.errors import NotFoundError
from lancekit.options import options

#: returns True once a newer request waits
Cancelled: TypeAlias = Callable[[], bool]
#: the selected version, and its differences from the version for comparison
Found: TypeAlias = tuple[Stop, ManifestDiff | None]


class Visit:
    """The state of an explorer of one dataset, and the cards of that state.

    state: the current state.
    reader: reads versions and references.
    name: the name of the dataset.
    """

    def __init__(self, ds: LanceDataset, at: Ref | None = None, against: Ref | None = None) -> None:
        self.reader = Reader(ds)
        self.name = place_of(ds).name
        self.state = self.reader.start(max(options.display_rows, 1))
        if at is not None:
            there = ds.checkout_version(at)
            self.send(self.reader.selection_event(there.branch, there.version))
        if against is not None:
            other = ds.checkout_version(against)
            self.state = replace(self.state, pinned=(other.branch, other.version))

    def send(self, event: Event) -> None:
        """Apply a user's event to the state."""
        self.state = event(self.state)

    # ---- cards of a state; widgets call these methods in a background thread

    def stops(self, state: ExplorerState) -> Found:
        """Return the selected version, and its differences from the version for comparison."""
        stop, old = self.reader.stop(state.place), None
        if state.against is not None:
            with suppress(NotFoundError):  # a cleanup can have removed the pinned version
                old = self.reader.stop(state.against)
        return stop, None if old is None else manifest_diff(old, stop)

    def head(self, state: ExplorerState, found: Found, now: datetime) -> Card:
        """Return the card of the selected version."""
        return stop_card(self.name, state, *found, now)

    def view(
        self, state: ExplorerState, found: Found, cancelled: Cancelled = lambda: False
    ) -> object:
        """Return the object with a card that a state's view shows; ``None`` if cancelled."""
        stop, diff = found
        match state.view:
            case "rows":
                return view_of_page(state, read_page(stop.handle, state, cancelled))
            case "schema":
                return schema_card(stop, diff)
            case "column":
                return self._column(state, stop, cancelled)
            case "compare":
                return self._compared(state, stop, diff)
        return unread_card(
            "Change", f"The change applies to {checkout_code(state.home, state.place)}."
        )

    def _column(self, state: ExplorerState, stop: Stop, cancelled: Cancelled) -> Card | None:
        if not (state.column and state.is_confirmed):
            return unread_card("Column", "Choose a column and press summarize.")
        summary = read_summary(stop.handle, state.column, cancelled)
        return None if summary is None else summary_card(summary)

    def _compared(self, state: ExplorerState, stop: Stop, diff: ManifestDiff | None) -> object:
        if diff is None:
            return unread_card("Compare", "No version to compare with. Pin another one.")
        if not state.is_confirmed:
            return compare_card(stop, diff)
        rows = stop.handle.diff(diff.old.handle)
        _ = rows.counts  # reads the rows here, in the background thread, and not in rendering
        return rows

    def refresh(self) -> Event:
        """Reload versions, branches and tags; return the event that updates the state."""
        self.reader.forget()
        return self.reader.selection_event(*self.state.place)
