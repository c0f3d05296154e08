"""SQL text of syntax trees that were built without text, for messages and transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TypeAlias

from lancekit._scan.expressions.predicate import Unbound
from lancekit._scan.expressions.syntax import Listed, Syntax, show

#: the text around the parts of a node; numbers are indices of parts
_Form: TypeAlias = "tuple[str | int, ...]"


def _between(text: str) -> _Form:
    return (0, f" {text} ", 1)


_FORMS: Mapping[str, _Form] = {
    **{
        kind: _between(kind)
        for kind in (
            *("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
            *("+", "-", "*", "/", "%", "<<", ">>", "||", "LIKE", "ILIKE"),
        )
    },
    **{kind: (0, f" {kind}") for kind in ("IS NULL", "IS TRUE", "IS FALSE")},
    "NOT": ("NOT ", 0),
    "BETWEEN": (0, " BETWEEN ", 1, " AND ", 2),
    "element": (0, "[", 1, "]"),
    "star": ("*",),
}

#: nodes that need parentheses inside of others
_OPEN = {*_FORMS, "AND", "OR", "IN", "NOT IN", "NEGATE"} - {"element", "star"}


def quoted(name: str) -> str:
    """Return a name in backticks, whatever characters it contains."""
    return "`" + name.replace("`", "``") + "`"


def literal_text(value: object) -> str:
    """Return the SQL text of a number, a text, bytes, a boolean or null.

    Examples
    --------
    >>> print(literal_text("it's"), literal_text(b"ab"), literal_text(None), literal_text(-1))
    'it''s' X'6162' NULL -1
    """
    if value is None:
        return "NULL"
    text = show(value)
    # a decimal without fraction digits keeps its point, to differ from an integer
    return f"{text}." if isinstance(value, Decimal) and text.lstrip("-").isdigit() else text


def written(tree: Syntax) -> Unbound:
    """Return a tree with its text; the nodes get their positions in the text.

    Examples
    --------
    >>> x, one = Syntax("column", value=("x",)), Syntax("literal", value=1)
    >>> written(Syntax("NOT", (Syntax("=", (x, one)),)))
    'NOT (`x` = 1)'
    """
    writer = _Writer()
    placed = writer.piece(tree)
    return Unbound("".join(writer.texts), placed)


class _Writer:
    """A writer of a tree's text; each written node is returned with its position."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.length = 0

    def put(self, text: str) -> None:
        self.texts.append(text)
        self.length += len(text)

    def piece(self, tree: Syntax) -> Syntax:
        """Write a node."""
        start = self.length
        if (form := _FORMS.get(tree.kind)) is not None:
            placed = self._form(tree, form)
        else:
            placed = _RULES[tree.kind](self, tree)
        first = placed.parts[0].at if placed.parts and tree.kind not in _NAMED else start
        return replace(placed, start=start, end=self.length, at=first)

    def operand(self, tree: Syntax, *, closed: bool = True) -> Syntax:
        """Write a part of a node, in parentheses if they are needed to delimit it."""
        if closed and tree.kind not in _OPEN:
            return self.piece(tree)
        start = self.length
        self.put("(")
        placed = self.piece(tree)
        self.put(")")
        return replace(placed, start=start, end=self.length)

    def items(self, parts: Iterable[Syntax]) -> tuple[Syntax, ...]:
        """Write parts with commas between them."""
        placed = []
        for at, part in enumerate(parts):
            self.put(", " if at else "")
            placed.append(self.piece(part))
        return tuple(placed)

    def _form(self, tree: Syntax, form: _Form) -> Syntax:
        parts = []
        for one in form:
            if isinstance(one, str):
                self.put(one)
            else:
                parts.append(self.operand(tree.parts[one]))
        if tree.kind in ("LIKE", "ILIKE") and tree.value != "\\":
            self.put(f" ESCAPE {literal_text(tree.value)}")
        return replace(tree, parts=tuple(parts))

    def literal(self, tree: Syntax) -> Syntax:
        self.put(literal_text(tree.value))
        return tree

    def column(self, tree: Syntax) -> Syntax:
        self.put(".".join(map(quoted, tree.value)))
        return tree

    def field(self, tree: Syntax) -> Syntax:
        parts = (self.operand(tree.parts[0], closed=False),)
        self.put(f".{quoted(tree.value)}")
        return replace(tree, parts=parts)

    def negate(self, tree: Syntax) -> Syntax:
        self.put("-")  # before a number it would be the number's own sign
        return replace(tree, parts=(self.operand(tree.parts[0], closed=False),))

    def chain(self, tree: Syntax) -> Syntax:
        parts = []
        for at, part in enumerate(tree.parts):
            self.put(f" {tree.kind} " if at else "")
            parts.append(self.operand(part))
        return replace(tree, parts=tuple(parts))

    def among(self, tree: Syntax) -> Syntax:
        whole = self.operand(tree.parts[0])
        self.put(f" {tree.kind} (")
        if tree.value is None:
            items = self.items(tree.parts[1:])
            self.put(")")
            return replace(tree, parts=(whole, *items))
        places = []
        for at, value in enumerate(tree.value.values):
            self.put(", " if at else "")
            places.append(self.length)
            self.put(literal_text(value))
        self.put(")")
        return replace(tree, parts=(whole,), value=Listed(tree.value.values, places))

    def list(self, tree: Syntax) -> Syntax:
        self.put("[")
        parts = self.items(tree.parts)
        self.put("]")
        return replace(tree, parts=parts)

    def call(self, tree: Syntax) -> Syntax:
        self.put(f"{tree.value}(")
        parts = self.items(tree.parts)
        self.put(")")
        return replace(tree, parts=parts)

    def cast(self, tree: Syntax) -> Syntax:
        self.put(f"{tree.kind}(")
        parts = (self.piece(tree.parts[0]),)
        self.put(f" AS {tree.value.text})")
        return replace(tree, parts=parts)

    def aggregate(self, tree: Syntax) -> Syntax:
        name, distinct, filtered = tree.value
        self.put(f"{name}({'DISTINCT ' * distinct}")
        parts = self.items(tree.parts[:-1] if filtered else tree.parts)
        self.put(")")
        if filtered:
            self.put(" FILTER (WHERE ")
            parts = (*parts, self.piece(tree.parts[-1]))
            self.put(")")
        return replace(tree, parts=parts)


#: nodes whose errors point to their name
_NAMED = frozenset(("call", "aggregate"))

_RULES: Mapping[str, Callable[[_Writer, Syntax], Syntax]] = {
    "literal": _Writer.literal,
    "column": _Writer.column,
    "field": _Writer.field,
    "NEGATE": _Writer.negate,
    "list": _Writer.list,
    "call": _Writer.call,
    "aggregate": _Writer.aggregate,
    **dict.fromkeys(("AND", "OR"), _Writer.chain),
    **dict.fromkeys(("IN", "NOT IN"), _Writer.among),
    **dict.fromkeys(("CAST", "TRY_CAST"), _Writer.cast),
}
