"""An expression as it is written, each piece with its place, and errors that point there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from lancekit._legible import clean
from lancekit.errors import PredicateError

AGGREGATES = ("count", "sum", "min", "max", "avg")


@dataclass(frozen=True, slots=True, eq=False)
class Syntax:
    """A piece of an expression.

    Parentheses leave no piece behind, and a chain of ``AND`` or of ``OR`` is one piece.

    kind: what it is: an operator as it is written in capitals (``"="``, ``"AND"``, ``"IS NULL"``),
        or ``"literal"``, ``"column"``, ``"field"``, ``"element"``, ``"list"``, ``"call"``,
        ``"CAST"``, ``"TRY_CAST"``, ``"star"``, ``"aggregate"``.
    parts: the pieces that it is made of, in the order of the text.
    value: the value of a literal, the names of a column's path, the name of a field or function,
        the `TypeName` of a cast, the character that escapes in a ``LIKE``, the `Listed` literals of
        an ``IN``, an `AggregateCall`.
    start, end: where in the text it stands, with the parentheses around it.
    at: where in the text an error of it points.
    """

    kind: str
    parts: tuple[Syntax, ...] = ()
    value: Any = None
    start: int = 0
    end: int = 0
    at: int = 0

    def walk(self) -> Iterator[Syntax]:
        """Yield the piece and all within it."""
        waiting = [self]
        while waiting:
            piece = waiting.pop()
            yield piece
            waiting += piece.parts

    @property
    def is_column(self) -> bool:
        """Whether it is a column of the table, and none within another."""
        return self.kind == "column" and len(self.value) == 1


class TypeName(NamedTuple):
    """The name of a type in small letters, what stands in parentheses behind it, and both."""

    name: str
    sizes: tuple[str, ...]
    text: str


class Listed(NamedTuple):
    """The literals of a list: their values, and where in the text each begins."""

    values: list[object]
    places: Iterable[int]


class AggregateCall(NamedTuple):
    """The name of an aggregate, and what its parts are besides arguments.

    If `filtered`, the last part is the condition of the rows that it looks at.
    """

    name: str
    distinct: bool
    filtered: bool


def show(value: object) -> str:
    """Write a literal as it stands in a filter."""
    match value:
        case bool():
            return str(value).upper()
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
    return str(value)


# ---- errors that point at a place in the text of an expression

_PIECE = 160  # of a long line, shown around the place
_SHOWN = 10 * _PIECE  # each character spelled out


def _pointed(sql: str, position: int) -> str:
    """Return the line of a text that an offset lies in, with a caret under it.

    Examples
    --------
    >>> print(_pointed("x > 1 AND nosuch = 2", 10))
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
        details=[*_pointed(sql, position).split("\n"), ""],
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
