"""Warnings about index segments that cannot be used; each is shown once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lancekit._format.index import IndexMetadata
from lancekit._index.kinds import IndexKind
from lancekit._legible import warn
from lancekit.errors import LancekitError

T = TypeVar("T")

_ROWS = "all rows are scanned"
#: the warnings that were already shown
_warned: set[tuple[object, str]] = set()


def warn_unused(index: IndexMetadata, why: str, instead: str = _ROWS) -> None:
    """Warn that a segment is not used; ``instead`` tells the consequence."""
    warning = index.uuid, why
    if warning not in _warned:
        _warned.add(warning)
        warn(f"Index {index.name!r} is not used, {instead}: segment {index.uuid} {why}")


def is_supported(index: IndexMetadata, kind: IndexKind, instead: str = _ROWS) -> bool:
    """Return True if a segment has a supported version; warn if not."""
    is_newer = (index.index_version or 0) > kind.newest
    if is_newer:
        why = f"has version {index.index_version}, but {kind.newest} is supported"
        warn_unused(index, why, instead)
    return not is_newer


def open_or_warn(
    index: IndexMetadata, kind: IndexKind, opened: Callable[[], T], instead: str = _ROWS
) -> T | None:
    """Return the segment that ``opened`` opens; if it cannot be used, warn and return ``None``."""
    try:
        return opened() if is_supported(index, kind, instead) else None
    except (LancekitError, OSError) as error:
        warn_unused(index, f"cannot be read: {error}", instead)
        return None
