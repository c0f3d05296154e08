"""Which rows a filter names one by one: ``_rowid = 5``, ``_rowaddr IN (5, 7) AND x > 0``.

Imported only when a filter has a row id or address in it, because parsing loads sqlglot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from lancekit.scan.expressions.parser import gathered_in, listed_in, parse, slot_of

__all__ = ["row_points"]

_LONGEST = 100  # digits

Points = frozenset[int] | None


def row_points(sql: str, column: str) -> Points:
    """Return the values of a column that rows must have one of, ``None`` if it may have any.

    Examples
    --------
    >>> sorted(row_points("x > 0 AND (_rowid = 3 OR _rowid IN (5, 9))", "_rowid"))
    [3, 5, 9]
    >>> row_points("x > 0 OR _rowid = 3", "_rowid")
    """
    return _points(parse(sql), column)


def _points(tree: Any, column: str) -> Points:
    rule = _RULES.get(type(tree))
    return rule(tree, column) if rule is not None else None


def _is(tree: Any, column: str) -> bool:
    return type(tree) is exp.Column and [part.name for part in tree.parts] == [column]


def _one_of(tree: Any, values: Sequence[Any], column: str) -> Points:
    """Return numbers that are written out, where ``tree`` is the column."""
    if not _is(tree, column):
        return None
    found: set[int] = set()
    for value in values:
        gathered = gathered_in(value)
        slot = slot_of(gathered.tree if gathered is not None else value)
        if slot is not None and type(slot.values[0]) is int:
            found.update(slot.values)
        elif gathered is None and slot is None and _is_number(value):
            # a number of thousands of digits is none that a row has, nor one that Python reads
            found.update([int(value.this)] if len(value.this) < _LONGEST else [])
        else:
            return None
    return frozenset(found)


def _is_number(tree: Any) -> bool:
    return type(tree) is exp.Literal and not tree.is_string and tree.this.isdigit()


def _in(tree: exp.In, column: str) -> Points:
    listed = listed_in(tree)
    if listed is None:
        return _one_of(tree.this, tree.expressions, column)
    whole = _is(tree.this, column) and set(map(type, listed.values)) == {int}
    return frozenset(listed.values) if whole and min(listed.values) >= 0 else None


def _equal(tree: exp.EQ, column: str) -> Points:
    left, right = tree.this, tree.expression
    found = _one_of(left, [right], column)
    return _one_of(right, [left], column) if found is None else found


def _both(tree: exp.And, column: str) -> Points:
    # flat: a chain of thousands is as deep a tree
    found = [points for part in tree.flatten() if (points := _points(part, column)) is not None]
    return frozenset.intersection(*found) if found else None


def _either(tree: exp.Or, column: str) -> Points:
    found = [_points(part, column) for part in tree.flatten()]
    known = [points for points in found if points is not None]
    return frozenset().union(*known) if len(known) == len(found) else None


def _gathered(tree: exp.Literal, column: str) -> Points:
    """Return what any of the members of a chain names: with ``OR``, rows have one of them."""
    gathered = gathered_in(tree)
    if gathered is None or gathered.alike.joint != "or":
        return None
    return _points(gathered.tree, column)


_RULES: Mapping[type, Callable[[Any, str], Points]] = {
    exp.EQ: _equal,
    exp.Literal: _gathered,
    exp.In: _in,
    exp.Paren: lambda tree, column: _points(tree.this, column),
    exp.And: _both,
    exp.Or: _either,
}
