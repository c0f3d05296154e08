"""Translation of expressions to filters, and pushdown of conditions and limits into scans.

Filters are built as syntax trees (`lancekit._scan.expressions.syntax`) with explicit types.  Of the
user's text they only have names and constants.  Their text is used in messages only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa

from lancekit._format.arrow_parts import decimal_size
from lancekit._scan.expressions.lexer import with_lists
from lancekit._scan.expressions.literals import negated, number
from lancekit._scan.expressions.parser import parse
from lancekit._scan.expressions.predicate import Predicate, Unbound
from lancekit._scan.expressions.syntax import Listed, Syntax, TypeName
from lancekit._scan.expressions.syntax_text import written
from lancekit._statements.correlated import is_grouped
from lancekit._statements.emit import filled
from lancekit._statements.functions import FUNCTIONS, OPERATORS
from lancekit._statements.literals import spelled
from lancekit._statements.tables import json_columns
from lancekit._statements.tree import Expr, Leaf, Query, Select, family
from lancekit.errors import LancekitError

#: returns the path of a column: its name, after ``source`` or ``target`` in a merge
ColumnPath: TypeAlias = Callable[[Expr], tuple[str, ...]]

_TYPES: Mapping[pa.DataType, TypeName] = {
    pa.bool_(): TypeName("boolean", (), "boolean"),
    pa.int8(): TypeName("tinyint", (), "tinyint"),
    pa.int16(): TypeName("smallint", (), "smallint"),
    pa.int32(): TypeName("int", (), "int"),
    pa.int64(): TypeName("bigint", (), "bigint"),
    pa.float32(): TypeName("float", (), "float"),
    pa.float64(): TypeName("double", (), "double"),
    pa.string(): TypeName("string", (), "string"),
    pa.date32(): TypeName("date", (), "date"),
    pa.timestamp("us"): TypeName("timestamp", ("6",), "timestamp(6)"),
}


class NotFilterError(Exception):
    """Filters cannot express an expression; `expr` is the part that they cannot."""

    def __init__(self, expr: Expr) -> None:
        super().__init__(expr.op)
        self.expr = expr


def unbound(expr: Expr, column: ColumnPath) -> Unbound:
    """Return an expression as a filter expression, not bound to a schema.

    expr: the expression.
    column: returns the path of a column.

    Raises NotFilterError: filters cannot express a part of the expression.
    """
    return written(_syntax(expr, column))


def all_true(conditions: Sequence[Unbound]) -> Unbound:
    """Return the conjunction of filter conditions."""
    return written(_chain("AND", [one.tree for one in conditions]))


def _syntax(expr: Expr, column: ColumnPath) -> Syntax:
    """Return an expression as a syntax tree of the filter language."""
    match expr.op:
        case "literal":
            return _constant(expr)
        case "column":
            return Syntax("column", value=column(expr))
        case "field":
            if expr.args[0].op not in ("column", "field"):
                raise NotFilterError(expr)
            whole = _syntax(expr.args[0], column)
            return replace(whole, value=(*whole.value, expr.value))
    args = [_syntax(arg, column) for arg in expr.args]
    match expr.op:
        case "and" | "or":
            return _chain(expr.op.upper(), args)
        case "in":
            return _among(*args)
        case "cast":
            return Syntax("CAST", (args[0],), _cast_to(expr))
    function = OPERATORS.get(expr.op) or FUNCTIONS.get(expr.op)
    if function is None or function.filter is None:
        raise NotFilterError(expr)
    form, names = _form(function.filter, len(args))
    return _filled(form, dict(zip(names, args, strict=True)))


def _chain(kind: str, parts: Sequence[Syntax]) -> Syntax:
    """Return a flat chain of conditions joined by AND or OR, as the filter parser does."""
    flat = [one for part in parts for one in (part.parts if part.kind == kind else (part,))]
    found = with_lists(kind, flat)
    return Syntax(kind, tuple(found)) if len(found) > 1 else found[0]


def _among(whole: Syntax, *items: Syntax) -> Syntax:
    if all(item.kind == "literal" and not isinstance(item.value, bool | bytes) for item in items):
        values = [item.value for item in items]
        return Syntax("IN", (whole,), Listed(values, [0] * len(values)))
    return Syntax("IN", (whole, *items))


@lru_cache(maxsize=256)
def _form(text: str, count: int) -> tuple[Syntax, list[tuple[str]]]:
    """Return a function's syntax with columns in place of its arguments, and their paths."""
    names = [f"argument{at}" for at in range(count)]
    return parse(filled(text, names)), [(name,) for name in names]


def _filled(form: Syntax, args: Mapping[tuple[str], Syntax]) -> Syntax:
    if form.kind == "column":
        return args[form.value]
    return replace(form, parts=tuple(_filled(part, args) for part in form.parts))


