"""What a statement means, once its names and types are known; each engine's text is made of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from lancekit._scan.expressions.unbound import Unbound
from lancekit._statements.tables import Table

__all__ = ["Expr", "Join", "Leaf", "Output", "Query", "Relation", "Select", "SetOperation", "Sort"]


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
