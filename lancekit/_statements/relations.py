"""Resolution of table references: a name or a path, with a branch, a version or a time."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from lancekit._api.lance_dataset import LanceDataset, dataset
from lancekit._checked import is_whole
from lancekit._statements.dialect import branch_of, is_path
from lancekit._statements.expressions import compile_expression, parameter
from lancekit._statements.literals import coerce, is_constant, number, retyped
from lancekit._statements.scope import Scope
from lancekit._statements.tables import Table
from lancekit._statements.tree import Expr
from lancekit.errors import InvalidTypeError

if TYPE_CHECKING:
    import os

    from lancekit._operations.mem_wal.reader.sources import ReadSet

_NO_DATASET = "lk.write_dataset(rows, place) makes a dataset of rows."
_HINT = "Write a number, a tag in quotes, or TIMESTAMP AS OF '2026-03-01 12:00:00+00:00'."


def table_of(tree: exp.Expression, scope: Scope) -> Table:
    """Return the table of a reference, at its branch and version.

    Raises PredicateError: the name is unknown, or the table has no versions.
    Raises DatasetNotFoundError, VersionNotFoundError, TagNotFoundError, BranchNotFoundError: the
        place, version, tag or branch does not exist.
    """
    scope.text.only(tree, "this", "db", "catalog", "alias", "version")
    source = _source(tree, scope)
    at = scope.text.at if isinstance(source, LanceDataset) else None
    with_shards = scope.text.reads_shards(tree.name)
    if with_shards and tree.args.get("version") is not None:
        raise scope.text.fail(
            tree,
            "a version has no rows of shards, but include_mem_wal requests them:",
            "List the tables to read with their shards: include_mem_wal=['a table'].",
        )
    if at is not None or branch_of(tree) is not None or tree.args.get("version") is not None:
        if not isinstance(source, LanceDataset):
            raise scope.text.fail(tree, f"{tree.name!r} is not a dataset, so it has no versions:")
        source = version_of(source, tree, scope)
    if with_shards and isinstance(source, LanceDataset):
        return Table.with_shards(tree.name, source, _read_set(source, scope))
    try:
        return Table.of(tree.name or tree.this.name, source)
    except InvalidTypeError as error:
        raise scope.text.fail(tree, f"{tree.name!r} has no rows: {error.message}") from error


def _read_set(source: LanceDataset, scope: Scope) -> ReadSet:
    """Return the newest version of a dataset with the rows of its shards, cached by statement."""
    from lancekit._operations.mem_wal.reader.sources import newest_read_set

    source._check_shards()
    known = scope.text.read_sets
    place = source._location.store.uri
    if place not in known:
        known[place] = newest_read_set(source._location)
    return known[place]


def handle_of(tree: exp.Expression, scope: Scope) -> LanceDataset:
    """Return the handle of a dataset to change; a handle in a variable moves to the new version.

    Raises PredicateError: the table is no dataset, or has a fixed version.
    """
    scope.text.only(tree, "this", "db", "catalog", "alias")
    source = _source(tree, scope)
    if not isinstance(source, LanceDataset):
        raise scope.text.fail(tree, f"{tree.name!r} is not a dataset:", _NO_DATASET)
    branch = branch_of(tree)
    return source if branch is None else source.checkout_version((branch, None))


def version_of(source: LanceDataset, tree: exp.Expression, scope: Scope) -> LanceDataset:
    """Return a handle at the branch and version of a table reference."""
    branch, version = branch_of(tree), tree.args.get("version")
    if branch is not None:
        source = source.checkout_version((branch, None))
    if version is None:
        return source if scope.text.at is None else source.at(scope.text.at)
    value = constant(version.expression, scope)
    if str(version.this).upper() == "TIMESTAMP":
        if not isinstance(value, str | dt.datetime | dt.timedelta):
            raise scope.text.fail(version, "TIMESTAMP AS OF needs a time:", _HINT)
        return source.at(asof=value)
    if isinstance(value, str) or (is_whole(value) and value >= 0):
        return source.at(value)
    raise scope.text.fail(version, "VERSION AS OF needs a version or a tag:", _HINT)


def constant(tree: exp.Expression, scope: Scope) -> Any:
    """Return the value of a number, a text or a parameter."""
    if isinstance(tree, exp.Parameter):
        return parameter(tree, scope)
    if isinstance(tree, exp.Literal):
        return tree.this if tree.is_string else number(tree.this)
    raise scope.text.fail(tree, "this is not a version:", _HINT)


def _source(tree: exp.Expression, scope: Scope) -> object:
    """Return the object that a table name stands for; a path is opened."""
    names = scope.text.names
    if is_path(tree):
        return dataset(tree.name)
    if not isinstance(tree.this, exp.Identifier):
        if tree.this.name.lower() == "table_changes":
            return _table_changes(tree.this, scope)
        raise scope.text.fail(tree, "table functions are not supported:")
    if tree.args.get("db"):
        raise scope.text.fail(
            tree, "a name with a dot is not a table:", "Put paths in quotes, names in backticks."
        )
    found = names.find(tree.name)
    if found is None:
        known = names.known()
        hint = (
            "Only variables of the calling function are found: in a lambda or a thread, pass the "
            "table by name, lk.sql(text, name=...). Or use lk.register, or put a path in quotes."
        )
        more = f" There is {', '.join(known[:10])}." if known else ""
        if "pyspark" in sys.modules:
            more += f" Pass a view of Spark as a frame: {tree.name}=spark.table({tree.name!r})."
        raise scope.text.fail(tree, f"there is no table {tree.name!r}:", hint + more)
    return found if not _is_place(found) else dataset(found)


def _table_changes(tree: exp.Expression, scope: Scope) -> pa.Table:
    """Return the rows that versions changed, as Delta's ``table_changes(name, first [, last])``."""
    hint = "Write table_changes('name', first, last), or pass ds.changes(since).to_table()."
    name, *given = tree.expressions
    bounds = [constant(one, scope) for one in given]
    if not (1 <= len(bounds) <= 2 and all(map(is_whole, bounds)) and bounds[0] > 1):
        raise scope.text.fail(tree, "table_changes needs numbers of versions from 2 on:", hint)
    found = scope.text.names.find(name.name)
    if found is None or _is_place(found):
        found = dataset(name.name if found is None else found)
    if not isinstance(found, LanceDataset):
        raise scope.text.fail(tree, f"{name.name!r} is not a dataset:", hint)
    return found.changes(bounds[0] - 1, *bounds[1:]).to_table(names="delta")


