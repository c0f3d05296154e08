"""SHOW, EXPLAIN, CREATE TABLE, VACUUM, and statements on branches and tags."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from lancekit._api.lance_dataset import LanceDataset, dataset, write_dataset
from lancekit._legible import count, without_secrets
from lancekit._operations.write import WriteMode
from lancekit._pipeline.engine import Choice
from lancekit._statements.dialect import STATEMENTS, is_path, spelled_tree
from lancekit._statements.literals import type_of
from lancekit._statements.queries import compile_query
from lancekit._statements.relations import constant, handle_of
from lancekit._statements.scope import Scope
from lancekit._statements.select import SqlResult, choose, leaves_of, run_query
from lancekit._statements.tables import wanted_rows
from lancekit._statements.tree import Leaf
from lancekit.errors import DatasetNotFoundError

_METADATA = Choice("local", "only metadata is read")
_LISTED: Mapping[str, Callable[[LanceDataset], object]] = {
    "BRANCHES": lambda ds: ds.branches,
    "TAGS": lambda ds: ds.tags,
    "VERSIONS": lambda ds: ds.versions(),
    "INDEXES": lambda ds: ds.indices,
    "DETAIL": lambda ds: ds,
}


def show(tree: exp.Expression, scope: Scope, *, preview: bool) -> object:
    """Return a list of SHOW or DESCRIBE: tables, columns, versions, branches, tags or indices."""
    del preview  # nothing changes
    what, sql = tree.args["what"], scope.text.sql
    if what == "TABLES":
        return _result(sql, _TABLES, [_facts(*one) for one in scope.text.names.tables()])
    if what not in _LISTED and what != "COLUMNS":
        hint = "SHOW lists TABLES, or BRANCHES, TAGS, VERSIONS, INDEXES or COLUMNS FROM a table."
        raise scope.text.fail(tree, f"SHOW {what} is not supported:", hint)
    if tree.this is None:
        raise scope.text.fail(tree, f"SHOW {what} needs a table:", f"Write SHOW {what} FROM name.")
    handle = handle_of(tree.this, scope)
    if what == "COLUMNS":
        rows = [(one.name, str(one.type), one.nullable) for one in handle.schema]
        return _result(sql, _COLUMNS, rows)
    found = _LISTED[what](handle)
    most = tree.args.get("limit")
    return found if most is None else handle.versions()[-constant(most, scope) :]


_COLUMNS = pa.schema([("column", pa.string()), ("type", pa.string()), ("nullable", pa.bool_())])
_TABLES = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("rows", pa.int64()),
        ("columns", pa.int64()),
        ("version", pa.string()),
        ("place", pa.string()),
    ]
)


def _facts(name: str, value: object) -> tuple[object, ...]:
    """Return the row of a table in SHOW TABLES; nothing is read, opened or counted for it."""
    if isinstance(value, LanceDataset):
        rows, columns = value._snapshot.manifest.num_rows, len(value.schema)
        version = f"{value.branch or 'main'}:{value.version}"
        return name, "dataset", rows, columns, version, without_secrets(value.uri)
    if isinstance(value, str | os.PathLike):
        return name, "dataset", None, None, None, without_secrets(os.fspath(value))
    package = str(type(value).__module__).partition(".")[0]
    shape = getattr(value, "shape", None)
    if isinstance(value, SqlResult):
        shape = value.num_rows, len(value.schema)
    rows, columns = shape if isinstance(shape, tuple) else (None, None)
    return name, package.removeprefix("lancekit") or "result", rows, columns, None, None


def _result(sql: str, schema: pa.Schema, rows: Sequence[Sequence[object]]) -> SqlResult:
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    table = pa.table(columns, schema=schema)
    return SqlResult(sql=sql, schema=schema, choice=_METADATA, table=table)


_READS = pa.schema(
    [
        ("table", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("filter", pa.string()),
        ("limit", pa.int64()),
        ("rows", pa.int64()),
        ("fragments", pa.string()),
        ("bytes", pa.int64()),
    ]
)


def explain_query(tree: exp.Expression, scope: Scope) -> SqlResult:
    """Return the reads of a query, one row for each table, without running it."""
    query = compile_query(tree, scope)
    choice = choose(query)
    found = _result(scope.text.sql, _READS, [_read(leaf) for leaf in leaves_of(query)])
    return replace(found, choice=choice)


def _read(leaf: Leaf) -> tuple[object, ...]:
    columns = [*leaf.used]
    told = leaf.table.explained(wanted_rows(columns, leaf.filter, leaf.limit))
    reads = None if told is None else told.reads
    return (
        leaf.table.name,
        columns,
        None if leaf.filter is None else str(leaf.filter),
        leaf.limit,
        leaf.table.rows if reads is None else reads.rows,
        None if reads is None else f"{count(reads.fragments)} of {count(reads.all_fragments)}",
        None if reads is None else reads.bytes,
    )


# ---- branches and tags


def reference(tree: exp.Expression, scope: Scope, *, preview: bool) -> object:
    """Create, move or delete a branch or a tag; return the answer of the handle's method."""
    if preview:
        raise scope.text.fail(tree, "a branch or tag has no preview:", _NO_PREVIEW)
    if tree.args.get("rest"):
        hint = "Branches and tags stay until DROP BRANCH or DROP TAG."
        raise scope.text.fail(tree.args["rest"], "a branch or tag has no further settings:", hint)
    handle = handle_of(tree.this, scope)
    action, name = tree.args["action"], tree.args["name"]
    owner = handle.tags if tree.args["what"] == "TAG" else handle.branches
    known = name in owner.names()
    if action == "DROP":
        return owner if tree.args["if"] and not known else owner.delete(name)
    source = _source(tree, scope)
    if known and tree.args["if"]:
        return owner
    if tree.args["what"] == "BRANCH":
        if action == "REPLACE":
            raise scope.text.fail(
                tree, "a branch cannot be replaced:", "DROP BRANCH, then CREATE BRANCH."
            )
        return handle.create_branch(name, source)
    if action == "REPLACE" and known:
        return handle.tags.update(name, source)
    return handle.tags.create(name, source)


