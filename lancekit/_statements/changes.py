"""UPDATE, DELETE, INSERT, ALTER TABLE and others, run as operations of a handle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from lancekit import _arrow_compute as pc
from lancekit._api.lance_dataset import LanceDataset
from lancekit._casts import nearest
from lancekit._format.paths import show_path
from lancekit._operations.common.results import DeleteResult, MergeResult, UpdateResult
from lancekit._operations.explain.merge import MergePlan
from lancekit._scan.expressions.predicate import Unbound
from lancekit._statements.computed import (
    TRUE,
    Changes,
    Step,
    as_filter,
    expressible,
    rows_for,
    run_changes,
)
from lancekit._statements.correlated import check_condition, check_value
from lancekit._statements.dialect import spelled_tree
from lancekit._statements.expressions import compile_expression, condition
from lancekit._statements.filter_syntax import ColumnPath, NotFilterError, column_path
from lancekit._statements.literals import is_constant, retyped, type_of, widened
from lancekit._statements.queries import compile_query, conjuncts
from lancekit._statements.relations import handle_of, rows_of, version_of
from lancekit._statements.scope import Column, Scope, Seen, matching
from lancekit._statements.tables import Table, with_json
from lancekit._statements.tree import Expr, Leaf, Select, family
from lancekit.progress import tracking


def target_of(tree: exp.Expression, scope: Scope) -> tuple[LanceDataset, Seen]:
    """Return the dataset that a statement changes, and its relation for expressions."""
    handle = handle_of(tree, scope)
    table = Table.of(tree.name, handle)
    columns = tuple(Column(field.name, field.type) for field in table.schema)
    leaf = Leaf(number=next(scope.text.relations), table=table)
    return handle, Seen(tree.alias or tree.name, leaf, columns)


def update(tree: exp.Expression, scope: Scope, *, preview: bool) -> object:
    """Run an UPDATE, or explain it."""
    scope.text.only(tree, "this", "expressions", "where")
    handle, seen = target_of(tree.this, scope)
    scope.seen.append(seen)
    values = dict[str, Expr]()
    for one in tree.expressions:
        if not isinstance(one, exp.EQ) or not isinstance(one.this, exp.Column):
            raise scope.text.fail(one, "SET takes a column, = and its new value:")
        column = own_column(one.this, seen, scope)
        if column.name in values:
            raise scope.text.fail(one, f"column {column.name!r} is set twice:")
        values[column.name] = fitting(compile_expression(one.expression, scope), column, one, scope)
    where = _where(tree, scope)
    found = _as_filters([where, *values.values()], seen, scope)
    if found is not None:
        changes: dict[str, str] = dict(zip(values, found[1:], strict=True))
        only = None if where == TRUE else found[0]
        return (handle.explain if preview else handle).update(changes, only)
    for value in values.values():
        check_value(value, scope.text)
    done = _computed(handle, seen, values, where, tree, scope, preview=preview)
    if isinstance(done, MergePlan):
        return done
    return UpdateResult(
        num_rows_updated=done.num_updated_rows, columns=tuple(values), **_run_details(done)
    )


def delete(tree: exp.Expression, scope: Scope, *, preview: bool) -> object:
    """Run a DELETE, or explain it."""
    scope.text.only(tree, "this", "where")
    handle, seen = target_of(tree.this, scope)
    scope.seen.append(seen)
    where = _where(tree, scope)
    found = _as_filters([where], seen, scope)
    if found is not None:
        return (handle.explain if preview else handle).delete(found[0])
    done = _computed(handle, seen, None, where, tree, scope, preview=preview)
    if isinstance(done, MergePlan):
        return done
    return DeleteResult(num_deleted_rows=done.num_deleted_rows, **_run_details(done))


def _where(tree: exp.Expression, scope: Scope) -> Expr:
    clause = tree.args.get("where")
    return TRUE if clause is None else condition(clause.this, scope, "WHERE")


def _as_filters(exprs: Sequence[Expr], seen: Seen, scope: Scope) -> list[Unbound] | None:
    """Return conditions and values as filter expressions; ``None`` if one has no such form."""
    if not all(map(expressible, exprs)):
        return None
    try:
        return [as_filter(expr, scope, path_in(seen)) for expr in exprs]
    except NotFilterError:
        return None  # filters cannot express the result of a subquery


def _computed(
    handle: LanceDataset,
    seen: Seen,
    values: Mapping[str, Expr] | None,
    where: Expr,
    tree: exp.Expression,
    scope: Scope,
    *,
    preview: bool,
) -> MergeResult | MergePlan:
    """Run or preview an UPDATE or DELETE that filters cannot express."""
    conditions = conjuncts(where)
    for one in conditions:
        check_condition(one, scope.text)
    key = tuple(field.name for field in handle._snapshot.manifest.schema.primary_key)
    changes = Changes(
        handle=handle,
        target=seen,
        steps=[Step(TRUE, typed(values, seen, tree, scope))],
        where=conditions,
        known_by=() if values is not None and {*key} & {*values} else key,
        rules=(spelled_tree(tree),),
    )
    return run_changes(changes, scope, preview=preview)


def _run_details(done: MergeResult) -> dict[str, Any]:
    names = ("version", "branch", "attempts", "duration", "engine", "location")
    return {name: getattr(done, name) for name in names}


def path_in(seen: Seen) -> ColumnPath:
    """Return a function that gives the path of a target's column."""
    leaf: Leaf = seen.relation  # type: ignore[assignment]
    return column_path(leaf)


