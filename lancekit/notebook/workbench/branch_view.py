"""What the workbench of a merge of branches shows: each conflict, and what would become of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lancekit.notebook.cards.results import branch_plan_card
from lancekit.notebook.render.controls import told_error
from lancekit.notebook.render.models import Card, Column, Row, Table
from lancekit.notebook.render.words import cell, clean, count, plural, told
from lancekit.notebook.workbench.picks import Picks
from lancekit.notebook.workbench.steps import State
from lancekit.operations.lineage.branch_merge import BranchMergePlan
from lancekit.operations.lineage.column_conflicts import ColumnConflict
from lancekit.operations.lineage.conflicts import ConflictedRow, Conflicts
from lancekit.options import options

__all__ = ["branch_bench_card", "conflict_table", "conflicts_table", "unfit_table"]

#: what became of the row: by ours, then by theirs
_KINDS = {
    "update/update": "both changed it",
    "insert/insert": "both inserted it",
    "update/delete": "ours changed it, theirs deleted it",
    "delete/update": "ours deleted it, theirs changed it",
}
_COLUMNS = ("column", "base", "ours", "theirs", "becomes")
_UNDECIDED = "? pick a side"


def branch_bench_card(state: State[Picks], now: datetime, *, why: bool = True) -> Card:
    """Return what the merge would do, or that there is no plan, and ``why``."""
    plan = state.plan
    if isinstance(plan, BranchMergePlan):
        card = branch_plan_card(plan, now)
        left = f"{count(plan.num_unsettled)} without a side" if plan.num_unsettled else ""
        told_facts = tuple(fact for fact in card.facts if fact.label != "next")
        return replace(card, headline=tuple(filter(None, [*card.headline, left])), facts=told_facts)
    headline: tuple[str, ...] = ()
    if why and state.error is not None:
        headline = (" ".join(told_error(state.error).split()),)
    return Card(kind="Merge plan", title="no plan", headline=headline)


def conflict_table(row: ConflictedRow, picks: Picks) -> Table:
    """Return one conflict: of each column what it was, is on both sides, and would become."""
    names = row.columns[: options.display_columns]
    more = len(row.columns) - len(names)
    return Table(
        caption=f"{told(row.key)}: {_KINDS[row.kind]}",
        columns=tuple(map(Column, _COLUMNS)),
        rows=tuple(_value_row(row, name, picks) for name in names),
        note=f"{plural(more, 'more column')}" if more else "",
    )


def _value_row(row: ConflictedRow, name: str, picks: Picks) -> Row:
    sides = {"ours": row.ours, "theirs": row.theirs}
    side = picks.of(row, name)
    becomes = _UNDECIDED if side == "fail" else _shown(sides[side], name)
    base = _shown(row.base, name, "—")
    cells = (clean(name), base, *(_shown(one, name) for one in sides.values()))
    marked = {"ours": 2, "theirs": 3}.get(side)
    return Row((*cells, becomes), marked=frozenset(filter(None, [marked, 4])))


def _shown(values: dict[str, Any] | None, name: str, without: str = "deleted") -> str:
    return without if values is None else cell(values.get(name), 80)


def conflicts_table(rows: Sequence[ConflictedRow], picks: Picks, start: int, total: int) -> Table:
    """Return several conflicts in one table: the static twin of theirs."""
    lines: list[Row] = []
    for row in rows:
        for one in conflict_table(row, picks).rows:
            marked = frozenset(place + 1 for place in one.marked)
            lines.append(Row((told(row.key), *one.cells), marked=marked))
    which = f"{count(start + 1)} to {count(start + len(rows))}" if rows else "none"
    return Table(
        caption="Conflicts",
        columns=tuple(map(Column, ("row", *_COLUMNS))),
        rows=tuple(lines[: 5 * options.display_rows]),
        note=f"{which} of {plural(total, 'row')}",
    )


def unfit_table(conflicts: Conflicts) -> Iterator[Table]:
    """Yield the columns of which each side made something else, if there are any."""
    if conflicts.by_column:
        yield Table(
            caption="Conflicts of columns",
            columns=tuple(map(Column, ("column", "ours", "theirs", "what becomes of it"))),
            rows=tuple(
                Row((clean(one.column), clean(one.ours), clean(one.theirs), _fate(one)))
                for one in conflicts.by_column[: options.display_columns]
            ),
        )


def _fate(one: ColumnConflict) -> str:
    if one.side is not None:
        return f"as {one.side} has it"
    ways = " or ".join(one.sides)
    return f"{_UNDECIDED}: {ways}" if ways else "refused: change it on both sides first"
