"""The card of what a query gives."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
from pyarrow import types as pt

from lancekit._legible import python_value
from lancekit._notebook.cards.common import ENGINES, facts
from lancekit._notebook.render.models import Card, Column, Fact, Row, Table
from lancekit._notebook.render.words import cell, clean, count, cut, listing, plural
from lancekit._statements.results import Part, SqlResult
from lancekit.options import options

__all__ = ["sql_card"]

#: characters of a value, and of a filter
_VALUE, _FILTER = 80, 200


def sql_card(result: SqlResult, _now: datetime) -> Card:
    """Return the card of a result; rows are shown that are here, or were asked for already."""
    rows = result.shown
    total = "rows not counted" if result.num_rows is None else plural(result.num_rows, "row")
    return Card(
        kind="Result",
        title=total,
        headline=(
            plural(len(result.schema), "column"),
            f"worked out {ENGINES.get(result.engine, result.engine)}",
        ),
        facts=(
            *facts(("because", clean(result.why)), *map(_read, result.reads)),
            Fact("next", "to_table(), to_pandas(), to_spark()", code=True),
        ),
        tables=() if rows is None else (_rows(rows, result.num_rows),),
    )


def _read(part: Part) -> tuple[str, str]:
    limit = "" if part.limit is None else f", at most {plural(part.limit, 'row')}"
    where = f" where {clean(cut(part.filter, _FILTER))}" if part.filter else ""
    columns = listing(part.columns, 5) or "the number of rows"
    read = f"{columns} of {clean(part.table)}{where}{limit}"
    return "reads", f"{read}{_of_shards(part)}"


def _of_shards(part: Part) -> str:
    """Return how many rows of shards a query read, or which it did not see and how to read them."""
    if part.from_shards is not None:
        return f", with {plural(part.from_shards, 'row')} of shards"
    if not part.waiting:
        return ""
    return (
        f"; not read: {part.waiting.words} ({part.waiting.read_by('include_mem_wal=True reads')})"
    )


def _rows(rows: pa.Table, total: int | None) -> Table:
    width = min(options.display_columns, rows.num_columns)
    shown = rows.slice(0, options.display_rows)
    columns = [list(map(python_value, shown.column(at))) for at in range(width)]
    more = rows.num_columns - width
    hidden = f"; {plural(more, 'more column')}" if more > 0 else ""
    of = "the first" if total is None else f"{count(shown.num_rows)} of"
    many = shown.num_rows if total is None else total
    return Table(
        caption="Rows",
        columns=tuple(
            Column(
                clean(field.name), numeric=pt.is_integer(field.type) or pt.is_floating(field.type)
            )
            for field in list(rows.schema)[:width]
        ),
        rows=tuple(
            Row(tuple(cell(column[at], _VALUE) for column in columns))
            for at in range(shown.num_rows)
        ),
        note=f"{of} {plural(many, 'row')}{hidden}.",
    )


def _is_number(kind: pa.DataType) -> bool:
    return pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)
