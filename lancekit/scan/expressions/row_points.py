"""Which rows a filter names one by one: ``_rowid = 5``, ``_rowaddr IN (5, 7) AND x > 0``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lancekit.scan.expressions.simple import tree_of
from lancekit.scan.expressions.syntax import gathered_in, kind_of, listed_in, slot_of

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
    return _points(tree_of(sql), column)


def _points(tree: Any, column: str) -> Points:
    rule = _RULES.get(kind_of(tree))
    return rule(tree, column) if rule is not None else None


def _is(tree: Any, column: str) -> bool:
    return kind_of(tree) == "column" and [part.name for part in tree.parts] == [column]


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
    return kind_of(tree) == "literal" and not tree.is_string and tree.this.isdigit()


def _in(tree: Any, column: str) -> Points:
    listed = listed_in(tree)
    if listed is None:
        return _one_of(tree.this, tree.expressions, column)
    whole = _is(tree.this, column) and set(map(type, listed.values)) == {int}
    return frozenset(listed.values) if whole and min(listed.values) >= 0 else None


def _equal(tree: Any, column: str) -> Points:
    left, right = tree.this, tree.expression
    found = _one_of(left, [right], column)
    return _one_of(right, [left], column) if found is None else found


def _both(tree: Any, column: str) -> Points:
    # flat: a chain of thousands is as deep a tree
    found = [points for part in tree.flatten() if (points := _points(part, column)) is not None]
    return frozenset.intersection(*found) if found else None


def _either(tree: Any, column: str) -> Points:
    found = [_points(part, column) for part in tree.flatten()]
    known = [points for points in found if points is not None]
    return frozenset().union(*known) if len(known) == len(found) else None


def _gathered(tree: Any, column: str) -> Points:
    """Return what any of the members of a chain names: with ``OR``, rows have one of them."""
    gathered = gathered_in(tree)
    if gathered is None or gathered.alike.joint != "or":
        return None
    return _points(gathered.tree, column)


_RULES: Mapping[str, Callable[[Any, str], Points]] = {
    "eq": _equal,
    "literal": _gathered,
    "in": _in,
    "paren": lambda tree, column: _points(tree.this, column),
    "and": _both,
    "or": _either,
}
