"""Pruning by a filter: blocks that it rules out by their bounds, and rows that it lists.

Pruning is limited to filters that join comparisons of columns with literals, and functions of
lancekit, by ``AND``. Such filters fail for no row, so it makes no difference which rows are read. A
block is checked by the filter's own comparison, applied to the block's bounds: ``x > 5`` can only
be true in a block whose greatest value satisfies it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as pt

from lancekit._arrow_values import flags_of
from lancekit._scan.expressions.evaluate import mask
from lancekit._scan.expressions.nodes import Apply, Call, Expr, FieldRef, InList, Literal
from lancekit.errors import LancekitError

#: for a comparison with a literal: the comparisons that a block's least and greatest value must
#: satisfy if any of its values satisfies it
_BOUND_CHECKS: Mapping[str, tuple[str, str]] = {
    "<": ("<", ""),
    "<=": ("<=", ""),
    ">": ("", ">"),
    ">=": ("", ">="),
    "=": ("<=", ">="),
}
#: the operator after swapping both sides
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def may_hold(expr: Expr, column: str, least: pa.Array, greatest: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a mask of the blocks that may have a row that satisfies a condition.

    column: the path of the column whose bounds are given.
    least, greatest: the least and the greatest value of the column in each block. Null for a block
        of nulls.

    Examples
    --------
    >>> from lancekit._scan.expressions.predicate import Predicate
    >>> wanted = Predicate.parse("x > 5 AND y = 'a'", pa.schema({"x": pa.int8(), "y": pa.string()}))
    >>> ends = pa.array([0, 3], pa.int8()), pa.array([5, 9], pa.int8())
    >>> may_hold(wanted.expr, "x", *ends).tolist()
    [False, True]
    """
    may = np.ones(len(least), bool)
    for applied in _applied(expr):
        for place, arg in enumerate(applied.args):
            if isinstance(arg, FieldRef) and arg.path == column:
                may &= applied.function.may_hold(place, least, greatest)  # type: ignore[attr-defined]
    for comparison in comparisons(expr, column):
        for condition, values in zip(comparison.for_bounds(), (least, greatest), strict=True):
            if condition is not None:
                try:
                    may &= flags_of(mask(condition, pa.table({column: values})))
                except LancekitError:  # reading the values raises the same error
                    return np.ones(len(least), bool)
    return may


@lru_cache(maxsize=64)  # called for each fragment
def comparisons(expr: Expr, column: str) -> tuple[Comparison, ...]:
    """Return the comparisons of a column in a filter; empty if the filter cannot prune."""
    found = [_comparison(part) for part in _conditions(expr) if not isinstance(part, Apply)]
    if None in found:
        return ()
    return tuple(one for one in found if one is not None and one.column == column)


class Comparison(NamedTuple):
    """A comparison of a column on the left with a literal on the right."""

    column: str
    expr: Call

    def for_bounds(self) -> list[Call | None]:
        """Return the conditions on the least and the greatest value; ``None`` for no condition."""
        names = _BOUND_CHECKS[self.expr.function]
        return [replace(self.expr, function=name) if name else None for name in names]


def _applied(expr: Expr) -> Iterator[Apply]:
    """Yield the functions in a condition that can check blocks."""
    for part in _conditions(expr):
        if isinstance(part, Apply) and hasattr(part.function, "may_hold"):
            yield part


def _conditions(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Call) and expr.function == "AND":
        for part in expr.args:
            yield from _conditions(part)
    else:
        yield expr


def _comparison(expr: Expr) -> Comparison | None:
    match expr:
        case Call(function=name, args=(FieldRef() as column, Literal() as value)):
            pass
        case Call(function=name, args=(Literal() as value, FieldRef() as column)):
            name = _SWAPPED.get(name, "")
        case _:
            return None
    if name not in _BOUND_CHECKS or not _fits(value.type, column.type):
        return None
    return Comparison(column.path, replace(expr, function=name, args=(column, value)))


def _fits(value: pa.DataType, column: pa.DataType) -> bool:
    """Return True if a comparison of a column with a literal of these types fails for no row."""
    if pt.is_integer(column) or pt.is_floating(column):
        return bool(pt.is_integer(value) or pt.is_floating(value))
    return bool(pt.is_string(column) and pt.is_string(value))


# ---- point lookups: ``_rowid = 5``, ``_rowaddr IN (5, 7) AND x > 0``

Points: TypeAlias = frozenset[int] | None


def point_lookup(expr: Expr, column: str) -> Points:
    """Return the only values of a column that matching rows can have; ``None`` for any value.

    Examples
    --------
    >>> from lancekit._scan.expressions.predicate import Predicate
    >>> schema = pa.schema({"x": pa.int8()})
    >>> wanted = Predicate.parse("x > 0 AND (_rowid = 3 OR _rowid IN (5, 9))", schema)
    >>> sorted(point_lookup(wanted.expr, "_rowid"))
    [3, 5, 9]
    >>> point_lookup(Predicate.parse("x > 0 OR _rowid = 3", schema).expr, "_rowid")
    """
    match expr:
        case Call(function="AND" | "OR" as name):
            found = [point_lookup(part, column) for part in expr.args]
            known = [points for points in found if points is not None]
            if name == "AND":
                return frozenset.intersection(*known) if known else None
            return frozenset().union(*known) if len(known) == len(found) else None
        case Call(
            function="=",
            args=(FieldRef(path=path), Literal() as other)
            | (Literal() as other, FieldRef(path=path)),
        ) if path == column:
            return _numbers([pa.repeat(other.value, 1)])
        case InList(arg=FieldRef(path=path)) if path == column:
            return _numbers(expr.sets)
    return None


def _numbers(sets: Sequence[pa.Array]) -> Points:
    """Return the integers in some arrays, without nulls; ``None`` for other types."""
    if not all(pt.is_integer(some.type) for some in sets):
        return None
    return frozenset(number for some in sets for number in some.to_pylist() if number is not None)