def own_column(tree: exp.Expression, seen: Seen, scope: Scope) -> Column:
    """Return the target's column of a name, which the target's alias may qualify."""
    parts = [part.name for part in tree.parts] if isinstance(tree, exp.Column) else [tree.name]
    if len(parts) == 2 and parts[0].lower() == seen.alias.lower():
        del parts[0]
    names = [column.name for column in seen.columns]
    found = matching(parts[0], names) if len(parts) == 1 else []
    if len(found) != 1:
        raise scope._missing(tree, ".".join(parts), names, "there is no column")
    return seen.columns[names.index(found[0])]


#: pairs of type families: the first converts to the second without a CAST
_FITS = {("integer", "fraction"), ("integer", "decimal"), ("date", "timestamp")}


def fitting(value: Expr, column: Column, tree: exp.Expression, scope: Scope) -> Expr:
    """Return a value for a column of a target; coerce a constant to the column's type.

    Raises PredicateError: the value would have to be rounded or parsed to fit.
    """
    if is_constant(value) and (found := retyped(value, column.kind)) is not None:
        return found
    families = family(value.kind), family(column.kind)
    same_family = families[0] == families[1] != "other" or value.kind == column.kind
    if same_family or families in _FITS or families[0] == "null":
        return value
    raise scope.text.fail(
        tree,
        f"{value.kind} cannot be converted to column {column.name!r} of type {column.kind}:",
        "Write a CAST, or another value.",
        column=column.name,
    )


def typed(
    values: Mapping[str, Expr] | None, seen: Seen, tree: exp.Expression, scope: Scope
) -> dict[str, Expr] | None:
    """Return values that an engine computes, coerced to the types of their columns.

    Raises PredicateError: a value does not fit, or has more digits than the column.
    """
    if values is None:
        return None
    found = dict[str, Expr]()
    for name, value in values.items():
        (column,) = (one for one in seen.columns if one.name == name)
        own = column.kind
        found[name] = value
        if family(value.kind) == family(own) == "other" or value.kind == own:
            continue
        fitted = fitting(value, column, tree, scope)
        kind = fitted.kind
        if pt.is_decimal128(kind) and pt.is_decimal128(own) and kind.scale > own.scale:
            message = f"{kind} has more digits than column {name!r} of type {own}:"
            raise scope.text.fail(tree, message, "Write a CAST.", column=name)
        found[name] = widened(fitted, own)
    return found


