"""Base of workbenches: events change an immutable state, and some phases start work.

Previews run one at a time in a background thread.  Changes run in the kernel's main thread, so that
the next cell sees the changed dataset.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from lancekit._api.history import History
from lancekit._display import Displayed
from lancekit._notebook.cards import card
from lancekit._notebook.cards.answers import named_versions
from lancekit._notebook.cards.common import checkout
from lancekit._notebook.render.controls import Interactive, Latest, as_html, button, markup, panel
from lancekit._notebook.render.html import render_code, render_note
from lancekit._notebook.workbench.steps import Event, Result, State
from lancekit._operations.settings import undo_version
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    import ipywidgets as w

#: choices, plans, values of a list, results
C = TypeVar("C")
P = TypeVar("P")
T = TypeVar("T")
R = TypeVar("R", bound=Result)


class Panel(Protocol):
    """The widgets of a workbench in a `box`; `draw` updates them from its state."""

    box: w.VBox

    def draw(self) -> None: ...


class Bench(Interactive, Generic[C, P, R]):
    """A workbench that previews, applies and undoes choices; subclasses define the operation.

    choices: the initial choices.
    panel: builds the widgets.
    on_demand: True if previews are made only on request.
    """

    def __init__(
        self, choices: C, panel: Callable[[Self], Panel], *, on_demand: bool = False
    ) -> None:
        self._panel: Callable[[], Panel] = lambda: panel(self)
        self.state: State[C, P, R] = State(
            choices=choices, on_demand=on_demand, phase="waiting" if on_demand else "previewing"
        )
        self._draw: Callable[[], None] = lambda: None
        self._lock = threading.RLock()
        self._previews = Latest[C](lambda choices, _: self._make_preview(choices), self._broken)

    # ---- the operation, defined by subclasses

    @abstractmethod
    def _preview(self, choices: C) -> P:
        """Return the plan of some choices; nothing is written."""

    @abstractmethod
    def _newer_commits(self, plan: P) -> str:
        """Return a notice of commits that are newer than a plan, else ``""``."""

    @abstractmethod
    def _base_version(self, plan: P) -> int:
        """Return the version on which a plan is based."""

    @abstractmethod
    def _apply(self, plan: P) -> R:
        """Apply a plan, and return its result."""

    @abstractmethod
    def _undo_result(self, result: R) -> str:
        """Undo a result, and return a notice about the new version."""

    def _release(self, plan: P) -> None:
        """Release the resources of a plan that is not needed any more."""

    # ---- events

    def choose(self, choices: C) -> None:
        """Replace the choices."""
        self._send(lambda state: state.choose(choices))

    def request_preview(self) -> None:
        """Request a preview."""
        self._send(lambda state: state.request_preview())

    def turn(self, page: int) -> None:
        """Show another page of a long list."""
        self._step(lambda state: state.turn(page))

    @property
    def can_apply(self) -> bool:
        """True if the shown plan matches the choices and can be applied."""
        return self.state.can_apply

    @property
    def hindrance(self) -> str:
        """The reason why nothing can be applied now."""
        return "No preview to apply."

    def apply(self) -> None:
        """Apply the shown plan; if there are newer commits, show a new plan instead."""
        if self.can_apply:
            self._send(lambda state: state.apply())
        else:
            self._step(lambda state: state.with_notice(self.hindrance))

    def undo(self) -> None:
        """Undo the last result, unless there are newer commits."""
        if self.state.can_undo:
            self._send(lambda state: state.undo())
        else:
            self._step(lambda state: state.with_notice("Nothing to undo."))

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until no preview is being made; return False after a timeout."""
        return self._previews.wait(seconds)

    def _step(self, event: Event[C, P, R]) -> bool:
        """Apply an event to the state, and redraw; return True if the state changed."""
        with self._lock:
            before, self.state = self.state, event(self.state)
            if before.plan is not None and before.plan is not self.state.plan:
                self._release(before.plan)
            self._draw()
            return self.state is not before

    def _send(self, event: Event[C, P, R]) -> None:
        """Apply an event to the state, and start the work of the new phase."""
        if not self._step(event):
            return
        state = self.state
        plan, result = state.plan, state.result
        if state.phase == "previewing":
            self._previews.submit(state.choices)
        elif state.phase == "applying" and plan is not None:
            self._work(lambda: self._applied(state.choices, plan))
        elif state.phase == "undoing" and result is not None:
            self._work(lambda: self._undone(result))

    def _work(self, work: Callable[[], Event[C, P, R]]) -> None:
        try:
            event = work()
        except KeyboardInterrupt:
            self._refuse(InvalidArgumentError("Interrupted.", hint="Check ds.versions()."))
        except Exception as error:  # no caller could catch it
            self._refuse(error)
        else:
            self._send(event)

    def _refuse(self, error: Exception) -> None:
        self._step(lambda state: state.refused(error))

    def _applied(self, choices: C, plan: P) -> Event[C, P, R]:
        if notice := self._newer_commits(plan):
            newer = self._preview(choices)
            return lambda state: state.outdated(newer, notice)
        result, read = self._apply(plan), self._base_version(plan)
        late = f"Others committed first: applied to version {result.read_version}."
        return lambda state: state.applied(result, "" if result.read_version == read else late)

    def _undone(self, result: R) -> Event[C, P, R]:
        notice = self._undo_result(result)
        return lambda state: state.undone(notice)

    def _made(self) -> w.Widget:
        made = self._panel()
        self._draw = made.draw
        made.draw()
        return made.box

    def _make_preview(self, choices: C) -> None:
        try:
            plan = self._preview(choices)
        except Exception as error:
            why = error
            self._step(lambda state: state.failed(choices, why))
            return
        with self._lock:
            self._step(lambda state: state.previewed(choices, plan))
            if self.state.plan is not plan:
                self._release(plan)

    def _broken(self, error: Exception) -> None:
        """Show an error of the display itself; a second error is ignored."""
        with suppress(Exception):
            self._refuse(error)


