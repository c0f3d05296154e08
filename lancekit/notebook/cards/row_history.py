"""The card of a row's history: version by version what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from lancekit.api.row_history import RowChange, RowHistory
from lancekit.notebook.cards.common import COMMIT_COLUMNS, commit_cells, facts, table
from lancekit.notebook.render.models import Card, Column, Row
from lancekit.notebook.render.words import cell, clean, count, listing, plural, told
from lancekit.options import options

__all__ = ["row_history_card"]

_COLUMNS = (
    *COMMIT_COLUMNS,
    *(Column(name) for name in ("row", "change", "column", "before", "after")),
)


def row_history_card(history: RowHistory, _now: datetime) -> Card:
    keys = history.keys
    shown = list(history)[-options.display_rows :]
    most = max(options.display_rows // max(len(shown), 1), 1)
    named = len(keys) > 1
    rows = [row for change in reversed(shown) for row in _rows(change, most, named=named)]
    older = len(history) - len(shown)
    unsure = [change for change in history if change.before not in {change.version - 1, None}]
    return Card(
        kind="Row history",
        title=told(keys[0]) if len(keys) == 1 else plural(len(keys), "row"),
        headline=(plural(len(history), "change"), clean(history.branch)),
        facts=facts(
            (
                "or before that",
                listing((_gap(change) for change in unsure), options.display_columns),
            ),
        ),
        tables=(
            table(
                caption="Newest first",
                columns=_COLUMNS,
                rows=tuple(rows),
                note=f"{count(older)} older" if older else "",
            ),
        ),
    )


def _gap(change: RowChange) -> str:
    between = f"{count((change.before or 0) + 1)} to {count(change.version - 1)}"
    return f"version {change.version}: versions {between} are gone"


def _rows(change: RowChange, most: int, *, named: bool) -> Iterator[Row]:
    """Yield a line for each value that changed, and one for those above ``most``."""
    facts_: tuple[str, ...] = (
        *commit_cells(change),
        told(change.key) if named else "",
        change.kind,
    )
    cells = list(change.cells.items()) or [("", (None, None))]
    for name, (before, after) in cells[:most]:
        gone, come = change.kind == "died", change.kind in {"born", "found"}
        ends = ("" if come else cell(before), "" if gone else cell(after))
        yield Row((*facts_, clean(name), *(ends if name else ("", ""))))
        facts_ = ("",) * len(facts_)  # said once
    if more := len(cells) - most if len(cells) > most else 0:
        yield Row((*facts_, f"{plural(more, 'more column')}: cells has all", "", ""))
