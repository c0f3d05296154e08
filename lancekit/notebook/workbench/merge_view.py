"""What a merge's workbench shows: the preview, and what is odd about the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from lancekit.errors import NullKeyError
from lancekit.notebook.cards.common import facts
from lancekit.notebook.cards.merge_plan import merge_plan_card
from lancekit.notebook.render.controls import told_error
from lancekit.notebook.render.models import Card, Column, Fact, Row, Table
from lancekit.notebook.render.words import cell, clean, count, listing, plural
from lancekit.notebook.workbench.rules import Rules
from lancekit.notebook.workbench.source import Drift, Held, Odd, drift
from lancekit.notebook.workbench.steps import State
from lancekit.operations.merge.preview import MergePlan
from lancekit.options import options

__all__ = ["merge_bench_card"]


def merge_bench_card(
    state: State[Rules], held: Held, schema: pa.Schema, now: datetime, *, why: bool = True
) -> Card:
    """Return the preview of a merge, or that there is none.

    Parameters
    ----------
    state
        Where the workbench is.
    held, schema
        The source, and the dataset's columns.
    now
        What ages are counted from.
    why
        Whether to say why there is none.
    """
    rules, plan = state.chosen, state.plan
    odd, differing = held.odd(rules.on), drift(held.schema, schema)
    about = (
        *facts(("null keys", _nulls(odd, state)), ("repeated keys", _repeated(odd, rules))),
        *facts(("schema", _drift_in_words(differing))),
    )
    tables = (*_repeated_table(odd, rules), *_drift_table(differing, rules))
    if isinstance(plan, MergePlan):
        card = merge_plan_card(plan, now)
        told = tuple(fact for fact in card.facts if fact.label not in {"apply", "duplicates"})
        return replace(card, facts=(*about, *told), tables=(*tables, *card.tables))
    reason = "not previewed yet: it is work on Spark"
    if state.error is not None:
        reason = " ".join(told_error(state.error).split()) if why else "no preview"
    return Card(
        kind="Merge plan",
        title=f"merge on {listing(rules.on, options.display_columns) or 'no key'}",
        headline=(reason,),
        facts=about,
        tables=tables,
    )


# ---- keys


def _nulls(odd: Odd, state: State[Rules]) -> str:
    if not odd.nulls:
        return ""
    fate = "is inserted as new" if state.chosen.alone == "insert" else "is left out"
    if isinstance(state.error, NullKeyError):
        return f"{plural(odd.nulls, 'source row')} with a null in the key, which it may not have"
    rows = f"{plural(odd.nulls, 'source row')} with a null in the key"
    return f"{rows}: a null equals nothing, so each {fate}"


def _repeated(odd: Odd, rules: Rules) -> str:
    if not odd.repeated:
        return ""
    kept = {
        "first": "of each key the first row is kept",
        "last": "of each key the last row is kept",
        "largest": f"of each key the row with the largest {clean(rules.largest)} is kept",
    }
    said = "such rows are refused: choose which to keep"
    return kept.get(rules.twice, said)


def _repeated_table(odd: Odd, rules: Rules) -> Iterator[Table]:
    if odd.repeated:
        shown = odd.repeated[: options.display_rows]
        yield Table(
            caption="Keys of several source rows",
            columns=tuple(Column(clean(name)) for name in rules.on),
            rows=tuple(Row(tuple(map(cell, key))) for key in shown),
            note=f"{plural(len(shown), 'key')} of those that occur more than once",
        )


# ---- columns


def _drift_in_words(differing: tuple[Drift, ...]) -> str:
    kinds = {
        "not in the dataset": [one for one in differing if one.dataset is None],
        "of another type": [one for one in differing if one.source and one.dataset],
        "not in the source": [one for one in differing if one.source is None],
    }
    return "; ".join(f"{count(len(some))} {kind}" for kind, some in kinds.items() if some)


def _drift_table(differing: tuple[Drift, ...], rules: Rules) -> Iterator[Table]:
    if differing:
        shown = differing[: options.display_columns]
        yield Table(
            caption="Columns that differ",
            columns=tuple(map(Column, ("column", "source", "dataset", "what becomes of it"))),
            rows=tuple(_drifted(one, rules) for one in shown),
            note=f"{count(len(shown))} of {plural(len(differing), 'column')}",
            folded=all(one.fits for one in differing),
        )


def _drifted(one: Drift, rules: Rules) -> Row:
    types = ("—" if kind is None else clean(str(kind)) for kind in (one.source, one.dataset))
    return Row((clean(one.column), *types, _fate(one, rules)), quiet=one.source is None)


def _fate(one: Drift, rules: Rules) -> str:
    if one.dataset is None:
        return "refused: leave it out, or add the column to the dataset first"
    if one.source is None:
        kept = "keeps its values" if rules.matched.startswith("update") else ""
        new = "null in new rows" if rules.alone == "insert" else ""
        return ", ".join(filter(None, [kept, new])) or "not touched"
    return "cast, if no value is lost" if one.fits else "refused: cast it first"


def code_fact(code: str) -> Fact:
    """Return the code that does what is chosen."""
    return Fact("code", code, code=True)