def undo_newest(location: BranchLocation, version: int) -> tuple[Snapshot, None]:
    """Undo the newest version of a branch, and return the new snapshot for a handle to move to.

    Raises InvalidArgumentError: there are newer versions, which the error names.
    Raises RetryableConflictError: another writer commits at the same time.
    """
    newer, names = named_versions(History(location), version)
    if newer:
        raise InvalidArgumentError(
            f"Version {version} cannot be undone, because others committed after it. {names}.",
            hint=f"ds.revert({version}) undoes only its rows, "
            f"{checkout(location.name, version - 1)}.restore() also undoes the newer versions.",
            version=version,
        )
    return undo_version(load_snapshot(location, version)), None


# ---- widgets of both workbenches: choices, buttons, status


def layout(width: str = "340px") -> dict[str, object]:
    """Return style and layout of widgets with a label; narrow pages show them in one column."""
    import ipywidgets

    return {
        "style": {"description_width": "150px"},
        "layout": ipywidgets.Layout(
            width=width, max_width="calc(100% - 12px)", margin="2px 12px 2px 0"
        ),
    }


def picker(label: str, options: Iterable[tuple[str, T]], choose: Callable[[T], None]) -> w.Dropdown:
    """Return a dropdown that calls ``choose`` with each new value.

    Screen readers read its label aloud; radio buttons of ipywidgets have no such label.
    """
    import ipywidgets

    made = ipywidgets.Dropdown(options=[*options], description=label, **layout())
    made.observe(lambda change: choose(change["new"]), "value")
    return made


def side_by_side(*widgets: w.Widget) -> w.HBox:
    """Return widgets in a row that wraps."""
    import ipywidgets

    line = ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start", max_width="100%")
    return ipywidgets.HBox(widgets, layout=line)


def sync(widget: w.ValueWidget, value: object) -> None:
    """Set a widget's value if it differs, so that observers see only real changes."""
    if widget.value != value:
        widget.value = value


def show_if(widget: w.DOMWidget, condition: bool) -> None:
    """Show a widget if a condition is True, else hide it."""
    display = None if condition else "none"
    if widget.layout.display != display:
        widget.layout.display = display


class Shell(Generic[C, P, R]):
    """Widgets below the choices: code, buttons, status and result.

    bench: the workbench that the buttons control.
    verb: text of the *apply* button.
    """

    def __init__(self, bench: Bench[C, P, R], verb: str) -> None:
        self._bench, self._verb = bench, verb
        self.preview = button("preview", "preview the change", bench.request_preview)
        self.apply = button(verb, f"{verb} as previewed", bench.apply)
        self.undo = button("undo", "undo the last result", bench.undo)
        show_if(self.undo, False)
        self._buttons = side_by_side(self.apply, self.preview, self.undo)
        self.status, self.result, self.code = markup(), markup(), markup()

    def box(self, *parts: w.Widget) -> w.VBox:
        """Return the panel: choices first, then these widgets, then the views of the preview."""
        choices, *views = parts
        return panel(choices, self.code, self._buttons, self.status, self.result, *views)

    def draw(self, code: str, summary: str, where: str) -> None:
        """Show the bench's state: code, the preview's numbers, and the target version."""
        state = self._bench.state
        result = state.result if state.can_undo else None
        self.code.value = render_code(code)
        self.apply.description = f"{self._verb} {where}".strip()
        # disabling or hiding a pressed button would take the focus away from it
        self.apply.button_style = "primary" if self._bench.can_apply else ""
        if result is not None:
            show_if(self.undo, True)
        version = "" if result is None else f" version {result.version}"
        self.undo.description = f"undo{version}"
        self.status.value = _status(state, summary)
        self.result.value = "" if state.result is None else _drawn(state.result)


_WORDS = {
    "waiting": "not previewed yet",
    "previewing": "preparing the preview …",
    "applying": "applying …",
    "undoing": "undoing …",
    "done": "done",
    "failed": "",
}


def _status(state: State[C, P, R], summary: str) -> str:
    if state.error is not None:
        return f'<div role="alert">{_drawn(state.error)}</div>'
    words = _WORDS.get(state.phase, summary)
    return render_note(" ".join(filter(None, [state.notice, words])), role="status")


def _drawn(value: object) -> str:
    """Return the card of an object or conflict, or the message of another error, as HTML."""
    if isinstance(value, Displayed):
        return as_html(card(value, datetime.now(UTC)))
    return as_html(value)
