"""What a statement means, once its names and types are known; and these types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pyarrow import types as pt

from lancekit._format.arrow_parts import decimal_size
from lancekit._scan.expressions.predicate import Unbound
from lancekit._statements.tables import Table


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression: what it does (`op`, as in `functions`), to what, and the type that it gives.

    `value` is a literal's value, the (relation, column) that a ``col`` is, the query of a subquery.
    Two are equal if they mean the same, wherever they stand.
    """

    op: str
    args: tuple[Expr, ...] = ()
    kind: pa.DataType = field(default_factory=pa.null)
    value: Any = None
    place: int = field(default=0, compare=False)

    @property
    def is_query(self) -> bool:
        """Whether it is what a query gives, which is its value."""
        return self.op in ("query", "exists", "in query")

    def walk(self) -> Iterator[Expr]:
        """Yield the expression and its parts; those of subqueries are their own."""
        yield self
        for arg in self.args:
            yield from arg.walk()


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a query's result."""

    name: str
    expr: Expr


@dataclass(slots=True, kw_only=True, eq=False)
class Leaf:
    """A table in a query; `used` has the columns that are read of it, by the numbers they get.

    `filter` is what the scan is asked for, `limit` the most rows that are of use.
    """

    number: int
    table: Table
    used: dict[str, int] = field(default_factory=dict)
    filter: Unbound | None = None
    limit: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Derived:
    """A query in the place of a table."""

    number: int
    query: Query


Relation: TypeAlias = Leaf | Derived
JoinKind: TypeAlias = Literal["inner", "left", "right", "full", "cross", "semi", "anti"]


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """How a relation joins those before it."""

    kind: JoinKind
    relation: Relation
    on: Expr | None


@dataclass(frozen=True, slots=True)
class Sort:
    """By what, and how: an expression, or the number of an output."""

    by: Expr | int
    descending: bool
    nulls_first: bool


@dataclass(slots=True, kw_only=True, eq=False)
class Select:
    """A SELECT; `where` has the conditions that have to be true all of them."""

    outputs: tuple[Output, ...]
    first: Relation | None = None
    joins: tuple[Join, ...] = ()
    where: tuple[Expr, ...] = ()
    group: tuple[Expr, ...] | None = None
    having: Expr | None = None
    distinct: bool = False
    order: tuple[Sort, ...] = ()
    limit: int | None = None
    offset: int | None = None

    @property
    def relations(self) -> Iterator[Relation]:
        """The relations, in order."""
        if self.first is not None:
            yield self.first
        yield from (join.relation for join in self.joins)


@dataclass(slots=True, kw_only=True, eq=False)
class SetOperation:
    """UNION, INTERSECT or EXCEPT of two queries, column by column."""

    op: str
    left: Query
    right: Query
    outputs: tuple[Output, ...]
    order: tuple[Sort, ...] = ()
    limit: int | None = None
    offset: int | None = None


Query: TypeAlias = Select | SetOperation

# ---- the types of statements: Arrow's, in the form that both engines have
#
# An engine sees unsigned and half-wide numbers, dictionaries and nanoseconds as Spark does
# (`lancekit._spark.frames.types`), so that it makes no difference which one works.

BIGINT, DOUBLE, TEXT = pa.int64(), pa.float64(), pa.string()
TIMESTAMP, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")

_FAMILIES: Mapping[pa.DataType, str] = {
    pa.null(): "null",
    pa.bool_(): "condition",
    **dict.fromkeys([pa.int8(), pa.int16(), pa.int32(), pa.int64()], "integer"),
    pa.float32(): "fraction",
    pa.float64(): "fraction",
    pa.string(): "text",
    pa.binary(): "bytes",
    pa.date32(): "date",
    TIMESTAMP: "timestamp",
    INSTANT: "instant",
}


def family(kind: pa.DataType) -> str:
    """Return what sort of values a type has.

    Examples
    --------
    >>> family(pa.int8()), family(pa.decimal128(5, 2)), family(pa.list_(pa.int8()))
    ('integer', 'decimal', 'other')
    """
    return "decimal" if pt.is_decimal128(kind) else _FAMILIES.get(kind, "other")


def decimal_of(kind: pa.DataType) -> pa.DataType:
    """Return the widest decimal type with the digits behind the point of a decimal type."""
    return pa.decimal128(38, decimal_size(kind)[1])


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type in which values of two types meet, ``None`` if there is none.

    Examples
    --------
    >>> common(pa.int8(), pa.int32()), common(pa.int8(), pa.float32())
    (DataType(int32), DataType(double))
    >>> common(pa.int8(), pa.string()) is None
    True
    """
    if one == other:
        return one
    families = {family(one), family(other)}
    if "null" in families:
        return other if family(one) == "null" else one
    if families == {"integer"}:
        return max(one, other, key=lambda kind: kind.bit_width)
    if families <= {"integer", "fraction"} or families == {"decimal", "fraction"}:
        return DOUBLE
    if "decimal" in families and families <= {"integer", "decimal"}:
        scales: list[int] = [kind.scale for kind in (one, other) if pt.is_decimal(kind)]
        return pa.decimal128(38, max(scales)) if max(scales) <= 18 else None
    return TIMESTAMP if families == {"date", "timestamp"} else None
