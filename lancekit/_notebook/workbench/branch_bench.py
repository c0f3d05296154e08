"""The workbench of a branch merge: pick a side for conflicts by row, by column or for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lancekit._notebook.cards.common import ref
from lancekit._notebook.cards.results import branch_plan_card
from lancekit._notebook.render.controls import error_text
from lancekit._notebook.render.models import Card, Column, Row, Table
from lancekit._notebook.render.words import cell, clean, count, key_text, plural
from lancekit._notebook.workbench.bench import Bench, Panel, undo_newest
from lancekit._notebook.workbench.merge_bench import code_fact
from lancekit._notebook.workbench.picks import Picks, code_of, picks_of, sides_of
from lancekit._operations.common.results import ApplyResult
from lancekit._operations.lineage.branch_merge import BranchMergePlan
from lancekit._operations.lineage.column_conflicts import ColumnConflict
from lancekit._operations.lineage.conflicts import ConflictedRow, Conflicts
from lancekit._versions.listing import list_versions
from lancekit.errors import InvalidArgumentError
from lancekit.options import options

#: conflicts of a page
PAGE = 5


class BranchBench(Bench[Picks, BranchMergePlan, ApplyResult]):
    """A merge of one branch into another; `BranchMergePlan.interactive` makes it.

    plan: the merge, with the sides that its conflicts have already.
    panel: builds the widgets.
    """

    def __init__(self, plan: BranchMergePlan, panel: Callable[[BranchBench], Panel]) -> None:
        super().__init__(picks_of(plan), panel)
        self.state = replace(self.state, phase="ready", plan=plan)
        #: the newest plan, also after the merge: the code is made from it
        self._newest = plan
        self._shown: dict[int, tuple[BranchMergePlan, list[ConflictedRow]]] = {}

    @property
    def code(self) -> str:
        """The call that merges with the chosen sides."""
        return code_of(self._newest, self.state.choices)

    @property
    def can_apply(self) -> bool:
        """True if the preview matches the choices and every conflict has a side."""
        plan = self.state.plan
        return super().can_apply and plan is not None and not plan.num_unsettled

    @property
    def hindrance(self) -> str:
        """The reason why the plan cannot be merged now."""
        left = self.state.can_apply
        return "Pick a side for the other conflicts first." if left else super().hindrance

    @property
    def plan(self) -> BranchMergePlan | None:
        """The newest plan, also after a preview failed; ``None`` after the merge."""
        return None if self.state.phase == "done" else self._newest

    @property
    def start(self) -> int:
        """The number of conflicts before the shown page."""
        plan = self.plan
        pages = 1 if plan is None else max(-(-plan.num_conflicts // PAGE), 1)
        return min(self.state.page, pages - 1) * PAGE

    def shown(self) -> list[ConflictedRow]:
        """Return the conflicts of the shown page; they are read once for a plan."""
        plan, start = self.plan, self.start
        if plan is None:
            return []
        ends = (plan.base, plan.ours, plan.theirs)
        cached = self._shown.get(start)
        if cached is None or (cached[0].base, cached[0].ours, cached[0].theirs) != ends:
            self._shown = {start: (plan, plan.conflicts.sample(PAGE, offset=start))}
        return self._shown[start][1]

    def view(self, now: datetime, *, why: bool = True) -> Card:
        """Return the card of the plan; without one, ``why`` puts the error into the headline."""
        state, plan = self.state, self.state.plan
        if plan is None:
            error = state.error if why else None
            headline = () if error is None else (" ".join(error_text(error).split()),)
            return Card(kind="Merge plan", title="no plan", headline=headline)
        card = branch_plan_card(plan, now)
        left = f"{count(plan.num_unsettled)} unsettled" if plan.num_unsettled else ""
        return replace(
            card,
            headline=tuple(filter(None, [*card.headline, left])),
            facts=tuple(fact for fact in card.facts if fact.label != "next"),
            tables=tuple(_unfit_table(plan.conflicts)),
        )

    # ---- the operation

    def _preview(self, choices: Picks) -> BranchMergePlan:
        self._newest = self._newest.resolved(sides_of(choices))
        return self._newest

    def _newer_commits(self, plan: BranchMergePlan) -> str:
        ends = ((plan._source, plan.theirs), (plan._target, plan.ours))
        moved = [
            f"{ref(*seen)} is now {ref(location.name, latest)}"
            for location, seen in ends
            if (latest := list_versions(location).latest) != seen[1]
        ]
        if not moved:
            return ""
        listed = " and ".join(moved)
        return f"Others committed: {listed}. Check the new preview, then merge again."

    def _base_version(self, plan: BranchMergePlan) -> int:
        return plan.ours[1]

    def _apply(self, plan: BranchMergePlan) -> ApplyResult:
        return plan.apply()

    def _undo_result(self, result: ApplyResult) -> str:
        if result.version == result.read_version:
            raise InvalidArgumentError("The merge changed nothing, so there is nothing to undo.")
        location = self._newest._target
        self._newest._land(lambda _: undo_newest(location, result.version))
        where, there = (
            ref(location.name, result.version + 1),
            ref(location.name, result.version - 1),
        )
        return f"Undone: {where} has the rows of {there}."

    # ---- display

    def _card(self, now: datetime) -> Card:
        card, plan, rows = self.view(now), self.plan, self.shown()
        tables = card.tables
        if plan is not None and rows:
            picks = self.state.choices
            tables = (_conflicts_table(rows, picks, self.start, plan.num_conflicts), *tables)
        return replace(card, facts=(*card.facts, code_fact(self.code)), tables=tables)

    def _plain(self) -> str:
        return f"BranchBench({' into '.join((self._newest.theirs[0], self._newest.ours[0]))})"


# ---- tables of conflicts, with the resulting values

#: by kind of conflict: the changes of both sides in words
_KINDS = {
    "update/update": "updated on both sides",
    "insert/insert": "inserted on both sides",
    "update/delete": "updated in ours, deleted in theirs",
    "delete/update": "deleted in ours, updated in theirs",
}
_COLUMNS = ("column", "base", "ours", "theirs", "result")
_UNDECIDED = "? pick a side"


def conflict_table(row: ConflictedRow, picks: Picks) -> Table:
    """Return the table of a conflict: each column's base value, both sides' values, the result."""
    names = row.columns[: options.display_columns]
    more = len(row.columns) - len(names)
    return Table(
        caption=f"{key_text(row.key)}: {_KINDS[row.kind]}",
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


def _shown(values: Mapping[str, object] | None, name: str, without: str = "deleted") -> str:
    return without if values is None else cell(values.get(name), 80)


def _conflicts_table(rows: Sequence[ConflictedRow], picks: Picks, start: int, total: int) -> Table:
    """Return several conflicts in one table, for the static twin."""
    lines: list[Row] = []
    for row in rows:
        for one in conflict_table(row, picks).rows:
            marked = frozenset(place + 1 for place in one.marked)
            lines.append(Row((key_text(row.key), *one.cells), marked=marked))
    which = f"{count(start + 1)} to {count(start + len(rows))}" if rows else "none"
    return Table(
        caption="Conflicts",
        columns=tuple(map(Column, ("row", *_COLUMNS))),
        rows=tuple(lines[: 5 * options.display_rows]),
        note=f"{which} of {plural(total, 'row')}",
    )


def _unfit_table(conflicts: Conflicts) -> Iterator[Table]:
    """Yield a table of the columns that both sides changed differently, if there are any."""
    if conflicts.by_column:
        yield Table(
            caption="Column conflicts",
            columns=tuple(map(Column, ("column", "ours", "theirs", "result"))),
            rows=tuple(
                Row((clean(one.column), clean(one.ours), clean(one.theirs), _fate(one)))
                for one in conflicts.by_column[: options.display_columns]
            ),
        )


def _fate(one: ColumnConflict) -> str:
    if one.side is not None:
        return f"as in {one.side}"
    ways = " or ".join(one.sides)
    return f"{_UNDECIDED}: {ways}" if ways else "refused: change it on both sides first"
