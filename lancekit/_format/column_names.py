"""Column names: checks of new names, and errors for missing columns.

See docs/format/table.md, 3.1.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import pyarrow as pa

from lancekit._lazy import loaded
from lancekit.errors import ColumnNotFoundError, InvalidArgumentError

ROW_ADDRESS = "_rowaddr"
#: columns that a scan computes and no file stores
RESERVED_NAMES = (
    "_rowid",
    ROW_ADDRESS,
    "_rowoffset",
    "_row_created_at_version",
    "_row_last_updated_at_version",
)


def check_column_name(name: str) -> None:
    """Raise ``InvalidArgumentError`` if the reference could not read a column of this name."""
    if problem := _name_problem(name):
        raise InvalidArgumentError(
            f"Column name {name!r} cannot be used: {problem}.",
            hint="Rename the column.",
            column=name,
        )


def _name_problem(name: str) -> str:
    """Return why the reference could not read a column of this name, or ""."""
    if not name:
        return "it is empty"
    if name in RESERVED_NAMES:
        return "it is reserved for a hidden column"
    if any("\ud800" <= sign <= "\udfff" for sign in name):
        return "it has an unpaired surrogate"
    sign = next((sign for sign in ".`\0" if sign in name), "")
    return f"it contains {sign!r}" if sign else ""


def check_distinct(fields: Iterable[pa.Field], where: str) -> None:
    """Raise ``InvalidArgumentError`` if two fields of a schema or of a struct share a name."""
    seen: set[str] = set()
    for f in fields:
        if f.name in seen:
            raise InvalidArgumentError(
                f"Column name {f.name!r} occurs twice in {where}.",
                hint="Rename one of the two.",
                column=f.name,
            )
        seen.add(f.name)


def column_not_found(name: str, known: Iterable[str]) -> ColumnNotFoundError:
    """Return the error for a missing column, with similar names as hint."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6) or [
        other for other in names if other.lower() == name.lower()
    ]
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    there_are = f"Columns: {shown}." if names else "There are no columns."
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else there_are
    if line := loaded("_guesses.column_line")(name, names):
        hint = f"Use {line}."
    return ColumnNotFoundError(f"Column {name!r} does not exist.", hint=hint, column=name)


def not_in_source(name: str, known: Iterable[str], doing: str) -> ColumnNotFoundError:
    """Return the error for a merge or join source that lacks a required column."""
    names = list(known)
    same = [other for other in names if other.lower() == name.lower()]
    hint = f"Rename {same[0]!r} to {name!r} in the source." if len(same) == 1 else ""
    return ColumnNotFoundError(
        f"The source of the {doing} has no column {name!r}.",
        hint=hint or column_not_found(name, names).hint,
        column=name,
    )
