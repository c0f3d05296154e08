"""The card of an error: what happened, and what to do next."""

from __future__ import annotations

from datetime import datetime

from lancekit._legible import clean_line
from lancekit._notebook.render.models import Card, Fact
from lancekit.errors import LancekitError

__all__ = ["failure_card", "first_line"]

#: the longest line of an error's text on a card
_CHARACTERS = 400


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, safe to read."""
    said = error.message if isinstance(error, LancekitError) else str(error)
    return clean_line(said.strip().partition("\n")[0], _CHARACTERS)


def failure_card(error: LancekitError, _now: datetime) -> Card:
    """Return the card of an error; lines below its first one keep their blanks: some point."""
    details = [line.rstrip() for line in error.message.splitlines()[1:] if line.strip()]
    return Card(
        kind="Error",
        title=type(error).__name__,
        headline=(first_line(error),),
        facts=(
            *(Fact("", clean_line(line, _CHARACTERS), code=True) for line in details),
            *((Fact("next", clean_line(error.hint, _CHARACTERS)),) if error.hint else ()),
        ),
    )
