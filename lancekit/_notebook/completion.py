"""Tab completion of columns, tags, branches, versions and indices in strings, calls and brackets.

`complete` uses the text before the cursor and the handles among the user's variables.  It evaluates
no code and reads no data.  Columns and indices come from the handle's version.  A thread lists
references, and completion waits for it only a moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancekit._api.lance_dataset import LanceDataset
from lancekit._interrupts import Shell
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
    columns,
    identifier,
    offer,
    sql_columns,
)
from lancekit._scan.expressions.syntax_text import quoted
from lancekit._statements.select import SqlResult
from lancekit._statements.tables import Names

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext, SimpleMatcherResult

__all__ = ["Completions", "complete", "register", "unregister"]

#: limits of a scan from the cursor back: characters, open brackets, characters of a callee
_TEXT, _DEPTH, _CALL = 20_000, 10, 1000

# further kinds of completion
SQL, SIDES, INDICES = "sql", "sides", "indices"

#: kind of an argument by its name, for any method
_BY_NAME = {
    **dict.fromkeys(
        ("columns", "column", "on", "read_columns", "primary_key", "dedupe_by"), COLUMNS
    ),
    **dict.fromkeys(("filter", "where", "predicate", "condition", "expr"), SQL),
    **dict.fromkeys(("version", "old", "new", "reference", "ref", "against"), REFS),
    **dict.fromkeys(("index_names", "index_name"), INDICES),
    "tag": TAGS,
    "branch": BRANCHES,
}
#: kind of a method's first argument
_FIRST = {
    **dict.fromkeys(
        ("checkout_version", "at", "diff", "changes", "delta", "explore", "plot.columns"), REFS
    ),
    **dict.fromkeys(("delete", "count_rows", "blame", "bisect", "row_history", "filter"), SQL),
    **dict.fromkeys(("merge_insert", "drop_columns", "column_history", "columns"), COLUMNS),
    **dict.fromkeys(("to_table", "to_batches", "to_pandas", "scanner"), COLUMNS),
    **dict.fromkeys(("create_scalar_index", "create_index", "update", "alter_columns"), COLUMNS),
    **dict.fromkeys(("drop_index", "prewarm_index", "index_statistics", "index_stats"), INDICES),
    "when_matched_update_all": SIDES,
    "when_not_matched_by_source_delete": SQL,
    **dict.fromkeys(("tags.delete", "tags.update", "tags.get_version"), TAGS),
    **dict.fromkeys(("branches.delete", "branches.compare", "branches.merge"), BRANCHES),
    **dict.fromkeys(("branches.rebase", "branches.cherry_pick"), BRANCHES),
}
#: kind of the values of a dictionary: the method's first argument, or the argument of that name
_VALUES = dict.fromkeys(("add_columns", "update", "columns"), SQL)
#: kind of a key in brackets, by the attribute of the handle; ``""`` is the handle itself
_BY_KEY = {"": COLUMNS, "indices": INDICES}
_CALLEE = re.compile(r"([^\W\d]\w*)((?:\s*\.\s*[^\W\d]\w*(?:\([^()]*\))?)*)\s*$")
_KEYWORD = re.compile(r"([^\W\d]\w*)\s*=\s*(?:[rbuf]{0,2})$")


def complete(text: str, variables: Mapping[str, object], rest: str = "") -> Completions | None:
    """Return the completions at the end of a text, or ``None``.

    text, rest: a cell's text before the cursor, and after it.
    variables: the user's variables.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"dep_delay": [1], "day": [2]}, "memory://completion-example")
    >>> complete("ds.to_table(filter='day = 1 and de", {"ds": ds}).names
    ('dep_delay',)
    """
    text = text[-_TEXT:]
    if magic := re.match(r"\s*%(%?)lance\b(.*)", text, re.DOTALL):
        return _complete_magic(magic[2], variables, rest[:_TEXT], cell=bool(magic[1]))
    place = _place(text)
    handle = variables.get(place.root) if place else None
    if place is None or not isinstance(handle, LanceDataset):
        return None
    return _of_kind(place.kind, place.text, place.quote, handle)


# ---- position of the cursor


@dataclass(frozen=True, slots=True)
class _Place:
    """The argument or key at the cursor: its root variable, kind, open quote and typed text."""

    root: str
    kind: str
    quote: str
    text: str


def _place(text: str) -> _Place | None:
    """Return the argument or key at the end of a text; ``None`` if it has no completions."""
    quote, start, opened = _scan(text)
    if not opened:
        return None
    inner = start if quote else len(text)
    typed = text[start + len(quote) :] if quote else _typed(text)
    named = ""
    tuples = 0
    valued = False
    for bracket in reversed(opened[-_DEPTH:]):
        before = text[bracket + 1 : inner]
        named = named or _keyword(before, "" if quote else typed)
        callee = _CALLEE.search(text[max(bracket - _CALL, 0) : bracket])
        if callee is None or callee[1] in {"in", "return", "and", "or", "not", "if"}:
            tuples += text[bracket] == "("
            valued = valued or (text[bracket] == "{" and before.rstrip().endswith(":"))
            inner = bracket
            continue
        methods = re.findall(r"\.\s*(\w+)", re.sub(r"\([^()]*\)", "", callee[2]))
        if text[bracket] == "[":
            kind = _BY_KEY.get(".".join(methods), "") if quote else ""
            return _Place(callee[1], kind, quote, typed) if kind else None
        if text[bracket] != "(" or not methods:
            return None
        first = not _has_comma(text[bracket + 1 : inner])
        kind = _kind(methods, named, first)
        if valued:
            kind = _VALUES.get(named or (methods[-1] if first else ""), kind)
        # a reference can be a tuple of a branch and a version
        kind = BRANCHES if kind == REFS and tuples else kind
        return _Place(callee[1], kind, quote, typed) if kind else None
    return None


def _scan(text: str) -> tuple[str, int, list[int]]:
    """Return the quote that is open at the end, its start, and the positions of open brackets."""
    opened: list[int] = []
    quote, start, at = "", 0, 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif text.startswith(quote, at):
                at += len(quote) - 1
                quote = ""
            elif char == "\n" and len(quote) == 1:
                quote = ""  # an unclosed quote ends with its line
        elif char in "\"'":
            quote = char * 3 if text.startswith(char * 3, at) else char
            start, at = at, at + len(quote) - 1
        elif char == "#":
            at = text.find("\n", at)
            if at < 0:
                return "#", len(text), []  # in a comment
        elif char in "([{":
            opened.append(at)
        elif char in ")]}" and opened:
            opened.pop()
        at += 1
    return quote, start, opened


def _typed(text: str) -> str:
    found = re.search(r"[\w.]*\Z", text)
    return found[0] if found else ""


def _keyword(before: str, typed: str) -> str:
    """Return the name of the keyword argument whose value starts at the end of a text."""
    found = _KEYWORD.search(before[: len(before) - len(typed)])
    return found[1] if found else ""


def _has_comma(text: str) -> bool:
    """Return True if a text of arguments has a comma outside of strings and brackets."""
    return "," in re.sub(r"\"[^\"\n]*\"|'[^'\n]*'|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}", "", text)


def _kind(methods: list[str], named: str, first: bool) -> str:
    if named:
        return _BY_NAME.get(named, "")
    if not first:
        return ""
    owned = methods[-2:-1] in (["tags"], ["branches"], ["plot"])
    qualified = ".".join(methods[-2:]) if owned else methods[-1]
    return _FIRST.get(qualified, "")


# ---- completions


def _of_kind(kind: str, typed: str, quote: str, handle: LanceDataset) -> Completions | None:
    if kind == SQL and quote:
        return offer(identifier(typed), sql_columns(handle), quote, COLUMNS)
    if kind == SIDES and quote:
        return _of_sides(identifier(typed), quote, handle)
    if kind == REFS and not quote:
        versions = [str(number) for number in reversed(cached_listing(handle, VERSIONS))]
        tags = [f'"{tag}"' for tag in cached_listing(handle, TAGS)] if not typed else []
        return offer(typed, [*versions[:20], *tags], '"', kind, quoted=True)
    if not quote:
        return None
    names: Mapping[str, Callable[[], Iterable[str]]] = {
        COLUMNS: lambda: columns(handle),
        INDICES: lambda: handle.index_columns,
        REFS: lambda: cached_listing(handle, TAGS),
        TAGS: lambda: cached_listing(handle, TAGS),
        BRANCHES: lambda: cached_listing(handle, BRANCHES),
    }
    return offer(typed, names[kind](), quote, kind) if kind in names else None


def _of_sides(fragment: str, quote: str, handle: LanceDataset) -> Completions | None:
    """Return ``source.`` and ``target.`` columns of a merge condition; a bare name matches both."""
    names = [f"{side}.{name}" for side in ("source", "target") for name in sql_columns(handle)]
    low = fragment.lower()
    matching = [name for name in names if name.partition(".")[2].lower().startswith(low)]
    return offer(fragment, names, quote, COLUMNS) or offer(
        fragment, matching, quote, COLUMNS, anywhere=True
    )


# ---- IPython


def register(shell: Shell) -> None:
    """Register the completions with a shell of IPython 8.6 or newer, once."""
    try:
        from IPython.core.completer import SimpleCompletion, context_matcher
    except ImportError:
        return

    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        lines = context.full_text.split("\n")
        before = lines[: context.cursor_line]
        text = "\n".join([*before, lines[context.cursor_line][: context.cursor_position]])
        try:
            found = complete(text, shell.user_ns, context.full_text[len(text) :])
        except Exception:  # pressing Tab must not raise
            found = None
        if found is None:
            return {"completions": []}
        return {
            "completions": [SimpleCompletion(text=name, type=found.kind) for name in found.names],
            "matched_fragment": found.fragment,
            "suppress": True,
            "ordered": True,
        }

    unregister(shell)
    shell.Completer.custom_matchers.append(context_matcher(identifier="lancekit")(matcher))


def unregister(shell: Shell) -> None:
    """Remove the completions from a shell."""
    own = shell.Completer.custom_matchers
    own[:] = [one for one in own if getattr(one, "matcher_identifier", "") != "lancekit"]


# ---- completions after `%lance` and in SQL cells: subcommands, tables, columns and references

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
#: by package: the class of data frames whose column names are in this process
_FRAMES = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "Table"}


def _complete_magic(
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
    frames = (name for name, value in list(variables.items()) if _is_frame(name, value))
    known = sorted({*names.known(), *frames})
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


def _is_frame(name: str, value: object) -> bool:
    """Return True if a user's variable is a data frame or result that SQL can use as a table."""
    package = _package(value)
    shown = not name.startswith("_")  # the shell's own variables: outputs of earlier cells
    is_frame = type(value).__name__ == _FRAMES.get(package, "DataFrame" * (package == "pyspark"))
    return shown and (is_frame or isinstance(value, SqlResult))


def _columns_of(table: Any) -> Iterable[str]:
    """Return column names in SQL spelling; none for Spark frames, which could need a request."""
    if isinstance(table, LanceDataset):
        return sql_columns(table)
    if isinstance(table, SqlResult):
        return map(_quoted, table.schema.names)
    package = _package(table)
    if package not in _FRAMES:
        return ()
    names = table.column_names if package == "pyarrow" else table.columns
    return (_quoted(name) for name in list(names[:MOST]) if isinstance(name, str))


def _package(value: object) -> str:
    return str(type(value).__module__).partition(".")[0]


def _quoted(name: str) -> str:
    """Return a plain name unchanged and any other in backticks; a dot is part of the name."""
    return name if _NAME.match(name) else quoted(name)
