"""Emission of a bound query as SQL text of an engine.

The text has no words of the user: tables and columns are numbered, and text is a bound parameter.
Other constants are formatted from their values.  Only fields of structs keep their names, quoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lancekit._format.arrow_parts import decimal_size
from lancekit._statements.functions import (
    AGGREGATES,
    FUNCTIONS,
    OPERATORS,
    TRUNCATED,
    WINDOWS,
    Function,
)
from lancekit._statements.literals import spelled
from lancekit._statements.tree import Derived, Expr, Leaf, Query, Relation, Select, Sort, family


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """SQL syntax of an engine, where DuckDB and Spark differ."""

    types: Mapping[pa.DataType, str]
    function: Callable[[Function], str]
    table: str
    parameter: str
    quote: Callable[[str], str]
    bytes: str
    semi: str
    #: the value of a cast, by pair of type families
    casts: Mapping[tuple[str, str], str] = field(default_factory=dict)


_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
}
#: braces in Spark's text mark tables, so names need them doubled
_BRACES = re.compile("[{}]")
_TS, _TZ = pa.timestamp("us"), pa.timestamp("us", "UTC")
LOCAL = Dialect(
    types=_TYPES
    | {pa.string(): "VARCHAR", pa.binary(): "BLOB", _TS: "TIMESTAMP", _TZ: "TIMESTAMPTZ"},
    function=lambda function: function.local,
    table="t{}",
    parameter="$p{}",
    quote=lambda name: '"' + name.replace('"', '""') + '"',
    bytes="unhex('{}')",
    semi="",
    casts={("fraction", "integer"): "trunc({})"},
)
SPARK = Dialect(
    types=_TYPES
    | {pa.string(): "STRING", pa.binary(): "BINARY", _TS: "TIMESTAMP_NTZ", _TZ: "TIMESTAMP"},
    function=lambda function: function.spark,
    table="{{t{}}}",
    parameter=":p{}",
    quote=lambda name: "`" + _BRACES.sub(r"\g<0>\g<0>", name.replace("`", "``")) + "`",
    bytes="X'{}'",
    semi="LEFT ",
)


def filled(text: str, args: Sequence[str]) -> str:
    """Return a function's template, filled with its arguments."""
    more = {"all": ", ".join(args), "concat": " || ".join(args)}
    return text.format(*args, **more) if "{" in text else text


@dataclass(frozen=True, slots=True)
class Read:
    """A table that a query reads, and its columns by their names in the SQL text."""

    leaf: Leaf
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Written:
    """SQL text of a query, its bound parameters, and the tables that it reads.

    From the `counted` tables, the query only needs the number of rows.
    """

    text: str
    parameters: Mapping[str, str]
    reads: tuple[Read, ...]
    counted: tuple[Leaf, ...]


def write(query: Query, dialect: Dialect) -> Written:
    """Return a query as SQL text of an engine."""
    writer = _Writer(dialect)
    text = writer.query(query)
    reads, counted = list[Read](), list[Leaf]()
    for leaf in writer.leaves:
        names = {at: name for name, at in leaf.used.items()}
        wanted = sorted(writer.needed.get(leaf.number, ()))
        rows = None if wanted else leaf.table.count(leaf.filter)
        if rows is None:
            wanted = wanted or [leaf.used.setdefault(leaf.table.schema.names[0], len(leaf.used))]
            names = {at: name for name, at in leaf.used.items()}
            reads.append(Read(leaf, {f"c{at}": names[at] for at in wanted}))
            found = dialect.table.format(leaf.number)
        else:
            counted.append(leaf)
            found = f"range({rows if leaf.limit is None else min(rows, leaf.limit)})"
        text = text.replace(_hole(leaf.number), found)
    bound = {name: value for value, name in writer.bound.items()}
    return Written(text, bound, tuple(reads), tuple(counted))


def _hole(number: int) -> str:
    return f"\0{number}\0"


