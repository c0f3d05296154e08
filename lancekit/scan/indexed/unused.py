"""Segments of indices that cannot be used: it is said once, and the rows are looked at."""

from __future__ import annotations

from lancekit.format.index import IndexMetadata
from lancekit.legible import warn

__all__ = ["tell_unused"]

#: what was said of segments, each once
_told: set[tuple[object, str]] = set()


def tell_unused(index: IndexMetadata, why: str, instead: str = "all rows are looked at") -> None:
    """Warn that a segment is not used, and what is done instead."""
    said = index.uuid, why
    if said not in _told:
        _told.add(said)
        warn(f"Index {index.name!r} is not used, {instead}: segment {index.uuid} {why}")
