"""Workbenches: changes that a user composes by clicks, previews, applies and undoes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit._api.merge_builder import MergeInsertBuilder
from lancekit._notebook.cards.common import ref
from lancekit._notebook.render.controls import as_html, button, markup
from lancekit._notebook.render.html import render_note, render_table
from lancekit._notebook.render.words import clean, count, cut, key_text, plural
from lancekit._notebook.workbench.bench import Shell, layout, picker, show_if, side_by_side, sync
from lancekit._notebook.workbench.branch_bench import PAGE, BranchBench, conflict_table
from lancekit._notebook.workbench.merge_bench import MergeBench
from lancekit._notebook.workbench.picks import SIDES, Side, key_of
from lancekit._notebook.workbench.rules import CHOICES
from lancekit._operations.lineage.branch_merge import BranchMergePlan
from lancekit._operations.lineage.conflicts import ConflictedRow
from lancekit.options import options

if TYPE_CHECKING:
    import ipywidgets as w


def open_merge(
    builder: MergeInsertBuilder, data: object, schema: pa.Schema | None = None
) -> MergeBench:
    """Return the workbench of a merge-insert, with a first preview unless that needs Spark."""
    return MergeBench(builder, data, schema, _MergePanel)


def open_branches(plan: BranchMergePlan) -> BranchBench:
    """Return the workbench of a branch merge."""
    return BranchBench(plan, _BranchPanel)


# ---- widgets of the workbench of a branch merge


class _BranchPanel:
    def __init__(self, bench: BranchBench) -> None:
        import ipywidgets

        self._bench = bench
        sides: Mapping[str, Side] = {"none (pick below)": "fail", **SIDES}
        self._every = picker("side for all", sides.items(), self._choose_every)
        self._columns = side_by_side()
        self._rows = ipywidgets.VBox()
        self._back = button("◀ previous", "previous conflicts", lambda: self._turn(-1))
        self._on = button("next ▶", "next conflicts", lambda: self._turn(1))
        self._which = markup()
        self._pages = side_by_side(self._back, self._which, self._on)
        self._view = markup()
        self._shell = Shell(bench, "merge")
        choices = ipywidgets.VBox([self._every, self._columns, self._rows, self._pages])
        self.box = self._shell.box(choices, self._view)
        self._by_column: dict[str, w.Dropdown] = {}
        self._by_row: list[tuple[ConflictedRow, w.Dropdown, w.HTML]] = []
        self._drawn: list[ConflictedRow] | None = None

    def _choose_every(self, side: Side) -> None:
        picks = self._bench.state.choices
        self._bench.choose(type(picks)(every=side, columns=picks.columns, rows=picks.rows))

    def _turn(self, by: int) -> None:
        self._bench.turn(self._bench.start // PAGE + by)

    def draw(self) -> None:
        """Update the widgets from the bench's state."""
        state, plan = self._bench.state, self._bench.plan
        sync(self._every, state.choices.every)
        rows = self._bench.shown()
        if rows is not self._drawn:
            self._build(rows)
        columns, by_row = dict(state.choices.columns), dict(state.choices.rows)
        for name, pick in self._by_column.items():
            sync(pick, columns.get(name, ""))
        for row, pick, shown in self._by_row:
            sync(pick, by_row.get(key_of(row), ""))
            shown.value = render_table(conflict_table(row, state.choices))
        total, start = 0 if plan is None else plan.num_conflicts, self._bench.start
        show_if(self._every, _num_conflicts(plan) > 0)
        show_if(self._pages, total > PAGE)
        which = f"{count(start + 1)} to {count(start + len(rows))} of {plural(total, 'conflict')}"
        self._which.value = render_note(which)
        self._back.disabled, self._on.disabled = start == 0, start + PAGE >= total
        where = "" if plan is None else f"{clean(plan.theirs[0])} into {ref(*plan.ours)}"
        self._shell.draw(self._bench.code, self._summary(), where)
        done = state.phase == "done"
        self._view.value = "" if done else as_html(self._bench.view(datetime.now(UTC), why=False))

    def _summary(self) -> str:
        plan = self._bench.plan
        if plan is None or not (total := _num_conflicts(plan)):
            return "no conflicts"
        left = plan.num_unsettled
        summary = f"{count(total - left)} of {plural(total, 'conflict')} settled"
        return f"{summary}; pick a side for each other conflict" if left else summary

    def _build(self, rows: list[ConflictedRow]) -> None:
        """Build the widgets for a new page of conflicts."""
        import ipywidgets

        self._drawn, plan = rows, self._bench.plan
        changed = {} if plan is None else plan.conflicts.by_name
        whole = () if plan is None else plan.conflicts.by_column
        can = {one.column: one.sides for one in whole}
        names = list(dict.fromkeys([*can, *changed]))[: options.display_columns]
        self._by_column = {
            name: picker(
                f"{clean(name, 20)} ({_extent(name, changed)})",
                [("side for all", ""), *((one, SIDES[one]) for one in can.get(name, tuple(SIDES)))],
                self._of(name),
            )
            for name in names
        }
        self._columns.children = tuple(self._by_column.values())
        self._by_row = []
        for row in rows:
            sides = [("by column", ""), *SIDES.items()]
            pick = picker(cut(key_text(row.key), 40), sides, self._of_row(row))
            self._by_row.append((row, pick, markup()))
        self._rows.children = tuple(
            ipywidgets.VBox([shown, pick]) for _, pick, shown in self._by_row
        )

    def _of(self, name: str) -> Callable[[str], None]:
        bench = self._bench
        return lambda side: bench.choose(bench.state.choices.with_column(name, side))

    def _of_row(self, row: ConflictedRow) -> Callable[[str], None]:
        bench, key = self._bench, key_of(row)
        return lambda side: bench.choose(bench.state.choices.with_row(key, side))


