"""A workbench: what happens is a step of its state, and some states ask for work.

Previews are made beside the kernel's messages, one at a time; changes within one, so that the next
cell finds the dataset as it is then.
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
from lancekit._notebook.cards.common import checkout
from lancekit._notebook.cards.results import named_versions
from lancekit._notebook.render.controls import Interactive, Latest, button, drawn, markup, panel
from lancekit._notebook.render.html import render_code, render_note
from lancekit._notebook.workbench.steps import Event, Result, State
from lancekit._operations.settings import undo_version
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    import ipywidgets as w

#: what is chosen, plans, results; values of a list
C = TypeVar("C")
P = TypeVar("P")
T = TypeVar("T")
R = TypeVar("R", bound=Result)


class Panel(Protocol):
    """The widgets of a workbench, all in a `box`, which `draw` has show its state."""

    box: w.VBox

    def draw(self) -> None: ...


class Bench(Interactive, Generic[C, P, R]):
    """Choices that are previewed, applied and taken back; subclasses know of what.

    chosen: what is chosen at first.
    panel: makes the widgets.
    on_demand: whether previews are made only when somebody asks.
    """

    def __init__(
        self, chosen: C, panel: Callable[[Self], Panel], *, on_demand: bool = False
    ) -> None:
        self._panel: Callable[[], Panel] = lambda: panel(self)
        self.state: State[C, P, R] = State(
            chosen=chosen, on_demand=on_demand, phase="waiting" if on_demand else "looking"
        )
        self._draw: Callable[[], None] = lambda: None
        self._lock = threading.RLock()
        self._previews = Latest[C](lambda chosen, _: self._look(chosen), self._broken)

    # ---- what subclasses know

    @abstractmethod
    def _preview(self, chosen: C) -> P:
        """Return a plan; nothing is written."""

    @abstractmethod
    def _moved(self, plan: P) -> str:
        """Return what happened since a plan was made that it does not know of, if anything."""

    @abstractmethod
    def _read(self, plan: P) -> int:
        """Return the version that a plan would change."""

    @abstractmethod
    def _apply(self, plan: P) -> R:
        """Do what a plan says, and return the result."""

    @abstractmethod
    def _take_back(self, result: R) -> str:
        """Take a result back, and say what that made."""

    def _drop(self, plan: P) -> None:
        """Let go of what a plan holds that is not needed any more."""

    # ---- what happens

    def choose(self, chosen: C) -> None:
        """Choose something else."""
        self._send(lambda state: state.choose(chosen))

    def look(self) -> None:
        """Ask for a preview."""
        self._send(lambda state: state.look())

    def turn(self, page: int) -> None:
        """Show another part of a long list."""
        self._step(lambda state: state.turn(page))

    @property
    def can_apply(self) -> bool:
        """Whether what is shown is chosen, and can be done."""
        return self.state.can_apply

    @property
    def hindrance(self) -> str:
        """What to tell who wants to apply what cannot be."""
        return "There is no preview to apply."

    def apply(self) -> None:
        """Do what is shown, unless others wrote since: then what it would do now is shown."""
        if self.can_apply:
            self._send(lambda state: state.apply())
        else:
            self._step(lambda state: state.said(self.hindrance))

    def undo(self) -> None:
        """Take back what was done last, unless others wrote since."""
        if self.state.can_undo:
            self._send(lambda state: state.undo())
        else:
            self._step(lambda state: state.said("There is nothing to undo."))

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until no preview is being made; return whether it came to that."""
        return self._previews.wait(seconds)

    def _step(self, event: Event[C, P, R]) -> bool:
        """Take a step, and show what came of it; return whether anything did."""
        with self._lock:
            before, self.state = self.state, event(self.state)
            if before.plan is not None and before.plan is not self.state.plan:
                self._drop(before.plan)
            self._draw()
            return self.state is not before

    def _send(self, event: Event[C, P, R]) -> None:
        """Take a step, and do the work that it asks for."""
        if not self._step(event):
            return
        state = self.state
        plan, result = state.plan, state.result
        if state.phase == "looking":
            self._previews.ask(state.chosen)
        elif state.phase == "applying" and plan is not None:
            self._work(lambda: self._applied(state.chosen, plan))
        elif state.phase == "undoing" and result is not None:
            self._work(lambda: self._undone(result))

    def _work(self, work: Callable[[], Event[C, P, R]]) -> None:
        try:
            event = work()
        except KeyboardInterrupt:
            self._refuse(InvalidArgumentError("It was stopped.", hint="Look at ds.versions()."))
        except Exception as error:  # nobody could catch it
            self._refuse(error)
        else:
            self._send(event)

    def _refuse(self, error: Exception) -> None:
        self._step(lambda state: state.refused(error))

    def _applied(self, chosen: C, plan: P) -> Event[C, P, R]:
        if notice := self._moved(plan):
            newer = self._preview(chosen)
            return lambda state: state.moved(newer, notice)
        result, read = self._apply(plan), self._read(plan)
        late = f"Others wrote in that moment: it was done on version {result.read_version}."
        return lambda state: state.applied(result, "" if result.read_version == read else late)

    def _undone(self, result: R) -> Event[C, P, R]:
        notice = self._take_back(result)
        return lambda state: state.undone(notice)

    def _made(self) -> w.Widget:
        made = self._panel()
        self._draw = made.draw
        made.draw()
        return made.box

    def _look(self, chosen: C) -> None:
        try:
            plan = self._preview(chosen)
        except Exception as error:
            why = error
            self._step(lambda state: state.failed(chosen, why))
            return
        with self._lock:
            self._step(lambda state: state.previewed(chosen, plan))
            if self.state.plan is not plan:
                self._drop(plan)

    def _broken(self, error: Exception) -> None:
        """Show what went wrong with showing; there is nothing better to be done."""
        with suppress(Exception):
            self._refuse(error)


