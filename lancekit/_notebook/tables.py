"""Display of Arrow tables in IPython: the first rows and columns, bounded in size and time."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import accumulate

import pyarrow as pa

from lancekit._notebook.cards.rows import note, rows_table
from lancekit._notebook.render.html import MAX_BYTES, render_html, render_text, text_widths
from lancekit._notebook.render.models import Card, Row, Table
from lancekit._notebook.render.words import plural
from lancekit.options import options

#: narrowest text, in characters
_WIDTH = 80
#: the largest number of cells, whatever the options are: more do not fit into the HTML's bytes
_CELLS = 4000


def table_html(table: pa.Table) -> str | None:
    """Return a table's HTML for a notebook; ``None`` if ``options.show_tables`` is off."""
    if not options.show_tables:
        return None
    shown = _rows(table)
    html = render_html(_card(table, shown))
    while (size := len(html.encode())) > MAX_BYTES:
        rows, columns = len(shown.rows), len(shown.columns)
        share = 0.8 * MAX_BYTES / size
        if rows > 1:
            rows = max(int(rows * share), 1)
        elif columns > 1:
            columns = max(int(columns * share), 1)
        else:
            break
        shown = _part(table, shown, rows, columns)
        html = render_html(_card(table, shown))
    return html


def table_text(table: pa.Table) -> str:
    """Return a table's text for IPython, as wide as the terminal; its ``repr`` if turned off."""
    if not options.show_tables:
        return repr(table)
    shown = _rows(table)
    width = max(shutil.get_terminal_size().columns, _WIDTH)
    ends = accumulate(text_widths(shown), lambda end, own: end + 2 + own, initial=2)
    fit = sum(end <= width for end in ends) - 1
    if shown.columns:
        shown = _part(table, shown, len(shown.rows), max(fit, 1))
    return render_text(_card(table, shown))


def _rows(table: pa.Table) -> Table:
    columns = min(table.num_columns, options.display_columns, _CELLS)
    rows = min(options.display_rows, max(_CELLS // max(columns, 1), 1))
    return rows_table(table, table.num_rows, most_rows=rows, most_columns=columns, types=True)


def _part(table: pa.Table, shown: Table, rows: int, columns: int) -> Table:
    """Return a table on a card without its last rows and columns."""
    cut = shown.rows[:rows]
    return replace(
        shown,
        columns=shown.columns[:columns],
        rows=tuple(Row(row.cells[:columns]) for row in cut),
        note=note(len(cut), table.num_rows, table.num_columns - columns),
    )


def _card(table: pa.Table, shown: Table) -> Card:
    return Card(
        kind="Table",
        title=plural(table.num_rows, "row"),
        headline=(plural(table.num_columns, "column"),),
        tables=(shown,),
    )
