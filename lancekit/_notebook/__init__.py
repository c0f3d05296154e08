"""What a person sees: cards for the public objects, pictures, and what is worked with by clicks.

`cards` turns an object into a model (`render.models`): what to show, bounded and redacted, read
from public attributes and metadata only.  `render` makes text, HTML and widgets of models, and
never touches the object.  `pictures`, `explorer` and `workbench` use both, and not each other; here
is what the roof and IPython ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from lancekit._display import HTML, TEXT
from lancekit._notebook.cards import card
from lancekit._notebook.render.html import render_html, render_text
from lancekit._notebook.render.models import Card

_RENDERERS: dict[str, Callable[[Card], str]] = {TEXT: render_text, HTML: render_html}


def show(value: object, *kinds: str, now: datetime | None = None) -> dict[str, str]:
    """Return an object's card as each of some MIME types; it is made once for all of them.

    Ages are counted back from ``now`` (aware).
    """
    made = card(value, now or datetime.now(UTC))
    return {kind: _RENDERERS[kind](made) for kind in kinds}


def show_text(value: object, now: datetime | None = None) -> str:
    """Return an object's card as text; ages are counted back from ``now`` (aware)."""
    return show(value, TEXT, now=now)[TEXT]


def show_html(value: object, now: datetime | None = None) -> str:
    """Return an object's card as HTML; ages are counted back from ``now`` (aware)."""
    return show(value, HTML, now=now)[HTML]
