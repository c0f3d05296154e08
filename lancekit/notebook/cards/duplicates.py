"""The card of rows that share a key."""

from __future__ import annotations

from datetime import datetime

from lancekit.api.duplicates import Duplicates
from lancekit.legible import python_value
from lancekit.notebook.cards.common import NAMES, facts, table
from lancekit.notebook.render.models import Card, Column, Fact, Row
from lancekit.notebook.render.words import cell, clean, count, listing, plural
from lancekit.options import options

__all__ = ["duplicates_card"]


def duplicates_card(found: Duplicates, _now: datetime) -> Card:
    """Return the card; the rows were read when it was made."""
    shown = found._found.slice(0, options.display_rows)
    columns = [list(map(python_value, column)) for column in shown.columns]
    return Card(
        kind="Duplicates",
        title=f"{plural(found.rows, 'row')} of {count(found.total)}",
        headline=(plural(found.keys, "key"),),
        facts=(
            *facts(("key", listing(found.on, NAMES))),
            *([Fact("all columns", ".to_table()", code=True)] if found.rows else ()),
        ),
        tables=(
            table(
                caption="Rows that share their key",
                columns=tuple(Column(clean(name)) for name in shown.column_names),
                rows=tuple(Row(tuple(map(cell, values))) for values in zip(*columns, strict=True)),
                note=f"{count(len(shown))} of {plural(found.rows, 'row')}.",
            ),
        )
        if found.rows
        else (),
    )
