"""The card of what a merge-insert would do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from lancekit._legible import python_rows
from lancekit._notebook.cards.common import ENGINES, facts, ref
from lancekit._notebook.cards.explanations import read_facts, written
from lancekit._notebook.render.models import Card, Column, Fact, Row, Table
from lancekit._notebook.render.words import clean, count, cut, listing, plural
from lancekit._operations.merge.preview import CellChange, MergePlan
from lancekit.options import options

__all__ = ["merge_plan_card"]

#: characters of a value; what fits a cell is the renderer's choice
_VALUE = 120


def merge_plan_card(plan: MergePlan, _now: datetime) -> Card:
    told = plan.explanation
    twice = plan.num_duplicate_rows
    return Card(
        kind="Merge plan",
        title=f"merge into {ref(plan.branch, plan.version)}",
        headline=(
            f"would insert {count(plan.num_inserted_rows)}",
            f"update {count(plan.num_updated_rows)}",
            f"delete {count(plan.num_deleted_rows)}",
            f"leave {count(plan.num_unchanged_rows)}",
        ),
        facts=(
            *facts(
                ("on", listing(plan.on, options.display_columns)),
                ("rules", clean("; ".join(plan.rules))),
                (
                    "key guard",
                    "a concurrent merge that inserts one of these keys must start over"
                    if plan.guarded and plan.num_inserted_rows
                    else "",
                ),
                ("skipped", _rows(plan.num_skipped_rows, "matched row", "by the condition")),
                ("ignored", _rows(plan.num_ignored_rows, "source row", "without a match")),
                (
                    "duplicates",
                    "as many as there are are left out"
                    if twice is None
                    else _rows(twice, "source row", "left out"),
                ),
                ("runs", ENGINES.get(told.engine, told.engine)),
                ("because", clean(told.why)),
            ),
            *read_facts(told.reads),
            *facts(("writes", written(told.writes))),
            Fact("apply", "plan.apply()", code=True),
        ),
        tables=(
            *_changed(plan),
            *_sample("Rows that would be inserted", plan.inserted, plan.num_inserted_rows),
            *_sample("Rows that would be deleted", plan.deleted, plan.num_deleted_rows),
        ),
    )


def _rows(number: int, what: str, how: str) -> str:
    return f"{plural(number, what)} {how}" if number else ""


def _text(value: object) -> str:
    return clean(cut(str(value) if not isinstance(value, str) else repr(value), _VALUE))


def _changed(plan: MergePlan) -> tuple[Table, ...]:
    """Return a row for each updated row, with a column for each that changes in one of them."""
    found: list[tuple[tuple[Any, ...], dict[str, CellChange]]] = []
    for change in plan.changes:
        # those of a row come one after the other; not-a-number is a key like others
        if not found or repr(found[-1][0]) != repr(change.key) or change.column in found[-1][1]:
            found.append((change.key, {}))
        found[-1][1][change.column] = change
    if not found:
        return ()
    shown = found[: options.display_rows]
    names = list(dict.fromkeys(name for _, cells in shown for name in cells))
    wide = names[: options.display_columns]
    hidden = f"; {plural(len(names) - len(wide), 'more column')}" if len(names) > len(wide) else ""
    return (
        Table(
            caption="Values that would change, old → new",
            columns=_columns([*plan.on, *wide]),
            rows=tuple(
                _changed_row(key, [cells.get(name) for name in wide]) for key, cells in shown
            ),
            note=f"{count(len(shown))} of {plural(plan.num_updated_rows, 'updated row')}{hidden}.",
        ),
    )


def _changed_row(key: tuple[object, ...], cells: Sequence[CellChange | None]) -> Row:
    texts = ["" if cell is None else f"{_text(cell.old)} → {_text(cell.new)}" for cell in cells]
    marked = (len(key) + at for at, cell in enumerate(cells) if cell is not None)
    return Row((*map(_text, key), *texts), marked=frozenset(marked))


def _sample(caption: str, rows: pa.Table, number: int) -> tuple[Table, ...]:
    if not rows.num_rows:
        return ()
    names = rows.column_names[: options.display_columns]
    shown = rows.select(names).slice(0, options.display_rows)
    more = len(rows.column_names) - len(names)
    hidden = f"; {plural(more, 'more column')}" if more else ""
    return (
        Table(
            caption=caption,
            columns=_columns(names),
            rows=tuple(Row(tuple(map(_text, row.values()))) for row in python_rows(shown)),
            note=f"{count(shown.num_rows)} of {plural(number, 'row')}{hidden}.",
            folded=True,
        ),
    )


def _columns(names: Sequence[str]) -> tuple[Column, ...]:
    return tuple(Column(clean(name)) for name in names)
