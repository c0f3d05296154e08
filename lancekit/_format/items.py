"""Tuples that equal lists, and bitmaps that equal sets, for comparison with pylance's values."""

from __future__ import annotations

from typing import TypeVar

from pyroaring import BitMap

T = TypeVar("T")


class Items(tuple[T, ...]):
    """Tuple that also equals a list of the same items.

    Examples
    --------
    >>> Items([1, 2]) == [1, 2] == Items([1, 2]), Items([1, 2]) == (1, 2), Items([1]) != [2]
    (True, True, True)
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        # a tuple's own method would not call `__eq__`
        return not self == other

    __hash__ = tuple.__hash__


class Numbers(BitMap):
    """Bitmap that also equals a set of the same numbers.

    Examples
    --------
    >>> Numbers([1, 2]) == {1, 2} == Numbers([1, 2]), Numbers([1]) == BitMap([1]), Numbers() != {1}
    (True, True, True)
    """

    def __eq__(self, other: object) -> bool:
        if isinstance(other, set | frozenset):
            return set(self) == other
        return bool(BitMap.__eq__(self, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]
