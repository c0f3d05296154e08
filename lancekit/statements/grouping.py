"""What may stand beside aggregates, and what rows can be told apart by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lancekit.statements.kinds import family
from lancekit.statements.scope import Scope, Text
from lancekit.statements.tree import Expr

__all__ = ["check_comparable", "check_grouped", "is_grouped"]


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

    Raises
    ------
    PredicateError
        It stands beside aggregates, and rows are not grouped by it.
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


def check_comparable(expr: Expr, what: str, tree: Any, scope: Scope) -> None:
    """Refuse what engines tell apart or order in different ways: lists, structs, and the like."""
    if family(expr.kind) == "other":
        raise scope.text.fail(tree, f"{what} does not compare {expr.kind}:")
