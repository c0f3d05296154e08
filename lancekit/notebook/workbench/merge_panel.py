"""The widgets of a merge-insert's workbench."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lancekit.notebook.cards.common import ref
from lancekit.notebook.render.controls import drawn, markup
from lancekit.notebook.render.words import clean, count
from lancekit.notebook.workbench.merge_bench import MergeBench
from lancekit.notebook.workbench.rules import CHOICES
from lancekit.notebook.workbench.shell import Shell, chosen, layout, picker, shown_if, side_by_side

__all__ = ["merge_panel"]

#: which texts a rule asks for, and in which case; what stands in them at first
_TEXTS = {
    "condition": ("matched", "update if", "update if", "source.price > target.price"),
    "expr": ("lacked", "delete if", "delete if", "price > 10"),
}


def merge_panel(bench: MergeBench) -> Any:
    """Return the widgets, which show every step."""
    made = _MergePanel(bench)
    bench.watch(made.draw)
    made.draw()
    return made.box


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
        columns = [(clean(name), name) for name in bench.held.schema.names]
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
                rules["alone"],
                side_by_side(rules["lacked"], texts["expr"]),
                side_by_side(rules["twice"], self._largest),
            ]
        )
        self.box = self._shell.box(choices, self._view)

    def _chooser(self, name: str) -> Any:
        return lambda value: self._choose(**{name: value})

    def _choose(self, **changes: Any) -> None:
        self._bench.choose(replace(self._bench.state.chosen, **changes))

    def draw(self) -> None:
        """Show the state of the bench."""
        state = self._bench.state
        rules = state.chosen
        chosen(self._on, rules.on)
        for name, widget in self._rules.items():
            chosen(widget, getattr(rules, name))
        for name, (rule, case, *_) in _TEXTS.items():
            chosen(self._texts[name], getattr(rules, name))
            shown_if(self._texts[name], getattr(rules, rule) == case)
        chosen(self._largest, rules.largest)
        shown_if(self._largest, rules.twice == "largest")
        plan = state.plan
        where = "" if plan is None else f"to {ref(plan.branch, plan.version)}"
        self._shell.draw(self._bench.code, self._said(), where)
        done = state.phase == "done"
        self._view.value = "" if done else drawn(self._bench.view(datetime.now(UTC), why=False))

    def _said(self) -> str:
        plan = self._bench.state.plan
        if plan is None:
            return ""
        counts = {
            "insert": plan.num_inserted_rows,
            "update": plan.num_updated_rows,
            "delete": plan.num_deleted_rows,
            "leave": plan.num_unchanged_rows,
        }
        return "would " + ", ".join(f"{word} {count(number)}" for word, number in counts.items())
