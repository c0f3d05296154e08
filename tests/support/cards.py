"""The classes that have a card."""

from __future__ import annotations

from importlib import import_module

from lancekit._notebook.cards import CARDS

__all__ = ["classes_with_cards"]


def classes_with_cards() -> set[type]:
    """Return the classes of the table of cards."""
    named = (name.rpartition(".") for name in CARDS)
    return {getattr(import_module(f"lancekit.{module}"), name) for module, _, name in named}
