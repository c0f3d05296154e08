"""Simple filters to syntax trees, without sqlglot, which takes a tenth of a second to load.

A simple filter compares columns with literals (``=``, ``<``, ``IN``, ``BETWEEN``, ``IS NULL``, and
the like), and joins these conditions by ``AND``, ``OR`` and parentheses.  Its tree is the one that
`parser` makes.  All other texts, and those that do not parse, are left to `parser`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from lancekit.scan.expressions.alike import gather
from lancekit.scan.expressions.long_lists import lift
from lancekit.scan.expressions.syntax import LISTED, START, Tree

__all__ = ["parse_simple", "tree_of"]

_MORE_THAN_NAMES = """
    alter and array as between call case create cross describe distinct drop else except execute
    explain false fetch file for from glob grant having ilike in inner insert intersect interval
    into join lateral like list map not notnull null nullable object on optimize or out outer
    partitioned_by prepare qualify range regexp rename returning revoke rlike rollback select show
    struct tablesample then true uncache union using vacuum values when where with xor
"""
#: words that sqlglot reads as more than names, in one of its releases from 28 on
_NO_NAMES = frozenset(_MORE_THAN_NAMES.split())

# Numbers and texts that need no reading: no exponents, no quote in quotes of the other kind.
_TOKEN = re.compile(
    r"[ \t\r\n]*+(?:"
    r"(?P<word>[A-Za-z_][A-Za-z0-9_]*+)"
    r"|`(?P<quoted>[^`\ud800-\udfff]++)`(?!`)"
    r"|(?P<number>-?[0-9]++(?:\.[0-9]++)?+(?![\w.]))"
    r"|'(?P<text>(?:[^'\"\ud800-\udfff]|'')*+)'(?!')"
    r"|(?P<mark>==|=|<>|!=|<=|<|>=|>|[(),])"
    r"|(?P<end>\Z))"
)

_COMPARISONS: Mapping[str, str] = {
    "=": "eq",
    "==": "eq",
    "<>": "neq",
    "!=": "neq",
    "<": "lt",
    "<=": "lte",
    ">": "gt",
    ">=": "gte",
}

#: parentheses within parentheses, at most
_DEEPEST = 16


class _Other(Exception):  # noqa: N818  # no error: a text for the other parser
    """The text is not a simple filter."""


class _Parser:
    """What is left of a text; each method takes a piece of it and makes its tree."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._end = 0
        self._depth = 0
        self.literals: dict[int, Tree] = {}
        self._next()

    def _next(self) -> None:
        """Go on to the next token."""
        found = _TOKEN.match(self._sql, self._end)
        if found is None:
            raise _Other
        self._kind = found.lastgroup or ""
        self._text = found[self._kind]
        self._end = found.end()
        self._start = found.start(self._kind) - (self._kind in ("quoted", "text"))

    def _accept(self, kind: str, *texts: str) -> str:
        """Take a token if it is one of some texts, in capitals; empty if it is not."""
        text = self._text.upper()
        if self._kind != kind or text not in texts:
            return ""
        self._next()
        return text

    def _expect(self, kind: str, text: str) -> None:
        if not self._accept(kind, text):
            raise _Other

    def whole(self) -> Tree:
        tree = self._either()
        if self._kind != "end":
            raise _Other
        return tree

    def _either(self) -> Tree:
        return self._chain("OR", self._both)

    def _both(self) -> Tree:
        return self._chain("AND", self._condition)

    def _chain(self, joint: str, part: Callable[[], Tree]) -> Tree:
        tree = part()
        while self._accept("word", joint):
            tree = _tree(joint.lower(), tree.meta, this=tree, expression=part())
        return tree

    def _condition(self) -> Tree:
        if self._accept("mark", "("):
            self._depth += 1
            if self._depth > _DEEPEST:
                raise _Other
            inner = self._either()
            self._depth -= 1
            self._expect("mark", ")")
            return _tree("paren", inner.meta, this=inner)
        column = self._column()
        made = partial(_tree, place=column.meta, this=column)
        if operator := self._accept("mark", *_COMPARISONS):
            return made(_COMPARISONS[operator], expression=self._literal())
        if self._accept("word", "IS"):
            negated = self._accept("word", "NOT")
            self._expect("word", "NULL")
            tree = made("is", expression=Tree("null", {}))
        else:
            negated = self._accept("word", "NOT")
            if self._accept("word", "BETWEEN"):
                low = self._literal()
                self._expect("word", "AND")
                tree = made("between", low=low, high=self._literal())
            else:
                self._expect("word", "IN")
                tree = made("in", expressions=self._list())
        return _tree("not", tree.meta, this=tree) if negated else tree

    def _column(self) -> Tree:
        quoted = self._kind == "quoted"
        if not quoted and (self._kind != "word" or self._text.lower() in _NO_NAMES):
            raise _Other
        place = {START: self._start}
        name = _tree("identifier", place, this=self._text, quoted=quoted)
        self._next()
        return _tree("column", place, this=name)

    def _list(self) -> list[Tree]:
        self._expect("mark", "(")
        items = [self._literal()]
        while self._accept("mark", ","):
            items.append(self._literal())
        self._expect("mark", ")")
        return items

    def _literal(self) -> Tree:
        kind, text, start = self._kind, self._text, self._start
        if flag := self._accept("word", "TRUE", "FALSE"):
            return Tree("boolean", {"this": flag == "TRUE"})
        self._next()
        if kind == "text":
            return self._noted(start, text.replace("''", "'"), is_string=True)
        if kind != "number":
            raise _Other
        if text[0] != "-":
            return self._noted(start, text, is_string=False)
        number = self._noted(start + 1, text[1:], is_string=False)
        return _tree("neg", number.meta, this=number)

    def _noted(self, start: int, text: str, *, is_string: bool) -> Tree:
        tree = _tree("literal", {START: start}, this=text, is_string=is_string)
        self.literals[start] = tree
        return tree


def _tree(key: str, place: Mapping[str, Any], **args: Any) -> Tree:
    return Tree(key, args, {START: place[START]})


@lru_cache(maxsize=8)
def parse_simple(sql: str) -> Tree | None:
    """Return the tree of a simple filter, ``None`` if the text is anything else.

    Examples
    --------
    >>> parse_simple("x >= 1 AND `a name` IN ('a', 'b')").key
    'and'
    >>> parse_simple("x + 1 > 2")
    """
    text, lists = lift(sql)
    text, sorts = gather(text, lists)
    if sorts:
        return None
    try:
        parser = _Parser(text)
        tree = parser.whole()
        for place, listed in lists.items():
            parser.literals[place].meta[LISTED] = listed
    except (_Other, LookupError):
        return None
    return tree


def tree_of(sql: str) -> Any:
    """Return the tree of an expression, whichever parser makes it.

    Raises
    ------
    PredicateError
        The text does not parse.
    """
    simple = parse_simple(sql)
    if simple is not None:
        return simple
    from lancekit.scan.expressions.parser import parse  # loads sqlglot

    return parse(sql)
