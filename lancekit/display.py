"""The place where objects meet their cards, which live in `lancekit.notebook`.

Objects that a person looks at inherit `Displayed`.  They know nothing of cards: the package's roof
registers how to draw one.  Without it, and whenever drawing fails, they show one plain line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lancekit.legible import clean

__all__ = ["Displayed", "register_display"]


@dataclass(frozen=True, slots=True)
class _Hooks:
    text: Callable[[object], str]
    html: Callable[[object], str]


_hooks: list[_Hooks] = []


def register_display(text: Callable[[object], str], html: Callable[[object], str]) -> None:
    """Say how objects are drawn; called once, by the package's roof."""
    _hooks[:] = [_Hooks(text, html)]


class Displayed:
    """An object with a card: text for `repr`, HTML for notebooks."""

    __slots__ = ()

    def _plain(self) -> str:
        """Return one line that is always right."""
        return f"<{type(self).__module__}.{type(self).__qualname__}>"

    def __repr__(self) -> str:
        if not _hooks:
            return clean(self._plain())
        try:
            return _hooks[0].text(self)
        except Exception as error:  # a repr must neither raise nor vanish
            why = clean(f"{type(error).__name__}: {error}")
            return f"{clean(self._plain())}\n(its card could not be drawn: {why})"

    def _repr_html_(self) -> str | None:
        if not _hooks:
            return None
        try:
            return _hooks[0].html(self)
        except Exception:  # the notebook shows the text, which names the fault
            return None
