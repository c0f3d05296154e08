"""What a card shows: plain, bounded, redacted.  The renderers know nothing else.

Strings in a model are as they are to be read (`lancekit._legible`): what cannot be seen is spelled
out, credentials are gone, and each is cut.  Escaping for HTML is the renderer's.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and what is to be said of it; code is shown to be copied."""

    label: str
    value: str
    code: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column."""

    title: str
    numeric: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A table's row, one string for each column; quiet rows matter less.

    `marked` are the places of cells that are set off, beside what their words say.
    """

    cells: tuple[str, ...]
    quiet: bool = False
    marked: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that may be folded; `note` says what it leaves out, and how to get at it."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One object on show: the first line (what it is, then facts), facts, tables."""

    kind: str
    title: str
    headline: tuple[str, ...]
    facts: tuple[Fact, ...] = ()
    tables: tuple[Table, ...] = ()
