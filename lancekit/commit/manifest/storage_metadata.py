"""Metadata of a field that say how its values are stored, which stay as the files were written."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lancekit.errors import CorruptFileError, InvalidArgumentError
from lancekit.file.columns.physical import in_one_column
from lancekit.format.extensions import EXTENSION_METADATA, EXTENSION_NAME, resolved_schema
from lancekit.format.field_marks import holds_blobs, is_packed, unclear_packing
from lancekit.format.fragment import Fragment, columns_of_files
from lancekit.format.schema import LanceField
from lancekit.legible import shown

__all__ = ["check_marks"]

_EXTENSION = (EXTENSION_NAME.decode(), EXTENSION_METADATA.decode())
_JSON = frozenset({"arrow.json", "lance.json"})


def check_marks(old: LanceField, new: LanceField, fragments: Iterable[Fragment]) -> None:
    """Raise ``InvalidArgumentError`` if new metadata of a field do not fit how it is stored.

    Parameters
    ----------
    fragments
        The rows, whose structs are packed or not, whatever the old metadata say.
    """
    if holds_blobs(old.metadata) != holds_blobs(new.metadata):
        hint = "Write the column anew as one of blobs."
        stored = holds_blobs(old.metadata)
        raise _misfit(new, "blobs", _CANNOT[stored], hint, stored=stored)
    if new.logical_type == "struct" and _packing(old) != _packing(new):
        _check_packing(new, _forms(new, fragments))
    if any(old.metadata.get(key) != new.metadata.get(key) for key in _EXTENSION):
        _check_extension(new)


def _packing(field: LanceField) -> object:
    """Return whether a struct is packed, or the mark of which readers do not agree."""
    return unclear_packing(field.metadata) or is_packed(field.metadata)


def _forms(field: LanceField, fragments: Iterable[Fragment]) -> set[bool]:
    """Return whether a struct is one column of the files that have it: both, of some tables."""
    parts = {part.id for part in field.walk()}
    files = (columns for fragment in fragments for columns in columns_of_files(fragment))
    return {in_one_column(field, columns) for columns in files if not parts.isdisjoint(columns)}


def _check_packing(field: LanceField, forms: set[bool]) -> None:
    mark = "Mark it as packed='true'." if True in forms else "Leave out the mark."
    unclear = unclear_packing(field.metadata)
    if unclear is not None and forms:
        key, value = unclear
        problem = f"{key}={shown(value)} says 'packed' to some releases of the reference only"
        raise _misfit(field, "packed structs", problem, mark, stored=True in forms)
    if forms == {not is_packed(field.metadata)}:
        hint = f"{mark} For another form, write the rows to a new dataset."
        raise _misfit(field, "packed structs", _CANNOT[True in forms], hint, stored=True in forms)


#: what follows for values that are, or are not, stored in some way
_CANNOT = {True: "they cannot be read as anything else", False: "they cannot be read as such"}


def _misfit(
    field: LanceField, what: str, problem: str, hint: str, *, stored: bool
) -> InvalidArgumentError:
    how = "stored" if stored else "not stored"
    return InvalidArgumentError(
        f"The values of column {field.name!r} are {how} as {what}; {problem}.",
        hint=hint,
        column=field.name,
    )


def _check_extension(field: LanceField) -> None:
    name = field.metadata.get(_EXTENSION[0], "")
    problem = ""
    if name in _JSON:
        if (field.logical_type, name) != ("json", "lance.json"):
            problem = f"JSON is stored in its own form, not as {field.logical_type}"
    elif name:
        try:
            resolved_schema(pa.schema([field.to_arrow()]))
        except CorruptFileError as error:
            problem = str(error.__cause__ or error)
    if problem:
        raise InvalidArgumentError(
            f"Column {field.name!r} cannot be of the extension type {name!r}: {problem}.",
            hint="Cast the column, or write it anew with that type.",
            column=field.name,
            extension=name,
        )