def _extent(name: str, changed: Mapping[str, int]) -> str:
    return plural(changed[name], "row") if name in changed else "the column"


def _num_conflicts(plan: BranchMergePlan | None) -> int:
    return 0 if plan is None else plan.num_conflicts + len(plan.conflicts.by_column)


# ---- widgets of the workbench of a merge-insert

#: by text field: the rule and the case that need it, its label, and its placeholder
_TEXTS = {
    "condition": ("matched", "update if", "update if", "source.price > target.price"),
    "expr": ("missing", "delete if", "delete if", "price > 10"),
}


class _MergePanel:
    def __init__(self, bench: MergeBench) -> None:
        import ipywidgets

        self._bench = bench

        self._on = ipywidgets.SelectMultiple(
            options=[(clean(name), name) for name in bench.columns],
            rows=min(max(len(bench.columns), 2), 5),
            description="key",
            **layout(),
        )
        self._on.observe(lambda change: self._choose(on=tuple(change["new"])), "value")
        self._rules = {
            name: picker(choice.label, choice.options.items(), self._chooser(name))
            for name, choice in CHOICES.items()
        }
        self._texts = {}
        for name, (*_, label, example) in _TEXTS.items():
            text = ipywidgets.Text(
                description=label, placeholder=example, continuous_update=False, **layout("480px")
            )
            text.observe(lambda change, name=name: self._choose(**{name: change["new"]}), "value")
            self._texts[name] = text
        columns = [(clean(name), name) for name in bench.source.schema.names]
        self._largest = picker(
            "the largest", [("choose a column", ""), *columns], self._chooser("largest")
        )
        self._shell = Shell(bench, "apply")
        self._view = markup()
        rules, texts = self._rules, self._texts
        choices = ipywidgets.VBox(
            [
                self._on,
                side_by_side(rules["matched"], texts["condition"]),
                rules["new"],
                side_by_side(rules["missing"], texts["expr"]),
                side_by_side(rules["dedupe"], self._largest),
            ]
        )
        self.box = self._shell.box(choices, self._view)

    def _chooser(self, name: str) -> Callable[[str], None]:
        return lambda value: self._choose(**{name: value})

    def _choose(self, **changes: Any) -> None:
        self._bench.choose(replace(self._bench.state.choices, **changes))

    def draw(self) -> None:
        """Update the widgets from the bench's state."""
        state = self._bench.state
        rules = state.choices
        sync(self._on, rules.on)
        for name, widget in self._rules.items():
            sync(widget, getattr(rules, name))
        for name, (rule, case, *_) in _TEXTS.items():
            sync(self._texts[name], getattr(rules, name))
            show_if(self._texts[name], getattr(rules, rule) == case)
        sync(self._largest, rules.largest)
        show_if(self._largest, rules.dedupe == "largest")
        plan = state.plan
        where = "" if plan is None else f"to {ref(plan.branch, plan.version)}"
        self._shell.draw(self._bench.code, self._summary(), where)
        done = state.phase == "done"
        self._view.value = "" if done else as_html(self._bench.view(datetime.now(UTC), why=False))

    def _summary(self) -> str:
        plan = self._bench.state.plan
        if plan is None:
            return ""
        counts = {
            "to insert": plan.num_inserted_rows,
            "to update": plan.num_updated_rows,
            "to delete": plan.num_deleted_rows,
            "unchanged": plan.num_unchanged_rows,
        }
        return ", ".join(f"{count(number)} {word}" for word, number in counts.items())
