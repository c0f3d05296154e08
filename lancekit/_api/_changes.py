"""What the histories of rows and of columns are: changes on a branch, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import ClassVar, Self, TypeVar, overload

from lancekit._display import Displayed

__all__ = ["ChangesOf"]

Change = TypeVar("Change")


class ChangesOf(Displayed, Sequence[Change]):
    """Changes in order; a slice is of the same kind, and tells of the same thing."""

    def __init__(self, branch: str, changes: Sequence[Change]) -> None:
        self.branch = branch
        self._changes = tuple(changes)

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Change | Self:
        if isinstance(index, slice):
            part = copy(self)
            part._changes = self._changes[index]
            return part
        return self._changes[index]

    def __iter__(self) -> Iterator[Change]:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, type(self)):
            return self.__dict__ == other.__dict__
        return NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # like a list
