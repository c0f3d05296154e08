"""Cards of sampled rows: changes of a diff, and conflicts of a merge."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from lancekit._api.diff_rows import ChangedRow
from lancekit._notebook.cards.common import titled
from lancekit._notebook.cards.histories import rows_table
from lancekit._notebook.cards.results import conflict_rows
from lancekit._notebook.render.models import Card, Table
from lancekit._notebook.render.words import clean, count, plural
from lancekit._operations.lineage.conflicts import ConflictedRow
from lancekit._sampled import SampledRows
from lancekit.options import options


def changes_card(rows: SampledRows[ChangedRow], _now: datetime) -> Card:
    shown = rows[: options.display_rows]
    names = list(dict.fromkeys(name for row in shown for name in row.cells))
    made = rows_table("Values, old → new", shown, names[: options.display_columns])
    return _card("Changed rows", rows, made)


def conflicts_card(rows: SampledRows[ConflictedRow], _now: datetime) -> Card:
    shown = rows[: options.display_rows]
    key = [clean(name) for name in shown[0].key] if shown else []
    columns = titled(*key, "ours/theirs", "column", "base", "ours", "theirs")
    lines = tuple(line for row in shown for line in conflict_rows(row))
    return _card("Conflicts", rows, Table(caption="Values", columns=columns, rows=lines))


def _card(kind: str, rows: SampledRows[Any], table: Table) -> Card:
    title = f"{count(len(rows))} of {plural(rows.total, 'row')}"
    return Card(kind=kind, title=title, headline=(), tables=(table,))
