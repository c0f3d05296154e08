"""Metadata of a field that say how its values are stored, which stay as the files were written."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lancekit.errors import CorruptFileError, InvalidArgumentError
from lancekit.file.blobs import is_blob
from lancekit.format.extensions import EXTENSION_METADATA, EXTENSION_NAME, resolved_schema
from lancekit.format.marks import is_packed, unclear_packing
from lancekit.format.schema import LanceField

__all__ = ["check_marks"]

_EXTENSION = (EXTENSION_NAME.decode(), EXTENSION_METADATA.decode())
_JSON = frozenset({"arrow.json", "lance.json"})


def _packs(field: LanceField) -> object:
    """Return whether a struct is packed, or the mark of which readers do not agree."""
    if field.logical_type != "struct":
        return False
    return unclear_packing(field.metadata) or is_packed(field.metadata)


def check_marks(old: LanceField, new: LanceField, *, has_rows: bool) -> None:
    """Raise ``InvalidArgumentError`` if new metadata of a field do not fit how it is stored.

    Parameters
    ----------
    has_rows
        Whether there are files, whose structs are packed or not.
    """
    _refuse_change(old, new, is_blob, "blobs", "Write the column anew as one of blobs.")
    if has_rows:
        hint = "Write the rows to a new dataset, whose schema has the mark from the start."
        _refuse_change(old, new, _packs, "packed structs", hint)
    if any(old.metadata.get(key) != new.metadata.get(key) for key in _EXTENSION):
        _check_extension(new)


def _refuse_change(
    old: LanceField, new: LanceField, marks: Callable[[LanceField], object], what: str, hint: str
) -> None:
    if marks(old) != marks(new):
        stored, wanted = ("stored", "not be read") if marks(old) else ("not stored", "be read")
        raise InvalidArgumentError(
            f"The values of column {new.name!r} are {stored} as {what}, so they cannot {wanted} "
            "as such.",
            hint=hint,
            column=new.name,
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
