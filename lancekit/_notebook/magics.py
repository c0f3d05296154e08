"""IPython magics ``%%lance`` and ``%lance``: SQL statements and cards, thin over `lancekit.sql`."""

from __future__ import annotations

import difflib
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from lancekit._api.lance_dataset import LanceDataset
from lancekit._interrupts import Shell
from lancekit._legible import clean
from lancekit._pipeline.engine import Choice
from lancekit._scan.expressions.syntax import failure
from lancekit._statements.dialect import BEGINNINGS, parse_statements
from lancekit._statements.relations import handle_of
from lancekit._statements.run import run_statements
from lancekit._statements.scope import Scope, Text
from lancekit._statements.select import SqlResult
from lancekit._statements.tables import Names
from lancekit.errors import InvalidArgumentError, PredicateError
from lancekit.options import options

#: ``name << SELECT ...``
_NAMED = re.compile(r"\s*([^\W\d]\w*)\s*<<\s*")
_USAGE = """\
%%lance                          run the SQL of the cell
%%lance --preview                show the plan of changes, and change nothing
%%lance -o NAME                  store the result in a variable
%%lance --limit N                return the first N rows of a query
%%lance --at VERSION             read a version or tag wherever the SQL names none
%%lance --include-mem-wal        include rows of write-ahead logs
name << SELECT ...               in a %%lance cell: the same as -o name
%lance SELECT ...                run one statement
%lance history NAME              list the versions
%lance diff NAME [OLD [NEW]]     show changes since a version or tag, by default the previous one
%lance branches NAME             list the branches
%lance tags NAME                 list the tags
%lance blame NAME [FILTER]       show rows with the version that last changed each
%lance explain NAME FILTER       show the cost of a filter, and an index that would help
%lance tb                        print the full traceback of the last error
%lance help                      show this help
NAME is a variable, a registered name or a path in quotes; name@branch is a branch."""
_NAME = re.compile(r"[^\W\d]\w*\Z")


@dataclass(frozen=True, slots=True)
class _Flags:
    """Flags of a ``%%lance`` line."""

    preview: bool = False
    name: str | None = None
    limit: int | None = None
    at: int | str | None = None
    include_mem_wal: bool = False


def lance(shell: Shell, line: str, cell: str | None = None) -> object:
    """Run a ``%lance`` subcommand or statement, or the SQL of a ``%%lance`` cell.

    shell: the IPython shell, whose variables are table names in statements.
    line, cell: the rest of the magic's line, and the lines below it (``None`` for a line magic).

    Raises InvalidArgumentError: unknown subcommand or flag, or invalid flag value.
    """
    if cell is not None:
        return _cell(shell, cell, _flags(line))
    word, _, rest = line.strip().partition(" ")
    if word == "tb":
        _traceback()
        return None
    if word in _SUBCOMMANDS:
        name, *arguments = _split(rest)
        return _SUBCOMMANDS[word](_handle(shell, word, name), arguments)
    if word in ("", "help"):
        print(_USAGE)
        return None
    if not _NAMED.match(line) and word.upper() not in BEGINNINGS and word[:1] not in "(-/":
        close = difflib.get_close_matches(word.lower(), SUBCOMMANDS, 1)
        meant = f" Did you mean {close[0]}?" if close else ""
        raise _usage(f"Unknown %lance subcommand or SQL statement: {clean(word)!r}.{meant}")
    return _cell(shell, line, _Flags())


def _cell(shell: Shell, text: str, flags: _Flags) -> object:
    """Run statements; store the result under its name, if the cell gives one."""
    named = _NAMED.match(text)
    # as many blanks as were cut, so that positions in errors are positions in the cell
    sql = " " * named.end() + text[named.end() :] if named else text
    if named and flags.name:
        raise _usage(f"The result has two names: {flags.name} (-o) and {named[1]} (<<).")
    names = Names({}, shell.user_ns)
    found = run_statements(
        sql,
        names,
        preview=flags.preview,
        limit=flags.limit,
        at=flags.at,
        include_mem_wal=flags.include_mem_wal,
        tell=_show,
    )
    _read(found)
    if name := named[1] if named else flags.name:
        shell.user_ns[name] = found
    return found


def _show(found: object) -> None:
    """Display the result of a statement before the last one."""
    from IPython.display import display

    if found is not None:
        _read(found)
        show: Callable[..., object] = display
        show(found)


def _read(found: object) -> None:
    if isinstance(found, SqlResult):
        found.head(options.display_rows)  # a Spark job can run now: the user executed the cell