def insert(tree: exp.Expression, scope: Scope, *, preview: bool) -> object:
    """Run an INSERT and return the new version, or explain it."""
    scope.text.only(tree, "this", "expression", "by_name", "with_", "overwrite")
    if tree.args.get("overwrite"):
        hint = "Use lk.write_dataset(rows, ds, mode='overwrite')."
        raise scope.text.fail(tree, "INSERT OVERWRITE is not part of these statements:", hint)
    whole = tree.this if isinstance(tree.this, exp.Schema) else None
    handle, seen = target_of(tree.this if whole is None else whole.this, scope)
    columns = list(seen.columns)
    if whole is not None:
        columns = [own_column(one, seen, scope) for one in whole.expressions]
        if len({column.name for column in columns}) < len(columns):
            raise scope.text.fail(whole.expressions[0], "a column is named twice:")
    source = tree.expression
    if tree.args.get("with_") is not None:
        source.set("with_", tree.args["with_"])
    if isinstance(source, exp.Values):
        names, kinds = ([getattr(c, part) for c in columns] for part in ("name", "kind"))
        given: pa.Table = rows_of(source, scope, names, kinds).source
        rows: Any = with_json(_rounded(given, handle.schema), handle)
    else:
        query = compile_query(source, scope)
        if isinstance(query, Select):
            _retype(query, columns)
        if tree.args.get("by_name"):
            what = "the target has no column"
            names = [output.name for output in query.outputs]
            columns = [scope.one_column(seen, name, source, what) for name in names]
        _check_count([output.expr for output in query.outputs], columns, source, scope)
        rows = rows_for(query, [column.name for column in columns], scope.text.sql, handle)
    if preview:
        return handle.explain.insert(rows)
    handle.insert(rows)
    return handle.get_version()


def _check_count(
    exprs: Sequence[Expr], columns: Sequence[Column], tree: exp.Expression, scope: Scope
) -> None:
    if len(exprs) != len(columns):
        names = ", ".join(column.name for column in columns[:10])
        raise scope.text.fail(
            tree,
            f"{len(exprs)} values for {len(columns)} columns ({names}):",
            "Name the columns behind the target's name, or write INSERT INTO ... BY NAME.",
        )


