"""``%%lance`` and ``%lance``: statements and cards in a cell, thin over `lancekit.sql`."""

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
%%lance --preview                tell what it would change, and change nothing
%%lance -o NAME                  keep the result under a name
%%lance --limit N                the first N rows of a query
%%lance --at VERSION             read at a version or a tag, where the SQL says none
%%lance --include-mem-wal        read with the rows that wait in write-ahead logs
name << SELECT ...               in such a cell: the same as -o name
%lance SELECT ...                run one statement
%lance history NAME              the versions
%lance diff NAME [OLD [NEW]]     what changed since a version or a tag, by default the last
%lance branches NAME             the branches
%lance tags NAME                 the tags
%lance blame NAME [FILTER]       rows, and the version that last changed each
%lance explain NAME FILTER       what a filter costs, and which index would help
%lance tb                        the last error, whole
%lance help                      this
NAME is a variable, a registered name or a path in quotes; name@branch is a branch."""
_NAME = re.compile(r"[^\W\d]\w*\Z")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What stands behind ``%%lance``."""

    preview: bool = False
    name: str | None = None
    limit: int | None = None
    at: int | str | None = None
    include_mem_wal: bool = False


def register_magics(shell: Shell) -> None:
    """Give an IPython shell the magics."""
    shell.register_magic_function(
        lambda line, cell=None: lance(shell, line, cell), "line_cell", "lance"
    )


def unregister_magics(shell: Shell) -> None:
    """Take the magics from a shell."""
    for known in shell.magics_manager.magics.values():
        known.pop("lance", None)


def lance(shell: Shell, line: str, cell: str | None = None) -> object:
    """Run what stands behind ``%lance``, or the SQL of a cell.

    shell: the IPython shell, whose variables are the names.
    line, cell: the rest of the line, and the lines below it if there are some.

    Raises InvalidArgumentError: there is no such word or flag, or a value of one is none; the text
        says what there is.
    """
    if cell is not None:
        return _cell(shell, cell, _flags(line))
    word, _, rest = line.strip().partition(" ")
    if word == "tb":
        _traceback()
        return None
    if word in _WORDS:
        name, *arguments = _split(rest)
        return _WORDS[word](_handle(shell, word, name), arguments)
    if word in ("", "help"):
        print(_USAGE)
        return None
    if not _NAMED.match(line) and word.upper() not in BEGINNINGS and word[:1] not in "(-/":
        close = difflib.get_close_matches(word.lower(), WORDS, 1)
        meant = f" Did you mean {close[0]}?" if close else ""
        raise _usage(f"%lance has no word {clean(word)!r}, and no statement begins so.{meant}")
    return _cell(shell, line, _Asked())


def _cell(shell: Shell, text: str, asked: _Asked) -> object:
    named = _NAMED.match(text)
    # as many blanks as were cut, so that places in errors are those of the cell
    sql = " " * named.end() + text[named.end() :] if named else text
    if named and asked.name:
        raise _usage(f"The result is to be {asked.name}, and {named[1]} as well.")
    names = Names({}, shell.user_ns)
    found = run_statements(
        sql,
        names,
        preview=asked.preview,
        limit=asked.limit,
        at=asked.at,
        include_mem_wal=asked.include_mem_wal,
    )
    if isinstance(found, SqlResult):
        found.head(options.display_rows)  # on Spark a job, which who ran the cell asked for
    if name := named[1] if named else asked.name:
        shell.user_ns[name] = found
    return found


def _flags(line: str) -> _Asked:
    """Read what stands behind ``%%lance``: flags, each once, those with values as words of a shell.

    Raises InvalidArgumentError: there is no such flag, or its value is none.
    """
    try:
        words = iter(shlex.split(line))
    except ValueError:
        raise _usage("A quote behind %%lance is not closed.") from None
    found = dict[str, Any]()
    for word in words:
        flag, equals, value = word.partition("=")
        if flag not in FLAGS or (flag in _PLAIN and equals):
            raise _usage(f"%%lance has no {clean(word)!r}.")
        name, read = FLAGS[flag]
        if name in found:
            raise _usage(f"%%lance has {flag} twice.")
        if flag not in _PLAIN and not equals:
            value = next(words, "")
        found[name] = read(value)
        if found[name] is None:
            raise _usage(f"{flag} takes {_TAKES[name]}, and {clean(value)!r} is none.")
    return _Asked(**found)