def _is_place(value: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(value, str) or hasattr(value, "__fspath__")


def _array(values: Sequence[Expr]) -> pa.Array:
    """Return constants of one type as an array; exact decimals become floats here."""
    kind = values[0].kind
    plain = [one.value for one in values]
    if pt.is_floating(kind):
        plain = [None if value is None else float(value) for value in plain]
    return pa.array(plain, kind)


def rows_of(
    tree: exp.Expression, scope: Scope, names: Sequence[str] = (), kinds: Sequence[pa.DataType] = ()
) -> Table:
    """Return the constant rows of VALUES as a table.

    kinds: the column types to use if all values fit.

    Raises PredicateError: a value is no constant, or rows have different lengths.
    """
    scope.text.only(tree, "expressions", "alias")
    rows = [one.expressions if isinstance(one, exp.Tuple) else [one] for one in tree.expressions]
    width = len(rows[0])
    names = names or [f"col{at + 1}" for at in range(width)]
    if len(names) != width:
        many = f"VALUES has {width}, but there are {len(names)} columns:"
        raise scope.text.fail(tree, many)
    if any(len(row) != width for row in rows):
        raise scope.text.fail(tree, "the rows of VALUES have different numbers of columns:")
    columns = list[pa.Array]()
    for at in range(width):
        values = [compile_expression(row[at], scope) for row in rows]
        for value in values:
            if not is_constant(value):
                raise scope.text.fail(value, "VALUES takes constants:", "Use SELECT ... instead.")
        given = [retyped(value, kinds[at]) for value in values] if kinds else []
        coerced = [one for one in given if one is not None]
        if len(coerced) < len(values):
            coerced = coerce(values, "VALUES", tree, scope)
        columns.append(_array(coerced))
    return Table.of("values", pa.table(columns, names=list(names)))
