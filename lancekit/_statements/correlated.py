"""Checks of correlated subqueries in a change: the forms that both engines can run.

Both engines turn them into joins.  Allowed are `EXISTS` and `IN` in a condition that must hold, and
aggregates as values, whose rows are found by equality.  Other forms raise with their position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lancekit._statements.scope import Scope, Text
from lancekit._statements.select import outer_columns, relations_of
from lancekit._statements.tree import Expr, Select, family

if TYPE_CHECKING:
    from sqlglot import exp

_PLACES = (
    "Correlated subqueries are supported in WHERE: [NOT] EXISTS (...) joined by AND, OR and NOT, "
    "[NOT] IN (...) joined by AND, and aggregates as a value."
)
_SHAPE = (
    "Compare with the outer row in its WHERE, without GROUP BY, DISTINCT, ORDER BY and LIMIT, and "
    "not from within another subquery."
)


def check_condition(expr: Expr, text: Text, *, whole: bool = True) -> None:
    """Check the correlated subqueries of a WHERE condition.

    whole: the condition must hold on its own: it is not part of an OR, nor of a NOT.

    Raises PredicateError: no join can replace a subquery at its position, or in its form.
    """
    match expr.op:
        case "and" | "or":
            for arg in expr.args:
                check_condition(arg, text, whole=whole and expr.op == "and")
        case "not":
            (arg,) = expr.args
            check_condition(arg, text, whole=whole and arg.op == "in query")
        case "exists" | "in query":
            for arg in expr.args:
                check_value(arg, text)
            if outer_columns(expr.value):
                if expr.op == "in query" and not whole:
                    message = "this correlated subquery is beside OR or below NOT:"
                    raise text.fail(expr, message, _PLACES)
                _check_shape(expr, text)
        case _:
            check_value(expr, text)


def check_value(expr: Expr, text: Text) -> None:
    """Check the correlated subqueries of a value.

    Raises PredicateError: as in `check_condition`.
    """
    for part in _correlated(expr):
        if part.op != "query":
            raise text.fail(part, "this correlated subquery is within a value:", _PLACES)
        _check_shape(part, text)
        query = part.value
        if query.group != () or not is_grouped([query.outputs[0].expr]):
            hint = "Use min(), max() or another aggregate."
            raise text.fail(part, "this correlated subquery may find several rows:", hint)
        own = set(relations_of(query))
        for condition in query.where:
            mixed = any(_is_outer(a, own) and _is_inner(a, own) for a in condition.args)
            if _is_outer(condition, own) and (condition.op != "=" or mixed):
                hint = "Write EXISTS (...), or MERGE INTO ... USING (SELECT ...)."
                raise text.fail(part, "this correlated subquery needs equality with the row:", hint)


def check_no_row(expr: Expr, text: Text) -> None:
    """Raise ``PredicateError`` if a subquery of an expression uses the row that changes."""
    for part in _correlated(expr):
        raise text.fail(
            part,
            "a subquery in a MERGE cannot use the row that changes:",
            "Join it in the source: USING (SELECT ... FROM source JOIN ...).",
        )


def _correlated(expr: Expr) -> Iterator[Expr]:
    for part in expr.walk():
        if part.is_query and outer_columns(part.value):
            yield part


def _check_shape(part: Expr, text: Text) -> None:
    """Raise unless a subquery is a plain SELECT that uses the row only in its WHERE."""
    query = part.value
    plain = isinstance(query, Select) and not (
        query.distinct or query.order or query.limit is not None or query.offset is not None
    )
    if not plain or (part.op != "query" and (query.group is not None or query.having is not None)):
        raise text.fail(part, "this correlated subquery is not a plain SELECT:", _SHAPE)
    own = set(relations_of(query))
    elsewhere = [*(output.expr for output in query.outputs), *_conditions(query)]
    inner = [p for one in (*query.where, *elsewhere) for p in one.walk() if p.is_query]
    # a nested subquery may refer to columns beyond this subquery
    if any(_is_outer(one, own) for one in elsewhere) or any(
        outer_columns(p.value, own) for p in inner
    ):
        raise text.fail(part, "this correlated subquery uses the row outside of its WHERE:", _SHAPE)


def _conditions(query: Select) -> Sequence[Expr]:
    joined = [join.on for join in query.joins if join.on is not None]
    return [*joined, *(query.group or ()), *([] if query.having is None else [query.having])]


def _is_outer(expr: Expr, own: set[int]) -> bool:
    return any(part.op == "column" and part.value[0] not in own for part in expr.walk())


def _is_inner(expr: Expr, own: set[int]) -> bool:
    return any(part.op == "column" and part.value[0] in own for part in expr.walk())


# ---- columns beside aggregates, and types that can be compared


def is_grouped(exprs: Iterable[Expr]) -> bool:
    """Return True if an expression has an aggregate of rows, not of a window."""
    return any(_has_aggregate(expr) for expr in exprs)


def _has_aggregate(expr: Expr) -> bool:
    if expr.op == "aggregate":
        return True
    function = expr.args[0].args if expr.op == "window" else ()
    return any(map(_has_aggregate, [*function, *expr.args[bool(expr.op == "window") :]]))


def check_grouped(expr: Expr, group: Sequence[Expr], text: Text) -> None:
    """Raise ``PredicateError`` if an expression has a column that rows are not grouped by."""
    if expr in group or expr.op == "aggregate":
        return
    if expr.op == "column":
        raise text.fail(
            expr,
            "this column is beside aggregates, but not in GROUP BY:",
            "Add it to GROUP BY, or choose a value: min(), max().",
        )
    for arg in (*expr.args[0].args, *expr.args[1:]) if expr.op == "window" else expr.args:
        check_grouped(arg, group, text)


def check_comparable(expr: Expr, what: str, tree: exp.Expression, scope: Scope) -> None:
    """Raise if engines compare or order a type differently, such as lists and structs."""
    if family(expr.kind) == "other":
        raise scope.text.fail(tree, f"{what} cannot compare {expr.kind}:")
