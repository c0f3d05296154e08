"""Tab behind `%lance` and in cells of SQL: words, tables, columns, tags, versions and branches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lancekit.api.lance_dataset import LanceDataset
from lancekit.notebook.magics import FLAGS, WORDS
from lancekit.notebook.offers import (
    BRANCHES,
    COLUMNS,
    MOST,
    REFS,
    TAGS,
    VERSIONS,
    Found,
    identifier,
    listed,
    offer,
    sql_columns,
)
from lancekit.scan.expressions.syntax_text import quoted
from lancekit.statements.results import SqlResult
from lancekit.statements.tables import Names

__all__ = ["complete_magic"]

_WORD = re.compile(r"[\w./-]*\Z")
_NAME = re.compile(r"[^\W\d]\w*\Z")
_TABLE = r"(?:([^\W\d]\w*)|`([^`]+)`)"
_AT_BRANCH = re.compile(_TABLE + r"@(`[^`]*|[\w.-]*)\Z")
_AT_VERSION = re.compile(
    _TABLE + r"(@\S+)?\s+(?:TO\s+)?(?:FOR\s+)?VERSION\s+AS\s+OF\s+('?)([\w./-]*)\Z", re.IGNORECASE
)
_AFTER_TABLE = re.compile(
    r"\b(from|join|into|update|using|table|history|describe|restore|optimize)\s+[^\s(]*\Z",
    re.IGNORECASE,
)
#: frames whose columns are in this process, by their packages
_FRAMES = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "Table"}


def complete_magic(
    rest: str, variables: Mapping[str, Any], behind: str, *, cell: bool
) -> Found | None:
    """Return what may follow a text behind ``%lance`` or ``%%lance``, and before `behind`."""
    if cell:
        line, newline, sql = rest.partition("\n")
        if newline:
            return _in_sql_cell(sql, variables, behind)
        return offer(line.rpartition(" ")[2], FLAGS, '"', "flag", quoted=True)
    word, blank, arguments = rest.lstrip().partition(" ")
    if not blank:
        return offer(word, WORDS, '"', "word") if rest[:1] == " " else None
    if word not in WORDS:
        return _in_sql_cell(rest, variables, behind)
    name, blank, more = arguments.lstrip().partition(" ")
    handle = Names({}, variables).find(name.partition("@")[0])
    if not blank:
        _, at, typed = name.partition("@")
        if at and isinstance(handle, LanceDataset):
            return offer(typed, listed(handle, BRANCHES), "'", BRANCHES)
        return offer(name, Names({}, variables).known(), "'", "table")
    if not isinstance(handle, LanceDataset):
        return None
    if word == "diff":
        return offer(more.rpartition(" ")[2], listed(handle, TAGS), "'", TAGS)
    if word not in ("blame", "explain"):
        return None
    return offer(identifier(more), sql_columns(handle), "'", COLUMNS)


def _in_sql_cell(sql: str, variables: Mapping[str, Any], behind: str) -> Found | None:
    """Return branches, tags, tables, or the columns of those that the statement names."""
    names = Names({}, variables)
    if at := _AT_BRANCH.search(sql):
        branches = _listed_of(names.find(at[1] or at[2]), BRANCHES)
        alike = [name for name in branches if name.startswith(at[3].strip("`"))]
        return offer(at[3], map(_quoted, alike), "\0", BRANCHES, anywhere=True)
    if at := _AT_VERSION.search(sql):
        return _versions(at, names.find(at[1] or at[2]))
    found = _WORD.search(sql)
    fragment = (found[0] if found else "").rpartition(".")[2]
    if sql.count("`") % 2:  # inside of one that is open
        fragment = sql[sql.rindex("`") :]
    frames = (name for name, value in list(variables.items()) if _is_frame(name, value))
    known = sorted({*names.known(), *frames})
    if _AFTER_TABLE.search(sql):
        return offer(fragment, known, "\0", "table")
    said = {word.lower() for word in re.findall(r"\w+", sql + " " + behind.partition(";")[0])}
    tables = [names.find(name) for name in known if name.lower() in said]
    columns = dict.fromkeys(column for table in tables for column in _columns_of(table))
    return offer(fragment, [*columns, *known], "\0", COLUMNS)


def _listed_of(handle: Any, what: str) -> list[Any]:
    return listed(handle, what) if isinstance(handle, LanceDataset) else []


def _versions(at: re.Match[str], handle: Any) -> Found | None:
    """Return the tags in a quote; else the versions, of the branch that is held, and tags."""
    branch, quote, typed = at.groups()[2:]
    tags = _listed_of(handle, TAGS)
    if quote:
        return offer(typed, tags, quote, TAGS)
    numbers = [] if branch else [str(n) for n in reversed(_listed_of(handle, VERSIONS))]
    quoted = [f"'{tag}'" for tag in tags] if not typed else []
    return offer(typed, [*numbers[:20], *quoted], quote or "\0", REFS, quoted=True)


def _is_frame(name: str, value: Any) -> bool:
    """Tell whether a variable of the user's is a frame that statements take for a table."""
    package = _package(value)
    shown = not name.startswith("_")  # what a shell keeps of earlier cells
    is_frame = type(value).__name__ == _FRAMES.get(package, "DataFrame" * (package == "pyspark"))
    return shown and (is_frame or isinstance(value, SqlResult))


def _columns_of(table: Any) -> Iterable[str]:
    """Return columns as SQL has them; those of Spark's frames, which may have to ask, are not."""
    if isinstance(table, LanceDataset):
        return sql_columns(table)
    if isinstance(table, SqlResult):
        return map(_quoted, table.schema.names)
    package = _package(table)
    if package not in _FRAMES:
        return ()
    names = table.column_names if package == "pyarrow" else table.columns
    return (_quoted(name) for name in list(names[:MOST]) if isinstance(name, str))


def _package(value: Any) -> str:
    return str(type(value).__module__).partition(".")[0]


def _quoted(name: str) -> str:
    """Return a name as it is, if it can stand so, or in backticks; a point is a part of it."""
    return name if _NAME.match(name) else quoted(name)
