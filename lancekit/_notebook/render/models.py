"""Models of cards: plain, bounded and redacted text, the only input of the renderers.

All strings in a model are safe to display (`lancekit._legible`): invisible characters are spelled
out, credentials removed, lengths cut.  The renderer escapes for HTML.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """A label with a value; a value that is code is rendered for copying."""

    label: str
    value: str
    code: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; numeric columns are aligned right.  `detail` is below the title."""

    title: str
    numeric: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, one string for each column; quiet rows are rendered less prominently.

    `marked` has the positions of highlighted cells; their text carries the same information.
    """

    cells: tuple[str, ...]
    quiet: bool = False
    marked: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that can be folded; `note` names the omitted rows and the call that returns them."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The card of an object: a first line of kind, title and headline, then facts and tables."""

    kind: str
    title: str
    headline: tuple[str, ...]
    facts: tuple[Fact, ...] = ()
    tables: tuple[Table, ...] = ()
