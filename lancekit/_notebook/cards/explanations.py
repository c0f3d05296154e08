"""The card of what an operation would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from lancekit._notebook.cards.common import ENGINES, facts, ref
from lancekit._notebook.render.models import Card, Fact
from lancekit._notebook.render.words import clean, count, listing, plural, size
from lancekit._operations.explain.explanation import Explanation, PlanNode, Reads, Writes
from lancekit.options import options

__all__ = ["explanation_card", "read_facts", "written"]

#: what is in front of a node that is an input of the one above, and of its own inputs; browsers do
#: not join these blanks
_NEXT, _LAST = ("├\u00a0", "│\u00a0"), ("└\u00a0", "\u00a0\u00a0")


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
            *_labelled("plan", _lines(told.plan) if told.plan else ()),
            *facts(("writes", written(told.writes) or "nothing but metadata" * bool(told.commits))),
            *_labelled("note", map(clean, told.notes)),
        ),
    )


def read_facts(reads: Reads | None) -> tuple[Fact, ...]:
    """Return how much will be read, and which columns."""
    if reads is None:
        return ()
    return facts(
        ("reads", f"about {size(reads.bytes)}: {_rows(reads)}"),
        ("columns", _columns(reads) or "none"),
    )


def _rows(reads: Reads) -> str:
    return (
        f"{plural(reads.rows, 'row')} of {count(reads.fragments)} "
        f"of {plural(reads.all_fragments, 'fragment')}"
    )


def _columns(reads: Reads) -> str:
    return listing(reads.columns, options.display_columns)


def _lines(node: PlanNode, before: str = "", below: str = "") -> Iterator[str]:
    """Yield a line for each node of a plan: the result first, what it is made of below."""
    told = clean(node.does)
    if (amount := node.reads) is not None:
        parts = (
            _columns(amount),
            f"{told} {_rows(amount)}".lstrip(),
            f"about {size(amount.bytes)}",
        )
        told = " · ".join(filter(None, parts))
    yield f"{before}{node.name}  {told}".rstrip()
    for at, one in enumerate(node.inputs, start=1):
        corner, bar = _LAST if at == len(node.inputs) else _NEXT
        yield from _lines(one, below + corner, below + bar)


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


def _labelled(label: str, lines: Iterable[str]) -> tuple[Fact, ...]:
    """Return lines below one another, of which the first has a label."""
    return tuple(Fact("" if at else label, line) for at, line in enumerate(lines))
