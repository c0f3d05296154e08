"""The place where objects meet their cards, which live in `lancekit._notebook`.

Objects that a person looks at inherit `Displayed`.  They know nothing of cards: the package's roof
registers how to draw one.  Without it, and whenever drawing fails, they show one plain line.

So do errors: what a notebook shows of one is a short card, and everywhere else the traceback.
"""

from __future__ import annotations

import traceback

from lancekit._hooks import hooks
from lancekit._legible import clean

TEXT = "text/plain"
HTML = "text/html"


def render_failure(error: BaseException) -> list[str]:
    """Return what IPython prints of an error, as ``_render_traceback_``; never raises."""
    try:
        return hooks.failure(error)  # type: ignore[misc]
    except Exception:  # whatever is wrong with the card, the error has to be seen
        return "".join(traceback.format_exception(error)).splitlines()


def interactive(kind: str, *args: object, **kwargs: object) -> object:
    """Return something interactive, which the room of cards knows how to make."""
    return hooks.interactive(kind, *args, **kwargs)  # type: ignore[misc]


class Displayed:
    """An object with a card: text for `repr`, HTML for notebooks."""

    __slots__ = ()

    def _plain(self) -> str:
        """Return one line that is always right: it is asked for where nothing can be read."""
        return f"<{type(self).__module__}.{type(self).__qualname__}>"

    def _drawn(self, *kinds: str) -> dict[str, str]:
        """Return the card as some MIME types, or the plain line as text, and why."""
        if hooks.card is None:
            return {TEXT: clean(self._plain())}
        try:
            return hooks.card(self, *kinds)
        except Exception as error:  # a repr must neither raise nor vanish
            why = clean(f"{type(error).__name__}: {error}")
            return {TEXT: f"{clean(self._plain())}\n(its card could not be drawn: {why})"}

    def __repr__(self) -> str:
        return self._drawn(TEXT)[TEXT]

    def _repr_html_(self) -> str | None:
        return self._drawn(HTML).get(HTML)  # without it the text is shown, which names the fault

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return what a notebook asks for at the end of a cell: both, of one card.

        A card reads tags and versions: one for each kind would read them twice.
        """
        del include, exclude  # the notebook picks
        return self._drawn(TEXT, HTML)
