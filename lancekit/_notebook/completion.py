"""Tab completion in strings, calls and brackets: columns, references, indices, argument values.

`complete` uses the text before the cursor and the handles among the user's variables.  It evaluates
no code and reads no data.  Columns and indices come from the handle's version.  A thread lists
references, also of a dataset at a local path, and completion waits for it only a moment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from lancekit._api.lance_dataset import LanceDataset
from lancekit._lazy import loaded
from lancekit._notebook.offers import (
    BRANCHES,
    COLUMNS,
    POSITIONS,
    REFS,
    TAGS,
    VALUES,
    VALUES_OF,
    VERSIONS,
    Completions,
    cached_listing,
    columns,
    identifier,
    offer,
    sql_columns,
)
from lancekit.options import options

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext, SimpleMatcherResult

__all__ = ["Completions", "complete", "is_own", "matches"]

#: limits of a scan from the cursor back: characters, open brackets, characters of a callee
_TEXT, _DEPTH, _CALL = 20_000, 10, 1000

# further kinds of completion
SQL, SIDES, INDICES, ATTRIBUTES = "sql", "sides", "indices", "attribute"
STATEMENT = "statement"

#: kind of an argument by its name, or its method and name
_BY_NAME = {
    **dict.fromkeys(
        ("columns", "column", "on", "read_columns", "primary_key", "dedupe_by"), COLUMNS
    ),
    **dict.fromkeys(("filter", "where", "predicate", "condition", "expr"), SQL),
    **dict.fromkeys(("version", "old", "new", "reference", "ref", "against"), REFS),
    "dedupe.by": COLUMNS,
    **dict.fromkeys(("index_names", "index_name"), INDICES),
    "tag": TAGS,
    "branch": BRANCHES,
}
#: kind of a method's first argument
_FIRST = {
    **dict.fromkeys(
        ("checkout_version", "restore", "at", "diff", "changes", "delta", "explore"), REFS
    ),
    "plot.columns": REFS,
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
#: kind of the first argument of a function of the package
_OF_FUNCTION = {"sql": STATEMENT, **dict.fromkeys(("col", "source", "target"), COLUMNS)}
#: kind of the values of a dictionary: the method's first argument, or the argument of that name
_VALUES = dict.fromkeys(("add_columns", "update", "columns"), SQL)
#: kind of a key in brackets, by the attribute of the handle; ``""`` is the handle itself
_BY_KEY = {"": COLUMNS, "indices": INDICES, "tags": TAGS, "branches": BRANCHES}
_INNER = r"\([^()]*\)|\[[^\[\]]*\]"
_CALLEE = re.compile(rf"([^\W\d]\w*)((?:\s*\.\s*[^\W\d]\w*(?:{_INNER})?)*)\s*$")
#: an assignment to an option, in an open quote: ``lk.options.engine = "``
_OPTION = re.compile(r"([^\W\d]\w*)(?:\.options)?\.(\w+)\s*=\s*(['\"])([^'\"]*)\Z")
#: an attribute of a variable: ``ds.to_ta``
_ATTRIBUTE = re.compile(r"(?<![\w.)\]}\"'])([^\W\d]\w*)\.(\w*)\Z")
#: the dataset that a call opens: a text, or a variable
_PLACE = re.compile(r"\s*(?:uri\s*=\s*)?(?:r?(['\"])(?P<text>.*?)\1|(?P<name>[^\W\d]\w*))\s*,")
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
        found: Completions | None = loaded("_notebook.sql_completion.complete_magic")(
            magic[2], variables, rest[:_TEXT], cell=bool(magic[1])
        )
        return found
    if (option := _OPTION.search(text)) and is_own(variables.get(option[1])):
        return offer(option[4], options.choices_of(option[2]), option[3], VALUES)
    if (own := _ATTRIBUTE.search(text)) and is_own(variables.get(own[1])) and not _scan(text)[0]:
        return _of_attributes(variables[own[1]], own[2])
    place = _place(text)
    handle = variables.get(place.root) if place else None
    if place is None or not is_own(handle):
        return None
    if isinstance(handle, LanceDataset) and place.kind not in VALUES_OF:
        return _of_kind(place.kind, place.text, place.quote, handle)
    if place.kind in (REFS, BRANCHES):
        opened = _opened(place.before, variables)
        return _of_refs(place.kind, place.text, place.quote, opened) if opened is not None else None
    if place.function in _OF_FUNCTION and place.quote and not place.before:
        return _of_function(place, text, variables, rest)
    values = VALUES_OF.get(place.kind) or options.choices_of(place.kind)
    return offer(place.text, values, place.quote, VALUES) if place.quote else None


def is_own(value: object) -> bool:
    """Return True if a user's variable is lancekit, or an object or function of it."""
    module = value.__name__ if isinstance(value, ModuleType) else _module_of(value)
    return module.partition(".")[0] == "lancekit"


def _module_of(value: object) -> str:
    return str((value if isinstance(value, FunctionType) else type(value)).__module__)


# ---- position of the cursor


