"""Queries of a change that look at the row that changes: which of them both engines work out.

They become joins: `EXISTS` and `IN` of a condition that is to hold, and aggregates in the place of
a value whose rows are found by equal values.  Others are refused at their place.
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
    "Such queries stand in WHERE: [NOT] EXISTS (...) joined by AND, OR and NOT, [NOT] IN (...) "
    "joined by AND, and aggregates in the place of a value."
)
_SHAPE = (
    "Compare the row in its WHERE; without GROUP BY, DISTINCT, ORDER BY and LIMIT, and not from "
    "within another query."
)


def check_condition(expr: Expr, text: Text, *, whole: bool = True) -> None:
    """Refuse what a condition of WHERE cannot ask of other tables for each row.

    whole: whether the condition has to be true, by itself: it is beside no OR, and below no NOT.

    Raises PredicateError: a query in it stands where no join can take its place, or is of another
        form.
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
                    message = "this query looks at the row, and is beside OR or below NOT:"
                    raise text.fail(expr, message, _PLACES)
                _check_shape(expr, text)
        case _:
            check_value(expr, text)


def check_value(expr: Expr, text: Text) -> None:
    """Refuse what a value cannot ask of other tables for each row.

    Raises PredicateError: as in `check_condition`.
    """
    for part in _asking(expr):
        if part.op != "query":
            raise text.fail(part, "this query looks at the row, and is within a value:", _PLACES)
        _check_shape(part, text)
        query = part.value
        if query.group != () or not is_grouped([query.outputs[0].expr]):
            hint = "Write min(), max() or another aggregate of what is found."
            raise text.fail(part, "this query looks at the row, and may find many:", hint)
        own = set(relations_of(query))
        for condition in query.where:
            mixed = any(_looks_out(a, own) and _looks_in(a, own) for a in condition.args)
            if _looks_out(condition, own) and (condition.op != "=" or mixed):
                hint = "Write EXISTS (...), or MERGE INTO ... USING (SELECT ...)."
                raise text.fail(part, "this query compares the row by more than equality:", hint)


def check_no_row(expr: Expr, text: Text) -> None:
    """Refuse queries that look at a row around them.

    Raises PredicateError: there is one.
    """
    for part in _asking(expr):
        raise text.fail(
            part,
            "a query in a MERGE cannot look at the row that changes:",
            "Join it in the source: USING (SELECT ... FROM source JOIN ...).",
        )


def _asking(expr: Expr) -> Iterator[Expr]:
    for part in expr.walk():
        if part.is_query and outer_columns(part.value):
            yield part


def _check_shape(part: Expr, text: Text) -> None:
    query = part.value
    plain = isinstance(query, Select) and not (
        query.distinct or query.order or query.limit is not None or query.offset is not None
    )
    if not plain or (part.op != "query" and (query.group is not None or query.having is not None)):
        raise text.fail(part, "this query looks at the row, and is no plain SELECT:", _SHAPE)
    own = set(relations_of(query))
    elsewhere = [*(output.expr for output in query.outputs), *_conditions(query)]
    inner = [p for one in (*query.where, *elsewhere) for p in one.walk() if p.is_query]
    # a query within the query may look further than at this one
    if any(_looks_out(one, own) for one in elsewhere) or any(
        outer_columns(p.value, own) for p in inner
    ):
        raise text.fail(part, "this query looks at the row outside of its WHERE:", _SHAPE)


def _conditions(query: Select) -> Sequence[Expr]:
    joined = [join.on for join in query.joins if join.on is not None]
    return [*joined, *(query.group or ()), *([] if query.having is None else [query.having])]


def _looks_out(expr: Expr, own: set[int]) -> bool:
    return any(part.op == "column" and part.value[0] not in own for part in expr.walk())


def _looks_in(expr: Expr, own: set[int]) -> bool:
    return any(part.op == "column" and part.value[0] in own for part in expr.walk())


# ---- what may stand beside aggregates, and what rows can be told apart by


def is_grouped(exprs: Iterable[Expr]) -> bool:
    """Tell whether an aggregate is in one of some expressions: of all rows, not of a window's."""
    return any(_has_aggregate(expr) for expr in exprs)


def _has_aggregate(expr: Expr) -> bool:
    if expr.op == "aggregate":
        return True
    function = expr.args[0].args if expr.op == "window" else ()
    return any(map(_has_aggregate, [*function, *expr.args[bool(expr.op == "window") :]]))


def check_grouped(expr: Expr, group: Sequence[Expr], text: Text) -> None:
    """Refuse a column that has many values in a group.

    Raises PredicateError: it stands beside aggregates, and rows are not grouped by it.
    """
    if expr in group or expr.op == "aggregate":
        return
    if expr.op == "column":
        raise text.fail(
            expr,
            "this column stands beside aggregates, and rows are not grouped by it:",
            "Name it behind GROUP BY, or say which value: min(), max().",
        )
    for arg in (*expr.args[0].args, *expr.args[1:]) if expr.op == "window" else expr.args:
        check_grouped(arg, group, text)


def check_comparable(expr: Expr, what: str, tree: exp.Expression, scope: Scope) -> None:
    """Refuse what engines tell apart or order in different ways: lists, structs, and the like."""
    if family(expr.kind) == "other":
        raise scope.text.fail(tree, f"{what} does not compare {expr.kind}:")
