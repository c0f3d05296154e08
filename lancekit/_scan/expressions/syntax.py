"""Syntax trees of expressions, with the position of each node, and errors that point there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lancekit._legible import clean
from lancekit.errors import PredicateError

AGGREGATES = ("count", "sum", "min", "max", "avg")


@dataclass(frozen=True, slots=True, eq=False)
class Syntax:
    """A node of an expression's syntax tree.

    Parentheses make no node. A chain of ``AND`` or of ``OR`` makes one.

    kind: an operator in capitals (``"="``, ``"AND"``, ``"IS NULL"``), or ``"literal"``,
        ``"column"``, ``"field"``, ``"element"``, ``"list"``, ``"call"``, ``"CAST"``,
        ``"TRY_CAST"``, ``"star"``, ``"aggregate"``.
    parts: the child nodes, in the order of the text.
    value: the value of a literal, the names of a column's path, the name of a field or function,
        the `TypeName` of a cast, the escape character of a ``LIKE``, the `Listed` literals of an
        ``IN``, an `AggregateCall`.
    start, end: the span in the text, including surrounding parentheses.
    at: the position in the text that errors point to.
    """

    kind: str
    parts: tuple[Syntax, ...] = ()
    value: Any = None
    start: int = 0
    end: int = 0
    at: int = 0

    def walk(self) -> Iterator[Syntax]:
        """Yield the node and all its descendants."""
        waiting = [self]
        while waiting:
            piece = waiting.pop()
            yield piece
            waiting += piece.parts

    @property
    def is_column(self) -> bool:
        """True if the node is a top-level column of the table."""
        return self.kind == "column" and len(self.value) == 1


class TypeName(NamedTuple):
    """The name of a type in small letters, its sizes in parentheses, and the whole text."""

    name: str
    sizes: tuple[str, ...]
    text: str


class Listed(NamedTuple):
    """The literals of a list: their values, and the position of each in the text."""

    values: list[object]
    places: Iterable[int]


class AggregateCall(NamedTuple):
    """The name of an aggregate, with its modifiers.

    If `filtered`, the last part of the node is the condition on its rows.
    """

    name: str
    distinct: bool
    filtered: bool


def show(value: object) -> str:
    """Return the SQL text of a literal."""
    match value:
        case bool():
            return str(value).upper()
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
    return str(value)


# ---- errors that point to a position in an expression

_PIECE = 160  # of a long line, shown around the position
_SHOWN = 10 * _PIECE  # with each character escaped


def _pointed(sql: str, position: int) -> str:
    """Return the line of a text that contains an offset, with a caret under it.

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
    # cleaned here, so that the caret is below the cleaned character
    line, before = (clean(text.expandtabs(4), _SHOWN) for text in (line, line[:column]))
    return f"  {line}\n  {' ' * len(before)}^"


class TooLargeError(PredicateError):
    """The texts of all rows together would take too much memory; a smaller batch may not."""

    kind = "predicate"


def as_class(cls: type[PredicateError], error: PredicateError) -> PredicateError:
    """Return a copy of an error, of another class."""
    first, *others = error.message.split("\n")
    return cls(first, details=others, hint=error.hint, **error.context)


def failure(
    sql: str, what: str, position: int, hint: str = "", **context: object
) -> PredicateError:
    """Return an error that points to a position in an expression."""
    before = sql[:position]
    line, character = before.count("\n") + 1, position - before.rfind("\n")
    return PredicateError(
        what,
        details=[*_pointed(sql, position).split("\n"), ""],
        hint=hint,
        **{"sql": sql, "position": position, "line": line, "character": character, **context},
    )


@contextmanager
def not_too_deep(sql: str) -> Iterator[None]:
    """Raise a `PredicateError` if an expression is nested too deeply."""
    try:
        yield
    except RecursionError:
        raise failure(
            sql,
            "the expression is nested too deeply:",
            0,
            "Write it with fewer parentheses, or as IN (...) instead of many ORs.",
        ) from None


_OPPOSITES = {"=": "<>", "<": ">=", ">": "<=", "IN": "NOT IN"}
_OPPOSITES["IS DISTINCT FROM"] = "IS NOT DISTINCT FROM"
_OPPOSITES |= {opposite: kind for kind, opposite in _OPPOSITES.items()}


def opposite(tree: Syntax) -> Syntax:
    """Return the negation of a condition, by the opposite operator if SQL has it.

    Below ``NOT``, numbers are compared as doubles, so both conditions could be true.
    """
    if tree.kind in _OPPOSITES:
        return replace(tree, kind=_OPPOSITES[tree.kind])
    return Syntax("NOT", (tree,))