def taken_back(location: BranchLocation, version: int) -> tuple[Snapshot, None]:
    """Take the newest version of a line back, and return the new one, for a handle to move.

    Raises InvalidArgumentError: others have written since, which it names.
    Raises RetryableConflictError: they do so now.
    """
    newer, names = named_versions(History(location), version)
    if newer:
        raise InvalidArgumentError(
            f"Version {version} is not taken back: others wrote since. {names}.",
            hint=f"ds.revert({version}) takes back its rows alone, "
            f"{checkout(location.name, version - 1)}.restore() what came after it, too.",
            version=version,
        )
    return undo_version(load_snapshot(location, version)), None


# ---- widgets that both workbenches have: a row of choices, buttons, what is said of the state


def layout(width: str = "340px") -> dict[str, object]:
    """Return how widgets with a label look: below each other where there is no room."""
    import ipywidgets

    return {
        "style": {"description_width": "150px"},
        "layout": ipywidgets.Layout(
            width=width, max_width="calc(100% - 12px)", margin="2px 12px 2px 0"
        ),
    }


def picker(label: str, options: Iterable[tuple[str, T]], choose: Callable[[T], None]) -> w.Dropdown:
    """Return a list to pick from; whoever picks has ``choose`` called.

    A list has a label that is read aloud, which radio buttons of ipywidgets lack.
    """
    import ipywidgets

    made = ipywidgets.Dropdown(options=[*options], description=label, **layout())
    made.observe(lambda change: choose(change["new"]), "value")
    return made


def side_by_side(*widgets: w.Widget) -> w.HBox:
    """Return widgets in a line that wraps."""
    import ipywidgets

    line = ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start", max_width="100%")
    return ipywidgets.HBox(widgets, layout=line)


def chosen(widget: w.ValueWidget, value: object) -> None:
    """Show a choice, of which nobody is to be told that does not have another one."""
    if widget.value != value:
        widget.value = value


def shown_if(widget: w.DOMWidget, condition: bool) -> None:
    """Show a widget, or hide it."""
    display = None if condition else "none"
    if widget.layout.display != display:
        widget.layout.display = display


class Shell(Generic[C, P, R]):
    """What stands below the choices: the code, the buttons, what happened, what came of it.

    bench: what the buttons do.
    verb: what *apply* is called here.
    """

    def __init__(self, bench: Bench[C, P, R], verb: str) -> None:
        self._bench, self._verb = bench, verb
        self.look = button("preview", "preview what this would do", bench.look)
        self.apply = button(verb, f"{verb} what is shown", bench.apply)
        self.undo = button("undo", "take back what was done", bench.undo)
        shown_if(self.undo, False)
        self._buttons = side_by_side(self.apply, self.look, self.undo)
        self.status, self.result, self.code = markup(), markup(), markup()

    def box(self, *parts: w.Widget) -> w.VBox:
        """Return all of it, below the choices and above what is previewed."""
        choices, *views = parts
        return panel(choices, self.code, self._buttons, self.status, self.result, *views)

    def draw(self, code: str, said: str, where: str) -> None:
        """Show a state: its code, what a preview says, and to which version it would go."""
        state = self._bench.state
        result = state.result if state.can_undo else None
        self.code.value = render_code(code)
        self.apply.description = f"{self._verb} {where}".strip()
        # no button that was pressed is disabled or hidden: it would lose the focus
        self.apply.button_style = "primary" if self._bench.can_apply else ""
        if result is not None:
            shown_if(self.undo, True)
        version = "" if result is None else f" version {result.version}"
        self.undo.description = f"undo{version}"
        self.status.value = _status(state, said)
        self.result.value = "" if state.result is None else _drawn(state.result)


_WORDS = {
    "waiting": "not previewed yet",
    "looking": "looking at what this would do …",
    "applying": "at work …",
    "undoing": "taking it back …",
    "done": "done",
    "failed": "",
}


def _status(state: State[C, P, R], said: str) -> str:
    if state.error is not None:
        return f'<div role="alert">{_drawn(state.error)}</div>'
    words = _WORDS.get(state.phase, said)
    return render_note(" ".join(filter(None, [state.notice, words])), role="status")


def _drawn(value: object) -> str:
    """Return the card of what has one, also of a conflict, and what other errors say."""
    if isinstance(value, Displayed):
        return drawn(card(value, datetime.now(UTC)))
    return drawn(value)
