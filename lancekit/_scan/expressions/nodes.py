"""A bound expression: a tree that gives one value for each row of a schema.

What a filter or a computed column means is in this tree alone: the names of its columns are
resolved, each part has a type, literals have the types of the columns beside them, and ``now()``
is a literal.  A tree can be pickled: functions are named, and each process has its own kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from lancekit import _arrow_compute as pc

#: the kind of an expression, what it has besides its parts, and how many parts it has
_Alone: TypeAlias = "tuple[type[Expr], dict[str, Any], int]"


class Place(NamedTuple):
    """A place in the text of an expression, for its errors."""

    text: str
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """An expression that is bound to a schema.

    type: the type of its values.
    at: where its errors point.
    """

    type: pa.DataType
    at: Place = field(default=Place("", 0), repr=False, kw_only=True)

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions that it is computed from."""
        return ()

    def __reduce__(self) -> tuple[object, ...]:
        # flat: a tree may be deeper than what is pickled one within the other
        return _joined, ([_alone(part) for part in walk(self)],)


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expr):
    """The same value for all rows."""

    value: pa.Scalar


@dataclass(frozen=True, slots=True, eq=False)
class FieldRef(Expr):
    """A column, or a field within it, by its path; with the type that it is stored with."""

    path: str


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    """A function or an operator.

    function: its name: an operator as it is written in capitals (``"="``, ``"AND"``, ``"IS
        NULL"``), a function in small letters (``"lower"``).
    args: what it takes of each row.
    options: what it takes once: the type of a cast, the name of a field.
    """

    function: str
    args: tuple[Expr, ...]
    options: tuple[Any, ...] = ()

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions that it is computed from."""
        return self.args


@dataclass(frozen=True, slots=True, eq=False)
class InList(Expr):
    """Whether a value is one of many, as ``=`` with each of them joined by ``OR`` tells it.

    arg: what is looked up.
    sets: the values, none of them null, as an array for each of their types.
    has_null: whether a null is among them, too.
    """

    arg: Expr
    sets: tuple[pa.Array, ...]
    has_null: bool

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions that it is computed from."""
        return (self.arg,)


@dataclass(frozen=True, slots=True, eq=False)
class ArrowExpr(Expr):
    """An expression of Arrow's, with Arrow's own rules for null and NaN.

    expression: the expression.
    reads: the columns that it cannot be computed without, at least one.
    """

    expression: pc.Expression
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Apply(Expr):
    """What a function of lancekit's own makes of values; no text names it, and it fails for no row.

    function: takes the values of the arguments, and can be pickled.  If it has a method
        ``may_hold``, it tells by the place of an argument, and the least and the greatest values in
        blocks of rows, for which blocks it may be true.
    args: what it takes of each row.
    """

    function: Callable[..., object]
    args: tuple[Expr, ...]

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions that it is computed from."""
        return self.args


def applied(function: Callable[..., object], fields: Iterable[pa.Field]) -> Apply:
    """Return the condition that a function tells of columns, in their order."""
    return Apply(pa.bool_(), function, tuple(FieldRef(one.type, one.name) for one in fields))


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and all within it: each before its parts, these from the last on."""
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += part.parts


def _alone(expr: Expr) -> _Alone:
    own = {one.name: getattr(expr, one.name) for one in fields(expr)}
    match expr:
        case Literal():
            own["value"] = pa.repeat(expr.value, 1)  # unpickling a scalar imports pandas
        case Call() | Apply():
            del own["args"]
        case InList():
            del own["arg"]
    return type(expr), own, len(expr.parts)


def _joined(nodes: list[_Alone]) -> Expr:
    made: list[Expr] = []
    for kind, own, count in reversed(nodes):
        first = len(made) - count
        parts = tuple(made[first:])
        if kind is Literal:
            own["value"] = own["value"][0]
        elif kind in (Call, Apply):
            own["args"] = parts
        elif kind is InList:
            (own["arg"],) = parts
        made[first:] = [kind(**own)]
    return made[0]


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
