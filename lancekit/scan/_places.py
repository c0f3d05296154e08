"""Errors that point at a place in the text of an expression."""

from __future__ import annotations

from typing import Any

from lancekit.errors import PredicateError

__all__ = ["failure", "pointed"]

_PIECE = 160  # of a long line, shown around the place


def pointed(sql: str, position: int) -> str:
    """Return the line of a text that an offset lies in, with a caret under it.

    Examples
    --------
    >>> print(pointed("x > 1 AND nosuch = 2", 10))
      x > 1 AND nosuch = 2
                ^
    """
    start = sql.rfind("\n", 0, position) + 1
    line = sql[start:].partition("\n")[0]
    column = position - start
    if len(line) > _PIECE:
        first = max(0, column - _PIECE // 2)
        line, column = line[first : first + _PIECE], column - first
    # tabs stand in the second line as in the first
    blank = "".join("\t" if c == "\t" else " " for c in line[:column]).ljust(column)
    return f"  {line}\n  {blank}^"


def failure(sql: str, what: str, position: int, hint: str = "", **context: Any) -> PredicateError:
    """Return the error of a place in the text."""
    before = sql[:position]
    line, column = before.count("\n") + 1, position - before.rfind("\n")
    return PredicateError(
        f"{what}\n{pointed(sql, position)}\n",
        hint=hint,
        **{"sql": sql, "position": position, "line": line, "column": column, **context},
    )
