"""Which rows a filter names one by one: ``_rowid = 5``, ``_rowaddr IN (5, 7) AND x > 0``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
from pyarrow import types as pt

from lancekit._scan.expressions.nodes import Call, Expr, FieldRef, InList, Literal

__all__ = ["row_points"]

Points: TypeAlias = frozenset[int] | None


def row_points(expr: Expr, column: str) -> Points:
    """Return the values of a column that rows must have one of, ``None`` if it may have any.

    Examples
    --------
    >>> from lancekit._scan.expressions.predicate import Predicate
    >>> schema = pa.schema({"x": pa.int8()})
    >>> wanted = Predicate.parse("x > 0 AND (_rowid = 3 OR _rowid IN (5, 9))", schema)
    >>> sorted(row_points(wanted.expr, "_rowid"))
    [3, 5, 9]
    >>> row_points(Predicate.parse("x > 0 OR _rowid = 3", schema).expr, "_rowid")
    """
    match expr:
        case Call(function="AND"):
            found = [row_points(part, column) for part in expr.args]
            known = [points for points in found if points is not None]
            return frozenset.intersection(*known) if known else None
        case Call(function="OR"):
            found = [row_points(part, column) for part in expr.args]
            known = [points for points in found if points is not None]
            return frozenset().union(*known) if len(known) == len(found) else None
        case Call(function="=", args=(FieldRef(path=path), Literal() as other)) if path == column:
            return _numbers([pa.repeat(other.value, 1)])
        case Call(function="=", args=(Literal() as other, FieldRef(path=path))) if path == column:
            return _numbers([pa.repeat(other.value, 1)])
        case InList(arg=FieldRef(path=path)) if path == column:
            return _numbers(expr.sets)
    return None


def _numbers(sets: Sequence[pa.Array]) -> Points:
    """Return whole numbers, of which nulls are none."""
    if not all(pt.is_integer(some.type) for some in sets):
        return None
    return frozenset(number for some in sets for number in some.to_pylist() if number is not None)