def _cast_to(expr: Expr) -> TypeName:
    kind = expr.kind
    pair = family(expr.args[0].kind), family(kind)
    if pair in _UNLIKE or (kind not in _TYPES and pair[1] != "decimal"):
        raise NotFilterError(expr)
    if pair[1] != "decimal":
        return _TYPES[kind]
    precision, scale = decimal_size(kind)
    return TypeName("decimal", (str(precision), str(scale)), f"decimal({precision}, {scale})")


#: pairs of type families whose cast differs in filters
_UNLIKE = {("condition", "text"), ("integer", "condition"), ("decimal", "decimal")}


def _constant(expr: Expr) -> Syntax:
    value = expr.value
    if value is None:
        null = Syntax("literal")
        return Syntax("CAST", (null,), _TYPES[expr.kind]) if expr.kind in _TYPES else null
    match family(expr.kind):
        case "text":
            return Syntax("literal", value=str(value))
        case "bytes":
            return Syntax("literal", value=value)
        case "condition":
            return Syntax("literal", value=bool(value))
        case "date":
            return _moment(expr, "date")
        case "timestamp" | "instant":
            return _moment(expr, "timestamp")
    text = spelled(expr)
    if text.strip("-")[0] not in "0123456789":
        raise NotFilterError(expr)  # infinities and NaN
    found = number(text.lstrip("-"))
    literal = Syntax("literal", value=negated(found) if text.startswith("-") else found)
    is_whole = family(expr.kind) == "fraction" and text[-2:] == ".0"
    return Syntax("CAST", (literal,), _TYPES[pa.float64()]) if is_whole else literal


def _moment(expr: Expr, name: str) -> Syntax:
    return Syntax("CAST", (Syntax("literal", value=spelled(expr)),), TypeName(name, (), name))


# ---- pushdown into scans: conditions, and the number of rows that are needed


def push_down(select: Select) -> Select:
    """Move conditions of a query into the scans of its tables, if the result is the same."""
    leaves = {leaf.number: leaf for leaf in _leaves(select)}
    pushed: dict[int, list[Unbound]] = {}
    rest = list[Expr]()
    for condition in select.where:
        numbers = {part.value[0] for part in condition.walk() if part.op == "column"}
        leaf = leaves.get(next(iter(numbers))) if len(numbers) == 1 else None
        found = _filter(condition, leaf) if leaf is not None else None
        if leaf is None or found is None:
            rest.append(condition)
        else:
            pushed.setdefault(leaf.number, []).append(found)
    for leaf_number, conditions in pushed.items():
        leaves[leaf_number].filter = all_true(conditions)
    select.where = tuple(rest)
    _push_limit(select)
    return select


def limited(query: Query, limit: int | None) -> Query:
    """Return a query with at most ``limit`` result rows; ``None`` leaves it unchanged."""
    if limit is None:
        return query
    query.limit = limit if query.limit is None else min(query.limit, limit)
    if isinstance(query, Select):
        _push_limit(query)
    return query


def _push_limit(select: Select) -> None:
    first = select.first
    if isinstance(first, Leaf) and select.limit is not None and _is_plain(select):
        first.limit = select.limit + (select.offset or 0)


def _leaves(select: Select) -> Sequence[Leaf]:
    """Return the datasets into which conditions can be pushed through the joins."""
    kinds = ["inner", *(join.kind for join in select.joins)]
    return [
        relation
        for at, relation in enumerate(select.relations)
        if isinstance(relation, Leaf) and relation.table.handle is not None
        if kinds[at] in ("inner", "cross") and not {"right", "full"} & set(kinds[at + 1 :])
    ]


def column_path(leaf: Leaf) -> ColumnPath:
    """Return a function that gives the path of a table's column; JSON columns have no filters."""
    handle = leaf.table.handle
    json = {} if handle is None else json_columns(handle)

    def path(expr: Expr) -> tuple[str, ...]:
        names = {at: name for name, at in leaf.used.items()}
        if names[expr.value[1]] in json:
            raise NotFilterError(expr)
        return (names[expr.value[1]],)

    return path


def _filter(condition: Expr, leaf: Leaf) -> Unbound | None:
    handle = leaf.table.handle
    try:
        found = unbound(condition, column_path(leaf))
        if handle is not None:
            Predicate.parse(found, handle._snapshot.manifest.schema.to_arrow())
    except (NotFilterError, LancekitError):
        return None
    return found


def _is_plain(select: Select) -> bool:
    """Return True if each row of the only table becomes a row of the result."""
    windows = any(part.op == "window" for one in select.outputs for part in one.expr.walk())
    more = select.joins or select.where or select.group is not None or select.having is not None
    grouped = is_grouped(one.expr for one in select.outputs)
    return not (more or select.distinct or select.order or windows or grouped)
