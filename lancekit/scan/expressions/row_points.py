"""Which rows a filter names one by one: ``_rowid = 5``, ``_rowaddr IN (5, 7) AND x > 0``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from lancekit.scan.expressions.parser import parse
from lancekit.scan.expressions.syntax import Syntax

__all__ = ["row_points"]

Points: TypeAlias = frozenset[int] | None


def row_points(sql: str, column: str) -> Points:
    """Return the values of a column that rows must have one of, ``None`` if it may have any.

    Examples
    --------
    >>> sorted(row_points("x > 0 AND (_rowid = 3 OR _rowid IN (5, 9))", "_rowid"))
    [3, 5, 9]
    >>> row_points("x > 0 OR _rowid = 3", "_rowid")
    """
    return _points(parse(sql), column)


def _points(tree: Syntax, column: str) -> Points:
    match tree.kind:
        case "AND":
            found = [_points(part, column) for part in tree.parts]
            known = [points for points in found if points is not None]
            return frozenset.intersection(*known) if known else None
        case "OR":
            found = [_points(part, column) for part in tree.parts]
            known = [points for points in found if points is not None]
            return frozenset().union(*known) if len(known) == len(found) else None
        case "=":
            left, right = tree.parts
            points = _one_of(left, [right], column)
            return _one_of(right, [left], column) if points is None else points
        case "IN" if tree.value is None:
            return _one_of(tree.parts[0], tree.parts[1:], column)
        case "IN":
            return _numbers(tree.value.values) if _is(tree.parts[0], column) else None
    return None


def _is(tree: Syntax, column: str) -> bool:
    return tree.kind == "column" and tree.value == (column,)


def _one_of(tree: Syntax, values: Iterable[Syntax], column: str) -> Points:
    """Return numbers that are written out, where ``tree`` is the column."""
    if not _is(tree, column):
        return None
    return _numbers([one.value if one.kind == "literal" else None for one in values])


def _numbers(values: list[Any]) -> Points:
    whole = all(type(value) is int for value in values)
    return frozenset(values) if whole and min(values) >= 0 else None
