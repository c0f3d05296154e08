"""Tab completion after ``%lance`` and in SQL cells: subcommands, tables, columns, references."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lancekit._api.lance_dataset import LanceDataset
from lancekit._notebook.magics import FLAGS, SUBCOMMANDS
from lancekit._notebook.offers import (
    BRANCHES,
    COLUMNS,
    MOST,
    REFS,
    TAGS,
    VERSIONS,
    Completions,
    cached_listing,
    identifier,
    offer,
    sql_columns,
)
from lancekit._scan.expressions.syntax_text import quoted
from lancekit._statements.select import SqlResult
from lancekit._statements.tables import Names, is_frame

_WORD = re.compile(r"[\w./-]*\Z")
_NAME = re.compile(r"[^\W\d]\w*\Z")
_TABLE = r"(?:([^\W\d]\w*)|`([^`]+)`)"
_AT_BRANCH = re.compile(_TABLE + r"@(`[^`]*|[\w.-]*)\Z")
_AT_VERSION = re.compile(
    _TABLE + r"(@\S+)?\s+(?:TO\s+)?(?:FOR\s+)?VERSION\s+AS\s+OF\s+('?)([\w./-]*)\Z", re.IGNORECASE
)
_AFTER_TABLE = re.compile(
    r"\b(from|show\s+\w+\s+in|join|into|update|using|table|history|describe|restore|optimize|vacuum)\s+[^\s(]*\Z",
    re.IGNORECASE,
)


def complete_magic(
    rest: str, variables: Mapping[str, object], after: str, *, cell: bool
) -> Completions | None:
    """Return the completions after ``%lance`` or ``%%lance``; `after` follows the cursor."""
    if cell:
        line, newline, sql = rest.partition("\n")
        if newline:
            return _in_sql_cell(sql, variables, after)
        return offer(line.rpartition(" ")[2], FLAGS, '"', "flag", quoted=True)
    word, blank, arguments = rest.lstrip().partition(" ")
    if not blank:
        return offer(word, SUBCOMMANDS, '"', "word") if rest[:1] == " " else None
    if word not in SUBCOMMANDS:
        return _in_sql_cell(rest, variables, after)
    name, blank, more = arguments.lstrip().partition(" ")
    handle = Names({}, variables).find(name.partition("@")[0])
    if not blank:
        _, at, typed = name.partition("@")
        if at and isinstance(handle, LanceDataset):
            return offer(typed, cached_listing(handle, BRANCHES), "'", BRANCHES)
        return offer(name, Names({}, variables).known(), "'", "table")
    if not isinstance(handle, LanceDataset):
        return None
    if word == "diff":
        return offer(more.rpartition(" ")[2], cached_listing(handle, TAGS), "'", TAGS)
    if word not in ("blame", "explain"):
        return None
    return offer(identifier(more), sql_columns(handle), "'", COLUMNS)


def _in_sql_cell(sql: str, variables: Mapping[str, object], after: str) -> Completions | None:
    """Return branches, tags, tables, or the columns of the tables that the statement names."""
    names = Names({}, variables)
    if at := _AT_BRANCH.search(sql):
        branches = _listing_of(names.find(at[1] or at[2]), BRANCHES)
        matching = [name for name in branches if name.startswith(at[3].strip("`"))]
        return offer(at[3], map(_quoted, matching), "\0", BRANCHES, anywhere=True)
    if at := _AT_VERSION.search(sql):
        return _versions(at, names.find(at[1] or at[2]))
    found = _WORD.search(sql)
    fragment = (found[0] if found else "").rpartition(".")[2]
    if sql.count("`") % 2:  # inside of an open backtick
        fragment = sql[sql.rindex("`") :]
    known = sorted({*names.known(), *(name for name, _ in names.tables())})
    if _AFTER_TABLE.search(sql):
        return offer(fragment, known, "\0", "table")
    words = {word.lower() for word in re.findall(r"\w+", sql + " " + after.partition(";")[0])}
    tables = [names.find(name) for name in known if name.lower() in words]
    columns = dict.fromkeys(column for table in tables for column in _columns_of(table))
    return offer(fragment, [*columns, *known], "\0", COLUMNS)


def _listing_of(handle: object, what: str) -> list[Any]:
    return cached_listing(handle, what) if isinstance(handle, LanceDataset) else []


def _versions(at: re.Match[str], handle: object) -> Completions | None:
    """Return tags inside a quote; without a quote the versions of the handle's branch, and tags."""
    branch, quote, typed = at.groups()[2:]
    tags = _listing_of(handle, TAGS)
    if quote:
        return offer(typed, tags, quote, TAGS)
    numbers = [] if branch else [str(n) for n in reversed(_listing_of(handle, VERSIONS))]
    quoted = [f"'{tag}'" for tag in tags] if not typed else []
    return offer(typed, [*numbers[:20], *quoted], quote or "\0", REFS, quoted=True)


def _columns_of(table: Any) -> Iterable[str]:
    """Return column names in SQL spelling; none for Spark frames, which could need a request."""
    if isinstance(table, LanceDataset):
        return sql_columns(table)
    if isinstance(table, SqlResult):
        return map(_quoted, table.schema.names)
    package = str(type(table).__module__).partition(".")[0]
    if not is_frame(table) or package == "pyspark":
        return ()
    names = table.column_names if package == "pyarrow" else table.columns
    return (_quoted(name) for name in list(names[:MOST]) if isinstance(name, str))


def _quoted(name: str) -> str:
    """Return a plain name unchanged and any other in backticks; a dot is part of the name."""
    return name if _NAME.match(name) else quoted(name)