@dataclass(slots=True)
class _Writer:
    dialect: Dialect
    bound: dict[str, str] = field(default_factory=dict)
    needed: dict[int, set[int]] = field(default_factory=dict)
    leaves: list[Leaf] = field(default_factory=list)
    numbers: set[int] = field(default_factory=set)

    # ---- queries

    def query(self, query: Query) -> str:
        if isinstance(query, Select):
            return self._select(query)
        left, right = self._side(query.left), self._side(query.right)
        return f"{left} {query.op} {right}" + self._tail(query)

    def _side(self, query: Query) -> str:
        return f"(SELECT * FROM ({self.query(query)}) AS s)"  # noqa: S608  # written here

    def _select(self, query: Select) -> str:
        source = ""
        if query.first is not None:
            source = f" FROM {self._relation(query.first)}"
            source += "".join(map(self._join, query.joins))
        outputs = [f"{self.expr(one.expr)} AS o{at}" for at, one in enumerate(query.outputs)]
        text = f"SELECT {'DISTINCT ' * query.distinct}{', '.join(outputs)}{source}"
        if query.where:
            text += f" WHERE {' AND '.join(map(self.expr, query.where))}"
        if query.group:
            text += f" GROUP BY {', '.join(map(self.expr, query.group))}"
        if query.having is not None:
            text += f" HAVING {self.expr(query.having)}"
        return text + self._tail(query)

    def _tail(self, query: Query) -> str:
        text = ""
        if query.order:
            text = f" ORDER BY {', '.join(map(self._sort, query.order))}"
        if query.limit is not None:
            text += f" LIMIT {min(query.limit, (1 << 31) - 1)}"
        return text + (f" OFFSET {query.offset}" if query.offset else "")

    def _sort(self, sort: Sort) -> str:
        by = self.expr(sort.by) if isinstance(sort.by, Expr) else f"o{sort.by}"
        nulls = "FIRST" if sort.nulls_first else "LAST"
        return f"{by} {'DESC' if sort.descending else 'ASC'} NULLS {nulls}"

    def _relation(self, relation: Relation) -> str:
        if isinstance(relation, Derived):
            return f"({self.query(relation.query)}) AS r{relation.number}"
        if relation.number not in self.numbers:
            self.numbers.add(relation.number)
            self.leaves.append(relation)
        return f"{_hole(relation.number)} AS r{relation.number}"

    def _join(self, join: Any) -> str:
        words = {
            "inner": "JOIN",
            "cross": "CROSS JOIN",
            "semi": f"{self.dialect.semi}SEMI JOIN",
            "anti": f"{self.dialect.semi}ANTI JOIN",
        }
        word = words.get(join.kind) or f"{join.kind.upper()} JOIN"
        relation = self._relation(join.relation)  # before ON, which uses its columns
        on = "" if join.on is None else f" ON {self.expr(join.on)}"
        return f" {word} {relation}{on}"

    # ---- expressions

    def expr(self, expr: Expr) -> str:
        match expr.op:
            case "literal":
                return self._constant(expr)
            case "column":
                return self._column(expr)
            case "field":
                return f"({self.expr(expr.args[0])}).{self.dialect.quote(expr.value)}"
            case "aggregate":
                return self._aggregate(expr, "")
            case "window":
                return self._window(expr)
            case "query":
                return f"({self.query(expr.value)})"
            case "exists":
                return f"EXISTS ({self.query(expr.value)})"
            case "in query":
                return f"({self.expr(expr.args[0])} IN ({self.query(expr.value)}))"
        args = [self.expr(arg) for arg in expr.args]
        match expr.op:
            case "and" | "or":
                return "(" + f" {expr.op.upper()} ".join(args) + ")"
            case "in":
                return f"({args[0]} IN ({', '.join(args[1:])}))"
            case "case":
                pairs = zip(args[:-1:2], args[1:-1:2], strict=True)
                whens = " ".join(f"WHEN {when} THEN {then}" for when, then in pairs)
                return f"CASE {whens} ELSE {args[-1]} END"
            case "cast":
                families = family(expr.args[0].kind), family(expr.kind)
                value = self.dialect.casts.get(families, "{}").format(args[0])
                return f"CAST({value} AS {self._type(expr.kind)})"
        return self._function(expr, args)

    def _function(self, expr: Expr, args: Sequence[str]) -> str:
        unit = expr.op.removeprefix("date_trunc ")
        function = OPERATORS.get(expr.op) or FUNCTIONS.get(expr.op) or TRUNCATED[unit]
        text = self.dialect.function(function)
        if "{scale}" in text:
            digits = expr.args[1].value if len(expr.args) > 1 else 0
            text = text.replace("{scale}", f"CAST('1e{int(digits)}' AS DOUBLE)")
        return filled(text, args)

    def _type(self, kind: pa.DataType) -> str:
        return self.dialect.types.get(kind) or "DECIMAL({}, {})".format(*decimal_size(kind))

    def _column(self, expr: Expr) -> str:
        number, at = expr.value
        if number in self.numbers:
            self.needed.setdefault(number, set()).add(at)
            return f"r{number}.c{at}"
        return f"r{number}.o{at}"

    def _constant(self, expr: Expr) -> str:
        if expr.value is None:
            typed = family(expr.kind) not in ("null", "other")
            return f"CAST(NULL AS {self._type(expr.kind)})" if typed else "NULL"
        match family(expr.kind):
            case "text":
                name = self.bound.setdefault(expr.value, f"p{len(self.bound)}")
                return f"CAST({self.dialect.parameter.format(name[1:])} AS {self._type(expr.kind)})"
            case "bytes":
                return self.dialect.bytes.format(expr.value.hex())
            case "condition":
                return spelled(expr)
        return f"CAST('{spelled(expr)}' AS {self._type(expr.kind)})"

    def _aggregate(self, expr: Expr, over: str) -> str:
        name, distinct, filtered = expr.value
        args = [self.expr(arg) for arg in expr.args]
        where = f" FILTER (WHERE {args.pop()})" if filtered else ""
        text = self.dialect.function(AGGREGATES[name]).replace("{d}", "DISTINCT " * distinct)
        found = filled(text, args or ["*"]) + where + over
        if name == "sum":
            return f"CAST({found} AS {self._type(expr.kind)})"
        return found

    def _window(self, expr: Expr) -> str:
        count, how = expr.value
        function, *rest = expr.args
        parts = ", ".join(map(self.expr, rest[:count]))
        sorts = ", ".join(
            self._sort(Sort(by, *one)) for by, one in zip(rest[count:], how, strict=True)
        )
        over = f"PARTITION BY {parts}" if parts else ""
        over = f" OVER ({over}{f' ORDER BY {sorts}' if sorts else ''})"
        if function.op == "aggregate":
            return self._aggregate(function, over)
        args = [self.expr(arg) for arg in function.args]
        text = self.dialect.function(WINDOWS[function.value])
        return filled(text.replace("{over}", over), args)
