"""Widgets that both workbenches have: a row of choices, buttons, what is said of the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from lancekit._display import Displayed
from lancekit._notebook.cards import card
from lancekit._notebook.render.controls import button, drawn, markup, panel
from lancekit._notebook.render.html import render_code, render_note
from lancekit._notebook.workbench.bench import Bench
from lancekit._notebook.workbench.steps import State

__all__ = ["Shell", "chosen", "layout", "picker", "shown_if", "side_by_side"]


def layout(width: str = "340px") -> dict[str, Any]:
    """Return how widgets with a label look: below each other where there is no room."""
    import ipywidgets

    return {
        "style": {"description_width": "150px"},
        "layout": ipywidgets.Layout(
            width=width, max_width="calc(100% - 12px)", margin="2px 12px 2px 0"
        ),
    }


def picker(label: str, options: Iterable[tuple[str, object]], choose: Callable[[Any], None]) -> Any:
    """Return a list to pick from; whoever picks has ``choose`` called.

    A list has a label that is read aloud, which radio buttons of ipywidgets lack.
    """
    import ipywidgets

    made = ipywidgets.Dropdown(options=[*options], description=label, **layout())
    made.observe(lambda change: choose(change["new"]), "value")
    return made


def side_by_side(*widgets: object) -> Any:
    """Return widgets in a line that wraps."""
    import ipywidgets

    line = ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start", max_width="100%")
    return ipywidgets.HBox(widgets, layout=line)


def chosen(widget: Any, value: object) -> None:
    """Show a choice, of which nobody is to be told that does not have another one."""
    if widget.value != value:
        widget.value = value


def shown_if(widget: Any, condition: bool) -> None:
    """Show a widget, or hide it."""
    display = None if condition else "none"
    if widget.layout.display != display:
        widget.layout.display = display


class Shell:
    """What stands below the choices: the code, the buttons, what happened, what came of it.

    Parameters
    ----------
    bench
        What the buttons do.
    verb
        What *apply* is called here.
    """

    def __init__(self, bench: Bench[Any], verb: str) -> None:
        self._bench, self._verb = bench, verb
        self.look = button("preview", "preview what this would do", bench.look)
        self.apply = button(verb, f"{verb} what is shown", bench.apply)
        self.undo = button("undo", "take back what was done", bench.undo)
        shown_if(self.undo, False)
        self._buttons = side_by_side(self.apply, self.look, self.undo)
        self.status, self.result, self.code = markup(), markup(), markup()

    def box(self, *parts: object) -> Any:
        """Return all of it, below the choices and above what is previewed."""
        choices, *views = parts
        return panel(choices, self.code, self._buttons, self.status, self.result, *views)

    def draw(self, code: str, said: str, where: str) -> None:
        """Show a state: its code, what a preview says, and to which version it would go."""
        state: State[Any] = self._bench.state
        self.code.value = render_code(code)
        self.apply.description = f"{self._verb} {where}".strip()
        # no button that was pressed is disabled or hidden: it would lose the focus
        self.apply.button_style = "primary" if self._bench.can_apply else ""
        if state.can_undo:
            shown_if(self.undo, True)
        version = f" version {state.result.version}" if state.can_undo else ""
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


def _status(state: State[object], said: str) -> str:
    if state.error is not None:
        return f'<div role="alert">{_drawn(state.error)}</div>'
    words = _WORDS.get(state.phase, said)
    return render_note(" ".join(filter(None, [state.notice, words])), role="status")


def _drawn(value: object) -> str:
    """Return the card of what has one, also of a conflict, and what other errors say."""
    if isinstance(value, Displayed):
        return drawn(card(value, datetime.now(UTC)))
    return drawn(value)
