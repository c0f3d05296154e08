"""Tab: columns, tags, branches, versions and indices, inside of strings, calls and brackets.

`complete` looks at the text before the cursor and at the handles among the user's variables.  It
evaluates nothing, and reads no data: columns and indices are those of the version that a handle
holds, and references are listed in a thread that nobody waits long for.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from lancekit.api.lance_dataset import LanceDataset
from lancekit.format.paths import parse_path, paths_by_id
from lancekit.notebook.magics import WORDS
from lancekit.statements.tables import Names

__all__ = ["Found", "complete", "register", "unregister"]

#: of longer texts, of deeper nesting and of longer calls only the end is looked at
_TEXT, _DEPTH, _CALL = 20_000, 10, 1000
#: the most that is offered
_MOST = 200
#: how long references are waited for, and how long those that came are taken for new
_WAIT_SECONDS, _KEEP_SECONDS = 0.1, 2.0

# what can be completed
COLUMNS, SQL, REFS, TAGS, BRANCHES, INDICES = (
    "columns",
    "sql",
    "refs",
    "tags",
    "branches",
    "indices",
)

#: of any method: what an argument of that name holds
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
#: what the first argument of a method is
_FIRST = {
    **dict.fromkeys(
        ("checkout_version", "at", "diff", "changes", "delta", "explore", "plot.columns"), REFS
    ),
    **dict.fromkeys(("delete", "count_rows", "blame", "bisect", "row_history", "filter"), SQL),
    **dict.fromkeys(("merge_insert", "drop_columns", "column_history", "columns"), COLUMNS),
    **dict.fromkeys(("to_table", "to_batches", "to_pandas", "scanner"), COLUMNS),
    **dict.fromkeys(("create_scalar_index", "create_index", "update", "alter_columns"), COLUMNS),
    **dict.fromkeys(("drop_index", "prewarm_index", "index_statistics", "index_stats"), INDICES),
    **dict.fromkeys(("when_matched_update_all", "when_not_matched_by_source_delete"), SQL),
    **dict.fromkeys(("tags.delete", "tags.update", "tags.get_version"), TAGS),
    **dict.fromkeys(("branches.delete", "branches.compare", "branches.merge"), BRANCHES),
    **dict.fromkeys(("branches.rebase", "branches.cherry_pick"), BRANCHES),
}
#: what the keys of a handle, and of what it gives, are
_BY_KEY = {"": COLUMNS, "indices": INDICES}
_CALLEE = re.compile(r"([^\W\d]\w*)((?:\s*\.\s*[^\W\d]\w*(?:\([^()]*\))?)*)\s*$")
_KEYWORD = re.compile(r"([^\W\d]\w*)\s*=\s*(?:[rbuf]{0,2})$")
_IDENTIFIER = re.compile(r"(?:[^\W\d]\w*\.)*(?:[^\W\d]\w*)?$|`[^`]*$")
_PLAIN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")
_WORD = re.compile(r"[\w./-]*\Z")


@dataclass(frozen=True, slots=True)
class Found:
    """What may stand in the place of the end of the text, and what kind of thing it is."""

    fragment: str
    names: tuple[str, ...]
    kind: str


def complete(text: str, variables: Mapping[str, Any]) -> Found | None:
    """Return what may follow a text, ``None`` where nobody knows; a cell's text up to the cursor.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"dep_delay": [1], "day": [2]}, "memory://completion-example")
    >>> complete("ds.to_table(filter='day = 1 and de", {"ds": ds}).names
    ('dep_delay',)
    """
    text = text[-_TEXT:]
    if magic := re.match(r"\s*%(%?)lance\b(.*)", text, re.DOTALL):
        return _in_magic(magic[2], variables, cell=bool(magic[1]))
    place = _place(text)
    handle = variables.get(place.root) if place else None
    if place is None or not isinstance(handle, LanceDataset):
        return None
    return _of_kind(place.kind, place.text, place.quote, handle)


# ---- where the cursor is


@dataclass(frozen=True, slots=True)
class _Place:
    """An argument or a key: of which variable, what it holds, and what is there of it."""

    root: str
    kind: str
    quote: str
    text: str


def _place(text: str) -> _Place | None:
    quote, start, opened = _scan(text)
    if not opened:
        return None
    inner = start if quote else len(text)
    typed = text[start + len(quote) :] if quote else _typed(text)
    named = ""
    tuples = 0
    for bracket in reversed(opened[-_DEPTH:]):
        before = text[bracket + 1 : inner]
        named = named or _keyword(before, "" if quote else typed)
        callee = _CALLEE.search(text[max(bracket - _CALL, 0) : bracket])
        if callee is None or callee[1] in {"in", "return", "and", "or", "not", "if"}:
            tuples += text[bracket] == "("
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
        # a tuple of a branch and a version
        kind = BRANCHES if kind == REFS and tuples else kind
        return _Place(callee[1], kind, quote, typed) if kind else None
    return None


def _scan(text: str) -> tuple[str, int, list[int]]:
    """Return the quote that is open at the end and where it began; the brackets that are open."""
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
                quote = ""  # it was not closed: what is below it stands for itself
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
    """Return the name of the argument that ends a text, be it the start of a list."""
    found = _KEYWORD.search(before[: len(before) - len(typed)])
    return found[1] if found else ""


def _has_comma(text: str) -> bool:
    """Tell whether arguments are complete before the end of a text, which has brackets closed."""
    return "," in re.sub(r"\"[^\"\n]*\"|'[^'\n]*'|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}", "", text)


def _kind(methods: list[str], named: str, first: bool) -> str:
    if named:
        return _BY_NAME.get(named, "")
    if not first:
        return ""
    owned = methods[-2:-1] in (["tags"], ["branches"], ["plot"])
    qualified = ".".join(methods[-2:]) if owned else methods[-1]
    return _FIRST.get(qualified, "")


# ---- what there is


def _of_kind(kind: str, typed: str, quote: str, handle: LanceDataset) -> Found | None:
    if kind == SQL and quote:
        found = _IDENTIFIER.search(typed)
        fragment = found[0] if found else ""
        return _offer(fragment, _sql_columns(handle), quote, COLUMNS)
    if kind == REFS and not quote:
        versions = [str(number) for number in reversed(_listed(handle, "versions"))]
        tags = [f'"{tag}"' for tag in _listed(handle, TAGS)] if not typed else []
        return _offer(typed, [*versions[:20], *tags], '"', kind, quoted=True)
    if not quote:
        return None
    names: Mapping[str, Callable[[], Iterable[str]]] = {
        COLUMNS: lambda: _columns(handle),
        INDICES: lambda: handle.index_columns,
        REFS: lambda: _listed(handle, TAGS),
        TAGS: lambda: _listed(handle, TAGS),
        BRANCHES: lambda: _listed(handle, BRANCHES),
    }
    return _offer(typed, names[kind](), quote, kind) if kind in names else None


def _offer(
    fragment: str, names: Iterable[str], quote: str, kind: str, *, quoted: bool = False
) -> Found | None:
    low = fragment.lower()
    fit = [
        name
        for name in names
        if name.lower().startswith(low) and name.isprintable() and "\\" not in name
        if quoted or quote[0] not in name
    ]
    return Found(fragment, tuple(fit[:_MOST]), kind) if fit else None


def _columns(handle: LanceDataset) -> Iterator[str]:
    """Yield the columns of the version that is held, then the paths of fields inside of them."""
    schema = handle._snapshot.manifest.schema
    yield from schema.names
    top = {field.id for field in schema.fields}
    yield from (path for id_, path in paths_by_id(schema).items() if id_ not in top)


def _sql_columns(handle: LanceDataset) -> Iterator[str]:
    """Yield them as SQL has them: the names of a path are quoted one by one."""
    names = len(handle._snapshot.manifest.schema.names)
    for at, name in enumerate(_columns(handle)):
        yield _in_sql(name) if at < names else ".".join(map(_in_sql, parse_path(name)))


def _in_sql(name: str) -> str:
    return name if _PLAIN.match(name) or name.startswith("`") else "`" + name + "`"


_LISTINGS: Mapping[str, Callable[[LanceDataset], list[Any]]] = {
    TAGS: lambda handle: list(handle.tags.names()),
    BRANCHES: lambda handle: list(handle.branches.names()),
    "versions": lambda handle: list(handle.versions().numbers),
}
_known: dict[tuple[str, str], tuple[float, list[Any]]] = {}
_asked: dict[tuple[str, str], threading.Thread] = {}


def _listed(handle: LanceDataset, what: str) -> list[Any]:
    """Return the tags, branches or versions; what comes too late is there the next time."""
    key = handle._line.uri, what
    when, names = _known.get(key, (-_KEEP_SECONDS, []))
    if monotonic() - when < _KEEP_SECONDS:
        return names

    def ask() -> None:
        try:
            found = _LISTINGS[what](handle)
        except Exception:  # whatever is wrong is said where it is asked for
            found = []
        _known[key] = monotonic(), found

    running = _asked.get(key)
    if running is None or not running.is_alive():
        running = _asked[key] = threading.Thread(target=ask, daemon=True)
        running.start()
    running.join(_WAIT_SECONDS)
    return _known.get(key, (0.0, names))[1]


# ---- %lance and %%lance


def _in_magic(rest: str, variables: Mapping[str, Any], *, cell: bool) -> Found | None:
    if cell:
        line, newline, sql = rest.partition("\n")
        if newline:
            return _in_sql_cell(sql, variables)
        return _offer(line.lstrip(), ["--preview"], '"', "flag", quoted=True)
    word, blank, arguments = rest.lstrip().partition(" ")
    if not blank:
        return _offer(word, WORDS, '"', "word") if rest[:1] == " " else None
    if word not in WORDS:
        return _in_sql_cell(rest, variables)
    name, blank, more = arguments.lstrip().partition(" ")
    handle = Names({}, variables).find(name.partition("@")[0])
    if not blank:
        _, at, typed = name.partition("@")
        if at and isinstance(handle, LanceDataset):
            return _offer(typed, _listed(handle, BRANCHES), "'", BRANCHES)
        return _offer(name, Names({}, variables).known(), "'", "table")
    if not isinstance(handle, LanceDataset):
        return None
    if word == "diff":
        return _offer(more.rpartition(" ")[2], _listed(handle, TAGS), "'", TAGS)
    return _of_kind(SQL, more, "'", handle) if word in ("blame", "explain") else None


def _in_sql_cell(sql: str, variables: Mapping[str, Any]) -> Found | None:
    """Return the tables, and the columns of those that the statement names."""
    found = _WORD.search(sql)
    fragment = (found[0] if found else "").rpartition(".")[2]
    names = Names({}, variables)
    known = names.known()
    said = {word.lower() for word in re.findall(r"\w+", sql)}
    handles = [names.find(name) for name in known if name.lower() in said]
    columns = (name for h in handles if isinstance(h, LanceDataset) for name in _sql_columns(h))
    after = re.search(r"\b(from|join|into|update|table|history|describe)\s+\S*\Z", sql, re.I)
    offered = known if after else [*dict.fromkeys(columns), *known]
    return _offer(fragment, offered, "\0", "table" if after else COLUMNS)


# ---- IPython


def register(shell: Any) -> None:
    """Give a shell of IPython 8.6 or newer the completions, once."""
    try:
        from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher
    except ImportError:
        return

    def matcher(context: CompletionContext) -> Any:
        lines = context.full_text.split("\n")
        before = lines[: context.cursor_line]
        text = "\n".join([*before, lines[context.cursor_line][: context.cursor_position]])
        try:
            found = complete(text, shell.user_ns)
        except Exception:  # a key of the keyboard raises nothing
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


def unregister(shell: Any) -> None:
    """Take the completions from a shell."""
    own = shell.Completer.custom_matchers
    own[:] = [one for one in own if getattr(one, "matcher_identifier", "") != "lancekit"]
