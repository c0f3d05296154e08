"""Filter text to a syntax tree: the SQL that Lance readers accept, parsed by sqlglot.

Imported only when text has to be parsed, because sqlglot takes a tenth of a second to load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser as BaseParser
from sqlglot.tokens import Tokenizer as BaseTokenizer

from lancekit.errors import PredicateError
from lancekit.scan.expressions.alike import Alike, gather, shape_of
from lancekit.scan.expressions.error_position import failure
from lancekit.scan.expressions.long_lists import lift
from lancekit.scan.expressions.syntax import GATHERED, LISTED, SLOT, START, Gathered, start_of

__all__ = ["Token", "mark_starts", "misplaced", "parse", "parse_part", "tokens", "unclosed"]


_SURROGATE = re.compile("[\ud800-\udfff]")


class Token(NamedTuple):
    """A piece of a text: what kind it is by sqlglot's word, and from where to where it goes."""

    kind: str
    text: str
    start: int
    end: int


def tokens(sql: str) -> list[Token]:
    """Return the pieces of a text, without comments.

    Raises
    ------
    PredicateError
        A quote or a comment is not closed.
    """
    try:
        found = Dialect.get_or_raise(_LanceSQL).tokenize(sql)
    except TokenError as error:
        raise failure(sql, "a quote or comment is not closed:", unclosed(sql)) from error
    return [Token(one.token_type.name, one.text, one.start, one.end + 1) for one in found]


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

    class Tokenizer(BaseTokenizer):  # type: ignore[misc]  # as above
        QUOTES: ClassVar[list[str]] = ["'", '"']
        IDENTIFIERS: ClassVar[list[str]] = ["`"]
        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"']
        IDENTIFIER_ESCAPES: ClassVar[list[str]] = ["`"]
        HEX_STRINGS: ClassVar[list[tuple[str, str]]] = [("x'", "'"), ("X'", "'")]

    class Parser(BaseParser):  # type: ignore[misc]  # as above
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


def mark_starts(tree: Any, begin: int) -> None:
    """Note of each piece of a tree where it begins, in one pass: pieces may lie very deep."""
    for node in reversed(list(tree.walk())):
        known = [
            place
            for child in node.iter_expressions()
            if (place := child.meta.get(START)) is not None
        ]
        if (own := node.meta.get("start")) is not None:
            known.append(own + begin)
        if known:
            node.meta[START] = min(known)


def parse_part(sql: str, span: tuple[int, int]) -> Any:
    """Parse a part of a text, which is an expression of its own."""
    return _tree(sql[slice(*span)], span[0])


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
    text, sorts = gather(text, lists)
    if not lists and not sorts:
        return _tree_by_shape(sql)
    try:
        gathered = {place: _gathered(sql, alike) for place, alike in sorts.items()}
        tree = _tree(text)
        _mark(tree, {LISTED: lists, GATHERED: gathered})
    except (PredicateError, LookupError):  # what the parser sees elsewhere, or not at all
        return _tree(sql)
    return tree


#: longer texts are parsed as they are
_MOST_SHAPED = 1 << 10
#: what takes any literal there is
_TAKES_ANY = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between, exp.Neg)


def _tree_by_shape(sql: str) -> Any:
    """Return the tree of a text, made of another one if they differ in nothing but literals."""
    shape, literals = shape_of(sql) if len(sql) <= _MOST_SHAPED else ("", {})
    tree = _of_shape(shape) if literals else None
    return _tree(sql) if tree is None else _with_literals(tree, literals)


def _with_literals(tree: Any, literals: Mapping[int, str]) -> Any:
    """Return a tree with other literals, given by their places."""
    start = start_of(tree)
    if type(tree) is exp.Literal:
        made = exp.Literal(this=literals[start], is_string=tree.is_string)
    else:
        made = type(tree)(**{k: _each_with(value, literals) for k, value in tree.args.items()})
    made.meta[START], made.comments = start, tree.comments
    return made


def _each_with(value: Any, literals: Mapping[int, str]) -> Any:
    if isinstance(value, list):
        return [_each_with(one, literals) for one in value]
    return _with_literals(value, literals) if isinstance(value, exp.Expression) else value


@lru_cache(maxsize=64)
def _of_shape(shape: str) -> Any | None:
    """Return the tree of texts of a shape, ``None`` if it may be another for other literals."""
    try:
        tree = _tree(shape)
    except PredicateError:  # each text has an error of its own
        return None
    found = list(tree.find_all(exp.Literal))
    places = sorted(start_of(literal) for literal in found)
    known = all(isinstance(literal.parent, _TAKES_ANY) for literal in found)
    return tree if known and places == list(shape_of(shape)[1]) else None


def _gathered(sql: str, alike: Alike) -> Gathered:
    tree = parse_part(sql, alike.spans[0])
    _mark(tree, {SLOT: alike.slots})
    return Gathered(alike, tree)


def _mark(tree: Any, marks: Mapping[str, Mapping[int, Any]]) -> None:
    """Put marks on the literals that have their places; ``LookupError`` if one has none."""
    literals = {start_of(node): node for node in tree.find_all(exp.Literal, exp.HexString)}
    for name, by_place in marks.items():
        for place, mark in by_place.items():
            literals[place].meta[name] = mark


def _tree(sql: str, begin: int = 0) -> Any:
    try:
        trees = Dialect.get_or_raise(_LanceSQL).parse_into(exp.Condition, sql)
    except ParseError as error:
        raise misplaced(sql, error) from None  # its words are about a parser's insides
    except TokenError:
        raise failure(
            sql, "the expression does not parse, a quote or comment is not closed:", unclosed(sql)
        ) from None
    for tree in trees:
        if tree is not None:
            mark_starts(tree, begin)
    if len(trees) == 1 and trees[0] is not None:
        return trees[0]
    second = next((start_of(tree) for tree in trees[1:] if tree is not None), len(sql))
    raise failure(sql, "the filter is not one expression:", second)


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
