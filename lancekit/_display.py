"""Display of objects as cards, which `lancekit._notebook` renders.

Objects with a card inherit `Displayed`.  They do not depend on the rendering, which is a hook.
Without the hook, and if rendering fails, they show one plain line.

Errors have cards, too: a notebook shows a short card, everything else the traceback.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, ClassVar

from lancekit._hooks import hooks
from lancekit._legible import clean

TEXT = "text/plain"
HTML = "text/html"
#: the first line of a card, for objects whose `repr` is one line
LINE = "text/x-line"


def render_failure(error: BaseException) -> list[str]:
    """Return the lines that IPython prints for an error (``_render_traceback_``); never raise."""
    try:
        return hooks.failure(error)  # type: ignore[misc]
    except Exception:  # the error must be shown even if its card fails
        return "".join(traceback.format_exception(error)).splitlines()


def interactive(kind: str, *args: object, **kwargs: object) -> object:
    """Return an interactive widget of the given kind."""
    return hooks.interactive(kind, *args, **kwargs)  # type: ignore[misc]


class Hinting:
    """Base of public classes: an unknown name raises an error with the line that does it."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers report unknown names

        def __getattr__(self, name: str) -> object:
            # pandas looks for it before it reads items or an array, whose errors have the line
            if name == "__iter__" and hasattr(type(self), "__getitem__"):
                return self.__getitem__
            if name.startswith("_"):  # libraries look for many such names
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise hooks.missing(type(self).__name__, name, self)


class Displayed(Hinting):
    """Object with a card: text for `repr`, HTML for notebooks."""

    __slots__ = ()
    #: True for what calls have done: the `repr` is one line
    _in_line: ClassVar[bool] = False

    def _plain(self) -> str:
        """Return a one-line text that needs no reads, because they may fail."""
        return f"<{type(self).__module__}.{type(self).__qualname__}>"

    def _drawn(self, *kinds: str) -> dict[str, str]:
        """Return the card in some MIME types, or the plain line as text with the error."""
        if hooks.card is None:
            return {TEXT: clean(self._plain())}
        try:
            return hooks.card(self, *kinds)
        except Exception as error:  # a repr must neither raise nor vanish
            why = clean(f"{type(error).__name__}: {error}")
            return {TEXT: f"{clean(self._plain())}\n(its card could not be drawn: {why})"}

    def __repr__(self) -> str:
        if not self._in_line:
            return self._drawn(TEXT)[TEXT]
        drawn = self._drawn(LINE)
        return drawn.get(LINE) or drawn[TEXT]  # the error, if the card could not be drawn

    def _repr_html_(self) -> str | None:
        return self._drawn(HTML).get(HTML)  # without HTML, the text with the error is shown

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return text and HTML of one card, for a notebook's output.

        A card reads tags and versions: separate cards would read them twice.
        """
        del include, exclude  # the notebook selects
        return self._drawn(TEXT, HTML)
