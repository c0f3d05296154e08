"""Parser of expressions: the SQL that Lance readers accept, by operator precedence.

The precedences follow the reference's parser, sqlparser with its generic dialect: there ``a = b IS
NULL`` is ``(a = b) IS NULL``, and ``||`` has the precedence of ``*``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from lancekit._scan.expressions.lexer import Token, listed, tokens, value_of, with_lists
from lancekit._scan.expressions.literals import negated, number
from lancekit._scan.expressions.syntax import AGGREGATES, AggregateCall, Syntax, TypeName, failure
from lancekit.errors import PredicateError

_SURROGATE = re.compile("[\ud800-\udfff]")

# precedences of operators, from loose to tight
_OR, _AND, _NOT, _IS, _LIKE, _COMPARE, _SHIFT, _ADD, _MULTIPLY, _CAST, _PART = range(1, 12)

#: binary operators: their precedence and the kind of their node
_BINARY: Mapping[str, tuple[int, str]] = {
    "=": (_COMPARE, "="),
    "==": (_COMPARE, "="),
    "<>": (_COMPARE, "<>"),
    "!=": (_COMPARE, "<>"),
    "<": (_COMPARE, "<"),
    "<=": (_COMPARE, "<="),
    ">": (_COMPARE, ">"),
    ">=": (_COMPARE, ">="),
    "<=>": (_COMPARE, "IS NOT DISTINCT FROM"),
    "<<": (_SHIFT, "<<"),
    ">>": (_SHIFT, ">>"),
    "+": (_ADD, "+"),
    "-": (_ADD, "-"),
    "*": (_MULTIPLY, "*"),
    "/": (_MULTIPLY, "/"),
    "%": (_MULTIPLY, "%"),
    "||": (_MULTIPLY, "||"),
}

#: spellings of types, by the name that binding uses
_TYPE_NAMES: Mapping[str, str] = {
    alias: name
    for name, aliases in {
        "boolean": "boolean bool",
        "tinyint": "tinyint byte int1 int8",
        "smallint": "smallint short int2 int16",
        "int": "int integer int4 int32",
        "bigint": "bigint long int64",
        "float": "float real float4",
        "double": "double float8",
        "string": "string text str varchar varchar2 clob longvarchar",
        "binary": "binary",
        "date": "date",
        "time": "time",
        "timestamp": "timestamp datetime",
        "decimal": "decimal numeric dec fixed number",
    }.items()
    for alias in aliases.split()
}
_KNOWN_TYPES = frozenset(_TYPE_NAMES.values())
#: types whose names are two words
_LONG_NAMES: Mapping[tuple[str, str], str] = {
    ("double", "PRECISION"): "double",
    ("char", "VARYING"): "string",
    ("character", "VARYING"): "string",
}
#: tokens that can be between the name of a type and a text
_BEHIND_TYPES = frozenset(
    {"(", ",", ")", "PRECISION", "VARYING", "UNSIGNED", "WITH", "WITHOUT", "LOCAL", "TIME", "ZONE"}
)
_CASTS = {"CAST": "CAST", "TRY_CAST": "TRY_CAST", "SAFE_CAST": "TRY_CAST"}

#: words that are operators where a column is not possible
_OPERATORS = frozenset({"AND", "OR", "BETWEEN", "LIKE", "ILIKE", "AS"})
_IN_TEXT = "Put names with spaces or capitals in backticks, and text in single quotes."


@lru_cache(maxsize=16)
def parse(sql: str, *, aggregates: bool = False) -> Syntax:
    """Parse one expression.

    aggregates: whether ``count(*)``, ``sum(x)`` and the like are aggregates, not calls.

    Raises PredicateError: the text is empty, or not one whole expression; ``context`` has the
        ``position``, and ``line`` and ``column`` counted from 1.

    Examples
    --------
    >>> tree = parse("x > 1 AND y IN (2, 3)")
    >>> tree.kind, [part.kind for part in tree.parts], tree.parts[1].value.values
    ('AND', ['>', 'IN'], [2, 3])
    """
    if not sql.strip():
        hint = """Pass "true" as a filter for all rows, or "''" as a value for empty text."""
        raise PredicateError("the SQL expression is empty.", hint=hint, sql=sql, position=0)
    if alone := _SURROGATE.search(sql):
        what = f"U+{ord(alone[0]):04X} is an unpaired surrogate, which is not valid text:"
        raise failure(sql, what, alone.start())
    parser = _Parser(sql, aggregates)
    if parser.next.kind == "end":  # only comments
        raise failure(sql, "the filter is not one expression:", len(sql))
    tree = parser.expression()
    if parser.accept(";") and parser.next.kind != "end":
        raise failure(sql, "the filter is not one expression:", parser.next.start)
    if parser.next.kind != "end":
        raise parser.unexpected()
    return tree


def type_name(text: str) -> TypeName | None:
    """Return the name of an SQL type; ``None`` if the text is none.

    Examples
    --------
    >>> type_name("decimal(5, 2)"), type_name("float32")
    (TypeName(name='decimal', sizes=('5', '2'), text='decimal(5, 2)'), None)
    """
    parser = _Parser(text, aggregates=False)
    if parser.next.kind != "word":
        return None
    found = parser.type_name()
    whole = parser.next.kind == "end" and found.name.removesuffix(" unsigned") in _KNOWN_TYPES
    return found if whole else None


class _Parser:
    """A recursive parser: a position in the tokens of a text."""

    def __init__(self, sql: str, aggregates: bool) -> None:
        self.sql = sql
        self.aggregates = aggregates
        self.tokens = tokens(sql)
        self.place = 0
        self.next = self.tokens[0]

    # ---- tokens

    def advance(self) -> Token:
        """Move past one token, and return it."""
        token = self.next
        self.place += token.kind != "end"
        self.next = self.tokens[self.place]
        return token

    def ahead(self, *keys: str) -> bool:
        """Return True if these marks and words are the next tokens."""
        return [token.key for token in self.tokens[self.place : self.place + len(keys)]] == [*keys]

    def accept(self, *keys: str) -> bool:
        """Move past these marks and words if they are next; return True if so."""
        if not self.ahead(*keys):
            return False
        for _ in keys:
            self.advance()
        return True

    def expect(self, key: str) -> None:
        """Move past a required mark or word."""
        if not self.accept(key):
            raise self.unexpected() if self.next.kind != "end" else self.missing()

    def unexpected(self) -> PredicateError:
        """Return an error for the next token, which is not allowed here."""
        text = self.next.text
        if self.next.kind == "other":
            what = f"{text!r} is not part of the filter language:"
            word = {"&": "AND", "|": "OR", "!": "NOT", "~": "NOT"}.get(text)
            hint = f"Write {word} in place of {text}." if word else ""
            return failure(self.sql, what, self.next.start, hint)
        what = f"the expression does not parse, {text!r} was not expected:"
        return failure(self.sql, what, self.next.start, _IN_TEXT)

    def missing(self) -> PredicateError:
        """Return an error for a position where a value is missing."""
        if not self.place:
            return self.unexpected()
        last = self.tokens[self.place - 1]
        what = f"the expression does not parse, something is missing after {last.text!r}:"
        return failure(self.sql, what, last.end, _IN_TEXT)

    def made(
        self, kind: str, start: int, *parts: Syntax, value: object = None, at: int | None = None
    ) -> Syntax:
        """Return a node that ends at the last token; errors point to its first part."""
        if at is None:
            at = parts[0].at if parts else start
        return Syntax(kind, parts, value, start, self.tokens[self.place - 1].end, at)

    # ---- operators

    def expression(self, closer: int = 0) -> Syntax:
        """Parse up to the first operator whose precedence is not above ``closer``."""
        left = self.operand()
        while True:
            key = self.next.key
            level, kind = _BINARY.get(key, (0, ""))
            if level > closer:
                self.advance()
                left = self.made(kind, left.start, left, self.expression(level))
                continue
            if level or not key:
                return left
            negated = key == "NOT"
            if negated:
                key = self.tokens[self.place + 1].key
            level, rule = _INFIX.get(key, (0, None))
            fits = key in _NEGATED if negated else key != "NULL"
            if rule is None or level <= closer or not fits:
                return left
            self.place += negated
            self.advance()
            left = rule(self, left, key)
            if negated:
                left = self.made("NOT", left.start, left)

    def chain(self, left: Syntax, key: str) -> Syntax:
        """Parse a chain of AND, or of OR, as one node."""
        level = _AND if key == "AND" else _OR
        parts = [left, self.expression(level)]
        while self.accept(key):
            parts.append(self.expression(level))
        parts = with_lists(key, parts)
        return self.made(key, left.start, *parts) if len(parts) > 1 else parts[0]

    def is_something(self, left: Syntax, _key: str) -> Syntax:
        """Parse the rest after ``IS``."""
        negated = self.accept("NOT")
        if self.accept("DISTINCT", "FROM"):
            words = "IS NOT DISTINCT FROM" if negated else "IS DISTINCT FROM"
            return self.made(words, left.start, left, self.expression(_IS))
        kind = _IS_WHAT.get(self.next.key)
        if kind is None:
            what = f"{self.sql[left.start : self.next.end]!r}: IS takes NULL, TRUE or FALSE."
            raise failure(self.sql, what, left.at)
        self.advance()
        tree = self.made(kind, left.start, left)
        return self.made("NOT", left.start, tree) if negated else tree

    def null(self, left: Syntax, key: str) -> Syntax:
        """Return the null test of ``ISNULL``, ``NOTNULL`` and ``NOT NULL``."""
        tree = self.made("IS NULL", left.start, left)
        return self.made("NOT", left.start, tree) if key == "NOTNULL" else tree

    def among(self, left: Syntax, _key: str) -> Syntax:
        """Parse the list after ``IN``."""
        if self.next.kind == "literals":
            return self.made("IN", left.start, left, value=listed(self.sql, self.advance()))
        close = "]" if self.accept("[") else ")" if self.accept("(") else ""
        if not close or self.accept(close):
            end = self.tokens[self.place - bool(close)].end
            what = f"{self.sql[left.start : end]!r}: IN takes a list of values in parentheses."
            raise failure(self.sql, what, left.at)
        return self.made("IN", left.start, left, *self.items(close))

    def between(self, left: Syntax, _key: str) -> Syntax:
        """Parse the two ends of ``BETWEEN``."""
        low = self.expression(_COMPARE)
        self.expect("AND")
        return self.made("BETWEEN", left.start, left, low, self.expression(_COMPARE))

    def like(self, left: Syntax, key: str) -> Syntax:
        """Parse a pattern, and its escape character."""
        pattern, escape = self.expression(_LIKE), "\\"
        if self.accept("ESCAPE"):
            token = self.advance()
            escape = str(value_of(self.sql, token)) if token.kind == "text" else ""
            if len(escape) != 1:
                what = "ESCAPE takes one character, after a LIKE."
                raise failure(self.sql, what, left.start)
        kind = "ILIKE" if key in ("ILIKE", "~~*") else "LIKE"
        return self.made(kind, left.start, left, pattern, value=escape)

    def cast(self, left: Syntax, _key: str) -> Syntax:
        """Parse the type after ``::``."""
        return self.made("CAST", left.start, left, value=self.type_name())

    def field(self, left: Syntax, _key: str) -> Syntax:
        """Parse the name of a field."""
        if self.next.kind not in ("word", "name"):
            raise self.missing()
        name = self.name()
        if left.kind == "column":
            return self.made("column", left.start, value=(*left.value, name), at=left.at)
        return self.made("field", left.start, left, value=name)

    def element(self, left: Syntax, _key: str) -> Syntax:
        """Parse the index or name of an element, in brackets."""
        key = self.expression()
        self.expect("]")
        return self.made("element", left.start, left, key)

    # ---- values

    def operand(self) -> Syntax:
        """Parse a value, or a unary operator with its operand."""
        token = self.next
        start = token.start
        match token.kind:
            case "number" | "text" | "bytes":
                self.advance()
                return self.made("literal", start, value=value_of(self.sql, token))
            case "word":
                rule = _WORDS.get(token.key)
                if rule is not None:
                    return rule(self)
                return self.named()
            case "name":
                return self.named()
        if token.key == "-":
            self.advance()
            if self.next.kind == "number":
                return self.made("literal", start, value=negated(number(self.advance().text)))
            return self.made("NEGATE", start, self.expression(_MULTIPLY))
        if self.accept("+"):
            return self.expression(_MULTIPLY)
        if self.accept("("):
            tree = self.expression()
            self.expect(")")
            return replace(tree, start=start, end=self.tokens[self.place - 1].end)
        if self.accept("["):
            return self.made("list", start, *self.items("]"))
        if self.accept("*"):
            return self.made("star", start)
        raise self.missing()

    def name(self) -> str:
        """Return the next token as a name."""
        token = self.advance()
        return str(value_of(self.sql, token)) if token.kind == "name" else token.text

    def named(self) -> Syntax:
        """Parse a column, a function call, or a literal with the name of its type."""
        token = self.next
        start = token.start
        if token.kind == "word":
            if (typed := self.typed_literal()) is not None:
                return typed
            if token.key in _OPERATORS:
                raise self.missing()
            if token.key == "ARRAY" and self.tokens[self.place + 1].key == "[":
                self.advance()
                return self.operand()
        name = self.name()
        if token.key == "SELECT" and self.next.kind in ("word", "name", "number", "text"):
            raise failure(self.sql, "a query is not part of the filter language:", start)
        if not self.accept("("):
            return self.made("column", start, value=(name,))
        if token.kind == "word" and token.key in _CASTS:
            inner = self.expression()
            self.expect("AS")
            kind = self.type_name()
            self.expect(")")
            return self.made(_CASTS[token.key], start, inner, value=kind)
        if self.aggregates and token.kind == "word" and name.lower() in AGGREGATES:
            return self.aggregate(start, name.lower())
        return self.made("call", start, *self.items(")"), value=name, at=start)

    def aggregate(self, start: int, name: str) -> Syntax:
        """Parse an aggregate's arguments, and the condition on its rows."""
        distinct = self.accept("DISTINCT")
        parts = self.items(")")
        filtered = self.accept("FILTER", "(", "WHERE")
        if filtered:
            parts.append(self.expression())
            self.expect(")")
        value = AggregateCall(name, distinct, filtered)
        return self.made("aggregate", start, *parts, value=value, at=start)

    def items(self, close: str) -> list[Syntax]:
        """Parse expressions between commas, and the closing mark."""
        found: list[Syntax] = []
        while not self.accept(close):
            if found:
                self.expect(",")
            found.append(self.expression())
        return found

    def negation(self) -> Syntax:
        """Parse ``NOT`` and its condition."""
        return self.made("NOT", self.advance().start, self.expression(_NOT))

    def constant(self) -> Syntax:
        """Parse TRUE, FALSE or NULL."""
        token = self.advance()
        return self.made("literal", token.start, value=_CONSTANTS[token.key])

    def case(self) -> Syntax:
        """Raise an error for CASE, which Lance's readers do not accept."""
        raise failure(
            self.sql,
            "CASE is not part of this SQL:",
            self.next.start,
            "Use coalesce(), nullif() or nvl2(), an update for each condition, or a function over "
            "batches in add_columns(). Put a column of that name in backticks.",
        )

    # ---- types

    def typed_literal(self) -> Syntax | None:
        """Parse a literal such as ``DATE '2020-01-31'``; ``None`` for other tokens."""
        place, start = self.place, self.next.start
        at = place + 1
        while self.tokens[at].kind == "number" or self.tokens[at].key in _BEHIND_TYPES:
            at += 1
        token = self.tokens[at]
        if token.kind != "text" or self.tokens[at - 1].key in ("(", ","):
            return None
        kind = self.type_name()
        self.advance()
        if kind.name not in _KNOWN_TYPES:
            what = f"{self.sql[start : token.end]!r} is not part of the filter language."
            raise failure(self.sql, what, start)
        text = self.made("literal", token.start, value=value_of(self.sql, token))
        return self.made("CAST", start, text, value=kind)

    def type_name(self) -> TypeName:
        """Parse the name of a type, with its sizes."""
        if self.next.kind != "word":
            raise self.missing()
        start, word = self.next.start, self.advance().text.lower()
        name = _TYPE_NAMES.get(word, word)
        if (word, self.next.key) in _LONG_NAMES:
            name = _LONG_NAMES[word, self.advance().key]
        sizes: tuple[str, ...] = ()
        if self.accept("("):
            sizes = tuple(self.sql[one.start : one.end] for one in self.items(")"))
        if self.accept("UNSIGNED"):
            name = f"{name} unsigned"
        if self.accept("WITH", "TIME", "ZONE") or self.accept("WITH", "LOCAL", "TIME", "ZONE"):
            name = f"{name} with time zone"
        self.accept("WITHOUT", "TIME", "ZONE")
        if self.accept("[", "]"):
            name = f"{name}[]"
        return TypeName(name, sizes, self.sql[start : self.tokens[self.place - 1].end])


