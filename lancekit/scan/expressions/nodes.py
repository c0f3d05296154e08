"""A bound expression: a tree that gives one value for each row of a schema.

What a filter or a computed column means is in this tree alone: the names of its columns are
resolved, each part has a type, literals have the types of the columns beside them, and ``now()``
is a literal.  A tree can be pickled: functions are named, and each process has its own kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "ArrowExpr",
    "Call",
    "Expr",
    "FieldRef",
    "InList",
    "Literal",
    "Place",
    "all_of",
    "columns_of",
    "field_of",
    "negation",
    "walk",
]


#: how many parts an expression has, what makes it of these, and what else that takes
_Shell: TypeAlias = "tuple[int, Callable[..., Expr], tuple[Any, ...]]"


class Place(NamedTuple):
    """A place in the text of an expression, for its errors."""

    text: str
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """An expression that is bound to a schema.

    Attributes
    ----------
    type
        The type of its values.
    at
        Where its errors point.
    """

    type: pa.DataType
    at: Place = field(default=Place("", 0), repr=False, kw_only=True)

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions that it is computed from."""
        return ()

    def shell(self) -> _Shell:
        """Return what makes the same of its parts: their number, a function, and what it takes."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        # flat: a tree may be deeper than what is pickled one within the other
        return _unpickled, ([part.shell() for part in walk(self)],)


def _unpickled(shells: list[_Shell]) -> Expr:
    made: list[Expr] = []
    for count, make, arguments in reversed(shells):
        first = len(made) - count
        made[first:] = [make(*arguments, *made[first:])]
    return made[0]


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expr):
    """The same value for all rows."""

    value: pa.Scalar

    def shell(self) -> _Shell:
        """Return what makes the same."""
        return 0, _literal, (self.at, pa.repeat(self.value, 1))  # scalars import pandas


def _literal(at: Place, values: pa.Array) -> Literal:
    return Literal(values.type, values[0], at=at)


@dataclass(frozen=True, slots=True, eq=False)
class FieldRef(Expr):
    """A column, or a field within it, by its path; with the type that it is stored with."""

    path: str

    def shell(self) -> _Shell:
        """Return what makes the same."""
        return 0, _field_ref, (self.at, self.type, self.path)


def _field_ref(at: Place, kind: pa.DataType, path: str) -> FieldRef:
    return FieldRef(kind, path, at=at)


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    """A function or an operator.

    Attributes
    ----------
    function
        Its name: an operator as it is written in capitals (``"="``, ``"AND"``, ``"IS NULL"``), a
        function in small letters (``"lower"``).
    args
        What it takes of each row.
    options
        What it takes once: the type of a cast, the name of a field.
    """

    function: str
    args: tuple[Expr, ...]
    options: tuple[Any, ...] = ()

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions that it is computed from."""
        return self.args

    def shell(self) -> _Shell:
        """Return what makes the same of its arguments."""
        return len(self.args), _call, (self.at, self.type, self.function, self.options)


def _call(
    at: Place, kind: pa.DataType, function: str, options: tuple[Any, ...], *args: Expr
) -> Call:
    return Call(kind, function, args, options, at=at)


@dataclass(frozen=True, slots=True, eq=False)
class InList(Expr):
    """Whether a value is one of many, as ``=`` with each of them joined by ``OR`` tells it.

    Attributes
    ----------
    arg
        What is looked up.
    sets
        The values, none of them null, as an array for each of their types.
    has_null
        Whether a null is among them, too.
    """

    arg: Expr
    sets: tuple[pa.Array, ...]
    has_null: bool

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions that it is computed from."""
        return (self.arg,)

    def shell(self) -> _Shell:
        """Return what makes the same of what is looked up."""
        return 1, _in_list, (self.at, self.type, self.sets, self.has_null)


def _in_list(
    at: Place,
    kind: pa.DataType,
    sets: tuple[pa.Array, ...],
    has_null: bool,
    arg: Expr,
) -> InList:
    return InList(kind, arg, sets, has_null, at=at)


@dataclass(frozen=True, slots=True, eq=False)
class ArrowExpr(Expr):
    """An expression of Arrow's, with Arrow's own rules for null and NaN.

    Attributes
    ----------
    expression
        The expression.
    reads
        The columns that it cannot be computed without, at least one.
    """

    expression: pc.Expression
    reads: tuple[str, ...]

    def shell(self) -> _Shell:
        """Return what makes the same."""
        return 0, ArrowExpr, (self.type, self.expression, self.reads)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and all within it: each before its parts, these from the last on."""
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += part.parts


def columns_of(expr: Expr) -> frozenset[str]:
    """Return the paths of the columns that an expression reads.

    Examples
    --------
    >>> x, y = (FieldRef(pa.int8(), name) for name in "xy")
    >>> sorted(columns_of(Call(pa.bool_(), "<", (x, y))))
    ['x', 'y']
    """
    found = set[str]()
    for part in walk(expr):
        if isinstance(part, FieldRef):
            found.add(part.path)
        elif isinstance(part, ArrowExpr):
            found.update(part.reads)
    return frozenset(found)


def all_of(*conditions: Expr) -> Expr:
    """Return the condition that all of some conditions are true."""
    if len(conditions) == 1:
        return conditions[0]
    return Call(conditions[0].type, "AND", conditions)


def negation(expr: Expr) -> Expr:
    """Return the contrary of a condition, which is null where that is."""
    return Call(expr.type, "NOT", (expr,), at=expr.at)


def field_of(expr: Expr) -> FieldRef | None:
    """Return the column or field that an expression is, whether or not its type is converted."""
    if isinstance(expr, Call) and expr.function == "PLAIN":
        (expr,) = expr.args
    return expr if isinstance(expr, FieldRef) else None
