"""User interface in notebooks: cards of public objects, pictures, the explorer and workbenches.

`cards` turns an object into a model (`render.models`) with bounded and redacted text.  It reads
public attributes and metadata only.  `render` turns models into text, HTML and widgets, and never
reads the object.  `pictures`, `explorer` and `workbench` use both, but not each other.  `show` is
the entry point for the roof.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from lancekit._display import HTML, LINE, TEXT
from lancekit._notebook.cards import card
from lancekit._notebook.render.html import render_html, render_line, render_text
from lancekit._notebook.render.models import Card

_RENDERERS: dict[str, Callable[[Card], str]] = {
    TEXT: render_text,
    HTML: render_html,
    LINE: render_line,
}


def show(value: object, *kinds: str, now: datetime | None = None) -> dict[str, str]:
    """Return an object's card in each of the given MIME types; the model is built once.

    Ages are relative to ``now`` (aware).
    """
    made = card(value, now or datetime.now(UTC))
    return {kind: _RENDERERS[kind](made) for kind in kinds}
