"""The classes that have a card, and cards in one form."""

from __future__ import annotations

from datetime import datetime
from importlib import import_module

from lancekit._display import HTML, TEXT
from lancekit._notebook import show
from lancekit._notebook.cards import CARDS

__all__ = ["classes_with_cards", "show_html", "show_text"]


def classes_with_cards() -> set[type]:
    """Return the classes of the table of cards."""
    named = (name.rpartition(".") for name in CARDS)
    return {getattr(import_module(f"lancekit.{module}"), name) for module, _, name in named}


def show_text(value: object, now: datetime | None = None) -> str:
    """Return an object's card as text; ages are relative to ``now`` (aware)."""
    return show(value, TEXT, now=now)[TEXT]


def show_html(value: object, now: datetime | None = None) -> str:
    """Return an object's card as HTML; ages are relative to ``now`` (aware)."""
    return show(value, HTML, now=now)[HTML]
