"""The dialect of statements: sqlglot's Spark, with branches, and statements of lakehouse formats.

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
    "CREATE TABLE, CREATE and DROP BRANCH or TAG, RESTORE, OPTIMIZE, VACUUM, EXPLAIN, SHOW and "
    "DESCRIBE."
)
#: by first word of a statement that there is not: what to do instead
_INSTEAD = {
    "CALL": "Iceberg's procedures are methods: ds.restore(version), ds.optimize.compact_files().",
    "REFRESH": "ds.checkout_latest() moves a handle to the newest version.",
    "TRUNCATE": "DELETE FROM name removes all rows.", "COPY": "Use ds.export('rows.parquet').",
    **dict.fromkeys(("BEGIN", "START", "COMMIT"), "Each statement commits by itself."),
    "ROLLBACK": "Use ds.undo(), or RESTORE name TO VERSION AS OF 1.",
    **dict.fromkeys(("REPLACE", "UPSERT"), "Use MERGE INTO, or ds.merge_insert('id')."),
    **dict.fromkeys(("ANALYZE", "SUMMARIZE"), "Use ds['x'].statistics()."),
    "PRAGMA": "Use DESCRIBE name.", "PIVOT": "Use ds.to_pandas().",
    "SET": "Use lk.options.engine = 'local'.",
}  # fmt: skip
#: the first words of statements
BEGINNINGS = {"SELECT", "WITH", "VALUES", "FROM", "TABLE", "(", "INSERT", "UPDATE", "DELETE"}
BEGINNINGS |= {"MERGE", "ALTER", "RESTORE", "OPTIMIZE", "DESCRIBE", "DESC", "SHOW", "EXPLAIN"}
BEGINNINGS |= {"CREATE", "DROP", "VACUUM"}
#: by word behind SHOW: what it lists
_LISTS = {
    **dict.fromkeys(("TABLES",), "TABLES"),
    **dict.fromkeys(("BRANCHES", "BRANCH"), "BRANCHES"),
    **dict.fromkeys(("TAGS", "TAG"), "TAGS"),
    **dict.fromkeys(("VERSIONS", "HISTORY"), "VERSIONS"),
    **dict.fromkeys(("INDEXES", "INDEX", "INDICES"), "INDEXES"),
    **dict.fromkeys(("COLUMNS",), "COLUMNS"),
}
_BRANCH, _PATH = "branch", "path"
_SURROGATE = re.compile("[\ud800-\udfff]")


class Restore(exp.Expression):  # type: ignore[misc]  # sqlglot is untyped here
    """``RESTORE [TABLE] name TO VERSION AS OF ...``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Optimize(exp.Expression):  # type: ignore[misc]  # as above
    """``OPTIMIZE [TABLE] name [ZORDER BY (...)]``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "order": False}


class Show(exp.Expression):  # type: ignore[misc]  # as above
    """``SHOW what [FROM name]``, ``DESCRIBE [HISTORY | DETAIL] name [LIMIT n]``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": False, "what": True, "limit": False}


class Explain(exp.Expression):  # type: ignore[misc]  # as above
    """``EXPLAIN statement``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Vacuum(exp.Expression):  # type: ignore[misc]  # as above
    """``VACUUM name [RETAIN n HOURS] [DRY RUN]``."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        **dict.fromkeys(("hours", "dry", "rest"), False),
    }


