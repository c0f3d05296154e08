"""One statement: which operation it is."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from lancekit.statements.queries import compile_query
from lancekit.statements.scope import Scope, Text
from lancekit.statements.select import run_query
from lancekit.statements.tables import Names

__all__ = ["run_statement"]


def run_statement(tree: Any, sql: str, names: Names, *, preview: bool) -> Any:
    """Run a statement, or tell what it would do; return its result.

    Raises
    ------
    PredicateError
        There is no such statement, or it does not fit its tables.
    """
    text = Text(sql, names, compile_query)
    scope = Scope(text)
    if isinstance(tree, exp.Query):
        del preview  # a query changes nothing
        return run_query(compile_query(tree, scope), sql)
    raise text.fail(tree, "there is no such statement:")
