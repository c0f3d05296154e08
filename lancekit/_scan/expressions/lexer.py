"""The tokens of an expression, and chains of comparisons as lists."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from lancekit._scan.expressions.literals import number
from lancekit._scan.expressions.syntax import Listed, Syntax, failure

_DIGITS = r"[0-9]++"
_QUOTED = "{0}[^{0}]*+(?:{0}{0}[^{0}]*+)*+{0}"
_TEXT = _QUOTED.format("'")
# A name has no spaces, and no ASCII characters with another meaning.
_FIRST, _REST = r"(?:[A-Za-z_]|[^\x00-\x7f\s])", r"(?:\w|[^\x00-\x7f\s])*+"

_GAP = r"\s*+(?:(?:--[^\r\n]*+|/\*.*?\*/)\s*+)*+"
_TOKEN = re.compile(
    rf"{_GAP}(?:"
    rf"(?P<bytes>[xX]{_TEXT}|0[xX]\w*+)"
    rf"|(?P<number>(?:{_DIGITS}(?:\.[0-9]*+)?+|\.{_DIGITS})(?:[eE][+-]?+{_DIGITS})?+)"
    rf"|(?P<word>{_FIRST}{_REST})"
    rf"|(?P<text>{_TEXT}|{_QUOTED.format(chr(34))})"
    rf"|(?P<name>{_QUOTED.format('`')})"
    r"|(?P<open>/\*|['\"`])"
    r"|(?P<mark><=>|<=|>=|<>|!=|==|<<|>>|\|\||::|~~\*?|[-+*/%<>=(),.;\[\]])"
    r"|(?P<other>.)"
    r")",
    re.DOTALL,
)

_NUMBER = rf"-?+{_DIGITS}(?:\.{_DIGITS})?+"
_ITEM = rf"(?:{_NUMBER}|{_TEXT}|NULL\b)"
#: a list of literals only becomes one token, however long
_LIST = re.compile(rf"\s*+\(\s*+{_ITEM}(?:\s*+,\s*+{_ITEM})*+\s*+\)", re.IGNORECASE)
_WHOLE_NUMBERS = re.compile(r"[\s(]*+-?+[0-9]{1,18}+(?:\s*+,\s*+-?+[0-9]{1,18}+)*+[\s)]*+")
_LITERAL = re.compile(rf"({_NUMBER})|({_TEXT})|NULL\b", re.IGNORECASE)


class Token(NamedTuple):
    """A token: its kind, its text, and its span.

    ``key`` is the text of a mark, or a word in capitals; empty for other tokens.
    """

    kind: str
    text: str
    start: int
    end: int
    key: str


def tokens(sql: str) -> list[Token]:
    """Return the tokens of a text, without spaces and comments; the last one is empty.

    Examples
    --------
    >>> [token.text for token in tokens("x>=1 AND name IN ('a', 'b') -- some")]
    ['x', '>=', '1', 'AND', 'name', 'IN', "('a', 'b')", '']

    Raises PredicateError: a quote or a comment is not closed.
    """
    found: list[Token] = []
    position, last, match = 0, "", _TOKEN.match
    while True:
        if last == "IN" and (one := _LIST.match(sql, position)):
            start, position = one.start() + one[0].index("("), one.end()
            found.append(Token("literals", sql[start:position], start, position, ""))
            last = ""
        one = match(sql, position)
        if one is None:
            found.append(Token("end", "", len(sql), len(sql), ""))
            return found
        kind = one.lastgroup or ""
        start, position = one.span(kind)
        text = one[kind]
        if kind == "open":
            what = "the expression does not parse, a quote or comment is not closed:"
            raise failure(sql, what, start)
        last = text.upper() if kind == "word" else text if kind == "mark" else ""
        found.append(Token(kind, text, start, position, last))


def value_of(sql: str, token: Token) -> int | Decimal | str | bytes:
    """Return the value of a number, a text, a byte string or a quoted name."""
    text = token.text
    match token.kind:
        case "number":
            return number(text)
        case "bytes":
            digits = text[2:-1] if text.endswith("'") else text[2:]
            try:
                return bytes.fromhex(digits)
            except ValueError as error:
                what = f"X'{digits}' is not a sequence of bytes in hex."
                raise failure(sql, what, token.start) from error
    return _unquoted(text)


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote + quote, quote)


@dataclass(frozen=True, slots=True)
class _Places:
    """The positions of the literals in a list, computed when iterated, which is rare."""

    sql: str
    start: int
    end: int

    def __iter__(self) -> Iterator[int]:
        return (found.start() for found in _LITERAL.finditer(self.sql, self.start, self.end))


def listed(sql: str, token: Token) -> Listed:
    """Return the literals of a token that is a whole list."""
    start, end = token.start, token.end
    places = _Places(sql, start, end)
    if _WHOLE_NUMBERS.fullmatch(token.text):
        return Listed(list(map(int, token.text[1:-1].split(","))), places)
    return Listed(list(_literals(sql, start, end)), places)


def _literals(sql: str, start: int, end: int) -> Iterator[object]:
    for digits, text in _LITERAL.findall(sql[start:end]):
        yield number(digits) if digits else _unquoted(text) if text else None


# ---- chains of comparisons that equal a list: ``x = 1 OR x = 2 ...``, ``x <> 1 AND x <> 2 ...``

#: fewer comparisons are not merged
_FEW = 16

#: the comparisons that can be merged to a list, by their connective, and the kind of the list
_LISTS = {"OR": ("=", "IN"), "AND": ("<>", "NOT IN")}


def with_lists(connective: str, parts: list[Syntax]) -> list[Syntax]:
    """Merge many comparisons of one column in a chain to a list, in place of the first one.

    Examples
    --------
    >>> from lancekit._scan.expressions.parser import parse
    >>> tree = parse(" OR ".join(f"x = {n} OR y = {n}" for n in range(100)))
    >>> [(part.kind, len(part.value.values)) for part in tree.parts]
    [('IN', 100), ('IN', 100)]
    """
    if len(parts) < _FEW:
        return parts
    comparison, kind = _LISTS[connective]
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
    values, places = list[object](), list[int]()
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
