"""Queries inside of changes: those that look at no row around them are answered first, once.

What is left of a condition or a value is put into the language of filters, if that has the words.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lancekit.scan.expressions.unbound import Unbound
from lancekit.statements.filter_syntax import ColumnPath, NotFilterError, unbound
from lancekit.statements.literals import constant
from lancekit.statements.scope import Scope
from lancekit.statements.select import outer_columns, run_query
from lancekit.statements.tree import Expr, Output, Select

__all__ = ["as_filter", "expressible", "settled"]

_QUERIES = ("query", "exists", "in query")


def expressible(expr: Expr) -> bool:
    """Tell whether filters have words for a condition or a value, once its queries are answered."""
    try:
        unbound(_answered(expr), lambda column: ("x",))  # noqa: ARG005  # whatever it is called
    except NotFilterError:
        return False
    return True


def _answered(expr: Expr) -> Expr:
    """Return an expression with some value in the place of each query."""
    args = tuple(map(_answered, expr.args))
    if expr.op not in _QUERIES:
        return replace(expr, args=args)
    if outer_columns(expr.value):
        raise NotFilterError(expr)
    none = Expr("literal", (), expr.kind)
    return Expr("in", (*args, none), pa.bool_()) if expr.op == "in query" else none


def as_filter(expr: Expr, scope: Scope, column: ColumnPath) -> Unbound:
    """Return what is `expressible` in the language of filters.

    Raises
    ------
    NotFilterError
        It is not, or a query in it gives a value that filters have no words for.
    """
    return unbound(_Answers(scope).settled(expr), column)


def settled(select: Select, scope: Scope) -> Select:
    """Return a query with what the queries in its columns and conditions give in their places."""
    answers = _Answers(scope)
    return replace(
        select,
        outputs=tuple(Output(one.name, answers.settled(one.expr)) for one in select.outputs),
        where=tuple(map(answers.settled, select.where)),
    )


@dataclass(slots=True)
class _Answers:
    """The answers of queries, each of which is asked once."""

    scope: Scope
    known: dict[int, tuple[Any, pa.Table]] = field(default_factory=dict)

    def settled(self, expr: Expr) -> Expr:
        args = tuple(map(self.settled, expr.args))
        if expr.op not in _QUERIES or outer_columns(expr.value):
            return replace(expr, args=args)
        rows = self._rows(expr.value)
        if expr.op == "exists":
            return Expr("literal", (), pa.bool_(), rows.num_rows > 0, expr.place)
        values = [self._constant(value, expr) for value in rows.column(0).to_pylist()]
        if expr.op == "in query":
            if not values:
                return Expr("literal", (), pa.bool_(), False, expr.place)
            return Expr("in", (*args, *dict.fromkeys(values)), pa.bool_(), place=expr.place)
        if len(values) > 1:
            message = f"a query in the place of a value gives {len(values)} rows:"
            raise self.scope.text.fail(expr, message)
        return values[0] if values else Expr("literal", (), expr.kind)

    def _rows(self, query: Any) -> pa.Table:
        if id(query) not in self.known:
            rows = run_query(query, self.scope.text.sql).to_table()
            self.known[id(query)] = query, rows  # which lives as long as its number
        return self.known[id(query)][1]

    def _constant(self, value: Any, expr: Expr) -> Expr:
        kind = expr.value.outputs[0].expr.kind
        found = constant(value, expr.place)
        if found is None:
            raise self.scope.text.fail(expr, f"a query in a change gives no values of {kind}:")
        return replace(found, kind=kind)
