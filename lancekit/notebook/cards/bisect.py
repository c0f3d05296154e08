"""The card of a bisection: the commit at which the answer changed, and how to take it back."""

from __future__ import annotations

from datetime import datetime

from lancekit.api.bisect import Bisection, Flip
from lancekit.notebook.cards.common import (
    COMMIT_COLUMNS,
    NAMES,
    commit_cells,
    facts,
    operation_word,
    ref,
    table,
    when_and_age,
)
from lancekit.notebook.render.models import Card, Column, Fact, Row, Table
from lancekit.notebook.render.words import clean, count, listing, plural
from lancekit.options import options

__all__ = ["bisection_card"]

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
