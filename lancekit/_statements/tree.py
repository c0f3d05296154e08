"""Bound queries and expressions of statements, and their types."""

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
    """A bound expression: its operation (as in `functions`), arguments, and result type.

    `value` is the value of a literal, the (relation, column) numbers of a column, or the query of a
    subquery.  `place` is the offset in the text.  Equality ignores it.
    """

    op: str
    args: tuple[Expr, ...] = ()
    kind: pa.DataType = field(default_factory=pa.null)
    value: Any = None
    place: int = field(default=0, compare=False)

    @property
    def is_query(self) -> bool:
        """True if the expression is a subquery, which is its `value`."""
        return self.op in ("query", "exists", "in query")

    def walk(self) -> Iterator[Expr]:
        """Yield the expression and its parts, without the parts of subqueries."""
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
    """A table in a query; `used` has the numbers of the columns to read, by name.

    `filter` and `limit` are the filter and the row limit of its scan.
    """

    number: int
    table: Table
    used: dict[str, int] = field(default_factory=dict)
    filter: Unbound | None = None
    limit: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Derived:
    """A subquery in place of a table."""

    number: int
    query: Query


Relation: TypeAlias = Leaf | Derived
JoinKind: TypeAlias = Literal["inner", "left", "right", "full", "cross", "semi", "anti"]


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """A join of a relation with the relations before it."""

    kind: JoinKind
    relation: Relation
    on: Expr | None


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort key: an expression or the number of an output, with its direction."""

    by: Expr | int
    descending: bool
    nulls_first: bool


@dataclass(slots=True, kw_only=True, eq=False)
class Select:
    """A bound SELECT; `where` has conditions that must all hold."""

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
        """The relations of FROM and JOIN, in order."""
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

# ---- the types of statements: Arrow types that both engines have
#
# Both engines get unsigned numbers, half floats, dictionaries and nanoseconds as Spark does
# (`lancekit._spark.frames.types`), so that their results are equal.

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
    """Return the family of a type, such as integer or text.

    Examples
    --------
    >>> family(pa.int8()), family(pa.decimal128(5, 2)), family(pa.list_(pa.int8()))
    ('integer', 'decimal', 'other')
    """
    return "decimal" if pt.is_decimal128(kind) else _FAMILIES.get(kind, "other")


def decimal_of(kind: pa.DataType) -> pa.DataType:
    """Return the widest decimal type with the scale of a decimal type."""
    return pa.decimal128(38, decimal_size(kind)[1])


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the common type of two types; ``None`` if they have no common type.

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
