"""The cards of histories: of a row, of a column, and of a search for the version with a change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from lancekit._api.bisect import Bisection, Flip
from lancekit._api.column_history import ColumnChange, ColumnHistory
from lancekit._api.row_history import RowChange, RowHistory
from lancekit._notebook.cards.common import (
    COMMIT_COLUMNS,
    NAMES,
    commit_cells,
    facts,
    operation_word,
    ref,
    table,
    when_and_age,
)
from lancekit._notebook.render.models import Card, Column, Fact, Row, Table
from lancekit._notebook.render.words import cell, clean, count, listing, plural, told
from lancekit.options import options

__all__ = ["bisection_card", "column_history_card", "row_history_card"]

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


# ---- the card of a bisection: the commit at which the answer changed, and how to take it back

_FLIPS = (*COMMIT_COLUMNS, Column("turned"))


def bisection_card(found: Bisection, now: datetime) -> Card:
    flip = found.first_bad
    raised = [e for e in found.evaluations if e.good is None]
    return Card(
        kind="Bisection",
        title="no version turned bad"
        if flip is None
        else f"bad since {ref(found.branch, flip.version)}",
        headline=(
            plural(len(found.evaluations), "version") + " asked",
            *(("in doubt",) if flip is not None and not flip.is_certain else ()),
        ),
        facts=(
            *(() if flip is None else _facts(found, flip, now)),
            *facts(
                ("raised at", listing((f"{e.version}: {e.error}" for e in raised), NAMES)),
            ),
            *(() if flip is None else (Fact("see", "found.diff", code=True),)),
            *(() if flip is None else (Fact("undo", flip.undo, code=True),)),
        ),
        tables=() if len(found.flips) < 2 else (_table(found),),
    )


def _facts(found: Bisection, flip: Flip, now: datetime) -> tuple[Fact, ...]:
    return facts(
        ("good until", ref(found.branch, flip.before)),
        ("committed", when_and_age(flip.timestamp, now)),
        ("operation", operation_word(flip.operation, first=flip.version == 1)),
        ("message", clean(flip.message or "")),
        ("or one of, cleaned up", listing(map(count, flip.gone), NAMES)),
        ("or one of, not told", listing(map(count, flip.untested), NAMES)),
    )


def _table(found: Bisection) -> Table:
    shown = found.flips[: options.display_rows]
    return table(
        caption="Every change of the answer",
        columns=_FLIPS,
        rows=tuple(Row((*commit_cells(flip), "good" if flip.good else "bad")) for flip in shown),
        note=f"{count(len(found.flips) - len(shown))} more: found.flips"
        if len(found.flips) > len(shown)
        else "",
    )


# ---- the card of a column's history: version by version what became of it

_OF_CHANGES = (
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
                columns=_OF_CHANGES,
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
