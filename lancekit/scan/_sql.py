"""Filter text to a syntax tree: the SQL that Lance readers accept, parsed by sqlglot.

Imported only when text has to be parsed, because sqlglot takes a tenth of a second to load.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser as BaseParser
from sqlglot.tokens import Tokenizer as BaseTokenizer

from lancekit.errors import PredicateError

__all__ = ["parse"]


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
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            "CASE": BaseParser.NO_PAREN_FUNCTION_PARSERS["CASE"],
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}


def parse(sql: str) -> Any:
    """Parse one expression.

    Raises
    ------
    PredicateError
        The text is empty, or not one whole expression; ``context`` has its line and column.
    """
    if not sql.strip():
        raise PredicateError("the filter is empty.", hint="Leave it out to read every row.")
    try:
        trees = Dialect.get_or_raise(_LanceSQL).parse_into(exp.Condition, sql)
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        line, column = details.get("line"), details.get("col")
        text = details.get("highlight") or ""
        unexpected = "Unexpected token" in (details.get("description") or "")
        what = (
            f"{text!r} was not expected" if unexpected else f"something is missing after {text!r}"
        )
        raise PredicateError(
            f"the filter {sql!r} does not parse: {what} at line {line}, column {column}.",
            hint="Names with spaces or capitals go in backticks, text in single quotes.",
            sql=sql,
            line=line,
            column=column,
        ) from error
    except TokenError as error:
        raise PredicateError(
            f"the filter {sql!r} does not parse: a quote or comment is not closed.", sql=sql
        ) from error
    if len(trees) != 1 or trees[0] is None:
        raise PredicateError(f"the filter {sql!r} is not one expression.", sql=sql)
    return trees[0]
