"""Binding of queries: from the syntax tree of a SELECT to a typed `Query`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from lancekit._checked import is_whole
from lancekit._statements.correlated import check_comparable, check_grouped, is_grouped
from lancekit._statements.dialect import spelled_tree
from lancekit._statements.expressions import compile_expression, condition, parameter
from lancekit._statements.filter_syntax import push_down
from lancekit._statements.literals import coerce, number, widened
from lancekit._statements.relations import rows_of, table_of
from lancekit._statements.scope import Column, Scope, Seen, matching, start_of
from lancekit._statements.tree import (
    Derived,
    Expr,
    Join,
    JoinKind,
    Leaf,
    Output,
    Query,
    Relation,
    Select,
    SetOperation,
    Sort,
    common,
)

_CLAUSES = "expressions from_ joins where group having distinct order limit offset with_"
_SETS = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


def compile_query(tree: exp.Expression, scope: Scope) -> Query:
    """Bind a query; ``scope`` is the scope around it.

    Raises PredicateError: a part is not supported, or names or types do not fit.
    """
    if isinstance(tree, exp.Subquery):
        scope.text.only(tree, "this")
        return compile_query(tree.this, scope)
    inner = Scope(scope.text, scope, common=_with(tree, scope))
    if isinstance(tree, exp.Select):
        return _select(tree, inner)
    if type(tree) in _SETS:
        return _set_operation(tree, inner)
    if isinstance(tree, exp.Values):
        return _everything_of(Leaf(number=next(scope.text.relations), table=rows_of(tree, inner)))
    raise scope.text.fail(tree, f"{type(tree).__name__} is not a supported query:")


def _with(tree: exp.Expression, scope: Scope) -> Mapping[str, tuple[exp.Expression, Scope]]:
    """Return the common table expressions in scope, as trees that are bound at each use."""
    found = dict(scope.common)
    clause = tree.args.get("with_")
    if clause is not None:
        scope.text.only(clause, "expressions")
        for one in clause.expressions:
            scope.text.only(one, "this", "alias")
            found[one.alias] = (one, Scope(scope.text, common=dict(found)))
    return found


def _everything_of(leaf: Leaf) -> Select:
    outputs = list[Output]()
    for field in leaf.table.schema:
        at = leaf.used.setdefault(field.name, len(leaf.used))
        column = Expr("column", (), field.type, (leaf.number, at))
        outputs.append(Output(field.name, column))
    return Select(outputs=tuple(outputs), first=leaf)


# ---- SELECT


def _select(tree: exp.Expression, scope: Scope) -> Select:
    text = scope.text
    text.only(tree, *_CLAUSES.split())
    first, joins = _compile_joins(tree, scope)
    where = tree.args.get("where")
    conditions = () if where is None else conjuncts(condition(where.this, scope, "WHERE"))
    outputs = tuple(_outputs(tree, replace(scope, aggregates=True, windows=True)))
    aliases = {output.name: output.expr for output in reversed(outputs)}
    group = _group(tree, replace(scope, aliases=aliases), outputs)
    inner = replace(scope, aliases=aliases, aggregates=True)
    having_tree = tree.args.get("having")
    having = None if having_tree is None else condition(having_tree.this, inner, "HAVING")
    order = tuple(_order(tree, replace(inner, windows=True), outputs))
    distinct = _distinct(tree, outputs, order, scope)
    if group is None and (having is not None or is_grouped(o.expr for o in outputs)):
        group = ()
    if group is not None:
        sorted_by = [one.by for one in order if isinstance(one.by, Expr)]
        for one in [*(o.expr for o in outputs), *([having] if having else []), *sorted_by]:
            check_grouped(one, group, text)
    limit, offset = _limit(tree, "limit", scope), _limit(tree, "offset", scope)
    return push_down(
        Select(
            outputs=outputs,
            first=first,
            joins=joins,
            where=conditions,
            group=group,
            having=having,
            distinct=distinct,
            order=order,
            limit=limit,
            offset=offset,
        )
    )


def conjuncts(found: Expr) -> tuple[Expr, ...]:
    """Split a condition into the conditions that AND connects."""
    if found.op != "and":
        return (found,)
    return tuple(part for arg in found.args for part in conjuncts(arg))


def _outputs(tree: exp.Expression, scope: Scope) -> Iterator[Output]:
    for one in tree.expressions:
        if isinstance(one, exp.Star):
            scope.text.only(one)
            if not scope.seen:
                raise scope.text.fail(one, "* needs a table:")
            for name, expr in _starred(scope):
                yield Output(name, expr)
        elif isinstance(one, exp.Column) and isinstance(one.this, exp.Star):
            scope.text.only(one.this)
            found = matching(one.table, [seen.alias for seen in scope.seen])
            if len(found) != 1:
                raise scope.text.fail(one, f"there is no table {one.table!r}:")
            for seen in scope.seen:
                for column in seen.columns if seen.alias == found[0] else ():
                    yield Output(column.name, seen.expr(column, 0))
        elif isinstance(one, exp.Alias):
            yield Output(one.alias, compile_expression(one.this, scope))
        else:
            yield Output(_name(one), compile_expression(one, scope))


def _starred(scope: Scope) -> Iterator[tuple[str, Expr]]:
    yield from scope.merged.items()
    merged = {name.lower() for name in scope.merged}
    for seen in scope.seen:
        for column in seen.columns:
            if column.name.lower() not in merged:
                yield column.name, seen.expr(column, 0)


def _name(tree: exp.Expression) -> str:
    """Return the name of an output column without an alias."""
    inner = tree.unnest()
    return inner.name if isinstance(inner, exp.Column | exp.Dot) else spelled_tree(tree)[:80]


def _group(
    tree: exp.Expression, scope: Scope, outputs: Sequence[Output]
) -> tuple[Expr, ...] | None:
    clause = tree.args.get("group")
    if clause is None:
        return None
    scope.text.only(clause, "expressions")
    found = list[Expr]()
    for one in clause.expressions:
        at = _ordinal(one, outputs, scope)
        expr = compile_expression(one, scope) if at is None else outputs[at].expr
        if is_grouped([expr]):
            raise scope.text.fail(one, "GROUP BY cannot contain an aggregate:")
        check_comparable(expr, "GROUP BY", one, scope)
        found.append(expr)
    return tuple(found)


def _ordinal(tree: exp.Expression, outputs: Sequence[Output], scope: Scope) -> int | None:
    """Return the index of the output that an ordinal refers to; ``None`` if it is no number."""
    if not isinstance(tree, exp.Literal) or tree.is_string:
        return None
    at = number(tree.this)
    if not isinstance(at, int) or not 1 <= at <= len(outputs):
        raise scope.text.fail(tree, f"there is no column {tree.this} among {len(outputs)}:")
    return at - 1


def _order(tree: exp.Expression, scope: Scope, outputs: Sequence[Output]) -> Iterator[Sort]:
    clause = tree.args.get("order")
    names = [output.name for output in outputs]
    for one in clause.expressions if clause is not None else ():
        scope.text.only(one, "this", "desc", "nulls_first")
        at = _ordinal(one.this, outputs, scope)
        if at is None and isinstance(one.this, exp.Column) and len(one.this.parts) == 1:
            matches = matching(one.this.name, names)
            at = names.index(matches[0]) if len(set(matches)) == 1 else None
        by: Expr | int = compile_expression(one.this, scope) if at is None else at
        expr = by if isinstance(by, Expr) else outputs[by].expr
        check_comparable(expr, "ORDER BY", one, scope)
        same = [at for at, output in enumerate(outputs) if output.expr == expr]
        by = same[0] if isinstance(by, Expr) and same else by
        yield Sort(by, bool(one.args.get("desc")), bool(one.args.get("nulls_first")))


def _distinct(
    tree: exp.Expression, outputs: Sequence[Output], order: Sequence[Sort], scope: Scope
) -> bool:
    clause = tree.args.get("distinct")
    if clause is None:
        return False
    scope.text.only(clause)
    for output in outputs:
        check_comparable(output.expr, "DISTINCT", tree, scope)
    if any(isinstance(one.by, Expr) for one in order):
        raise scope.text.fail(tree.args["order"], "ORDER BY after DISTINCT needs result columns:")
    return True


def _limit(tree: exp.Expression, name: str, scope: Scope) -> int | None:
    clause = tree.args.get(name)
    if clause is None:
        return None
    scope.text.only(clause, "expression")
    what = clause.expression
    if isinstance(what, exp.Parameter):
        value = parameter(what, scope)
    else:
        value = number(what.this) if isinstance(what, exp.Literal) and not what.is_string else None
    if not is_whole(value) or value < 0:
        raise scope.text.fail(what, f"{name.upper()} must be an integer of 0 or more:")
    return min(int(value), 1 << 62)


# ---- sets


def _set_operation(tree: exp.Expression, scope: Scope) -> SetOperation:
    scope.text.only(tree, "this", "expression", "distinct", "order", "limit", "offset", "with_")
    op = _SETS[type(tree)]
    sides = [compile_query(side, scope) for side in (tree.this, tree.expression)]
    left, right = (side.outputs for side in sides)
    if len(left) != len(right):
        raise scope.text.fail(tree, f"{op} of {len(left)} and {len(right)} columns:")
    kinds = [common(a.expr.kind, b.expr.kind) for a, b in zip(left, right, strict=True)]
    for kind, one, other in zip(kinds, left, right, strict=True):
        if kind is None:
            shown = f"{one.expr.kind} and {other.expr.kind}"
            raise scope.text.fail(tree, f"{op} cannot combine {shown} of column {one.name!r}:")
        if tree.args.get("distinct") or op != "UNION":
            check_comparable(one.expr, op, tree, scope)
    found = [kind for kind in kinds if kind is not None]
    outputs = tuple(
        Output(one.name, replace(one.expr, op="output", args=(), kind=kind, value=one.name))
        for one, kind in zip(left, found, strict=True)
    )
    order = tuple(_order(tree, Scope(scope.text), outputs))
    if any(isinstance(one.by, Expr) for one in order):
        raise scope.text.fail(tree.args["order"], f"ORDER BY of {op} needs result columns:")
    return SetOperation(
        op=op if tree.args.get("distinct") else f"{op} ALL",
        left=_as_kinds(sides[0], found, scope),
        right=_as_kinds(sides[1], found, scope),
        outputs=outputs,
        order=order,
        limit=_limit(tree, "limit", scope),
        offset=_limit(tree, "offset", scope),
    )


def _as_kinds(query: Query, kinds: Sequence[pa.DataType], scope: Scope) -> Query:
    """Return a query with its columns cast to some types."""
    if [output.expr.kind for output in query.outputs] == list(kinds):
        return query
    derived = Derived(number=next(scope.text.relations), query=query)
    outputs = tuple(
        Output(one.name, widened(Expr("column", (), one.expr.kind, (derived.number, at)), kind))
        for at, (one, kind) in enumerate(zip(query.outputs, kinds, strict=True))
    )
    return Select(outputs=outputs, first=derived)


# ---- FROM and JOIN: the relations of a query, and their names

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


def _compile_joins(tree: exp.Expression, scope: Scope) -> tuple[Relation | None, tuple[Join, ...]]:
    """Return the first relation of a query, and its joins; add their names to ``scope``."""
    source = tree.args.get("from_")
    if source is None:
        return None, ()
    scope.text.only(source, "this")
    first = relation_of(source.this, scope)
    scope.seen.append(first)
    return first.relation, tuple(_join(one, scope) for one in tree.args.get("joins") or ())


def relation_of(tree: exp.Expression, scope: Scope) -> Seen:
    """Return the relation of a table, a subquery or VALUES, with its alias and columns."""
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
            raise scope.text.fail(tree, "each column needs a name:", "Use AS in SELECT.")
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
    raise scope.text.fail(tree, f"{type(tree).__name__} is not a supported table:")


def _derived(
    number: int, query: Query, names: Sequence[str], tree: exp.Expression, scope: Scope
) -> Seen:
    outputs = query.outputs
    if names and len(names) != len(outputs):
        raise scope.text.fail(tree, f"{len(names)} names for {len(outputs)} columns:")
    names = names or [output.name for output in outputs]
    if len({name.lower() for name in names}) < len(names):
        raise scope.text.fail(tree, "two columns have the same name:", "Name them with AS.")
    columns = tuple(
        Column(name, output.expr.kind) for name, output in zip(names, outputs, strict=True)
    )
    return Seen(tree.alias_or_name, Derived(number=number, query=query), columns)


def _join(tree: exp.Expression, scope: Scope) -> Join:
    scope.text.only(tree, "this", "side", "kind", "on", "using")
    kind = _KINDS.get((tree.side, tree.kind))
    if kind is None:
        raise scope.text.fail(tree, "this kind of join is not supported:")
    before = list(scope.seen)
    seen = relation_of(tree.this, scope)
    if seen.alias in [one.alias for one in before]:
        raise scope.text.fail(tree.this, f"there are two tables {seen.alias!r}:", "Add an alias.")
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
    names: list[exp.Expression], kind: JoinKind, before: Sequence[Seen], seen: Seen, scope: Scope
) -> Expr:
    left = Scope(scope.text, seen=list(before), merged=dict(scope.merged))
    right = Scope(scope.text, seen=[seen])
    parts = list[Expr]()
    for one in names:
        column = exp.Column(this=exp.to_identifier(one.name, quoted=True))
        column.meta["first"] = start_of(one)
        (ours, _), (theirs, _) = left.column(column), right.column(column)
        pair = coerce([ours, theirs], "USING", one, scope)
        parts.append(Expr("=", tuple(pair), pa.bool_()))
        whole = Expr("coalesce", tuple(pair), pair[0].kind)
        if kind not in ("semi", "anti"):
            scope.merged[one.name] = {"right": theirs, "full": whole}.get(kind, ours)
    return Expr("and", tuple(parts), pa.bool_())
