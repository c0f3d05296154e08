"""The card of what an operation would do."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from lancekit.notebook.cards.common import ENGINES, facts, ref
from lancekit.notebook.render.models import Card, Fact
from lancekit.notebook.render.words import clean, count, listing, plural, size
from lancekit.operations.explain.explanation import Explanation, Reads, Writes
from lancekit.options import options

__all__ = ["explanation_card", "read_facts", "written"]


def explanation_card(told: Explanation, _now: datetime) -> Card:
    return Card(
        kind="Explanation",
        title=f"{clean(told.operation)} of {ref(told.branch, told.version)}",
        headline=(
            f"would run {ENGINES.get(told.engine, told.engine)}",
            f"reads about {size(told.reads.bytes)}" if told.reads else "reads no rows",
            f"commits {', '.join(told.commits)}" if told.commits else "commits nothing",
        ),
        facts=(
            *facts(("because", clean(told.why))),
            *read_facts(told.reads),
            *facts(("writes", written(told.writes) or "nothing but metadata" * bool(told.commits))),
            *notes(told.notes),
        ),
    )


def read_facts(reads: Reads | None) -> tuple[Fact, ...]:
    """Return how much will be read, and which columns."""
    if reads is None:
        return ()
    return facts(
        (
            "reads",
            f"about {size(reads.bytes)}: {plural(reads.rows, 'row')} of {count(reads.fragments)} "
            f"of {plural(reads.all_fragments, 'fragment')}",
        ),
        ("columns", listing(reads.columns, options.display_columns) or "none"),
    )


def written(writes: Writes | None) -> str:
    """Return what will be written, in words."""
    if writes is None:
        return ""
    limits = []
    if writes.rows is not None:
        limits.append(plural(writes.rows, "row"))
    if writes.bytes is not None:
        limits.append(f"about {size(writes.bytes)}")
    most = "" if writes.exact else "at most "
    return clean(writes.what) + (f" ({most}{', '.join(limits)})" if limits else "")


def notes(lines: Iterable[str]) -> tuple[Fact, ...]:
    return tuple(Fact("note" if at == 0 else "", clean(line)) for at, line in enumerate(lines))
