"""Scopes: name resolution of a query, and errors with positions in the text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot.errors import ParseError

from lancekit._scan.expressions.syntax import failure
from lancekit._statements.tables import Names, WithShards
from lancekit._statements.tree import Expr, Leaf, Query, Relation
from lancekit.errors import PredicateError

if TYPE_CHECKING:
    from sqlglot import exp

    from lancekit._operations.mem_wal.reader.sources import ReadSet

#: keywords of clauses by name in sqlglot's tree, if they differ by more than case
_CLAUSES = {
    "cluster": "CLUSTER BY", "conflict": "ON CONFLICT", "connect": "CONNECT BY", "joins": "JOIN",
    "distribute": "DISTRIBUTE BY", "group": "GROUP BY", "order": "ORDER BY", "sort": "SORT BY",
    "laterals": "LATERAL", "locks": "FOR UPDATE", "match": "MATCH_RECOGNIZE", "windows": "WINDOW",
    "ordinality": "WITH ORDINALITY", "pivots": "PIVOT", "sample": "TABLESAMPLE",
    "spec": "a window frame (ROWS, RANGE, GROUPS)", "version": "VERSION AS OF",
    "alternative": "INSERT OR", "direction": "FETCH", "tables": "DELETE without FROM",
}  # fmt: skip
#: the clause or query to write in place of each, by the same names
_HINTS = {
    "spec": "Leave the frame out: the default ends at the current row if OVER has an ORDER BY, "
    "and is the whole partition if not.",
    "windows": "Write each window behind its OVER: sum(x) OVER (PARTITION BY y).",
    **dict.fromkeys(("except_", "replace"), "List the columns: SELECT a, b + 1 AS b FROM name."),
    **dict.fromkeys(("qualify", "on"), "Filter an inner query: SELECT * FROM (SELECT *, "
                    "row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM name) WHERE n = 1."),
    "all": "Name the columns: GROUP BY a, b.", "direction": "Write LIMIT 3.",
    "alternative": "Use MERGE INTO, or ds.merge_insert('id').", "sample": "Use ds.sample(5).",
    "pivots": "Use lk.sql(...).to_pandas().pivot_table().", "tables": "Write DELETE FROM name.",
}  # fmt: skip


@dataclass(slots=True)
class Text:
    """A statement's text, its arguments, and state that its parts share.

    query: binds a subquery.
    relations: numbers the relations.
    at: the version of datasets without a version in the text.
    with_shards: the tables that are read together with their shards.
    read_sets: the shards' rows by table, so that all relations of a statement read the same rows.
    """

    sql: str
    names: Names
    query: Callable[[exp.Expression, Scope], Query]
    relations: Iterator[int] = field(default_factory=lambda: count(0))
    at: int | str | None = None
    with_shards: WithShards = False
    read_sets: dict[str, ReadSet] = field(default_factory=dict)

    def reads_shards(self, name: str) -> bool:
        """Return True if a table is read together with its shards."""
        if isinstance(self.with_shards, bool):
            return self.with_shards
        return name.lower() in self.with_shards

    def fail(
        self, place: object, message: str, hint: str = "", **context: object
    ) -> PredicateError:
        """Return an error at a position, given as syntax tree, expression or offset."""
        if isinstance(place, Expr):
            place = place.place
        elif not isinstance(place, int):
            place = start_of(place)
        return failure(self.sql, message, place, hint, **context)

    def only(self, tree: exp.Expression, *handled: str) -> None:
        """Raise if a tree has a part that the caller does not handle, so that none is ignored."""
        for name, value in tree.args.items():
            if value and name not in handled:
                place = value[0] if isinstance(value, list) else value
                known = start_of(place) if hasattr(place, "args") else 0
                what = _CLAUSES.get(name, name.strip("_").replace("_", " ").upper())
                # a part never begins before its tree; some parts have no known position
                raise self.fail(
                    max(known, start_of(tree)), f"{what} is not supported:", _HINTS.get(name, "")
                )


@dataclass(frozen=True, slots=True)
class Column:
    """A column in scope: its name and type."""

    name: str
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Seen:
    """A relation in scope: its alias and its columns."""

    alias: str
    relation: Relation
    columns: tuple[Column, ...]

    def expr(self, column: Column, place: int) -> Expr:
        """Return a column as an expression, and record that the query reads it."""
        if isinstance(self.relation, Leaf):
            at = self.relation.used.setdefault(column.name, len(self.relation.used))
        else:
            at = self.columns.index(column)
        return Expr("column", (), column.kind, (self.relation.number, at), place)


def matching(name: str, names: Sequence[str]) -> list[str]:
    """Return the matches of a name: itself if it exists, else all that differ only in case."""
    if name in names:
        return [name]
    return [one for one in names if one.lower() == name.lower()]


@dataclass(slots=True)
class Scope:
    """Names of a query: its relations, its parent's scope, and common table expressions."""

    text: Text
    parent: Scope | None = None
    seen: list[Seen] = field(default_factory=list)
    common: Mapping[str, tuple[exp.Expression, Scope]] = field(default_factory=dict)
    #: columns that USING merges from both sides, by name
    merged: dict[str, Expr] = field(default_factory=dict)
    #: outputs by alias, used if no column has the name
    aliases: Mapping[str, Expr] = field(default_factory=dict)
    #: True if aggregates, or windows, are allowed here
    aggregates: bool = False
    windows: bool = False

    def column(self, tree: exp.Expression) -> tuple[Expr, list[exp.Expression]]:
        """Resolve a name to a column; return it, and the parts of the name after it."""
        parts = list(tree.parts)
        scope: Scope | None = self
        while scope is not None:
            if found := scope._own(tree, parts):
                return found
            scope = scope.parent
        raise self._unknown(parts)

    def _own(
        self, tree: exp.Expression, parts: Sequence[exp.Expression]
    ) -> tuple[Expr, list[exp.Expression]] | None:
        """Resolve a name in the query itself; ``None`` if it is not there."""
        place = start_of(tree)
        first = parts[0].name
        if len(parts) > 1:
            tables = [one for one in self.seen if one.alias in matching(first, self._aliases())]
            if len(tables) > 1:
                raise self.text.fail(tree, f"there are several tables {first!r}.")
            if tables:
                (table,) = tables
                return self._in(table, parts[1]), list(parts[2:])
        merged = matching(first, list(self.merged))
        if len(merged) == 1:
            return self.merged[merged[0]], list(parts[1:])
        known = [(table, column) for table in self.seen for column in table.columns]
        found = [one for one in known if one[1].name == first]
        found = found or [one for one in known if one[1].name.lower() == first.lower()]
        if len(found) > 1:
            where = " and ".join(f"`{table.alias}`.`{column.name}`" for table, column in found[:4])
            raise self.text.fail(
                tree, f"{first!r} is ambiguous: {where}.", "Add the table.", column=first
            )
        if not found:
            alias = matching(first, list(self.aliases)) if len(parts) == 1 else []
            return (self.aliases[alias[0]], []) if len(alias) == 1 else None
        ((table, column),) = found
        return table.expr(column, place), list(parts[1:])

    def _aliases(self) -> list[str]:
        return [one.alias for one in self.seen]

    def _in(self, table: Seen, part: exp.Expression) -> Expr:
        column = self.one_column(table, part.name, part, f"{table.alias!r} has no column")
        return table.expr(column, start_of(part))

    def one_column(self, table: Seen, name: str, tree: exp.Expression, what: str) -> Column:
        """Resolve a name to the only matching column of a table.

        Raises PredicateError: no column matches, or several do; the message begins with `what`.
        """
        names = [column.name for column in table.columns]
        found = matching(name, names)
        if len(found) != 1:
            raise self._missing(tree, name, names, what)
        return table.columns[names.index(found[0])]

    def _unknown(self, parts: Sequence[exp.Expression]) -> PredicateError:
        scope: Scope | None = self
        names = list[str]()
        while scope is not None:
            names += [column.name for table in scope.seen for column in table.columns]
            names += scope._aliases() if len(parts) > 1 else []
            scope = scope.parent
        what = "there is no table or column" if len(parts) > 1 else "there is no column"
        return self._missing(parts[0], parts[0].name, names, what)

    def _missing(
        self, tree: exp.Expression, name: str, names: Sequence[str], what: str
    ) -> PredicateError:
        close = matching(name, names) or difflib.get_close_matches(name, names, 3, 0.6)
        hint = f"Did you mean {' or '.join(f'`{one}`' for one in dict.fromkeys(close))}?"
        return self.text.fail(tree, f"{what} {name!r}:", hint if close else "", column=name)


