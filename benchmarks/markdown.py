"""Tables of Markdown, and the numbers in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

__all__ = ["filled", "ms", "ratios", "table"]


def table(heading: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table; all columns but the first are to the right."""
    rule = ["---", *["---:"] * (len(heading) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heading, rule, *lines)) + "\n"


def ratios(
    ours: Sequence[float], theirs: Sequence[float], goals: Sequence[float] = ()
) -> list[str]:
    """Return what ours are of theirs, one by one; bold where it is more than the goal."""
    found = []
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        ratio = one / other if other else math.nan
        shown = "" if math.isnan(ratio) else f"{ratio:.2f}"
        missed = number < len(goals) and float(shown or 0) > goals[number]
        found.append(f"**{shown}**" if missed else shown)
    return found


def ms(values: Sequence[float]) -> str:
    """Return milliseconds, of three digits or all before the point."""
    return ", ".join(f"{v:,.0f}" if v >= 100 else f"{v:.3g}" for v in values)


def filled(cells: Sequence[str], count: int) -> list[str]:
    """Return so many cells, the last of them empty if there are not enough."""
    return [*cells, *[""] * (count - len(cells))]
