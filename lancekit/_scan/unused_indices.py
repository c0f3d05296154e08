"""Segments of indices that cannot be used: it is said once, and the rows are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lancekit._format.index import IndexMetadata
from lancekit._index.kinds import IndexKind
from lancekit._legible import warn
from lancekit.errors import LancekitError

T = TypeVar("T")

_ROWS = "all rows are looked at"
#: what was said of segments, each once
_told: set[tuple[object, str]] = set()


def tell_unused(index: IndexMetadata, why: str, instead: str = _ROWS) -> None:
    """Warn that a segment is not used, and what is done instead."""
    said = index.uuid, why
    if said not in _told:
        _told.add(said)
        warn(f"Index {index.name!r} is not used, {instead}: segment {index.uuid} {why}")


def is_known(index: IndexMetadata, kind: IndexKind, instead: str = _ROWS) -> bool:
    """Return whether a segment has a version that can be read; warn if not."""
    is_newer = (index.index_version or 0) > kind.newest
    if is_newer:
        why = f"has version {index.index_version}, and {kind.newest} is known"
        tell_unused(index, why, instead)
    return not is_newer


def opened_or_told(
    index: IndexMetadata, kind: IndexKind, opened: Callable[[], T], instead: str = _ROWS
) -> T | None:
    """Return a segment as ``opened`` opens it, ``None`` and a warning if it cannot be used."""
    try:
        return opened() if is_known(index, kind, instead) else None
    except (LancekitError, OSError) as error:
        tell_unused(index, f"cannot be read: {error}", instead)
        return None
