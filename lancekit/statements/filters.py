"""Conditions and values in the language of filters: what scans, deletes, updates and merges take.

The text is written anew from what was understood, each name in backticks and each constant spelled
out by its type: nothing that a user wrote is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lancekit.statements.emit import filled
from lancekit.statements.functions import FUNCTIONS, OPERATORS
from lancekit.statements.kinds import family
from lancekit.statements.literals import spelled
from lancekit.statements.tables import quoted
from lancekit.statements.tree import Expr

__all__ = ["NotFilterError", "filter_text"]

_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp(6)",
}


class NotFilterError(Exception):
    """An expression that filters have no words for; `expr` is the part."""

    def __init__(self, expr: Expr) -> None:
        super().__init__(expr.op)
        self.expr = expr


def filter_text(expr: Expr, column: Callable[[Expr], str]) -> str:
    """Return an expression as text of the language of filters.

    Parameters
    ----------
    expr
        The expression.
    column
        Writes a column.

    Raises
    ------
    NotFilterError
        The language has nothing like a part of it.
    """
    match expr.op:
        case "literal":
            return _constant(expr)
        case "column":
            return column(expr)
        case "field":
            whole = filter_text(expr.args[0], column)
            if expr.args[0].op not in ("column", "field"):
                raise NotFilterError(expr)
            return f"{whole}.{quoted(expr.value)}"
    args = [filter_text(arg, column) for arg in expr.args]
    match expr.op:
        case "and" | "or":
            return "(" + f" {expr.op.upper()} ".join(args) + ")"
        case "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        case "cast":
            return _cast(expr, args[0])
    function = OPERATORS.get(expr.op) or FUNCTIONS.get(expr.op)
    if function is None or function.filter is None:
        raise NotFilterError(expr)
    return filled(function.filter, args)


def _cast(expr: Expr, value: str) -> str:
    kind: Any = expr.kind
    pair = family(expr.args[0].kind), family(kind)
    if pair in _UNLIKE or (kind not in _TYPES and pair[1] != "decimal"):
        raise NotFilterError(expr)
    name = _TYPES.get(kind) or f"decimal({kind.precision}, {kind.scale})"
    return f"CAST({value} AS {name})"


#: casts that filters do in their own way
_UNLIKE = {("condition", "text"), ("integer", "condition"), ("decimal", "decimal")}


def _constant(expr: Expr) -> str:
    value = expr.value
    if value is None:
        return f"CAST(NULL AS {_TYPES[expr.kind]})" if expr.kind in _TYPES else "NULL"
    match family(expr.kind):
        case "text":
            return "'" + str(value).replace("'", "''") + "'"
        case "bytes":
            return f"X'{value.hex()}'"
        case "date":
            return f"DATE '{spelled(expr)}'"
        case "timestamp" | "instant":
            return f"TIMESTAMP '{spelled(expr)}'"
    text = spelled(expr)
    if text.strip("-")[0] not in "0123456789tf":
        raise NotFilterError(expr)  # infinities and NaN
    return (
        f"CAST({text} AS double)" if family(expr.kind) == "fraction" and text[-2:] == ".0" else text
    )
