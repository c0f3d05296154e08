"""`lk.sql`: statements, one after the other, by the operations that exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lancekit.checked import checked
from lancekit.errors import InvalidArgumentError
from lancekit.ipython import active_shell
from lancekit.scan.expressions.error_position import failure
from lancekit.statements.tables import Names

__all__ = ["run_statements", "sql"]


@checked
def sql(
    text: str,
    /,
    *,
    params: Mapping[str, Any] | None = None,
    preview: bool = False,
    **frames: Any,
) -> Any:
    """Run SQL statements over datasets, frames and paths; return what the last one gives.

    A query runs in this process (DuckDB) or on Spark, by where its tables are and by size; both
    give the same.  Statements that change a dataset are the operations of its handle, with their
    results, retries and conflicts.  The page on SQL has what is there.

    Parameters
    ----------
    text
        Statements, divided by semicolons.  Tables are names, or paths in quotes; behind them stand
        ``@branch``, ``VERSION AS OF`` a version or a tag, ``TIMESTAMP AS OF`` a time.
    params
        Values for ``$name``; they are bound, never pasted.
    preview
        Tell what statements would change, and change nothing; one of them at most may change.
    **frames
        What names mean: handles, paths, pandas, Polars, Arrow, Spark frames; or values for
        ``$name``.  Then names of the notebook count, then those of `register`.

    Returns
    -------
    SqlResult
        Of a query.  Of other statements, what the operation returns: a `MergeResult`, an
        `UpdateResult`, a `DeleteResult`, the new `Version`, ...; of previews, a `MergePlan` or an
        `Explanation`.

    Raises
    ------
    PredicateError
        The text does not parse, or something in it cannot mean one thing on both engines;
        ``context`` has the place.
    EngineError
        A value cannot be computed.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1, 2, 3]}, "memory://statements-example")
    >>> lk.sql("SELECT id FROM ds WHERE id > $least", ds=ds, least=2).to_table().to_pylist()
    [{'id': 3}]
    """
    names = Names({**frames, **(params or {})}, notebook_names())
    return run_statements(text, names, preview=preview)


def notebook_names() -> Mapping[str, Any]:
    """Return the variables of the notebook that this runs in, if it does."""
    shell = active_shell()
    names: Mapping[str, Any] = {} if shell is None else shell.user_ns
    return names


@checked
def run_statements(
    text: str,
    names: Names,
    *,
    preview: bool = False,
    limit: int | None = None,
    at: int | str | None = None,
) -> Any:
    """Run the statements of a text; return what the last one gives.

    Parameters
    ----------
    limit
        The most rows that a query gives.
    at
        The version or the tag at which queries read datasets whose version the text does not say.

    Raises
    ------
    PredicateError
        As `sql`; `limit` or `at` was given to what is no query, or `preview` to two changes.
    """
    from lancekit.statements.dialect import asked_names, parse_statements  # loads sqlglot
    from lancekit.statements.statement import check_preview, run_statement

    trees = parse_statements(text)
    if not trees:
        raise failure(text, "here is no statement:", 0)
    asked = frozenset().union(*map(asked_names, trees))
    if unused := sorted(name for name in names.given if name.lower() not in asked):
        raise InvalidArgumentError(
            f"No statement asks for {', '.join(unused)}.",
            hint="Tables go by their names, parameters by $name.",
            names=unused,
        )
    if preview:
        check_preview(trees, text)
    found = None
    for tree in trees:
        found = run_statement(tree, text, names, preview=preview, limit=limit, at=at)
    return found
