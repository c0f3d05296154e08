"""Conditions and values of changes, in the words of filters: queries in them are answered first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lancekit.statements.filters import NotFilterError, filter_text
from lancekit.statements.literals import constant
from lancekit.statements.scope import Scope
from lancekit.statements.select import outer_columns, run_query
from lancekit.statements.tree import Expr

__all__ = ["change_text"]

_HINT = (
    "Changes take what filters have words for; with more than that, "
    "MERGE INTO ... USING (SELECT ...) computes rows first."
)


def change_text(expr: Expr, scope: Scope, column: Callable[[Expr], str]) -> str:
    """Return a condition or a value of a change as text of the language of filters.

    Raises
    ------
    PredicateError
        The language has nothing like a part of it, whose place is told.
    """
    try:
        return filter_text(_settled(expr, scope), column)
    except NotFilterError as error:
        raise scope.text.fail(
            error.expr, "a change cannot compute this row by row:", _HINT
        ) from error


def _settled(expr: Expr, scope: Scope) -> Expr:
    """Return an expression with what its queries give in their places."""
    args = tuple(_settled(arg, scope) for arg in expr.args)
    if expr.op not in ("query", "exists", "in query"):
        return replace(expr, args=args)
    if outer_columns(expr.value):
        raise scope.text.fail(
            expr, "a query in a change cannot look at the row that changes:", _HINT
        )
    rows = run_query(expr.value, scope.text.sql).to_table()
    if expr.op == "exists":
        return Expr("literal", (), pa.bool_(), rows.num_rows > 0, expr.place)
    values = [_constant(value, expr) for value in rows.column(0).to_pylist()]
    if expr.op == "in query":
        if not values:
            return Expr("literal", (), pa.bool_(), False, expr.place)
        return Expr("in", (*args, *dict.fromkeys(values)), pa.bool_(), place=expr.place)
    if len(values) > 1:
        raise scope.text.fail(expr, f"a query in the place of a value gives {len(values)} rows:")
    return values[0] if values else Expr("literal", (), expr.kind)


def _constant(value: Any, expr: Expr) -> Expr:
    kind = expr.value.outputs[0].expr.kind
    found = constant(value, expr.place)
    if found is None:
        raise NotFilterError(expr)
    return replace(found, kind=kind)
