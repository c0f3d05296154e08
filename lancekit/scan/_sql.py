"""Filter text to a syntax tree: the SQL that Lance readers accept, parsed by sqlglot.

Imported only when text has to be parsed, because sqlglot takes a tenth of a second to load.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser as BaseParser
from sqlglot.tokens import Tokenizer as BaseTokenizer

from lancekit.errors import PredicateError
from lancekit.scan._lists import Listed, lift
from lancekit.scan._places import failure

__all__ = ["listed_in", "parse", "start_of"]


_SURROGATE = re.compile("[\ud800-\udfff]")

_LISTED, _START = "listed", "first"  # in what sqlglot keeps beside a node


def _refuse_case(parser: Any) -> None:
    """Refuse CASE, which Lance's readers do not take; it is the word that was just read."""
    raise failure(
        parser.sql,
        "CASE is not part of this SQL:",
        parser._prev.start,
        "Use coalesce(), nullif() or nvl2(), an update for each condition, or a function over "
        "batches in add_columns(); a column of that name goes in backticks.",
    )


class _LanceSQL(Dialect):  # type: ignore[misc]  # sqlglot is untyped here
    """Names in backticks; text in single or in double quotes, a quote doubled, no backslashes."""

    class Tokenizer(BaseTokenizer):  # type: ignore[misc]
        QUOTES: ClassVar[list[str]] = ["'", '"']
        IDENTIFIERS: ClassVar[list[str]] = ["`"]
        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"']
        IDENTIFIER_ESCAPES: ClassVar[list[str]] = ["`"]
        HEX_STRINGS: ClassVar[list[tuple[str, str]]] = [("x'", "'"), ("X'", "'")]

    class Parser(BaseParser):  # type: ignore[misc]
        # Every function comes out by its own name; sqlglot's rewriting of dialects is not wanted.
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            "CAST": BaseParser.FUNCTION_PARSERS["CAST"],
            "SAFE_CAST": BaseParser.FUNCTION_PARSERS["TRY_CAST"],
            "TRY_CAST": BaseParser.FUNCTION_PARSERS["TRY_CAST"],
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            "CASE": _refuse_case,
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}


def start_of(tree: Any) -> int:
    """Return the offset in the text of an expression's first piece, 0 if it is not known."""
    return int(tree.meta.get(_START, 0))


def _mark_starts(tree: Any) -> None:
    """Note of each piece of a tree where it begins, in one pass: pieces may lie very deep."""
    for node in reversed(list(tree.walk())):
        parts = (child.meta.get(_START) for child in node.iter_expressions())
        own = node.meta.get("start")
        known = [place for place in (own, *parts) if place is not None]
        if known:
            node.meta[_START] = min(known)


def listed_in(tree: exp.In) -> Listed | None:
    """Return the long list that stands behind an ``IN``, if it was lifted out of the text."""
    return tree.expressions[0].meta.get(_LISTED) if tree.expressions else None


@lru_cache(maxsize=8)
def parse(sql: str) -> Any:
    """Parse one expression.

    Raises
    ------
    PredicateError
        The text is empty, or not one whole expression; ``context`` has the ``position``, and
        ``line`` and ``column`` counted from 1.
    """
    if not sql.strip():
        raise PredicateError(
            "the filter is empty.", hint="Leave it out to read every row.", sql=sql, position=0
        )
    if alone := _SURROGATE.search(sql):
        raise failure(
            sql,
            f"U+{ord(alone[0]):04X} is half of a character, and no text has one:",
            alone.start(),
        )
    text, lists = lift(sql)
    tree = _tree(text)
    literals = tree.find_all(exp.Literal) if lists else ()
    marked = [literal for literal in literals if literal.meta.get("start") in lists]
    if len(marked) < len(lists):  # a list that the parser sees elsewhere, or not at all
        return _tree(sql)
    for literal in marked:
        literal.meta[_LISTED] = lists[literal.meta["start"]]
    return tree


def _tree(sql: str) -> Any:
    try:
        trees = Dialect.get_or_raise(_LanceSQL).parse_into(exp.Condition, sql)
    except ParseError as error:
        raise _misplaced(sql, error) from error
    except TokenError as error:
        raise failure(
            sql, "the expression does not parse, a quote or comment is not closed:", _unclosed(sql)
        ) from error
    for tree in trees:
        if tree is not None:
            _mark_starts(tree)
    if len(trees) == 1 and trees[0] is not None:
        return trees[0]
    second = next((start_of(tree) for tree in trees[1:] if tree is not None), len(sql))
    raise failure(sql, "the filter is not one expression:", second)


def _misplaced(sql: str, error: ParseError) -> PredicateError:
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


def _unclosed(sql: str) -> int:
    """Return where the quote or comment begins that has no end."""
    position = 0
    while found := _CLOSED.match(sql, position):
        if sql.startswith("/*", position) and not found[0].endswith("*/"):
            break
        position = found.end()
    return position
