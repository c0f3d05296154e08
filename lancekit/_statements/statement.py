"""Dispatch of one statement to its operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from lancekit._lazy import loaded
from lancekit._statements.dialect import (
    STATEMENTS,
    Explain,
    Optimize,
    Reference,
    Restore,
    Show,
    Vacuum,
)
from lancekit._statements.filter_syntax import limited
from lancekit._statements.queries import compile_query
from lancekit._statements.scope import Scope, Text
from lancekit._statements.select import run_query
from lancekit._statements.tables import Names, WithShards

#: the functions that run statements other than queries, by type of tree
_STATEMENTS: Mapping[type, str] = {
    exp.Update: "changes.update",
    exp.Delete: "changes.delete",
    exp.Insert: "changes.insert",
    exp.Merge: "merging.merge",
    exp.Alter: "changes.alter",
    exp.Create: "catalog.create",
    exp.Drop: "catalog.drop_table",
    Show: "catalog.show",
    Reference: "catalog.reference",
    Vacuum: "catalog.vacuum",
    Restore: "changes.restore",
    Optimize: "changes.optimize",
}


def check_preview(trees: Sequence[object], sql: str) -> None:
    """Raise if a preview has two changes: the second would depend on the first.

    Raises PredicateError: two of the statements are changes.
    """
    changes = [tree for tree in trees if not isinstance(tree, exp.Query | Show | Explain)]
    if len(changes) > 1:
        raise Text(sql, Names(), compile_query).fail(
            changes[1],
            "a preview is for a single change, but this is a second statement:",
            "Preview it after the first was applied, because it may depend on the first.",
        )


def run_statement(
    tree: exp.Expression,
    sql: str,
    names: Names,
    *,
    preview: bool,
    limit: int | None = None,
    at: int | str | None = None,
    with_shards: WithShards = False,
) -> object:
    """Run a statement, or preview it; return its result.

    limit, at: as in `run_statements`.
    with_shards: the tables that are read together with their shards.

    Raises PredicateError: the statement is not supported, or does not fit its tables.
    """
    text = Text(sql, names, compile_query, at=at, with_shards=with_shards)
    scope = Scope(text)
    if isinstance(tree, Explain):
        return _explained(tree.this, scope)
    if isinstance(tree, exp.Query):
        return run_query(limited(compile_query(tree, scope), limit), sql)  # also in a preview
    given = {
        "a limit": limit is not None,
        "a version to read": at is not None,
        "include_mem_wal": bool(with_shards),
    }
    if what := next((name for name, is_given in given.items() if is_given), None):
        hint = "Leave it out."
        if with_shards:
            hint += (
                " The statement does not change rows in write-ahead logs. To merge them first, "
                "call ds.merge_mem_wal(flush=True)."
            )
        raise text.fail(tree, f"{what} is only for queries:", hint)
    run = _STATEMENTS.get(type(tree))
    if run is None:
        raise text.fail(tree, "this statement is not supported:", STATEMENTS)
    return loaded(f"_statements.{run}")(tree, scope, preview=preview)


def _explained(tree: exp.Expression, scope: Scope) -> object:
    """Return the plan of a statement, which is not run."""
    source = tree.expression if isinstance(tree, exp.Create) else tree
    if isinstance(source, exp.Query):
        return loaded("_statements.catalog.explain_query")(source, scope)
    run = _STATEMENTS.get(type(source))
    if run is None or isinstance(source, Show):
        raise scope.text.fail(tree, "EXPLAIN needs a query or a change:", STATEMENTS)
    return loaded(f"_statements.{run}")(source, scope, preview=True)
