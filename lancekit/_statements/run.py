"""`lk.sql`: statements, one after the other, by the operations that exist."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lancekit._checked import checked
from lancekit._interrupts import active_shell
from lancekit._scan.expressions.syntax import failure
from lancekit._statements.tables import Names, WithShards
from lancekit.errors import InvalidArgumentError


@checked
def sql(
    text: str,
    /,
    *,
    params: Mapping[str, object] | None = None,
    preview: bool = False,
    include_mem_wal: bool | list[str] = False,
    **frames: object,
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
    include_mem_wal
        Have queries read each dataset at its newest version, together with the rows of its
        shards that no version has (``docs/mem-wal.md``); or the datasets of some names alone.
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
    return run_statements(text, names, preview=preview, include_mem_wal=include_mem_wal)


def notebook_names() -> Mapping[str, object]:
    """Return the variables of the notebook that this runs in, if it does."""
    shell = active_shell()
    return {} if shell is None else shell.user_ns


@checked
def run_statements(
    text: str,
    names: Names,
    *,
    preview: bool = False,
    limit: int | None = None,
    at: int | str | None = None,
    include_mem_wal: bool | list[str] = False,
) -> object:
    """Run the statements of a text; return what the last one gives.

    limit: the most rows that a query gives.
    at: the version or the tag at which queries read datasets whose version the text does not say.
    include_mem_wal: as in `sql`.

    Raises PredicateError: as `sql`; `limit`, `at` or `include_mem_wal` was given to a statement
        that is no query, or `preview` to two changes.
    Raises InvalidArgumentError: `include_mem_wal` names a table that no statement has, or was given
        with `at`.
    """
    from lancekit._statements.dialect import asked_names, parse_statements  # loads sqlglot
    from lancekit._statements.statement import check_preview, run_statement

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
    with_shards = _with_shards(include_mem_wal, asked, at)
    if preview:
        check_preview(trees, text)
    found = None
    for tree in trees:
        found = run_statement(
            tree, text, names, preview=preview, limit=limit, at=at, with_shards=with_shards
        )
    return found


def _with_shards(
    asked: bool | list[str], known: Collection[str], at: int | str | None
) -> WithShards:
    """Return the tables that queries read together with their shards."""
    if asked and at is not None:
        raise InvalidArgumentError(
            f"include_mem_wal and a version to read ({at!r}) exclude each other.",
            hint="Leave one out: rows of shards are in no version.",
        )
    if not isinstance(asked, list):
        return bool(asked)
    if unknown := [name for name in asked if name.lower() not in known]:
        raise InvalidArgumentError(
            f"include_mem_wal names {unknown[0]!r}, and the statements have no such table.",
            hint=f"Their names: {', '.join(sorted(known)) or 'none'}. True is for all tables.",
            names=unknown,
        )
    return frozenset(name.lower() for name in asked)
