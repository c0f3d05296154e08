"""`lk.sql`: run SQL statements in order."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from types import FrameType
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
    """Run SQL statements over datasets, frames and paths; return the result of the last one.

    A query runs in this process (DuckDB) or on Spark, depending on the place and size of its
    tables.  Both engines give the same result.  A statement that changes a dataset runs as the
    operation of its handle, with the same result, retries and conflicts.  See the page on SQL.

    Parameters
    ----------
    text
        Statements, separated by semicolons.  Tables are names, or paths in quotes.  They can be
        followed by ``@branch``, ``VERSION AS OF`` a version or a tag, ``TIMESTAMP AS OF`` a time.
    params
        Values for ``$name``.  They are bound, not inserted into the text.
    preview
        Return a plan of the change instead of changing anything.  At most one statement may be a
        change.
    include_mem_wal
        True to read each dataset at its newest version, together with the rows of its shards that
        are in no version (``docs/mem-wal.md``).  A list names the datasets to read in this way.
    **frames
        Tables by name: handles, paths, pandas, Polars, Arrow or Spark frames.  Or values for
        ``$name``.  Other names are variables of the caller or of the notebook, then names of
        `register`.

    Returns
    -------
    SqlResult
        For a query.  Other statements return the result of the operation: a `MergeResult`, an
        `UpdateResult`, a `DeleteResult`, the new `Version`, ...  Previews return a `MergePlan` or
        an `Explanation`.

    Raises
    ------
    PredicateError
        The text does not parse, or would not have the same result on both engines; ``context``
        has the position.
    InvalidArgumentError
        The text has no table or parameter for a given name, or for a name in ``include_mem_wal``.
    EngineError
        A value cannot be computed.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1, 2, 3]}, "memory://statements-example")
    >>> lk.sql("SELECT id FROM ds WHERE id > $least", ds=ds, least=2).to_table().to_pylist()
    [{'id': 3}]
    """
    names = Names({**frames, **(params or {})}, _variables())
    return run_statements(text, names, preview=preview, include_mem_wal=include_mem_wal)


def _variables() -> Mapping[str, object]:
    """Return the variables of the calling function, of its module, and of the running notebook."""
    frame, shell = inspect.currentframe(), active_shell()
    while frame is not None and f"{frame.f_globals.get('__name__')}.".startswith("lancekit."):
        frame = frame.f_back
    module, own = {} if frame is None else frame.f_globals, dict[str, object]()
    while frame is not None:
        own = {**frame.f_locals, **own}
        frame = _around(frame)
    return {**({} if shell is None else shell.user_ns), **module, **own}


def _around(frame: FrameType) -> FrameType | None:
    """Return the frame of the function around a comprehension; ``None`` for other frames."""
    nested = frame.f_code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
    found = frame.f_back if nested else None
    # a generator may run anywhere: the function around it has its code as a constant
    while found is not None and all(one is not frame.f_code for one in found.f_code.co_consts):
        found = found.f_back
    return found


@checked
def run_statements(
    text: str,
    names: Names,
    *,
    preview: bool = False,
    limit: int | None = None,
    at: int | str | None = None,
    include_mem_wal: bool | list[str] = False,
    tell: Callable[[object], object] | None = None,
) -> object:
    """Run the statements of a text; return the result of the last one.

    limit: the maximal number of result rows of a query.
    at: the version or tag of datasets without a version in the text.
    include_mem_wal: as in `sql`.
    tell: called with the result of each statement but the last one, as soon as it has run.

    Raises PredicateError: as `sql`.  Also if `limit`, `at` or `include_mem_wal` is given with a
        statement that is not a query, or `preview` with two changes.
    Raises InvalidArgumentError: no statement has a given name or a table of `include_mem_wal`, or
        that is given with `at`.
    """
    from lancekit._statements.dialect import parse_statements, referenced_names  # loads sqlglot
    from lancekit._statements.statement import check_preview, run_statement

    trees = parse_statements(text)
    if not trees:
        raise failure(text, "the text has no statement:", 0)
    requested = frozenset().union(*map(referenced_names, trees))
    if any(tree.args.get("what") == "TABLES" for tree in trees):
        requested |= {name.lower() for name in names.given}  # SHOW TABLES lists them
    if unused := sorted(name for name in names.given if name.lower() not in requested):
        raise InvalidArgumentError(
            f"Unused parameter: {', '.join(unused)}. The statements have no table or $parameter "
            "of that name.",
            names=unused,
        )
    with_shards = _with_shards(include_mem_wal, requested, at)
    if preview:
        check_preview(trees, text)
    found = None
    for place, tree in enumerate(trees):
        if place and tell is not None:
            tell(found)
        found = run_statement(
            tree, text, names, preview=preview, limit=limit, at=at, with_shards=with_shards
        )
    return found


def _with_shards(
    requested: bool | list[str], known: Collection[str], at: int | str | None
) -> WithShards:
    """Return which tables queries read together with their shards, from ``include_mem_wal``."""
    if requested and at is not None:
        raise InvalidArgumentError(
            f"include_mem_wal and a version to read ({at!r}) exclude each other.",
            hint="Leave one out: rows of shards are in no version.",
        )
    if not isinstance(requested, list):
        return bool(requested)
    if unknown := [name for name in requested if name.lower() not in known]:
        raise InvalidArgumentError(
            f"include_mem_wal contains {unknown[0]!r}, but the statements have no such table.",
            hint=f"Their tables are {', '.join(sorted(known)) or 'none'}. True selects all tables.",
            names=unknown,
        )
    return frozenset(name.lower() for name in requested)
