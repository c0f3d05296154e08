"""ALTER TABLE, RESTORE, OPTIMIZE, DESCRIBE HISTORY: the operations of a handle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lancekit._api.lance_dataset import LanceDataset
from lancekit._format.paths import show_path
from lancekit._statements.casts import type_of
from lancekit._statements.changes import own_column, target_of
from lancekit._statements.relations import handle_of, version_of
from lancekit._statements.scope import Scope, Seen

__all__ = ["alter", "history", "optimize", "restore"]

Done = tuple[str, tuple[Any, ...]]


def alter(tree: exp.Expression, scope: Scope, *, preview: bool) -> Any:
    """Add, drop, rename or change columns, which gives the new version, or explain that."""
    scope.text.only(tree, "this", "kind", "actions")
    handle, seen = target_of(tree.this, scope)
    actions = tree.args["actions"]
    kinds = {type(one) for one in actions}
    if len(kinds) > 1 or (len(actions) > 1 and kinds != {exp.ColumnDef}):
        raise scope.text.fail(actions[1], "one statement makes one change of columns:")
    rule = _ACTIONS.get(type(actions[0]))
    if rule is None:
        raise scope.text.fail(actions[0], "this is no change of columns:")
    method, args = rule(actions, seen, scope)
    found = getattr(handle.explain if preview else handle, method)(*args)
    return found if preview else handle.get_version()


def _added(actions: list[Any], _seen: Seen, scope: Scope) -> Done:
    columns = actions[0].expressions if isinstance(actions[0], exp.Schema) else actions
    fields = list[pa.Field]()
    for one in columns:
        scope.text.only(one, "this", "kind")
        kind = type_of(one.args["kind"]) if one.args.get("kind") is not None else None
        if kind is None:
            raise scope.text.fail(one, f"column {one.name!r} needs a type that a cast has:")
        fields.append(pa.field(one.name, kind))
    return "add_columns", (pa.schema(fields),)


def _dropped(actions: list[Any], seen: Seen, scope: Scope) -> Done:
    (one,) = actions
    scope.text.only(one, "kind", "tables")
    if one.args.get("kind") not in ("COLUMN", "COLUMNS"):
        raise scope.text.fail(one, "ALTER TABLE drops columns:")
    columns = list[Any]()
    for part in one.args["tables"]:
        columns += part.expressions if isinstance(part, exp.Schema) else [part]
    return "drop_columns", ([_path(column, seen, scope) for column in columns],)


def _renamed(actions: list[Any], seen: Seen, scope: Scope) -> Done:
    (one,) = actions
    scope.text.only(one, "this", "to")
    return "alter_columns", ({"path": _path(one.this, seen, scope), "name": one.args["to"].name},)


def _altered(actions: list[Any], seen: Seen, scope: Scope) -> Done:
    (one,) = actions
    scope.text.only(one, "this", "dtype", "allow_null", "drop")
    change: dict[str, Any] = {"path": _path(one.this, seen, scope)}
    if one.args.get("dtype") is not None:
        kind = type_of(one.args["dtype"])
        if kind is None:
            raise scope.text.fail(one, "there is no such type of columns:")
        change["data_type"] = kind
    elif "allow_null" in one.args:
        change["nullable"] = bool(one.args["allow_null"])
    return "alter_columns", (change,)


def _path(tree: exp.Expression, seen: Seen, scope: Scope) -> str:
    return show_path([own_column(tree, seen, scope).name])


_ACTIONS: Mapping[type, Callable[[list[Any], Seen, Scope], Done]] = {
    exp.ColumnDef: _added,
    exp.Schema: _added,
    exp.Drop: _dropped,
    exp.RenameColumn: _renamed,
    exp.AlterColumn: _altered,
}


def restore(tree: exp.Expression, scope: Scope, *, preview: bool) -> Any:
    """Make an older version the newest one, which gives that, or explain it."""
    table = tree.this
    version = table.args.get("version")
    if version is None:
        raise scope.text.fail(table, "RESTORE goes TO VERSION AS OF or TO TIMESTAMP AS OF:")
    table.set("version", None)
    handle = handle_of(table, scope)
    table.set("version", version)
    old = _at(handle, table, scope)
    if preview:
        return old.explain.restore()
    old.restore()
    handle.checkout_latest()
    return handle.get_version()


def _at(handle: LanceDataset, table: object, scope: Scope) -> LanceDataset:
    pinned = version_of(handle, table, scope)
    if pinned.branch != handle.branch:
        raise scope.text.fail(
            table, f"this version is of branch {pinned.branch!r}, and not of {handle.branch!r}:"
        )
    return handle.checkout_version(pinned.version)


def optimize(tree: exp.Expression, scope: Scope, *, preview: bool) -> Any:
    """Put small fragments together and rows into their indices, or explain the former."""
    handle = handle_of(tree.this, scope)
    if preview:
        return handle.explain.compact_files()
    found = handle.optimize.compact_files()
    handle.optimize.optimize_indices()
    return found


def history(tree: exp.Expression, scope: Scope, *, preview: bool) -> Any:
    """Return the versions of a dataset, or of a branch of it."""
    del preview  # nothing changes
    scope.text.only(tree, "this", "style")
    if str(tree.args.get("style") or "").upper() != "HISTORY":
        raise scope.text.fail(tree, "only DESCRIBE HISTORY is part of these statements:")
    return handle_of(tree.this, scope).versions()