_IS_WHAT: Mapping[str, str] = {
    "NULL": "IS NULL",
    "UNKNOWN": "IS NULL",
    "TRUE": "IS TRUE",
    "FALSE": "IS FALSE",
}
_CONSTANTS: Mapping[str, bool | None] = {"NULL": None, "TRUE": True, "FALSE": False}

_WORDS: Mapping[str, Callable[[_Parser], Syntax]] = {
    "NOT": _Parser.negation,
    "CASE": _Parser.case,
    **dict.fromkeys(_CONSTANTS, _Parser.constant),
}

#: operators after a value: their precedence and parse function
_INFIX: Mapping[str, tuple[int, Callable[[_Parser, Syntax, str], Syntax]]] = {
    "OR": (_OR, _Parser.chain),
    "AND": (_AND, _Parser.chain),
    "IS": (_IS, _Parser.is_something),
    "ISNULL": (_IS, _Parser.null),
    "NOTNULL": (_IS, _Parser.null),
    "NULL": (_IS, _Parser.null),
    "IN": (_COMPARE, _Parser.among),
    "BETWEEN": (_COMPARE, _Parser.between),
    "LIKE": (_LIKE, _Parser.like),
    "ILIKE": (_LIKE, _Parser.like),
    "~~": (_LIKE, _Parser.like),
    "~~*": (_LIKE, _Parser.like),
    "::": (_CAST, _Parser.cast),
    ".": (_PART, _Parser.field),
    "[": (_PART, _Parser.element),
}
#: operators that can follow a NOT after a value
_NEGATED = frozenset({"IN", "BETWEEN", "LIKE", "ILIKE", "NULL"})
