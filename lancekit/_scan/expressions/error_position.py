"""Errors that point at a place in the text of an expression."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lancekit._legible import clean
from lancekit.errors import PredicateError

__all__ = ["TooLargeError", "as_class", "failure", "not_too_deep", "pointed"]

_PIECE = 160  # of a long line, shown around the place
_SHOWN = 10 * _PIECE  # each character spelled out


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
    # cleaned here, so that the caret stands below what is shown of the place
    line, before = (clean(text.expandtabs(4), _SHOWN) for text in (line, line[:column]))
    return f"  {line}\n  {' ' * len(before)}^"


class TooLargeError(PredicateError):
    """The texts of so many rows would take too much memory; those of fewer may not."""


def as_class(cls: type[PredicateError], error: PredicateError) -> PredicateError:
    """Return the same error, of another class."""
    first, *others = error.message.split("\n")
    return cls(first, details=others, hint=error.hint, **error.context)


def failure(
    sql: str, what: str, position: int, hint: str = "", **context: object
) -> PredicateError:
    """Return the error of a place in the text."""
    before = sql[:position]
    line, column = before.count("\n") + 1, position - before.rfind("\n")
    return PredicateError(
        what,
        details=[*pointed(sql, position).split("\n"), ""],
        hint=hint,
        **{"sql": sql, "position": position, "line": line, "column": column, **context},
    )


@contextmanager
def not_too_deep(sql: str) -> Iterator[None]:
    """Give the error of a text whose pieces stand within each other too deeply."""
    try:
        yield
    except RecursionError:
        raise failure(
            sql,
            "the expression is nested too deeply:",
            0,
            "Write it with fewer parentheses, or as IN (...) instead of many ORs.",
        ) from None
