"""An expression as it is written: pieces without types, each with its place in the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["AGGREGATES", "AggregateCall", "Listed", "Syntax", "TypeName"]

AGGREGATES = ("count", "sum", "min", "max", "avg")


@dataclass(frozen=True, slots=True, eq=False)
class Syntax:
    """A piece of an expression.

    Parentheses leave no piece behind, and a chain of ``AND`` or of ``OR`` is one piece.

    Attributes
    ----------
    kind
        What it is: an operator as it is written in capitals (``"="``, ``"AND"``, ``"IS NULL"``),
        or ``"literal"``, ``"column"``, ``"field"``, ``"element"``, ``"list"``, ``"call"``,
        ``"CAST"``, ``"TRY_CAST"``, ``"star"``, ``"aggregate"``.
    parts
        The pieces that it is made of, in the order of the text.
    value
        The value of a literal, the names of a column's path, the name of a field or function,
        the `TypeName` of a cast, the character that escapes in a ``LIKE``, the `Listed` literals
        of an ``IN``, an `AggregateCall`.
    start, end
        Where in the text it stands, with the parentheses around it.
    at
        Where in the text an error of it points.
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

    @property
    def is_number(self) -> bool:
        """Whether it is a number that is written out."""
        value = self.value
        return self.kind == "literal" and not isinstance(value, str | bytes | bool | None)


class TypeName(NamedTuple):
    """The name of a type in small letters, what stands in parentheses behind it, and both."""

    name: str
    sizes: tuple[str, ...]
    text: str


class Listed(NamedTuple):
    """The literals of a list: their values, and where in the text each begins."""

    values: list[Any]
    places: Iterable[int]


class AggregateCall(NamedTuple):
    """The name of an aggregate, and what its parts are besides arguments.

    If `filtered`, the last part is the condition of the rows that it looks at.
    """

    name: str
    distinct: bool
    filtered: bool
