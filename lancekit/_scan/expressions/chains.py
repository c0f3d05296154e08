"""Chains of comparisons that are a list: ``x = 1 OR x = 2 ...``, and ``x <> 1 AND x <> 2 ...``."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lancekit._scan.expressions.syntax import Listed, Syntax

__all__ = ["with_lists"]

#: fewer comparisons stay what they are
_FEW = 16

#: comparisons that are a list together, by what joins them, and the kind of the list
_LISTS = {"OR": ("=", "IN"), "AND": ("<>", "NOT IN")}


def with_lists(joint: str, parts: list[Syntax]) -> list[Syntax]:
    """Return the parts of a chain; many of one column with literals are one, in the first's place.

    Examples
    --------
    >>> from lancekit._scan.expressions.parser import parse
    >>> tree = parse(" OR ".join(f"x = {n} OR y = {n}" for n in range(100)))
    >>> [(part.kind, len(part.value.values)) for part in tree.parts]
    [('IN', 100), ('IN', 100)]
    """
    if len(parts) < _FEW:
        return parts
    comparison, kind = _LISTS[joint]
    columns = {
        part: column for part in parts if (column := _compared(part, comparison, kind)) is not None
    }
    members = defaultdict[tuple[str, ...], list[Syntax]](list)
    for part, column in columns.items():
        members[column.value].append(part)
    lists = {many[0]: many for many in members.values() if len(many) >= _FEW}
    gone = {part for many in lists.values() for part in many[1:]}
    return [
        _list(kind, columns[part], lists[part]) if part in lists else part
        for part in parts
        if part not in gone
    ]


def _compared(tree: Syntax, comparison: str, kind: str) -> Syntax | None:
    """Return the column that is compared with a literal, or looked up in a list of literals."""
    if tree.kind == kind:
        return tree.parts[0] if tree.value is not None and tree.parts[0].is_column else None
    if tree.kind != comparison:
        return None
    column, literal = sorted(tree.parts, key=lambda part: part.kind == "literal")
    return column if column.is_column and literal.kind == "literal" else None


def _list(kind: str, column: Syntax, members: list[Syntax]) -> Syntax:
    values, places = list[Any](), list[int]()
    for member in members:
        if member.kind == kind:
            values += member.value.values
            places += member.value.places
        else:
            literals = [part for part in member.parts if part.kind == "literal"]
            values += [literal.value for literal in literals]
            places += [literal.at for literal in literals]
    listed = Listed(values, places)
    return Syntax(kind, (column,), listed, members[0].start, members[-1].end, column.at)
