"""Casts that mean the same on both engines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lancekit._statements.kinds import BIGINT, DOUBLE, INSTANT, TEXT, TIMESTAMP, family
from lancekit._statements.literals import is_constant, retyped
from lancekit._statements.scope import Scope
from lancekit._statements.tree import Expr

__all__ = ["cast", "target", "type_of"]

_TYPES: Mapping[Any, pa.DataType] = {
    exp.DataType.Type.BOOLEAN: pa.bool_(),
    exp.DataType.Type.TINYINT: pa.int8(),
    exp.DataType.Type.SMALLINT: pa.int16(),
    exp.DataType.Type.INT: pa.int32(),
    exp.DataType.Type.BIGINT: BIGINT,
    exp.DataType.Type.FLOAT: pa.float32(),
    exp.DataType.Type.DOUBLE: DOUBLE,
    exp.DataType.Type.TEXT: TEXT,
    exp.DataType.Type.VARCHAR: TEXT,
    exp.DataType.Type.BINARY: pa.binary(),
    exp.DataType.Type.DATE: pa.date32(),
    exp.DataType.Type.TIMESTAMP: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ: TIMESTAMP,  # what Spark's dialect takes the plain word for
    exp.DataType.Type.TIMESTAMPNTZ: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPLTZ: INSTANT,
}
#: from a sort of values to others, where no engine knows better than the other
_PAIRS = {
    ("integer", "integer"),
    ("integer", "fraction"),
    ("integer", "decimal"),
    ("integer", "text"),
    ("integer", "condition"),
    ("condition", "integer"),
    ("condition", "text"),
    ("fraction", "integer"),
    ("fraction", "fraction"),
    ("decimal", "fraction"),
    ("decimal", "decimal"),
    ("date", "text"),
    ("date", "timestamp"),
    ("timestamp", "date"),
}
_SIZE = re.compile(r"[0-9]{1,2}")


def type_of(tree: exp.Expression) -> pa.DataType | None:
    """Return the type that a name of one means, ``None`` if statements have none such."""
    if tree.this == exp.DataType.Type.DECIMAL:
        sizes = [size.name for size in tree.expressions] or ["10", "0"]
        if len(sizes) > 2 or not all(map(_SIZE.fullmatch, sizes)):
            return None
        digits, scale = (int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else 0)
        return pa.decimal128(digits, scale) if 0 <= scale <= digits <= 38 and digits else None
    return None if tree.expressions else _TYPES.get(tree.this)


def target(tree: exp.Expression, scope: Scope) -> pa.DataType:
    """Return the type of a CAST."""
    kind = type_of(tree.to)
    if kind is None:
        raise scope.text.fail(tree, f"there is no cast to {tree.to.sql()}:")
    return kind


def cast(value: Expr, kind: pa.DataType, tree: exp.Expression, scope: Scope) -> Expr:
    """Return the cast of a value; that of a constant is a constant.

    Raises
    ------
    PredicateError
        The engines would make different values of some.
    """
    if value.kind == kind:
        return value
    if is_constant(value):
        found = retyped(value, kind)
        if found is None and kind == TIMESTAMP:
            found = retyped(value, INSTANT)  # a text with an offset is an instant, as in filters
        if found is not None:
            return found
        if isinstance(value.value, str):
            raise scope.text.fail(
                tree,
                f"{value.value!r} is not a value of {kind}:",
                "Write DATE '2020-01-31' or TIMESTAMP '2020-01-31 12:00:00'.",
            )
    if family(value.kind) == "null" or (family(value.kind), family(kind)) in _PAIRS:
        return Expr("cast", (value,), kind)
    raise scope.text.fail(
        tree,
        f"a cast of {value.kind} to {kind} is not the same on all engines:",
        "Cast such a column where its rows come from, or in a frame of yours.",
    )
