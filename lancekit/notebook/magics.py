"""``%%lance`` and ``%lance``: statements and cards in a cell, thin over `lancekit.sql`."""

from __future__ import annotations

import re
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lancekit.api.lance_dataset import LanceDataset
from lancekit.errors import InvalidArgumentError
from lancekit.options import options
from lancekit.pipeline.engine.engine import Choice
from lancekit.statements.dialect import parse_statements
from lancekit.statements.relations import handle_of
from lancekit.statements.results import SqlResult
from lancekit.statements.run import run_statements
from lancekit.statements.scope import Scope, Text
from lancekit.statements.tables import Names

__all__ = ["WORDS", "lance", "register_magics", "unregister_magics"]

#: ``name << SELECT ...``
_NAMED = re.compile(r"\s*([^\W\d]\w*)\s*<<\s*")
_USAGE = """\
%%lance [--preview]              run the SQL of the cell; --preview tells what it would change
name << SELECT ...               in such a cell: keep the result under a name
%lance SELECT ...                run one statement
%lance history NAME              the versions
%lance diff NAME [OLD [NEW]]     what changed since a version or a tag, by default the last
%lance branches NAME             the branches
%lance tags NAME                 the tags
%lance blame NAME [FILTER]       rows, and the version that last changed each
%lance explain NAME FILTER       what a filter costs, and which index would help
%lance tb                        the last error, whole
NAME is a variable, a registered name or a path in quotes; name@branch is a branch."""


def register_magics(shell: Any) -> None:
    """Give an IPython shell the magics."""
    shell.register_magic_function(
        lambda line, cell=None: lance(shell, line, cell), "line_cell", "lance"
    )


def unregister_magics(shell: Any) -> None:
    """Take the magics from a shell."""
    for known in shell.magics_manager.magics.values():
        known.pop("lance", None)


def lance(shell: Any, line: str, cell: str | None = None) -> Any:
    """Run what stands behind ``%lance``, or the SQL of a cell.

    Parameters
    ----------
    shell
        The IPython shell, whose variables are the names.
    line, cell
        The rest of the line, and the lines below it if there are some.

    Raises
    ------
    InvalidArgumentError
        There is no such word or flag; the text says what there is.
    """
    if cell is not None:
        flags = line.split()
        if unknown := [flag for flag in flags if flag != "--preview"]:
            raise _usage(f"%%lance has no {unknown[0]!r}.")
        return _cell(shell, cell, preview=bool(flags))
    word, _, rest = line.strip().partition(" ")
    if word == "tb":
        return _traceback()
    if word in _WORDS:
        name, *arguments = _split(rest)
        return _WORDS[word](_handle(shell, name), arguments)
    if word in ("", "help"):
        print(_USAGE)
        return None
    return _cell(shell, line, preview=False)


def _cell(shell: Any, text: str, *, preview: bool) -> Any:
    named = _NAMED.match(text)
    # as many blanks as were cut, so that places in errors are those of the cell
    sql = " " * named.end() + text[named.end() :] if named else text
    found = run_statements(sql, Names({}, shell.user_ns), preview=preview)
    if isinstance(found, SqlResult):
        found.head(options.display_rows)  # on Spark a job, which who ran the cell asked for
    if named:
        shell.user_ns[named[1]] = found
    return found


def _usage(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, details=_USAGE.splitlines())


def _split(rest: str) -> list[str]:
    """Return the name, which may be in quotes, and what stands behind it, unchanged."""
    found = re.match(r"\s*('(?:[^']|'')*'\S*|\S+)\s*(.*)$", rest, re.S)
    if found is None:
        raise _usage("The name of a dataset is missing.")
    return [found[1], *([found[2]] if found[2] else [])]


def _handle(shell: Any, name: str) -> LanceDataset:
    """Return the handle that a name means, as statements read it."""
    if "/" in name and not any(mark in name for mark in "'`@"):
        name = f"'{name}'"  # no name has a slash
    text = f"DESCRIBE HISTORY {name}"
    (tree,) = parse_statements(text)
    scope = Scope(Text(text, Names({}, shell.user_ns), _no_query))
    return handle_of(tree.this, scope)


def _no_query(tree: Any, scope: Scope) -> Any:
    raise scope.text.fail(tree, "this is no name of a dataset:")


# ---- the words of %lance


def _diff(ds: LanceDataset, arguments: Sequence[str]) -> Any:
    given = [_version(one) for one in shlex.split(arguments[0])] if arguments else []
    if len(given) > 2:
        raise _usage("%lance diff takes a name and two versions at most.")
    return ds.diff(*(given or [max(ds.version - 1, 1)]))


def _version(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _blame(ds: LanceDataset, arguments: Sequence[str]) -> Any:
    rows = ds.blame(*arguments)
    choice = Choice("local", "it reads metadata, and the rows that are shown")
    return SqlResult(sql="%lance blame", schema=rows.schema, choice=choice, table=rows)


def _explain(ds: LanceDataset, arguments: Sequence[str]) -> Any:
    if not arguments:
        raise _usage("%lance explain takes a name and a filter.")
    return ds.explain.filter(arguments[0])


def _traceback() -> None:
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None:
        print("There was no error yet.")
    else:
        print("".join(traceback.format_exception(error)), end="")


_WORDS: Mapping[str, Callable[[LanceDataset, Sequence[str]], Any]] = {
    "history": lambda ds, _: ds.versions(),
    "diff": _diff,
    "branches": lambda ds, _: ds.branches,
    "tags": lambda ds, _: ds.tags,
    "blame": _blame,
    "explain": _explain,
}

#: what may follow ``%lance``
WORDS = (*_WORDS, "tb", "help")
