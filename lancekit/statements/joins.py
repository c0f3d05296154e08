"""FROM and JOIN: the relations of a query, and the names that they bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lancekit.statements.expressions import condition
from lancekit.statements.meeting import meet
from lancekit.statements.relations import rows_of, table_of
from lancekit.statements.scope import Column, Scope, Seen, matching, start_of
from lancekit.statements.tree import Derived, Expr, Join, JoinKind, Leaf, Query, Relation

__all__ = ["compile_joins", "relation_of"]

_KINDS: Mapping[tuple[str, str], JoinKind] = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("", "CROSS"): "cross",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("", "SEMI"): "semi",
    ("LEFT", "SEMI"): "semi",
    ("", "ANTI"): "anti",
    ("LEFT", "ANTI"): "anti",
}


def compile_joins(tree: Any, scope: Scope) -> tuple[Relation | None, tuple[Join, ...]]:
    """Return the first relation of a query and those that join it; ``scope`` gets their names."""
    source = tree.args.get("from_")
    if source is None:
        return None, ()
    scope.text.only(source, "this")
    first = relation_of(source.this, scope)
    scope.seen.append(first)
    return first.relation, tuple(_join(one, scope) for one in tree.args.get("joins") or ())


def relation_of(tree: Any, scope: Scope) -> Seen:
    """Return a table, a query in parentheses or VALUES, as a query sees it."""
    alias = tree.args.get("alias")
    names = [one.name for one in (alias.args.get("columns") or ())] if alias is not None else []
    number = next(scope.text.relations)
    if isinstance(tree, exp.Table) and not tree.args.get("db"):
        common = matching(tree.name, list(scope.common)) if not tree.args.get("version") else []
        if common:
            scope.text.only(tree, "this", "alias")
            one, around = scope.common[common[0]]
            names = names or [c.name for c in one.args["alias"].args.get("columns") or ()]
            return _derived(number, scope.text.query(one.this, around), names, tree, scope)
    if isinstance(tree, exp.Table):
        table = table_of(tree, scope)
        if names:
            raise scope.text.fail(tree, "the columns of a table have names:", "Use AS in SELECT.")
        columns = tuple(Column(field.name, field.type) for field in table.schema)
        return Seen(tree.alias or table.name, Leaf(number=number, table=table), columns)
    if isinstance(tree, exp.Subquery):
        scope.text.only(tree, "this", "alias")
        query = scope.text.query(tree.this, Scope(scope.text, common=scope.common))
        return _derived(number, query, names, tree, scope)
    if isinstance(tree, exp.Values):
        table = rows_of(tree, scope, names)
        columns = tuple(Column(field.name, field.type) for field in table.schema)
        return Seen(tree.alias, Leaf(number=number, table=table), columns)
    raise scope.text.fail(tree, f"{type(tree).__name__} is no table of these statements:")


def _derived(number: int, query: Query, names: Sequence[str], tree: Any, scope: Scope) -> Seen:
    outputs = query.outputs
    if names and len(names) != len(outputs):
        raise scope.text.fail(tree, f"{len(names)} names for {len(outputs)} columns:")
    names = names or [output.name for output in outputs]
    if len({name.lower() for name in names}) < len(names):
        raise scope.text.fail(tree, "two columns of this have one name:", "Name them with AS.")
    columns = tuple(
        Column(name, output.expr.kind) for name, output in zip(names, outputs, strict=True)
    )
    return Seen(tree.alias_or_name, Derived(number=number, query=query), columns)


def _join(tree: Any, scope: Scope) -> Join:
    scope.text.only(tree, "this", "side", "kind", "on", "using")
    kind = _KINDS.get((tree.side, tree.kind))
    if kind is None:
        raise scope.text.fail(tree, "this join is not part of these statements:")
    before = list(scope.seen)
    seen = relation_of(tree.this, scope)
    if seen.alias in [one.alias for one in before]:
        raise scope.text.fail(tree.this, f"there are two tables {seen.alias!r}:", "Name one: AS.")
    scope.seen.append(seen)
    on = None
    if using := tree.args.get("using"):
        on = _using(using, kind, before, seen, scope)
    elif tree.args.get("on") is not None:
        on = condition(tree.args["on"], scope, "ON")
    elif kind not in ("inner", "cross"):
        raise scope.text.fail(tree, "this join needs a condition:", "Write ON or USING.")
    if kind in ("semi", "anti"):
        scope.seen.remove(seen)
    return Join("cross" if on is None else kind, seen.relation, on)


def _using(
    names: Sequence[Any], kind: JoinKind, before: Sequence[Seen], seen: Seen, scope: Scope
) -> Expr:
    left = Scope(scope.text, seen=list(before), merged=dict(scope.merged))
    right = Scope(scope.text, seen=[seen])
    parts = list[Expr]()
    for one in names:
        column = exp.Column(this=exp.to_identifier(one.name, quoted=True))
        column.meta["first"] = start_of(one)
        (ours, _), (theirs, _) = left.column(column), right.column(column)
        pair = meet([ours, theirs], "USING", one, scope)
        parts.append(Expr("=", tuple(pair), pa.bool_()))
        whole = Expr("coalesce", tuple(pair), pair[0].kind)
        if kind not in ("semi", "anti"):
            scope.merged[one.name] = {"right": theirs, "full": whole}.get(kind, ours)
    return Expr("and", tuple(parts), pa.bool_())