# ---- positions of parts of a statement in its text, from sqlglot

#: the key of the position in a node's ``meta``
_START = "first"


def start_of(tree: exp.Expression) -> int:
    """Return the offset at which an expression begins in the text, 0 if unknown."""
    return int(tree.meta.get(_START, 0))


def mark_starts(tree: exp.Expression, begin: int) -> None:
    """Record the start offset of each node of a tree, without recursion, as trees may be deep."""
    for node in reversed(list(tree.walk())):
        known = [
            place
            for child in node.iter_expressions()
            if (place := child.meta.get(_START)) is not None
        ]
        if (own := node.meta.get("start")) is not None:
            known.append(own + begin)
        if known:
            node.meta[_START] = min(known)


def misplaced(sql: str, error: ParseError) -> PredicateError:
    """Return the error of a text that does not parse, at sqlglot's position."""
    details = error.errors[0] if error.errors else {}
    text = details.get("highlight") or ""
    unexpected = "Unexpected token" in (details.get("description") or "")
    lines = sql.split("\n")
    # sqlglot's column is the last character of the token
    line, last = details.get("line") or 1, details.get("col") or 1
    end = min(len(sql), sum(len(x) + 1 for x in lines[: line - 1]) + last)
    begin = max(0, end - len(text)) if text else end
    fault = f"{text!r} was not expected" if unexpected else f"something is missing after {text!r}"
    what = f"the expression does not parse, {fault}:"
    hint = "Put names with spaces or capitals in backticks, and text in single quotes."
    return failure(sql, what, begin if unexpected else end, hint)


_CLOSED = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|/\*.*?\*/|--[^\n]*|[^'"`]""", re.S
)


def unclosed(sql: str) -> int:
    """Return the offset of the quote or comment that is not closed."""
    position = 0
    while found := _CLOSED.match(sql, position):
        if sql.startswith("/*", position) and not found[0].endswith("*/"):
            break
        position = found.end()
    return position
