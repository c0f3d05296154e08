"""Marks: metadata of a field that say how its values are stored.  All that reads them does so here.

What counts as set is what the reference takes for set, release by release, because it looks for
the values where its marks lead it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lancekit._format.extensions import EXTENSION_NAME

Metadata = Mapping[str, str]

#: makes one column of a struct, under its name or its older one
PACKED = ("lance-encoding:packed", "packed")

#: makes blobs of large binary values
BLOB = "lance-encoding:blob"

#: metadata of a schema, "true" or "false": the reference keeps large blobs in objects of their own
MANAGED = "lance.blob.managed"

#: the extension type of blobs with descriptors of version 2.2
BLOB_V2 = "lance.blob.v2"
_EXTENSION = EXTENSION_NAME.decode()

#: how marks begin that Polars makes of the categories of one frame: it shows null for all others
OF_POLARS = "_PL_"

COMPRESSION_LEVEL = "lance-encoding:compression-level"

#: no compression has levels beyond, and these fit into its arguments
_LEVELS = 1 << 30
_DIGITS = 12

_SET = frozenset({"true", "1", "yes", "on", "y"})


@dataclass(frozen=True, slots=True)
class Choice:
    """The values of a mark, whether they may be in capitals, and whether others are refused."""

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
    """Return the metadata of an Arrow field as text."""
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (metadata or {}).items()
    }


def is_set(value: str) -> bool:
    """Return whether the value of a mark, such as that of a primary key, says yes."""
    return value.lower() in _SET


def is_blob(metadata: Metadata) -> bool:
    """Return whether values are blobs of the first kind: the mark counts, whatever its value."""
    return BLOB in metadata


def is_blob_v2(metadata: Metadata) -> bool:
    """Return whether values are blobs with descriptors of version 2.2."""
    return metadata.get(_EXTENSION) == BLOB_V2


def holds_blobs(metadata: Metadata) -> bool:
    """Return whether values are blobs, of either kind."""
    return is_blob(metadata) or is_blob_v2(metadata)


def is_packed(metadata: Metadata) -> bool:
    """Return whether a struct is one column: by ``true``, in capitals or not, which all go by."""
    return any(metadata.get(mark, "").lower() == "true" for mark in PACKED)


def unclear_packing(metadata: Metadata) -> tuple[str, str] | None:
    """Return the mark, and its value, that only some releases of the reference take for yes."""
    found = ((mark, metadata[mark]) for mark in PACKED if is_set(metadata.get(mark, "")))
    return None if is_packed(metadata) else next(found, None)


def may_be_packed(metadata: Metadata) -> bool:
    """Return whether some release of the reference takes a struct for one column."""
    return is_packed(metadata) or unclear_packing(metadata) is not None


#: ways to tell which structs of a file are packed, the usual one first: some releases take more
#: words for yes, some writers of 2.0 ask for the mark alone or look for none in capitals
PACKINGS: tuple[Callable[[Metadata], bool], ...] = (
    is_packed,
    may_be_packed,
    lambda metadata: any(mark in metadata for mark in PACKED),
    lambda _: False,
)


def option(metadata: Metadata, key: str) -> str:
    """Return the value of an encoding's mark, in small letters; empty if unset or not known."""
    value = metadata.get(key, "")
    choice = _CHOICES.get(key)
    if choice is None:
        return value
    value = value.lower() if choice.any_case else value
    return value if value in choice.values else ""


def asks_for_encoding(metadata: Metadata) -> bool:
    """Return whether any mark says how values are to be encoded."""
    return any(key.startswith("lance-encoding:") for key in metadata)


def unknown_choices(metadata: Metadata) -> Iterator[tuple[str, str, Choice]]:
    """Yield the marks of encodings whose values nobody knows, and what there is to choose from."""
    for key, choice in _CHOICES.items():
        if choice.strict and key in metadata and not option(metadata, key):
            yield key, metadata[key], choice


def level(value: str) -> int | None:
    """Return the level of a compression; ``None`` for what is no number, as in the reference.

    Examples
    --------
    >>> level("9"), level("best")
    (9, None)
    """
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        return None
    return max(-_LEVELS, min(_LEVELS, int(value[:_DIGITS])))
