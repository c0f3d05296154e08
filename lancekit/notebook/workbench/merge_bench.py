"""The workbench of a merge-insert: keys and rules by clicks, and what they would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lancekit.api.merge_builder import MergeInsertBuilder
from lancekit.notebook.cards.common import ref
from lancekit.notebook.render.models import Card
from lancekit.notebook.workbench.bench import Bench, taken_back
from lancekit.notebook.workbench.merge_view import code_fact, merge_bench_card
from lancekit.notebook.workbench.rules import Rules, built, code_of, rules_of
from lancekit.notebook.workbench.source import hold
from lancekit.operations.common.results import MergeResult
from lancekit.operations.merge.preview import MergePlan
from lancekit.versions.listing import latest_snapshot, list_versions

__all__ = ["MergeBench"]


class MergeBench(Bench[Rules]):
    """A merge-insert of held rows; `MergeInsertBuilder.interactive` makes it.

    Parameters
    ----------
    builder
        What was said of the merge before.
    data, schema
        The source, as of `MergeInsertBuilder.execute`.
    panel
        Makes the widgets.
    """

    def __init__(
        self,
        builder: MergeInsertBuilder,
        data: Any,
        schema: pa.Schema | None,
        panel: Callable[[MergeBench], Any],
    ) -> None:
        self._builder = builder
        self._handle = builder._handle
        self.held = hold(data, schema, self._handle._snapshot.row_schema)
        key = tuple(field.name for field in self._handle._snapshot.manifest.schema.primary_key)
        rules = rules_of(builder, builder._clauses.on or key)
        super().__init__(rules, panel, on_demand=self.held.on_demand)
        self._rows = "df" if schema is None else "df, schema=schema"
        if not self.held.on_demand:
            self._look(rules)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that can be keys: those of both sides, and what was given."""
        names = self.schema.names
        both = [name for name in self.held.schema.names if name in names]
        return tuple(dict.fromkeys([*both, *self.state.chosen.on]))

    @property
    def schema(self) -> pa.Schema:
        """The dataset's columns."""
        return self._handle._snapshot.row_schema

    @property
    def code(self) -> str:
        """The call that does what is chosen."""
        return code_of(self._builder, self.state.chosen, self._rows)

    def view(self, now: datetime, *, why: bool = True) -> Card:
        """Return what is shown of the preview, and ``why`` there is none."""
        return merge_bench_card(self.state, self.held, self.schema, now, why=why)

    # ---- what a workbench asks for

    def _preview(self, chosen: Rules) -> MergePlan:
        handle = self._handle
        newest = handle._snapshot
        if not handle._read_only and list_versions(handle._line).latest != newest.version:
            newest = latest_snapshot(handle._line)
        return built(self._builder, chosen)._preview_at(newest, self.held.rows, self.held.cast)

    def _moved(self, plan: MergePlan) -> str:
        handle = self._handle
        latest = plan.version if handle._read_only else list_versions(handle._line).latest
        if latest == plan.version:
            return ""
        was, now = ref(plan.branch, plan.version), ref(plan.branch, latest)
        return f"Others wrote: {was} became {now}. This is what would happen now; apply it again."

    def _read(self, plan: MergePlan) -> int:
        return plan.version

    def _apply(self, plan: MergePlan) -> MergeResult:
        return plan.apply()

    def _take_back(self, result: MergeResult) -> str:
        handle = self._handle
        line = handle._line if result.line is None else result.line
        handle._move(lambda _: taken_back(line, result.version))
        where, there = (ref(result.branch, v) for v in (handle.version, result.version - 1))
        return f"Taken back: {where} has the rows of {there}."

    def _drop(self, plan: MergePlan) -> None:
        plan.close()

    # ---- how it is shown

    def _card(self, now: datetime) -> Card:
        card = self.view(now)
        return replace(card, facts=(*card.facts, code_fact(self.code)))

    def _plain(self) -> str:
        return f"MergeBench({self._handle.uri!r})"
