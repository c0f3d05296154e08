"""The dialect of statements: sqlglot's Spark, with branches, RESTORE and OPTIMIZE.

Imported only when a statement is parsed, because sqlglot takes a tenth of a second to load.  As in
filters, text is in single quotes, with doubled quotes and no backslashes.  Names are in backticks.
The parser keeps the names of functions: `functions` defines their meaning, not sqlglot.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import TokenType

from lancekit._scan.expressions.syntax import failure
from lancekit._statements.scope import mark_starts, misplaced, unclosed

#: the hint for an unknown statement
STATEMENTS = (
    "Supported statements are SELECT, INSERT INTO, UPDATE, DELETE, MERGE INTO, ALTER TABLE, "
    "RESTORE, OPTIMIZE and DESCRIBE HISTORY."
)
#: the first words of statements
BEGINNINGS = {"SELECT", "WITH", "VALUES", "FROM", "TABLE", "(", "INSERT", "UPDATE", "DELETE"}
BEGINNINGS |= {"MERGE", "ALTER", "RESTORE", "OPTIMIZE", "DESCRIBE", "DESC"}
_BRANCH, _PATH = "branch", "path"
_SURROGATE = re.compile("[\ud800-\udfff]")


class Restore(exp.Expression):  # type: ignore[misc]  # sqlglot is untyped here
    """``RESTORE [TABLE] name TO VERSION AS OF ...``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Optimize(exp.Expression):  # type: ignore[misc]  # as above
    """``OPTIMIZE [TABLE] name``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def branch_of(table: exp.Expression) -> str | None:
    """Return the branch of a table reference ``name@branch``; ``None`` without one."""
    found: str | None = table.meta.get(_BRANCH)
    return found


def is_path(table: exp.Expression) -> bool:
    """Return True if a table reference is a path in quotes."""
    return bool(table.meta.get(_PATH))


class _Statements(Spark):  # type: ignore[misc]  # as above
    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]  # as above
        QUOTES: ClassVar[list[object]] = ["'"]
        IDENTIFIERS: ClassVar[list[object]] = ["`", '"']  # double quotes raise, with their place
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]
        IDENTIFIER_ESCAPES: ClassVar[list[str]] = ["`"]
        HEX_STRINGS: ClassVar[list[object]] = [("x'", "'"), ("X'", "'")]
        RAW_STRINGS: ClassVar[list[object]] = []
        BYTE_STRINGS: ClassVar[list[object]] = []
        KEYWORDS: ClassVar[dict[str, object]] = {
            word: kind
            for word, kind in Spark.Tokenizer.KEYWORDS.items()
            if kind is not TokenType.COMMAND
        }

    class Parser(Spark.Parser):  # type: ignore[misc]  # as above
        STRICT_CAST = True
        FUNCTIONS: ClassVar[dict[str, object]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, object]] = {
            name: Spark.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT")
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict[object, object]] = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, object]] = {
            "CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]
        }

        def _parse_statement(self) -> exp.Expression | None:
            if self._match_text_seq("RESTORE"):
                self._match(TokenType.TABLE)
                table = self._parse_table_parts()
                if not self._match_text_seq("TO"):
                    self.raise_error("Expected TO VERSION or TO TIMESTAMP")
                if not (version := self._parse_version()) and self._match_text_seq("VERSION"):
                    version = exp.Version(
                        this="VERSION", kind="AS OF", expression=self._parse_primary()
                    )
                table.set("version", version)
                return self.expression(Restore(this=table))
            if self._match_text_seq("OPTIMIZE"):
                self._match(TokenType.TABLE)
                return self.expression(Optimize(this=self._parse_table_parts()))
            return super()._parse_statement()

        def _parse_parameter(self) -> object:
            begin = self._prev.start
            found = super()._parse_parameter()
            found.meta["start"] = begin
            return found

        def _parse_table_parts(self, *args: object, fast: bool = False, **kwargs: object) -> Any:
            if fast:
                return None  # sqlglot's fast path would skip branches and paths
            quoted = self._curr is not None and self._curr.token_type is TokenType.STRING
            table = super()._parse_table_parts(*args, **kwargs)
            if quoted:
                table.meta[_PATH] = True
            if self._match(TokenType.PARAMETER):
                part = self._parse_id_var(any_token=True) or self._parse_string_as_identifier()
                if part is None:
                    self.raise_error("Expected the name of a branch behind @")
                table.meta[_BRANCH] = part.name
            return table


def referenced_names(tree: exp.Expression) -> frozenset[str]:
    """Return the names of tables and parameters in a statement, in lower case."""
    return frozenset(one.name.lower() for one in tree.find_all(exp.Table, exp.Parameter))


def spelled_tree(tree: exp.Expression) -> str:
    """Return a part of a statement as text, nearly as written."""
    text: str = tree.sql(_Statements, normalize_functions=False)
    return text


def parse_statements(text: str) -> list[exp.Expression]:
    """Parse the statements of a text, which semicolons separate.

    Raises PredicateError: the text does not parse; ``context`` has the position, as for filters.
    """
    if alone := _SURROGATE.search(text):
        code = f"U+{ord(alone[0]):04X}"
        raise failure(text, f"{code} is an unpaired surrogate:", alone.start())
    dialect = Dialect.get_or_raise(_Statements)
    try:
        pieces = dialect.tokenize(text)
    except TokenError:
        raise failure(text, "a quote or comment is not closed:", unclosed(text)) from None
    begins = True
    for piece in pieces:
        if begins and piece.token_type is not TokenType.SEMICOLON:
            word = piece.text.upper()
            if word not in BEGINNINGS:
                raise failure(text, f"there is no statement {word!r}:", piece.start, STATEMENTS)
        begins = piece.token_type is TokenType.SEMICOLON
        if piece.token_type is TokenType.IDENTIFIER and text[piece.start] == '"':
            raise failure(
                text,
                "double quotes are ambiguous: elsewhere they are for names, in filters for text:",
                piece.start,
                f"Write `{piece.text}` for a name, or '{piece.text}' for text.",
            )
    try:
        trees = [tree for tree in dialect.parse(text) if not isinstance(tree, exp.Semicolon | None)]
    except ParseError as error:
        raise misplaced(text, error) from None  # sqlglot's message is about its internals
    except RecursionError:
        raise failure(text, "the statement is nested too deeply:", 0) from None
    for tree in trees:
        mark_starts(tree, 0)
    return trees
