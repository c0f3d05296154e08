"""Marks: field metadata that control how values are stored.  Only this module interprets them.

Whether a mark is set follows the reference, release by release, because the reference locates
values by its own reading of the marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lancekit._format.extensions import EXTENSION_NAME

Metadata = Mapping[str, str]

#: stores a struct as one column; current and older name
PACKED = ("lance-encoding:packed", "packed")

#: stores large binary values as blobs
BLOB = "lance-encoding:blob"

#: schema metadata, "true" or "false": the reference stores large blobs in separate objects
MANAGED = "lance.blob.managed"

#: extension type of blobs with descriptors of version 2.2
BLOB_V2 = "lance.blob.v2"
_EXTENSION = EXTENSION_NAME.decode()

#: prefix of marks with which Polars limits a column to the categories of one frame: in an Arrow
#: schema, they would turn other categories to null
OF_POLARS = "_PL_"

COMPRESSION_LEVEL = "lance-encoding:compression-level"

#: levels are clipped to this range, which exceeds all compressions' and fits their arguments
_LEVELS = 1 << 30
_DIGITS = 12

_SET = frozenset({"true", "1", "yes", "on", "y"})


@dataclass(frozen=True, slots=True)
class Choice:
    """Values of a mark; whether case is ignored, and whether other values are refused."""

    values: tuple[str, ...]
    any_case: bool = False
    strict: bool = True


_CHOICES = {
    "lance-encoding:compression": Choice(("none", "lz4", "zstd", "fsst")),
    "lance-encoding:dict-values-compression": Choice(("none", "lz4", "zstd")),
    "lance-encoding:structural-encoding": Choice(("miniblock", "fullzip"), any_case=True),
    "lance-encoding:bss": Choice(("on", "off", "auto"), any_case=True, strict=False),
}


def texts(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Decode the metadata of an Arrow field to text."""
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (metadata or {}).items()
    }


def is_set(value: str) -> bool:
    """Return True if a mark, such as the primary key's, has a true value."""
    return value.lower() in _SET


def is_blob(metadata: Metadata) -> bool:
    """Return True for blobs of the first kind: the mark counts with any value."""
    return BLOB in metadata


def is_blob_v2(metadata: Metadata) -> bool:
    """Return True for blobs with descriptors of version 2.2."""
    return metadata.get(_EXTENSION) == BLOB_V2


def holds_blobs(metadata: Metadata) -> bool:
    """Return True for blobs of either kind."""
    return is_blob(metadata) or is_blob_v2(metadata)


def is_packed(metadata: Metadata) -> bool:
    """Return True if all releases read a struct as one column (``true``, case-insensitive)."""
    return any(metadata.get(mark, "").lower() == "true" for mark in PACKED)


def unclear_packing(metadata: Metadata) -> tuple[str, str] | None:
    """Return the mark and its value if only some releases of the reference read it as true."""
    found = ((mark, metadata[mark]) for mark in PACKED if is_set(metadata.get(mark, "")))
    return None if is_packed(metadata) else next(found, None)


def may_be_packed(metadata: Metadata) -> bool:
    """Return True if a release of the reference reads a struct as one column."""
    return is_packed(metadata) or unclear_packing(metadata) is not None


#: readings of the marks of packed structs, the usual one first: some releases accept more true
#: values, some writers of 2.0 accept any value, others ignore a mark such as "TRUE"
PACKINGS: tuple[Callable[[Metadata], bool], ...] = (
    is_packed,
    may_be_packed,
    lambda metadata: any(mark in metadata for mark in PACKED),
    lambda _: False,
)


def option(metadata: Metadata, key: str) -> str:
    """Return an encoding option in lower case, or "" if it is unset or unknown."""
    value = metadata.get(key, "")
    choice = _CHOICES.get(key)
    if choice is None:
        return value
    value = value.lower() if choice.any_case else value
    return value if value in choice.values else ""


def requests_encoding(metadata: Metadata) -> bool:
    """Return True if a mark requests an encoding."""
    return any(key.startswith("lance-encoding:") for key in metadata)


def unknown_choices(metadata: Metadata) -> Iterator[tuple[str, str, Choice]]:
    """Yield encoding marks with unknown values, with the known values."""
    for key, choice in _CHOICES.items():
        if choice.strict and key in metadata and not option(metadata, key):
            yield key, metadata[key], choice


def level(value: str) -> int | None:
    """Return a compression level; ``None`` for text that is not a number, as in the reference.

    Examples
    --------
    >>> level("9"), level("best")
    (9, None)
    """
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        return None
    return max(-_LEVELS, min(_LEVELS, int(value[:_DIGITS])))
