"""Widgets of an explorer: they send events, and show the cards of the resulting state.

A background thread does the reads, for the newest request only.  It reads manifests at once, and
rows when the slider has come to rest.  Callbacks show exceptions and never raise them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import ipywidgets as w

from lancekit._notebook.cards.common import ref
from lancekit._notebook.explorer.changes import (
    CHANGES,
    NAMED,
    Change,
    Plan,
    apply_plan,
    plan_change,
)
from lancekit._notebook.explorer.state import Event, ExplorerState, Place, View
from lancekit._notebook.explorer.views import code_of
from lancekit._notebook.explorer.visit import Visit
from lancekit._notebook.render.controls import Confirmed, Latest, as_html, button, markup, panel
from lancekit._notebook.render.html import render_code, render_note
from lancekit._notebook.render.words import clean

#: seconds without a new selection before rows are read, and between two checks for one
_REST, _TICK = 0.15, 0.02
_VIEWS: tuple[tuple[str, View, str], ...] = (
    ("rows", "rows", "pages of rows"),
    ("schema", "schema", "columns and their changes"),
    ("column", "column", "statistics of a column"),
    ("compare", "compare", "differences from the pinned or previous version"),
    ("change", "change", "restore, tag, branch or promote"),
)
_WAYS = (("lowest first", True), ("highest first", False))
# the width of cards without wide tables, so that the slider does not move between versions
_ROW = {"flex_flow": "row wrap", "align_items": "center", "max_width": "min(100%, 62em)"}
_STYLE = {"description_width": "initial"}

W = TypeVar("W", bound=w.Widget)


class Shell:
    """The widgets of an explorer, all inside of `widget`."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._lock = threading.RLock()  # widget callbacks and reader threads change the state
        self._is_syncing = False
        self._rendering = Latest[ExplorerState](self._show, self._failed)
        self._navigation = Latest[Callable[[], Event]](self._navigate, self._failed)
        self.head, self.pane, self.code, self.status = markup(), markup(), markup(), markup()
        self._build_navigation()
        self._build_views()
        self.change = Confirmed[Plan]("preview", "preview the change", self._planned, self._applied)
        rows = {
            "rows": (self.filter, self.sort, self.way, self.read, self.back, self.on, self.stop),
            "column": (self.column, self.summarize, self.stop),
            "compare": (self.compare, self.stop),
            "change": (self.kind, self.name, self.change.preview),
        }
        self._tools = {
            view: w.Box(children, layout=w.Layout(**_ROW)) for view, children in rows.items()
        }
        self.widget = panel(
            w.Box([self.branch, self.tag, self.refresh], layout=w.Layout(**_ROW)),
            w.Box(
                [*self._steps[:2], self.slider, *self._steps[2:], self.version],
                layout=w.Layout(**_ROW),
            ),
            self.head,
            w.Box([self.views, self.pin, self.unpin], layout=w.Layout(**_ROW)),
            *self._tools.values(),
            self.pane,
            self.change.result,
            self.code,
            self.status,
        )
        self._sync()
        self._rendering.submit(visit.state)

    # ---- the controls

    def _build_navigation(self) -> None:
        """Build the controls that select a version."""
        self.branch = self._control(w.Dropdown, "branch", "select a branch")
        self.tag = self._control(w.Dropdown, "tag", "select a tag")
        self.refresh = self._button("refresh", "reload versions, branches and tags")
        self.refresh.on_click(lambda _: self._navigation.submit(self._visit.refresh))
        self._steps = [
            self._button("|◀", "oldest version", lambda state: state.end(newest=False)),
            self._button("◀", "previous version", lambda state: state.move(-1)),
            self._button("▶", "next version", lambda state: state.move(1)),
            self._button("▶|", "newest version", lambda state: state.end(newest=True)),
        ]
        # the handle of a slider has no label, so the style hides it from Tab and screen readers
        # until it is clicked; they use the number field next to it
        self.slider = w.IntSlider(
            readout=False,
            tooltip="slide through the versions",
            layout=w.Layout(flex="1 1 12em", width="auto", min_width="10em"),
            style=_STYLE,
        )
        self.version = w.BoundedIntText(
            description="version",
            tooltip="select a version by number",
            layout=w.Layout(width="11em"),
            style=_STYLE,
        )
        self._observe(self.slider, lambda value: self.send(lambda state: state.go(value)))
        self._observe(self.version, lambda value: self.send(lambda state: state.go(value)))
        self._observe(self.branch, lambda name: self._go((name, None)))
        self._observe(self.tag, self._go)

    def _build_views(self) -> None:
        self.views = w.ToggleButtons(
            options=[(text, view) for text, view, _ in _VIEWS],
            tooltips=[about for _, _, about in _VIEWS],
            style={"button_width": "auto"},
            layout=w.Layout(width="auto"),
        )
        self._observe(self.views, lambda view: self.send(lambda state: state.show(view)))
        self.pin = self._button("pin", "compare with this version", ExplorerState.pin)
        self.unpin = self._button(
            "unpin", "compare with the previous version", lambda state: state.pin(on=False)
        )
        self.filter = self._text("where", "filter all rows by an SQL condition, such as x > 3")
        self.sort = self._text("sort by", "sort all rows by a column", w.Combobox)
        self.sort.placeholder = "a column"
        self.way = self._control(w.Dropdown, "order", "which values come first", options=_WAYS)
        self._observe(self.filter, lambda text: self.send(lambda state: state.where(text)))
        self._observe(self.sort, lambda _: self._sort_changed())
        self._observe(self.way, lambda _: self._sort_changed())
        self.read = self._button("read", "read all rows", ExplorerState.confirm)
        self.compare = self._button(
            "find changed rows", "compare the rows of both versions", ExplorerState.confirm
        )
        self.back = self._button("◀ page", "previous page", lambda state: state.turn(-1))
        self.on = self._button("page ▶", "next page", lambda state: state.turn(1))
        self.stop = self._button("cancel", "cancel the read")
        self.stop.on_click(lambda _: self._rendering.stop())
        self.column = self._text("column", "the column to summarize", w.Combobox)
        self.summarize = self._button("summarize", "read the column, show its statistics")
        self.summarize.on_click(lambda _: self._summarize(self.column.value))
        self._observe(self.column, self._summarize)
        self.kind = self._control(w.Dropdown, "action", "the change to preview", options=CHANGES)
        self.name = self._text("name", "the name of the tag or branch")
        self._observe(self.kind, self._kind_changed)
        self._show_name_field(CHANGES[0])

    def _control(self, kind: Callable[..., W], name: str, about: str, **how: object) -> W:
        layout = w.Layout(width="auto", max_width="100%")
        return kind(description=name, tooltip=about, layout=layout, style=_STYLE, **how)

    def _text(self, name: str, about: str, kind: type[w.Text] = w.Text) -> w.Text:
        made = self._control(kind, name, about)
        # a front end cuts a longer placeholder without an ellipsis
        made.continuous_update, made.placeholder = False, about.rpartition("such as ")[2]
        made.layout.flex, made.layout.min_width = "1 1 12em", "10em"
        return made

    def _button(self, text: str, about: str, event: Event | None = None) -> w.Button:
        return button(text, about, (lambda: None) if event is None else lambda: self.send(event))

    def _observe(self, control: w.Widget, act: Callable[[Any], object]) -> None:
        def changed(change: dict[str, object]) -> None:
            with self._lock:  # else an action during another thread's sync would be lost
                if not self._is_syncing:
                    act(change["new"])

        control.observe(changed, "value")

    # ---- the user's actions

    def send(self, event: Event) -> None:
        """Apply an event to the state, and show the result."""
        with self._lock:
            before = self._visit.state
            self._visit.send(event)
            if self._visit.state.place != before.place:
                self.change.clear()  # a plan is valid only for its version
            self._sync()
            self._rendering.submit(self._visit.state)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until everything is shown; return False after a timeout."""
        waits = (self.change, self._navigation, self._rendering)
        return all(one.wait(seconds) for one in waits)

    def _go(self, place: tuple[str, int | None] | None) -> None:
        if place is not None:
            self._navigation.submit(lambda: self._visit.reader.selection_event(*place))

    def _navigate(self, find: Callable[[], Event], _cancelled: Callable[[], bool]) -> None:
        self.send(find())

    def _sort_changed(self) -> None:
        column, ascending = self.sort.value, self.way.value
        self.send(lambda state: state.sort(column, ascending))

    def _summarize(self, name: str) -> None:
        self.send(lambda state: state.summarize(name))

    def _kind_changed(self, kind: str) -> None:
        self.change.clear()  # a plan or its error belongs to the previous kind of change
        self._show_name_field(kind)

    def _show_name_field(self, kind: str) -> None:
        self.name.layout.display = None if kind in NAMED else "none"

    def _planned(self) -> Plan:
        change = Change(self.kind.value, self._visit.state.place, self.name.value.strip())
        return plan_change(self._visit.reader, change)

    def _applied(self, plan: Plan) -> object:
        result = apply_plan(self._visit.reader, plan)
        self.send(self._visit.refresh())
        return result

    # ---- display

    def _sync(self) -> None:
        """Set the values of all controls from the state."""
        state, reader = self._visit.state, self._visit.reader
        self._is_syncing = True
        try:
            for control in (self.slider, self.version):
                _bound(control, state.versions[0], state.versions[-1])
                control.value = state.version
            # a deleted branch stays in the list while it is selected
            self.branch.options = list(dict.fromkeys([*reader.branches, state.branch]))
            self.branch.value = state.branch
            tags = reader.tags or {}
            self.tag.options = [("", None), *((_tag(name, to), to) for name, to in tags.items())]
            self.tag.value = state.place if state.place in tags.values() else None
            self.views.value = state.view
            self.filter.value = state.filter
            self.sort.value, self.way.value = state.order or ("", self.way.value)
            self.unpin.disabled = state.pinned is None
            self.back.disabled = state.page == 0
            self._steps[0].disabled = self._steps[1].disabled = state.before is None
            newest = state.version == state.versions[-1]
            self._steps[2].disabled = self._steps[3].disabled = newest
            # restoring the newest version has no effect, so it is not offered
            changes = [kind for kind in CHANGES if not (newest and kind == "restore")]
            if self.kind.options != tuple(changes):
                kept = self.kind.value if self.kind.value in changes else changes[0]
                self.kind.options = changes
                self.kind.value = kept
                self._show_name_field(kept)
            for view, tools in self._tools.items():
                tools.layout.display = None if view == state.view else "none"
            for shown in (self.pane, self.code):
                shown.layout.display = "none" if state.view == "change" else None
            self.change.result.layout.display = None if state.view == "change" else "none"
        finally:
            self._is_syncing = False

    def _show(self, state: ExplorerState, cancelled: Callable[[], bool]) -> None:
        found = self._visit.stops(state)
        self.head.value = as_html(self._visit.head(state, found, datetime.now(UTC)))
        self.code.value = render_code(code_of(state))
        names = tuple(found[0].handle._snapshot.manifest.schema.names)
        if self.sort.options != names:
            self.sort.options = self.column.options = names
        if not self._is_settled(state, cancelled):
            return
        self._set_status(f"reading version {state.version} …")
        try:
            shown, outcome = self._visit.view(state, found, cancelled), "is shown"
        except Exception as error:  # the version's own card is shown already
            shown, outcome = error, "is shown, but this view failed"
        if shown is not None:
            self.pane.value = as_html(shown)
        self._set_status("cancelled" if shown is None else f"version {state.version} {outcome}")

    def _is_settled(self, state: ExplorerState, cancelled: Callable[[], bool]) -> bool:
        """Return True if no newer request comes for a moment: only then are rows read."""
        if state.view in ("schema", "change"):
            return not cancelled()
        until = time.monotonic() + _REST
        while time.monotonic() < until:
            if cancelled():
                return False
            time.sleep(_TICK)
        return not cancelled()

    def _set_status(self, text: str) -> None:
        self.status.value = render_note(text, role="status")

    def _failed(self, error: Exception) -> None:
        self.pane.value = as_html(error)
        self._set_status("")


def _bound(control: w.IntSlider | w.BoundedIntText, low: int, high: int) -> None:
    """Set both ends of a control, in the order in which each new end is valid."""
    if high >= control.min:
        control.max, control.min = high, low
    else:
        control.min, control.max = low, high


def _tag(name: str, place: Place) -> str:
    return f"{clean(name)} ({ref(*place)})"
