"""Tuples for what pylance has in lists."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["Items"]

T = TypeVar("T")


class Items(tuple[T, ...]):
    """A tuple that equals a list of the same items too: code compares with what pylance gives.

    Examples
    --------
    >>> Items([1, 2]) == [1, 2] == Items([1, 2]), Items([1, 2]) == (1, 2), Items([1]) != [2]
    (True, True, True)
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        # a tuple's own does not ask `__eq__`
        return not self == other

    __hash__ = tuple.__hash__
