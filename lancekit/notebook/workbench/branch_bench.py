"""The workbench of a merge of branches: a side for each conflict, by row, by column or for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from lancekit.errors import InvalidArgumentError
from lancekit.notebook.cards.common import ref
from lancekit.notebook.render.models import Card
from lancekit.notebook.workbench.bench import Bench, taken_back
from lancekit.notebook.workbench.branch_view import (
    branch_bench_card,
    conflicts_table,
    unfit_table,
)
from lancekit.notebook.workbench.merge_view import code_fact
from lancekit.notebook.workbench.picks import Picks, code_of, picks_of, sides_of
from lancekit.operations.common.results import ApplyResult
from lancekit.operations.lineage.branch_merge import BranchMergePlan
from lancekit.operations.lineage.conflicts import ConflictedRow
from lancekit.versions.listing import list_versions

__all__ = ["PAGE", "BranchBench"]

#: conflicts that are shown at a time
PAGE = 5


class BranchBench(Bench[Picks]):
    """A merge of one branch into another; `BranchMergePlan.interactive` makes it.

    Parameters
    ----------
    plan
        The merge, and what was said of its conflicts before.
    panel
        Makes the widgets.
    """

    def __init__(self, plan: BranchMergePlan, panel: Callable[[BranchBench], Any]) -> None:
        super().__init__(picks_of(plan), panel)
        self.state = replace(self.state, phase="ready", plan=plan)
        #: the newest plan: after the merge, too, the code is that of one
        self._newest = plan
        self._shown: dict[int, tuple[BranchMergePlan, list[ConflictedRow]]] = {}

    @property
    def code(self) -> str:
        """The call that does what is chosen."""
        return code_of(self._newest, self.state.chosen)

    @property
    def can_apply(self) -> bool:
        """Whether every conflict has a side, too."""
        return super().can_apply and not self.state.plan.num_unsettled

    @property
    def hindrance(self) -> str:
        """What to tell who wants to merge what cannot be."""
        left = self.state.can_apply
        return "Pick a side for the other conflicts first." if left else super().hindrance

    @property
    def plan(self) -> BranchMergePlan | None:
        """The newest plan, also if one of other choices failed; none after the merge."""
        return None if self.state.phase == "done" else self._newest

    @property
    def start(self) -> int:
        """How many conflicts come before those that are shown."""
        plan = self.plan
        pages = 1 if plan is None else max(-(-plan.num_conflicts // PAGE), 1)
        return min(self.state.page, pages - 1) * PAGE

    def shown(self) -> list[ConflictedRow]:
        """Return the conflicts that are shown; they are read once for a plan."""
        plan, start = self.plan, self.start
        if plan is None:
            return []
        ends = (plan.base, plan.ours, plan.theirs)
        held = self._shown.get(start)
        if held is None or (held[0].base, held[0].ours, held[0].theirs) != ends:
            self._shown = {start: (plan, plan.conflicts.sample(PAGE, offset=start))}
        return self._shown[start][1]

    def view(self, now: datetime, *, why: bool = True) -> Card:
        """Return what is shown of the plan, and ``why`` there is none."""
        card = branch_bench_card(self.state, now, why=why)
        plan = self.state.plan
        return card if plan is None else replace(card, tables=tuple(unfit_table(plan.conflicts)))

    # ---- what a workbench asks for

    def _preview(self, chosen: Picks) -> BranchMergePlan:
        self._newest = self._newest.resolved(sides_of(chosen))
        return self._newest

    def _moved(self, plan: BranchMergePlan) -> str:
        ends = ((plan._source, plan.theirs), (plan._target, plan.ours))
        moved = [
            f"{ref(*seen)} became {ref(line.name, latest)}"
            for line, seen in ends
            if (latest := list_versions(line).latest) != seen[1]
        ]
        if not moved:
            return ""
        listed = " and ".join(moved)
        return f"Others wrote: {listed}. This is what would happen now; merge again."

    def _read(self, plan: BranchMergePlan) -> int:
        return plan.ours[1]

    def _apply(self, plan: BranchMergePlan) -> ApplyResult:
        return plan.apply()

    def _take_back(self, result: ApplyResult) -> str:
        if result.version == result.read_version:
            raise InvalidArgumentError("The merge had nothing to do, so there is nothing to undo.")
        line = self._newest._target
        self._newest._land(lambda _: taken_back(line, result.version))
        where, there = ref(line.name, result.version + 1), ref(line.name, result.version - 1)
        return f"Taken back: {where} has the rows of {there}."

    # ---- how it is shown

    def _card(self, now: datetime) -> Card:
        card, plan, rows = self.view(now), self.plan, self.shown()
        tables = card.tables
        if plan is not None and rows:
            picks = self.state.chosen
            tables = (conflicts_table(rows, picks, self.start, plan.num_conflicts), *tables)
        return replace(card, facts=(*card.facts, code_fact(self.code)), tables=tables)

    def _plain(self) -> str:
        return f"BranchBench({' into '.join((self._newest.theirs[0], self._newest.ours[0]))})"
