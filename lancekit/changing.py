"""The part of a handle that changes rows in bulk, columns and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lancekit.commit.snapshot import Snapshot
from lancekit.optimize import DatasetOptimizer

__all__ = ["Changing"]

T = TypeVar("T")


class Changing:
    """Updates, changes of the schema, compaction, cleanup."""

    _snapshot: Snapshot

    def _move(self, change: Callable[[Snapshot], tuple[Snapshot, T]]) -> T:
        raise NotImplementedError  # a handle's own

    @property
    def optimize(self) -> DatasetOptimizer:
        """The maintenance of the dataset's files."""
        return DatasetOptimizer(self)
