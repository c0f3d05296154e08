"""Where pieces of a statement stand in its text, as sqlglot tells it."""

from __future__ import annotations

import re
from typing import Any

from sqlglot.errors import ParseError

from lancekit.errors import PredicateError
from lancekit.scan.expressions.error_position import failure

__all__ = ["mark_starts", "misplaced", "start_of", "unclosed"]

#: in what sqlglot keeps beside a node
_START = "first"


def start_of(tree: Any) -> int:
    """Return the offset in the text of an expression's first piece, 0 if it is not known."""
    return int(tree.meta.get(_START, 0))


def mark_starts(tree: Any, begin: int) -> None:
    """Note of each piece of a tree where it begins, in one pass: pieces may lie very deep."""
    for node in reversed(list(tree.walk())):
        known = [
            place
            for child in node.iter_expressions()
            if (place := child.meta.get(_START)) is not None
        ]
        if (own := node.meta.get("start")) is not None:
            known.append(own + begin)
        if known:
            node.meta[_START] = min(known)


def misplaced(sql: str, error: ParseError) -> PredicateError:
    """Return the error of a text that does not parse, at the place that sqlglot tells."""
    details = error.errors[0] if error.errors else {}
    text = details.get("highlight") or ""
    unexpected = "Unexpected token" in (details.get("description") or "")
    lines = sql.split("\n")
    # the column is that of the last character of the piece
    line, last = details.get("line") or 1, details.get("col") or 1
    end = min(len(sql), sum(len(x) + 1 for x in lines[: line - 1]) + last)
    begin = max(0, end - len(text)) if text else end
    fault = f"{text!r} was not expected" if unexpected else f"something is missing after {text!r}"
    what = f"the expression does not parse, {fault}:"
    hint = "Names with spaces or capitals go in backticks, text in single quotes."
    return failure(sql, what, begin if unexpected else end, hint)


_CLOSED = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|/\*.*?\*/|--[^\n]*|[^'"`]""", re.S
)


def unclosed(sql: str) -> int:
    """Return where the quote or comment begins that has no end."""
    position = 0
    while found := _CLOSED.match(sql, position):
        if sql.startswith("/*", position) and not found[0].endswith("*/"):
            break
        position = found.end()
    return position