def _rounded(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Round the fractions of VALUES to the dataset's float types, as an UPDATE does.

    Columns with a value that would become infinite stay doubles, and the insert refuses them.
    """
    for at, field in enumerate(rows.schema):
        kind = schema.field(field.name).type
        if pt.is_floating(kind) and pt.is_float64(field.type):
            found = nearest(rows.column(at), kind)
            grown = pc.and_(pc.is_inf(found.cast(field.type)), pc.is_finite(rows.column(at)))
            if not pc.any(grown).as_py():
                rows = rows.set_column(at, field.with_type(kind), found)
    return rows


def _retype(query: Select, columns: Sequence[Column]) -> None:
    """Coerce constant outputs of a query to the types of their columns."""
    pairs = zip(query.outputs, columns, strict=False)
    found = [
        replace(output, expr=retyped(output.expr, column.kind) or output.expr)
        if is_constant(output.expr)
        else output
        for output, column in pairs
    ]
    query.outputs = (*found, *query.outputs[len(found) :])


# ---- ALTER TABLE, RESTORE, OPTIMIZE

Done = tuple[str, tuple[object, ...]]


def alter(tree: exp.Expression, scope: Scope, *, preview: bool) -> object:
    """Add, drop, rename or change columns and return the new version, or explain the change."""
    scope.text.only(tree, "this", "kind", "actions")
    handle, seen = target_of(tree.this, scope)
    actions = tree.args["actions"]
    kinds = {type(one) for one in actions}
    if len(kinds) > 1 or (len(actions) > 1 and kinds != {exp.ColumnDef}):
        raise scope.text.fail(actions[1], "one statement can make only one change of columns:")
    rule = _ACTIONS.get(type(actions[0]))
    if rule is None:
        raise scope.text.fail(actions[0], "this is not a change of columns:")
    method, args = rule(actions, seen, scope)
    found = getattr(handle.explain if preview else handle, method)(*args)
    return found if preview else handle.get_version()


def _added(actions: list[exp.Expression], _seen: Seen, scope: Scope) -> Done:
    columns = actions[0].expressions if isinstance(actions[0], exp.Schema) else actions
    fields = list[pa.Field]()
    for one in columns:
        scope.text.only(one, "this", "kind")
        kind = type_of(one.args["kind"]) if one.args.get("kind") is not None else None
        if kind is None:
            raise scope.text.fail(one, f"column {one.name!r} needs a type that a cast supports:")
        fields.append(pa.field(one.name, kind))
    return "add_columns", (pa.schema(fields),)


def _dropped(actions: list[exp.Expression], seen: Seen, scope: Scope) -> Done:
    (one,) = actions
    scope.text.only(one, "kind", "tables")
    if one.args.get("kind") not in ("COLUMN", "COLUMNS"):
        raise scope.text.fail(one, "ALTER TABLE drops columns:")
    columns = list[exp.Expression]()
    for part in one.args["tables"]:
        columns += part.expressions if isinstance(part, exp.Schema) else [part]
    return "drop_columns", ([_path(column, seen, scope) for column in columns],)


def _renamed(actions: list[exp.Expression], seen: Seen, scope: Scope) -> Done:
    (one,) = actions
    scope.text.only(one, "this", "to")
    return "alter_columns", ({"path": _path(one.this, seen, scope), "name": one.args["to"].name},)


def _altered(actions: list[exp.Expression], seen: Seen, scope: Scope) -> Done:
    (one,) = actions
    scope.text.only(one, "this", "dtype", "allow_null", "drop")
    change: dict[str, object] = {"path": _path(one.this, seen, scope)}
    if one.args.get("dtype") is not None:
        kind = type_of(one.args["dtype"])
        if kind is None:
            raise scope.text.fail(one, "this is not a column type:")
        change["data_type"] = kind
    elif "allow_null" in one.args:
        change["nullable"] = bool(one.args["allow_null"])
    return "alter_columns", (change,)


def _path(tree: exp.Expression, seen: Seen, scope: Scope) -> str:
    return show_path([own_column(tree, seen, scope).name])


_ACTIONS: Mapping[type, Callable[[list[exp.Expression], Seen, Scope], Done]] = {
    exp.ColumnDef: _added,
    exp.Schema: _added,
    exp.Drop: _dropped,
    exp.RenameColumn: _renamed,
    exp.AlterColumn: _altered,
}


def restore(tree: exp.Expression, scope: Scope, *, preview: bool) -> object:
    """Restore an older version and return the new version, or explain it."""
    table = tree.this
    version = table.args.get("version")
    if version is None:
        raise scope.text.fail(table, "RESTORE needs TO VERSION AS OF or TO TIMESTAMP AS OF:")
    table.set("version", None)
    handle = handle_of(table, scope)
    table.set("version", version)
    old = _at(handle, table, scope)
    if preview:
        return old.explain.restore()
    handle.restore(old.version)
    return handle.get_version()


def _at(handle: LanceDataset, table: object, scope: Scope) -> LanceDataset:
    pinned = version_of(handle, table, scope)
    if pinned.branch != handle.branch:
        raise scope.text.fail(
            table, f"this version belongs to branch {pinned.branch!r}, not to {handle.branch!r}:"
        )
    return handle.checkout_version(pinned.version)


def optimize(tree: exp.Expression, scope: Scope, *, preview: bool) -> object:
    """Compact small fragments and add rows to indices, or explain the compaction."""
    if order := tree.args.get("order"):
        hint = (
            "Write sorted rows: lk.write_dataset(lk.sql('SELECT * FROM t ORDER BY ...'), ds, "
            "mode='overwrite'). Or index a column: ds.create_scalar_index(column, 'BTREE')."
        )
        raise scope.text.fail(order[0], "OPTIMIZE does not sort rows by ZORDER BY:", hint)
    handle = handle_of(tree.this, scope)
    if preview:
        return handle.explain.compact_files()
    with tracking("optimizing"):
        found = handle.optimize.compact_files()
        handle.optimize.optimize_indices()
    return found