def _version(text: str) -> int | str | None:
    return int(text) if text.isdecimal() else text or None


#: the flags of ``%%lance``: what each is, and its value of a word, ``None`` if that is none
FLAGS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "--preview": ("preview", lambda _: True),
    "-o": ("name", lambda text: text if _NAME.match(text) else None),
    "--limit": ("limit", lambda text: int(text) if text.isdecimal() else None),
    "--at": ("at", _version),
    "--include-mem-wal": ("include_mem_wal", lambda _: True),
}
#: those without a value
_PLAIN = frozenset({"--preview", "--include-mem-wal"})
_TAKES = {"name": "the name of a variable", "limit": "a number of rows", "at": "a version or a tag"}


def _usage(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, details=_USAGE.splitlines())


def _split(rest: str) -> list[str]:
    """Return the name, which may be in quotes, and what stands behind it, unchanged."""
    found = re.match(r"\s*('(?:[^']|'')*'\S*|\S+)\s*(.*)$", rest, re.S)
    if found is None:
        raise _usage("The name of a dataset is missing.")
    return [found[1], *([found[2]] if found[2] else [])]


def _handle(shell: Shell, word: str, name: str) -> LanceDataset:
    """Return the handle that a name means, as statements read it.

    Raises PredicateError: it is no name, or that of no dataset; the place is that in the line.
    """
    if "/" in name and not any(mark in name for mark in "'`@"):
        name = f"'{name}'"  # no name has a slash
    before, line = "DESCRIBE HISTORY ", f"%lance {word} "
    text = before + name
    try:
        (tree,) = parse_statements(text)
        scope = Scope(Text(text, Names({}, shell.user_ns), _no_query))
        return handle_of(tree.this, scope)
    except PredicateError as error:
        place = max(error.context.get("position", 0) - len(before), 0) + len(line)
        said = error.message.partition("\n")[0]
        raise failure(line + name, said, place, error.hint or "") from None


def _no_query(tree: object, scope: Scope) -> NoReturn:
    raise scope.text.fail(tree, "this is no name of a dataset:")


# ---- the words of %lance


def _diff(ds: LanceDataset, arguments: Sequence[str]) -> object:
    given = [_version(one) or one for one in shlex.split(arguments[0])] if arguments else []
    if len(given) > 2:
        raise _usage("%lance diff takes a name and two versions at most.")
    return ds.diff(*(given or [max(ds.version - 1, 1)]))


def _blame(ds: LanceDataset, arguments: Sequence[str]) -> object:
    rows = ds.blame(*arguments)
    choice = Choice("local", "it reads metadata, and the rows that are shown")
    return SqlResult(sql="%lance blame", schema=rows.schema, choice=choice, table=rows)


def _explain(ds: LanceDataset, arguments: Sequence[str]) -> object:
    if not arguments:
        raise _usage("%lance explain takes a name and a filter.")
    return ds.explain.filter(arguments[0])


def _traceback() -> None:
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None:
        print("There was no error yet.")
    else:
        print("".join(traceback.format_exception(error)), end="")


_WORDS: Mapping[str, Callable[[LanceDataset, Sequence[str]], object]] = {
    "history": lambda ds, _: ds.versions(),
    "diff": _diff,
    "branches": lambda ds, _: ds.branches,
    "tags": lambda ds, _: ds.tags,
    "blame": _blame,
    "explain": _explain,
}

#: what may follow ``%lance``
WORDS = (*_WORDS, "tb", "help")
