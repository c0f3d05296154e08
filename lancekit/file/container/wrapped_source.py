"""What files that stand before another file have in common."""

from __future__ import annotations

from collections.abc import Hashable

from lancekit.storage.base import RandomAccess

__all__ = ["SourceWrapper"]


class SourceWrapper:
    """A file that answers for another one, except for reading it."""

    def __init__(self, source: RandomAccess) -> None:
        self._source = source

    @property
    def name(self) -> str:
        """What errors call the file."""
        return self._source.name

    @property
    def gap(self) -> int:
        """Bytes between two ranges that cost no more than reading them apart."""
        return self._source.gap

    @property
    def identity(self) -> Hashable | None:
        """What tells the file from all others."""
        return self._source.identity

    def size(self) -> int:
        """Return the file's size in bytes."""
        return self._source.size()
