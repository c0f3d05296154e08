"""Cards of sampled rows: changes of a diff, and conflicts of a merge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice

from lancekit._api.diff_rows import ChangedRow
from lancekit._notebook.cards.common import titled
from lancekit._notebook.render.models import Card, Column, Row, Table
from lancekit._notebook.render.words import cell, clean, count, key_text, plural
from lancekit._operations.lineage.conflicts import ConflictedRow
from lancekit._sampled import SampledRows
from lancekit.options import options

#: the largest number of characters of a value
_VALUE = 80
_CHANGES = titled("change", "row", "column", "old", "new")
_CONFLICTS = titled("row", "conflict", "column", "base", "ours", "theirs")
#: lines for each row of a table, at most: one for each changed column
_LINES = 5


def changes_card(rows: SampledRows[ChangedRow], _now: datetime) -> Card:
    lines = (line for row in rows for line in _change(row))
    return _card("Changed rows", len(rows), rows.total, _CHANGES, lines)


def _change(row: ChangedRow) -> Iterator[Row]:
    for name, (old, new) in row.cells.items() or [("", (None, None))]:
        ends = (
            "" if row.change == "insert" else cell(old, _VALUE),
            "" if row.change == "delete" else cell(new, _VALUE),
        )
        yield Row((row.change, key_text(row.key), clean(name), *ends))


def conflicts_card(rows: SampledRows[ConflictedRow], _now: datetime) -> Card:
    lines = (line for row in rows for line in _conflict(row))
    return _card("Conflicts", len(rows), rows.total, _CONFLICTS, lines)


def _conflict(row: ConflictedRow) -> Iterator[Row]:
    for name in row.columns or ("",):
        sides = (_side(one, name) for one in (row.base, row.ours, row.theirs))
        yield Row((key_text(row.key), clean(row.kind), clean(name), *sides))


def _side(values: Mapping[str, object] | None, name: str) -> str:
    return "no row" if values is None else cell(values.get(name), _VALUE)


def _card(
    kind: str, number: int, total: int, columns: tuple[Column, ...], lines: Iterator[Row]
) -> Card:
    shown = tuple(islice(lines, _LINES * options.display_rows))
    cut = f"; the first {plural(len(shown), 'value')}" if next(lines, None) else ""
    title = f"{count(number)} of {plural(total, 'row')}"
    table = Table(caption="Values", columns=columns, rows=shown, note=f"{title}{cut}")
    return Card(kind=kind, title=title, headline=(), tables=(table,))