@dataclass(frozen=True, slots=True)
class _Place:
    """The argument or key at the cursor: its root variable, kind, open quote and typed text.

    `function` is the name of the called function, and `before` its arguments before the cursor.
    """

    root: str
    kind: str
    quote: str
    text: str
    function: str = ""
    before: str = ""


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
        methods = re.findall(r"\.\s*(\w+)", re.sub(_INNER, "", callee[2]))
        if text[bracket] == "[":
            kind = _BY_KEY.get(".".join(methods), "") if quote else ""
            return _Place(callee[1], kind, quote, typed) if kind else None
        if text[bracket] != "(":
            return None
        methods = methods or [callee[1]]
        arguments = text[bracket + 1 : inner]
        position = _commas(arguments)
        first = not position
        kind = _kind(methods, named, position)
        if valued:
            kind = _VALUES.get(named or (methods[-1] if first else ""), kind)
        # a reference can be a tuple of a branch and a version
        kind = BRANCHES if kind == REFS and tuples else kind
        if not kind and methods[-1] not in _OF_FUNCTION:
            return None
        return _Place(callee[1], kind, quote, typed, methods[-1], arguments.strip())
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


def _commas(text: str) -> int:
    """Return the number of commas outside of strings and brackets in a text of arguments."""
    return re.sub(r"\"[^\"\n]*\"|'[^'\n]*'|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}", "", text).count(",")


def _kind(methods: list[str], named: str, position: int) -> str:
    method = methods[-1]
    if named:
        for key in (f"{method}.{named}", named):
            if key in VALUES_OF or key in _BY_NAME:
                return _BY_NAME.get(key, key)
        return named if method == "options" else ""
    if (method, position) in POSITIONS:
        return POSITIONS[method, position]
    if position:
        return ""
    owned = methods[-2:-1] in (["tags"], ["branches"], ["plot"])
    return _FIRST.get(".".join(methods[-2:]) if owned else method, "")


# ---- completions


def _of_kind(kind: str, typed: str, quote: str, handle: LanceDataset) -> Completions | None:
    if kind in (REFS, TAGS, BRANCHES):
        return _of_refs(kind, typed, quote, handle)
    if kind == SQL and quote:
        return offer(identifier(typed), sql_columns(handle), quote, COLUMNS)
    if kind == SIDES and quote:
        return _of_sides(identifier(typed), quote, handle)
    if not quote or kind not in (COLUMNS, INDICES):
        return None
    names = columns(handle) if kind == COLUMNS else handle.index_columns
    return offer(typed, names, quote, kind)


def _of_refs(kind: str, typed: str, quote: str, place: LanceDataset | str) -> Completions | None:
    """Return tags or branches of a dataset; without a quote also the newest versions."""
    if quote:
        names = cached_listing(place, BRANCHES if kind == BRANCHES else TAGS)
        return offer(typed, names, quote, kind)
    if kind != REFS:
        return None
    versions = [str(number) for number in reversed(cached_listing(place, VERSIONS))]
    tags = [f'"{tag}"' for tag in cached_listing(place, TAGS)] if not typed else []
    return offer(typed, [*versions[:20], *tags], '"', kind, quoted=True)


def _opened(before: str, variables: Mapping[str, object]) -> LanceDataset | str | None:
    """Return the dataset that a call opens: a handle on it, or its path if it is local."""
    found = _PLACE.match(before)
    place = found and (found["text"] or variables.get(found["name"]))
    if not isinstance(place, str | os.PathLike):
        return None
    uri = os.fspath(place)
    for one in variables.values():
        if isinstance(one, LanceDataset) and one.uri == uri:
            return one
    # other stores need options, and have costs
    return uri if isinstance(uri, str) and "://" not in uri else None


def _of_function(
    place: _Place, text: str, variables: Mapping[str, object], rest: str
) -> Completions | None:
    """Return the columns of the datasets that the line names, or of all; or tables in SQL."""
    if place.function == "sql":
        found: Completions | None = loaded("_notebook.sql_completion.complete_magic")(
            "\n" + place.text, variables, rest.partition(place.quote)[0], cell=True
        )
        if found is None:
            return None
        names = [name for name in found.names if place.quote[0] not in name]
        return Completions(found.fragment, tuple(names), found.kind) if names else None
    handles = {name: v for name, v in variables.items() if isinstance(v, LanceDataset)}
    named = [
        handles[word] for word in re.findall(r"\w+", text.rpartition("\n")[2]) if word in handles
    ]
    known = dict.fromkeys(name for one in named or handles.values() for name in columns(one))
    return offer(place.text, known, place.quote, COLUMNS)


def _of_attributes(value: object, typed: str) -> Completions | None:
    """Return the attributes of an object; jedi would take half a second at the first Tab."""
    names = [name for name in dir(value) if typed.startswith("_") or not name.startswith("_")]
    return offer(typed, names, "", ATTRIBUTES, quoted=True)


def _of_sides(fragment: str, quote: str, handle: LanceDataset) -> Completions | None:
    """Return ``source.`` and ``target.`` columns of a merge condition; a bare name matches both."""
    names = [f"{side}.{name}" for side in ("source", "target") for name in sql_columns(handle)]
    low = fragment.lower()
    matching = [name for name in names if name.partition(".")[2].lower().startswith(low)]
    return offer(fragment, names, quote, COLUMNS) or offer(
        fragment, matching, quote, COLUMNS, anywhere=True
    )


# ---- IPython


def matches(context: CompletionContext, variables: Mapping[str, object]) -> SimpleMatcherResult:
    """Return the completions of a cell to IPython."""
    from IPython.core.completer import SimpleCompletion

    lines = context.full_text.split("\n")
    before = lines[: context.cursor_line]
    text = "\n".join([*before, lines[context.cursor_line][: context.cursor_position]])
    try:
        found = complete(text, variables, context.full_text[len(text) :])
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