_NO_PREVIEW = "Leave the preview out: it changes no rows."


def _source(tree: exp.Expression, scope: Scope) -> int | str | tuple[str | None, int | None] | None:
    """Return the version, tag or branch at which a reference begins; ``None`` without one."""
    branch, version, tag = (tree.args.get(part) for part in ("branch", "version", "tag"))
    at = None if version is None else constant(version, scope)
    if branch is not None:
        return branch, at
    return tag if tag is not None else at


# ---- VACUUM and CREATE TABLE


def vacuum(tree: exp.Expression, scope: Scope, *, preview: bool) -> object:
    """Remove old versions, or explain it."""
    if tree.args.get("rest"):
        hint = (
            "ds.cleanup_old_versions takes older_than, retain_versions, versions, "
            "delete_unverified and error_if_tagged_old_versions."
        )
        raise scope.text.fail(tree.args["rest"], "VACUUM takes RETAIN n HOURS and DRY RUN:", hint)
    handle, hours = handle_of(tree.this, scope), tree.args.get("hours")
    after = None if hours is None else timedelta(hours=float(constant(hours, scope)))
    owner = handle.explain if preview or tree.args.get("dry") else handle
    return owner.cleanup_old_versions(after)


def create(tree: exp.Expression, scope: Scope, *, preview: bool) -> LanceDataset:
    """Create a dataset at a path from the rows of a query, or with columns and no rows."""
    scope.text.only(tree, "this", "kind", "replace", "expression", "exists", "properties", "with_")
    if tree.args["kind"] != "TABLE":
        kind = tree.args["kind"]
        hint = _CREATED.get(kind, STATEMENTS)
        raise scope.text.fail(tree, f"CREATE {kind} is not supported:", hint)
    whole = tree.this if isinstance(tree.this, exp.Schema) else None
    table = tree.this if whole is None else whole.this
    if preview:
        raise scope.text.fail(table, "a new table has no preview:", "EXPLAIN shows its query.")
    if not is_path(table):
        hint = f"Write a path in quotes: CREATE TABLE '{table.name}.lance' AS SELECT ..."
        raise scope.text.fail(table, "a new table needs a place:", hint)
    given = tree.args.get("properties")
    for one in [] if given is None else given.expressions:
        if not isinstance(one, exp.FileFormatProperty) or one.name.lower() != "lance":
            raise scope.text.fail(table, f"{spelled_tree(one)} is not supported here:", _SETTINGS)
    source = tree.expression
    mode: WriteMode = "overwrite" if tree.args.get("replace") else "create"
    if (whole is None) == (source is None):
        hint = "Write CREATE TABLE 'path' AS SELECT ..., or CREATE TABLE 'path' (name type, ...)."
        raise scope.text.fail(table, "a new table needs a query or columns:", hint)
    if tree.args.get("exists") and (found := _existing(table.name)) is not None:
        return found
    if whole is not None:
        fields = [_field(one, scope) for one in whole.expressions]
        return write_dataset(pa.schema(fields).empty_table(), table.name, mode=mode)
    if tree.args.get("with_") is not None:
        source.set("with_", tree.args["with_"])
    rows = run_query(compile_query(source, scope), scope.text.sql)
    return write_dataset(rows if rows.frame is None else rows.frame, table.name, mode=mode)


_CREATED = {
    "INDEX": "Use ds.create_scalar_index('id', 'BTREE').",
    "VIEW": "Use lk.register('name', lk.sql(...)), or CREATE TABLE 'path' AS SELECT ...",
}
_DROPPED = {
    "TABLE": "lk.LanceDataset.drop(path) deletes a dataset with all its versions.",
    "INDEX": "Use ds.drop_index('name').",
}
_SETTINGS = "Settings are arguments of lk.write_dataset(lk.sql(...), path)."


def _existing(path: str) -> LanceDataset | None:
    try:
        return dataset(path)
    except DatasetNotFoundError:
        return None


def _field(one: exp.Expression, scope: Scope) -> pa.Field:
    scope.text.only(one, "this", "kind", "constraints")
    kind = type_of(one.args["kind"]) if one.args.get("kind") is not None else None
    rules = [rule.kind for rule in one.args.get("constraints") or ()]
    known = all(isinstance(rule, exp.NotNullColumnConstraint) for rule in rules)
    if kind is None or not known:
        hint = "A column has a name, a type that a cast supports, and perhaps NOT NULL."
        raise scope.text.fail(one, f"column {one.name!r} cannot be created:", hint)
    return pa.field(one.name, kind, nullable=not rules)


def drop_table(tree: exp.Expression, scope: Scope, *, preview: bool) -> NoReturn:
    """Raise: no statement deletes a dataset."""
    del preview
    kind = tree.args.get("kind")
    hint = _DROPPED.get(str(kind), STATEMENTS)
    raise scope.text.fail(tree, f"DROP {kind} is not supported:", hint)
