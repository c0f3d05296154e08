"""Long lists of literals, lifted out of a text before it is parsed.

``x IN (1, 2, ...)`` with thousands of numbers would be a tree of thousands of nodes; so would
``x = 1 OR x = 2 ...``, and ``x <> 1 AND x <> 2 ...``.  What is parsed instead is ``x IN (0)``, in
a text of the same length, so that places in it stay what they are; the tree's ``0`` is known by
its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lancekit.scan.expressions.literals import number

__all__ = ["Listed", "lift"]

#: fewer literals are parsed as they stand
_FEW = 16

# Literals that no operator can belong to, given what must follow.  A quote in quotes of the other
# kind is left to the parser.
_NUMBER = r"-?[0-9]++(?:\.[0-9]++)?+"
_TEXT = r"'(?:[^'\"]|'')*+'(?!')"
_NAME = r"(?:[A-Za-z_][A-Za-z0-9_]*+|`[^`]++`)"
_TERM = rf"{{0}}\s*+{{1}}\s*+(?:{_NUMBER}|{_TEXT})"


def _chain(operator: str, joint: str, name: str) -> str:
    first, further = (_TERM.format(n, operator) for n in (rf"(?P<{name}>{_NAME})", f"(?P={name})"))
    return rf"(?<![\w.`]){first}(?:\s++{joint}\s++{further}(?=[\s)]|$))++"


_ITEM = rf"(?:{_NUMBER}|{_TEXT}|NULL\b)"
_FOUND = re.compile(
    r"'(?:[^']|'')*+'|\"(?:[^\"]|\"\")*+\"|--[^\n]*+|/\*.*?(?:\*/|\Z)"
    rf"|\bIN\s*+\(\s*+(?P<items>{_ITEM}(?:\s*+,\s*+{_ITEM})*+)\s*+\)"
    rf"|{_chain('==?', 'OR', 'o')}"
    rf"|{_chain('(?:<>|!=)', 'AND', 'a')}"
    r"|`(?:[^`]|``)*+`|[\w.]++",
    re.IGNORECASE | re.DOTALL,
)
_LITERAL = re.compile(rf"({_NUMBER})|({_TEXT})|NULL\b", re.IGNORECASE)
#: what looks like a name before an operator and is none
_WORDS = frozenset({"and", "or", "not", "true", "false", "null", "is", "in", "between", "case"})

# A chain is one condition, whole or without its first or last part: what stands before and behind
# it must not bind closer.
_BEGIN = re.compile(r"(?:\A|\(|\bOR)\s*\Z", re.IGNORECASE)
_ENDS = {
    "ors": re.compile(r"\s*+(?:\Z|\)|OR\b)", re.IGNORECASE),
    "ands": re.compile(r"\s*+(?:\Z|\)|OR\b|AND\b)", re.IGNORECASE),
}
_NEAR = 40  # characters before a chain that are looked at


@dataclass(frozen=True, slots=True)
class Listed:
    """Literals that were lifted out, and where in the text each begins.

    ``compared`` tells that they stood behind ``<>``, one by one.
    """

    values: list[Any]
    places: list[int]
    compared: bool = False


def lift(sql: str) -> tuple[str, Mapping[int, Listed]]:
    """Take the long lists out of a text.

    Returns
    -------
    tuple
        A text of the same length to parse, and the lists by the place of the ``0`` that stands
        for each.

    Examples
    --------
    >>> text, lists = lift("x > 1 AND id IN (" + ", ".join(map(str, range(1000))) + ")")
    >>> text.split()
    ['x', '>', '1', 'AND', 'id', 'IN', '(0', ')']
    >>> {place: listed.values[-1] for place, listed in lists.items()}
    {17: 999}
    """
    pieces, lists, done = [], {}, 0
    for found in _FOUND.finditer(sql):
        kind = found.lastgroup
        if kind == "items":
            start, end = found.span("items")
            new, literals = "0", list(_LITERAL.finditer(sql, start, end))
        elif kind in ("o", "a"):
            part = _condition(sql, found, "ors" if kind == "o" else "ands")
            if part is None:
                continue
            start, end, name, literals = part
            new = f"{name} {'IN' if kind == 'o' else 'NOT IN'} (0)"
        else:
            continue
        values, places = [], []
        for literal in literals:
            values.append(_value(literal[1], literal[2]))
            places.append(literal.start(literal.lastindex or 0))
        if len(values) < _FEW or len(new) > end - start:
            continue
        lists[start + new.rindex("0")] = Listed(values, places, compared=kind == "a")
        pieces += [sql[done:start], new.ljust(end - start)]
        done = end
    return "".join([*pieces, sql[done:]]), lists


def _value(digits: str | None, text: str | None) -> Any:
    if digits:
        return number(digits)
    return text[1:-1].replace("''", "'") if text else None


def _condition(
    sql: str, found: re.Match[str], kind: str
) -> tuple[int, int, str, list[re.Match[str]]] | None:
    """Return the part of a chain that is a condition of its own."""
    name = found["o"] or found["a"]
    if name.lower() in _WORDS:
        return None
    operator = "==?" if kind == "ors" else "(?:<>|!=)"
    term = re.compile(
        rf"{re.escape(name)}\s*+{operator}\s*+(?:({_NUMBER})|({_TEXT}))", re.IGNORECASE
    )
    terms = list(term.finditer(sql, found.start(), found.end()))
    near = sql[max(0, found.start() - _NEAR) : found.start()]
    if not _BEGIN.search(near) or (not near.strip() and found.start() > _NEAR):
        terms = terms[1:]
    if not _ENDS[kind].match(sql, found.end()):
        terms = terms[:-1]
    return (terms[0].start(), terms[-1].end(), name, terms) if terms else None
