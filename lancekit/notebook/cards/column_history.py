"""The card of a column's history: version by version what became of it."""

from __future__ import annotations

from datetime import datetime

from lancekit.api.column_history import ColumnChange, ColumnHistory
from lancekit.notebook.cards.common import COMMIT_COLUMNS, commit_cells, table
from lancekit.notebook.render.models import Card, Column, Fact, Row
from lancekit.notebook.render.words import cell, clean, count, plural
from lancekit.options import options

__all__ = ["column_history_card"]

_COLUMNS = (
    *COMMIT_COLUMNS,
    *(Column(name) for name in ("change", "before", "after", "rows", "nulls", "lowest")),
    *(Column(name) for name in ("highest", "distinct")),
)


def column_history_card(history: ColumnHistory, _now: datetime) -> Card:
    """Return the card of a column's history; statistics are shown where they were asked for."""
    shown = list(history)[-options.display_rows :]
    older = len(history) - len(shown)
    return Card(
        kind="Column history",
        title=clean(history.column),
        headline=(plural(len(history), "change"), clean(history.branch)),
        facts=(Fact("next", "history[-1].statistics", code=True),),
        tables=(
            table(
                caption="Newest first",
                columns=_COLUMNS,
                rows=tuple(map(_row, reversed(shown))),
                note=f"{count(older)} older" if older else "",
            ),
        ),
    )


def _row(change: ColumnChange) -> Row:
    return Row(
        (
            *commit_cells(change),
            change.kind,
            _said(change.old_name, change.old_type),
            _said(change.name, change.type),
            *_statistics(change),
        )
    )


def _said(name: str | None, kind: object) -> str:
    return "" if name is None else f"{clean(name)} {clean(str(kind))}"


def _statistics(change: ColumnChange) -> tuple[str, ...]:
    found = change.__dict__.get("statistics")  # a card reads no rows
    if found is None:
        return ("",) * 5
    ends = ("" if end is None else cell(end) for end in (found.min, found.max))
    return (count(found.rows), count(found.nulls), *ends, count(found.distinct))
