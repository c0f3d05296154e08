"""Bound expressions: trees that compute one value for each row of a schema.

A tree has the whole meaning of a filter or computed column: the names of columns are resolved, each
node has a type, literals are coerced to the types of columns, and ``now()`` is a literal. A tree
can be pickled: functions are named, and each process has its own kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from lancekit import _arrow_compute as pc

#: the class of an expression, its fields without its parts, and the number of its parts
_Alone: TypeAlias = "tuple[type[Expr], dict[str, Any], int]"


class Place(NamedTuple):
    """A position in the text of an expression, for errors."""

    text: str
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """An expression that is bound to a schema.

    type: the type of its values.
    at: the position that errors point to.
    """

    type: pa.DataType
    at: Place = field(default=Place("", 0), repr=False, kw_only=True)

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The subexpressions."""
        return ()

    def __reduce__(self) -> tuple[object, ...]:
        # flat: a tree may be deeper than pickle can recurse
        return _joined, ([_alone(part) for part in walk(self)],)


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expr):
    """The same value for all rows."""

    value: pa.Scalar


@dataclass(frozen=True, slots=True, eq=False)
class FieldRef(Expr):
    """A column, or a field within it, by its path; with its stored type."""

    path: str


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    """A call of a function or an operator.

    function: an operator in capitals (``"="``, ``"AND"``, ``"IS NULL"``), or a function in small
        letters (``"lower"``).
    args: the arguments with a value for each row.
    options: constant arguments: the type of a cast, the name of a field.
    """

    function: str
    args: tuple[Expr, ...]
    options: tuple[Any, ...] = ()

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The subexpressions."""
        return self.args


@dataclass(frozen=True, slots=True, eq=False)
class InList(Expr):
    """A test whether a value is in a list: the result of ``=`` with each item, joined by ``OR``.

    arg: the value to look up.
    sets: the items without nulls, as one array for each of their types.
    has_null: whether the list also has a null.
    """

    arg: Expr
    sets: tuple[pa.Array, ...]
    has_null: bool

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The subexpressions."""
        return (self.arg,)


@dataclass(frozen=True, slots=True, eq=False)
class ArrowExpr(Expr):
    """A pyarrow expression, with Arrow's own rules for null and NaN.

    expression: the expression.
    reads: the columns that it needs, at least one.
    """

    expression: pc.Expression
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Apply(Expr):
    """A call of a Python function of lancekit that has no name in SQL, and fails for no row.

    function: takes the values of the arguments, and can be pickled. If it has a method
        ``may_hold``, that returns a mask of the blocks where the function may be true. It takes the
        index of an argument, and the least and the greatest values of blocks.
    args: the arguments with a value for each row.
    """

    function: Callable[..., object]
    args: tuple[Expr, ...]

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The subexpressions."""
        return self.args


def applied(function: Callable[..., object], fields: Iterable[pa.Field]) -> Apply:
    """Return the condition that a function computes from columns, in their order."""
    return Apply(pa.bool_(), function, tuple(FieldRef(one.type, one.name) for one in fields))


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and all its descendants, parents first, siblings from the last on."""
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
    """Return the conjunction of some conditions."""
    if len(conditions) == 1:
        return conditions[0]
    return Call(conditions[0].type, "AND", conditions)


def negation(expr: Expr) -> Expr:
    """Return the negation of a condition, which is null where the condition is."""
    return Call(expr.type, "NOT", (expr,), at=expr.at)


def field_of(expr: Expr) -> FieldRef | None:
    """Return the column or field that an expression is, even if its type is converted."""
    if isinstance(expr, Call) and expr.function == "PLAIN":
        (expr,) = expr.args
    return expr if isinstance(expr, FieldRef) else None
