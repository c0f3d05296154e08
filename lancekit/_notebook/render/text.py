"""Cards as text: complete on their own, in terminals, logs and screen readers."""

from __future__ import annotations

from lancekit._notebook.render.models import Card, Column, Table
from lancekit._notebook.render.words import cut

__all__ = ["render_text"]

_CELL = 48


def render_text(card: Card) -> str:
    """Render a card; its first line says the most."""
    lines = [" · ".join((card.title, *card.headline))]
    width = max((len(fact.label) for fact in card.facts), default=0)
    lines += [f"  {fact.label:<{width}}  {fact.value}" for fact in card.facts]
    for table in card.tables:
        lines += _table(table)
    return "\n".join(lines)


def _table(table: Table) -> list[str]:
    lines = [f"  {table.caption}"]
    if table.rows:
        rows = [tuple(column.title for column in table.columns)]
        rows += [tuple(cut(cell, _CELL) for cell in row.cells) for row in table.rows]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        lines += [_line(cells, widths, table.columns) for cells in rows]
    if table.note:
        lines.append(f"    {table.note}")
    return lines


def _line(cells: tuple[str, ...], widths: list[int], columns: tuple[Column, ...]) -> str:
    padded = (
        cell.rjust(width) if column.numeric else cell.ljust(width)
        for cell, width, column in zip(cells, widths, columns, strict=True)
    )
    return ("    " + "  ".join(padded)).rstrip()
