"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["table"]


def table(heading: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table; all columns but the first are to the right."""
    rule = ["---", *["---:"] * (len(heading) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heading, rule, *lines)) + "\n"
