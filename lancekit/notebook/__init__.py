"""What a person sees: cards for the public objects, and a picture of the history.

`cards` turns an object into a model (`models`): what to show, bounded and redacted, read from
public attributes and metadata only.  `text` and `html` render a model and never touch the object.
`plots` draws with matplotlib, which is loaded when something is drawn.
"""

from __future__ import annotations

from datetime import UTC, datetime

from lancekit.notebook.cards import card
from lancekit.notebook.html import render_html
from lancekit.notebook.plots import HistoryPicture, plot_history
from lancekit.notebook.text import render_text

__all__ = ["HistoryPicture", "plot_history", "show_html", "show_text"]


def show_text(value: object, now: datetime | None = None) -> str:
    """Return an object's card as text; ages are counted back from ``now`` (aware)."""
    return render_text(card(value, now or datetime.now(UTC)))


def show_html(value: object, now: datetime | None = None) -> str:
    """Return an object's card as HTML; ages are counted back from ``now`` (aware)."""
    return render_html(card(value, now or datetime.now(UTC)))
