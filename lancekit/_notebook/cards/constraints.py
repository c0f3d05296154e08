"""Cards of constraints, of constraint checks, and of rows with duplicate keys."""

from __future__ import annotations

from datetime import datetime

from lancekit._api.constraints import ConstraintResult, ConstraintRun, Constraints, Duplicates
from lancekit._legible import python_rows, python_value
from lancekit._notebook.cards.common import NAMES, facts, ref, table, titled
from lancekit._notebook.render.models import Card, Column, Fact, Row, Table
from lancekit._notebook.render.words import cell, clean, count, listing, plural
from lancekit.dataset import Constraint
from lancekit.options import options

_WORDS = {True: "passed", False: "failed", None: "not checked"}
_CELL = 80


def constraints_card(constraints: Constraints, _now: datetime) -> Card:
    def row(constraint: Constraint) -> Row:
        if constraint.unknown:
            return Row((clean(constraint.name), clean(constraint.unknown), "", ""))
        cells = (clean(constraint.name), clean(constraint.condition), constraint.on_fail)
        return Row((*cells, "not checked" if constraint.existing == "allow" else ""))

    listed = constraints.list()
    columns = titled("name", "condition", "on failure", "existing rows")
    return Card(
        kind="Constraints",
        title=plural(len(listed), "constraint"),
        headline=() if listed else ("ds.constraints.add(name, condition)",),
        tables=(table(caption="By name", columns=columns, rows=tuple(map(row, listed))),)
        if listed
        else (),
    )


def constraint_run_card(run: ConstraintRun, _now: datetime) -> Card:
    broken = sum(result.holds is False for result in run.results)
    untried = sum(result.holds is None for result in run.results)
    columns = titled("name", "condition", "result", "violations", numeric=("violations",))
    samples = tuple(_sample(result) for result in run.results if result.holds is False)
    return Card(
        kind="Constraints",
        title=f"checked on {ref(run.branch, run.version)}",
        headline=(
            f"{count(len(run.results) - broken - untried)} passed",
            f"{count(broken)} failed",
            *((f"{count(untried)} not checked",) if untried else ()),
        ),
        tables=(
            table(caption="By name", columns=columns, rows=tuple(map(_row, run.results))),
            *samples,
        )
        if run.results
        else (),
    )


def _row(result: ConstraintResult) -> Row:
    found = _WORDS[result.holds] + (f": {result.problem}" if result.problem else "")
    rows = "" if result.violations is None else count(result.violations)
    return Row((clean(result.name), clean(result.condition), clean(found), rows))


def _sample(result: ConstraintResult) -> Table:
    """Return a table of sample rows that violate a constraint; no rows if there is no sample."""
    rows = [] if result.sample is None else python_rows(result.sample)
    columns = () if result.sample is None else tuple(result.sample.column_names)
    shown = columns[: options.display_columns]
    more = result.violations is not None and result.violations > len(rows)
    return table(
        caption=clean(result.name),
        columns=tuple(Column(clean(name)) for name in shown),
        rows=tuple(Row(tuple(cell(row[name], _CELL) for name in shown)) for row in rows),
        note=f"{count(len(rows))} of {plural(result.violations or 0, 'row')}" if more else "",
    )


# ---- the card of rows with duplicate keys


def duplicates_card(found: Duplicates, _now: datetime) -> Card:
    """Return the card of rows with duplicate keys; the result has read the rows already."""
    shown = found._found.slice(0, options.display_rows)
    columns = [list(map(python_value, column)) for column in shown.columns]
    return Card(
        kind="Duplicates",
        title=f"{count(found.rows)} of {plural(found.total, 'row')}",
        headline=(plural(found.keys, "duplicate key"),),
        facts=facts(
            ("key", listing(found.on, NAMES)),
            *([Fact("next", ".to_table()", code=True)] if found.rows else ()),
        ),
        tables=(
            table(
                caption="Rows with duplicate keys",
                columns=tuple(Column(clean(name)) for name in shown.column_names),
                rows=tuple(Row(tuple(map(cell, values))) for values in zip(*columns, strict=True)),
                note=f"{count(len(shown))} of {plural(found.rows, 'row')}",
            ),
        )
        if found.rows
        else (),
    )