def _flags(line: str) -> _Flags:
    """Parse the flags of a ``%%lance`` line with shell quoting; each flag can stand once.

    Raises InvalidArgumentError: unknown flag, or invalid value.
    """
    try:
        words = iter(shlex.split(line))
    except ValueError:
        raise _usage("The %%lance line has an unclosed quote.") from None
    found = dict[str, Any]()
    for word in words:
        flag, equals, value = word.partition("=")
        if flag in _SWITCHES and equals:
            raise _usage(f"{flag} takes no value, got {clean(value)!r}.")
        if flag not in FLAGS:
            raise _usage(f"Unknown %%lance flag: {clean(word)!r}.")
        name, read = FLAGS[flag]
        if name in found:
            raise _usage(f"Repeated %%lance flag: {flag}.")
        if flag not in _SWITCHES and not equals:
            value = next(words, "")
        found[name] = read(value)
        if found[name] is None:
            raise _usage(f"{flag} needs {_VALUE[name]}, got {clean(value)!r}.")
    return _Flags(**found)


def _version(text: str) -> int | str | None:
    return int(text) if text.isdecimal() else text or None


#: by flag of ``%%lance``: the field of the flags and the parser (``None`` for an invalid value)
FLAGS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "--preview": ("preview", lambda _: True),
    "-o": ("name", lambda text: text if _NAME.match(text) else None),
    "--limit": ("limit", lambda text: int(text) if text.isdecimal() else None),
    "--at": ("at", _version),
    "--include-mem-wal": ("include_mem_wal", lambda _: True),
}
#: flags without a value
_SWITCHES = frozenset({"--preview", "--include-mem-wal"})
_VALUE = {"name": "the name of a variable", "limit": "a number of rows", "at": "a version or a tag"}


def _usage(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, details=_USAGE.splitlines())


def _split(rest: str) -> list[str]:
    """Return the dataset name (possibly quoted), and the unparsed remainder if it is not empty."""
    found = re.match(r"\s*('(?:[^']|'')*'\S*|\S+)\s*(.*)$", rest, re.S)
    if found is None:
        raise _usage("Missing dataset name.")
    return [found[1], *([found[2]] if found[2] else [])]


def _handle(shell: Shell, word: str, name: str) -> LanceDataset:
    """Resolve a dataset name to a handle by the rules of SQL statements.

    Raises PredicateError: invalid name, or no such dataset, with the position in the line.
    """
    if "/" in name and not any(mark in name for mark in "'`@"):
        name = f"'{name}'"  # a slash makes it a path
    before, line = "DESCRIBE HISTORY ", f"%lance {word} "
    text = before + name
    try:
        (tree,) = parse_statements(text)
        scope = Scope(Text(text, Names({}, shell.user_ns), _no_query))
        return handle_of(tree.this, scope)
    except PredicateError as error:
        place = max(error.context.get("position", 0) - len(before), 0) + len(line)
        message = error.message.partition("\n")[0]
        raise failure(line + name, message, place, error.hint or "") from None


def _no_query(tree: object, scope: Scope) -> NoReturn:
    raise scope.text.fail(tree, "this is not the name of a dataset:")


# ---- subcommands of %lance


def _diff(ds: LanceDataset, arguments: Sequence[str]) -> object:
    given = [_version(one) or one for one in shlex.split(arguments[0])] if arguments else []
    if len(given) > 2:
        raise _usage(f"%lance diff takes at most 2 versions, got {len(given)}.")
    return ds.diff(*(given or [max(ds.version - 1, 1)]))


def _blame(ds: LanceDataset, arguments: Sequence[str]) -> object:
    rows = ds.blame(*arguments)
    choice = Choice("local", "it reads only metadata and the shown rows")
    return SqlResult(sql="%lance blame", schema=rows.schema, choice=choice, table=rows)


def _explain(ds: LanceDataset, arguments: Sequence[str]) -> object:
    if not arguments:
        raise _usage("%lance explain needs a filter after the name.")
    return ds.explain.filter(arguments[0])


def _traceback() -> None:
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None:
        print("No error yet.")
    else:
        print("".join(traceback.format_exception(error)), end="")


_SUBCOMMANDS: Mapping[str, Callable[[LanceDataset, Sequence[str]], object]] = {
    "history": lambda ds, _: ds.versions(),
    "diff": _diff,
    "branches": lambda ds, _: ds.branches,
    "tags": lambda ds, _: ds.tags,
    "blame": _blame,
    "explain": _explain,
}

#: all subcommands of ``%lance``
SUBCOMMANDS = (*_SUBCOMMANDS, "tb", "help")