class Reference(exp.Expression):  # type: ignore[misc]  # as above
    """``ALTER TABLE name CREATE BRANCH ref [AS OF VERSION n]``, and DROP, REPLACE and TAG.

    As Iceberg, Spark 4.2 and Lance's Spark connector write it; or ``CREATE BRANCH ref IN name``.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        **dict.fromkeys(("this", "action", "what", "name"), True),
        **dict.fromkeys(("if", "branch", "version", "tag", "rest"), False),
    }


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
            if kind not in {TokenType.COMMAND, TokenType.SHOW}  # their rest would be one token
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
                table, order = self._parse_table_parts(), None
                if self._match_text_seq("ZORDER", "BY"):
                    order = self._parse_wrapped_csv(self._parse_column, optional=True)
                return self.expression(Optimize(this=table, order=order))
            if self._match_text_seq("SHOW"):
                return self._show()
            if self._match_text_seq("DESCRIBE") or self._match_text_seq("DESC"):
                return self._describe()
            if self._match_text_seq("EXPLAIN"):
                return self.expression(Explain(this=self._parse_statement()))
            if self._match_text_seq("VACUUM"):
                return self._vacuum()
            return self._reference() or super()._parse_statement()

        def _show(self) -> exp.Expression:
            word = self._curr.text.upper() if self._curr else ""
            if word:
                self._advance()
            what = _LISTS.get(word, word)
            near = self._one_of("FROM", "IN", "ON")
            table = self._parse_table_parts() if near and what != "TABLES" else None
            return self.expression(Show(this=table, what=what))

        def _describe(self) -> exp.Expression:
            what = {"HISTORY": "VERSIONS", "DETAIL": "DETAIL"}.get(
                self._one_of("HISTORY", "DETAIL"), "COLUMNS"
            )
            self._match(TokenType.TABLE)
            table = self._parse_table_parts()
            limit = self._parse_primary() if self._match(TokenType.LIMIT) else None
            return self.expression(Show(this=table, what=what, limit=limit))

        def _vacuum(self) -> exp.Expression:
            self._match(TokenType.TABLE)
            table, hours = self._parse_table_parts(), None
            if self._match_text_seq("RETAIN"):
                hours = self._parse_primary()
                if not self._one_of("HOURS", "HOUR"):
                    self.raise_error("Expected HOURS")
            dry = bool(self._match_text_seq("DRY", "RUN"))
            return self.expression(Vacuum(this=table, hours=hours, dry=dry, rest=self._rest()))

        def _reference(self) -> exp.Expression | None:
            """Parse a statement on a branch or tag; ``None`` without progress for others."""
            begin, table = self._index, None
            if self._match_text_seq("ALTER", "TABLE"):
                table = self._parse_table_parts()
            action = self._one_of("CREATE", "REPLACE", "DROP")
            action = "REPLACE" if self._match_text_seq("OR", "REPLACE") else action
            what = self._one_of("BRANCH", "TAG") if action else ""
            if not what:
                self._retreat(begin)
                return None
            known = self._match_text_seq("IF", "NOT", "EXISTS") or self._match_text_seq(
                "IF", "EXISTS"
            )
            found = {"action": action, "what": what, "if": bool(known), "name": self._ref()}
            if table is None:
                if not self._one_of("IN", "ON", "FROM", "OF"):
                    self.raise_error("Expected IN and the name of a table")
                table = self._parse_table_parts()
            if self._match_text_seq("AS", "OF"):
                if self._match_text_seq("TAG"):
                    found["tag"] = self._ref()
                elif self._match_text_seq("BRANCH"):
                    found["branch"] = self._ref()
                if not found.get("tag") and self._match_text_seq("VERSION"):
                    found["version"] = self._parse_primary() or self._parse_placeholder()
            return self.expression(Reference(this=table, rest=self._rest(), **found))

        def _rest(self) -> int | None:
            """Skip the rest of a statement; return its start in the text, ``None`` if empty."""
            start = self._curr.start if self._curr else None
            while self._curr:
                self._advance()
            return start

        def _ref(self) -> str:
            part = self._parse_id_var(any_token=True) or self._parse_string_as_identifier()
            if part is None:
                self.raise_error("Expected the name of a branch or tag")
            return str(part.name)

        def _one_of(self, *words: str) -> str:
            """Consume one of some words; return it, or ``""``."""
            return next((word for word in words if self._match_text_seq(word)), "")

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
                hint = _INSTEAD.get(word, STATEMENTS)
                raise failure(text, f"there is no statement {word!r}:", piece.start, hint)
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
