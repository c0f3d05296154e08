"""The names of objects within a store, checked before they reach a disk or a server."""

from __future__ import annotations

from lancekit.errors import InvalidArgumentError

__all__ = ["check_folder", "check_name", "is_name"]


def check_name(name: str) -> str:
    """Return the name of an object, if it is relative, non-empty and stays below the root."""
    if not is_name(name):
        raise InvalidArgumentError(
            f"{name!r} is not a name within a store.",
            hint="Names are relative, '/'-separated, without empty, '.' or '..' parts, "
            "backslashes or NUL.",
            name=name,
        )
    return name


def is_name(name: str) -> bool:
    """Tell whether something is the name of an object; a listing may bring others."""
    parts = name.split("/")
    return not ("" in parts or "." in parts or ".." in parts or "\\" in name or "\0" in name)


def check_folder(folder: str) -> str:
    """Return the name of a folder; the empty name is the store's root."""
    return folder if folder == "" else check_name(folder)
