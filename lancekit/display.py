"""The place where objects meet their cards, which live in `lancekit.notebook`.

Objects that a person looks at inherit `Displayed`.  They know nothing of cards: the package's roof
registers how to draw one.  Without it, and whenever drawing fails, they show one plain line.

So do errors: what a notebook shows of one is a short card, and everywhere else the traceback.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, TypeAlias

from lancekit.legible import clean

__all__ = ["HTML", "TEXT", "Displayed", "interactive"]
__all__ += ["register_display", "register_failures", "register_interactive", "render_failure"]

TEXT = "text/plain"
HTML = "text/html"

Draw: TypeAlias = Callable[..., dict[str, str]]
_draw: list[Draw] = []
Render: TypeAlias = Callable[[BaseException], list[str]]
_render: list[Render] = []
_interactive: list[Callable[..., Any]] = []


def register_display(draw: Draw) -> None:
    """Say how objects are drawn; called once, by the package's roof.

    ``draw(value, *kinds)`` returns the value's card as each of some MIME types, by these.
    """
    _draw[:] = [draw]


def register_failures(render: Render) -> None:
    """Say which lines IPython prints of an error; called once, by the package's roof."""
    _render[:] = [render]


def render_failure(error: BaseException) -> list[str]:
    """Return what IPython prints of an error, as ``_render_traceback_``; never raises."""
    try:
        return _render[0](error)
    except Exception:  # whatever is wrong with the card, the error has to be seen
        return "".join(traceback.format_exception(error)).splitlines()


def register_interactive(make: Callable[..., Any]) -> None:
    """Say how what is interactive is made; called once, by the package's roof.

    ``make(kind, ...)`` returns it; kinds are names that the roof knows.
    """
    _interactive[:] = [make]


def interactive(kind: str, *args: Any, **kwargs: Any) -> Any:
    """Return something interactive, which the room of cards knows how to make."""
    return _interactive[0](kind, *args, **kwargs)


class Displayed:
    """An object with a card: text for `repr`, HTML for notebooks."""

    __slots__ = ()

    def _plain(self) -> str:
        """Return one line that is always right: it is asked for where nothing can be read."""
        return f"<{type(self).__module__}.{type(self).__qualname__}>"

    def _drawn(self, *kinds: str) -> dict[str, str]:
        """Return the card as some MIME types, or the plain line as text, and why."""
        if not _draw:
            return {TEXT: clean(self._plain())}
        try:
            return _draw[0](self, *kinds)
        except Exception as error:  # a repr must neither raise nor vanish
            why = clean(f"{type(error).__name__}: {error}")
            return {TEXT: f"{clean(self._plain())}\n(its card could not be drawn: {why})"}

    def __repr__(self) -> str:
        return self._drawn(TEXT)[TEXT]

    def _repr_html_(self) -> str | None:
        return self._drawn(HTML).get(HTML)  # without it the text is shown, which names the fault

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return what a notebook asks for at the end of a cell: both, of one card.

        A card reads tags and versions: one for each kind would read them twice.
        """
        del include, exclude  # the notebook picks
        return self._drawn(TEXT, HTML)
