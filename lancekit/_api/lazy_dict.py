"""`LazyDict`: a dictionary whose items are worked out when somebody asks for one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["LazyDict"]


class _Unread:
    """What stands in the place of a value before the first look."""

    def __repr__(self) -> str:
        return "<not read yet: make a dict() of it>"


class LazyDict(dict[str, Any]):
    """A dictionary that asks `_items` for what is in it, at the first look.

    What reads a dictionary's memory and not its methods (Arrow's and Polars' own conversions) finds
    values of no type before that: hand such a library ``dict(it)``.
    """

    _loaded = False

    def __init__(self, keys: Iterable[str]) -> None:
        # C code takes a dictionary for empty that has no keys in memory
        super().__init__(dict.fromkeys(keys, _Unread()))

    def _items(self) -> dict[str, Any]:
        """Return what is in the dictionary."""
        raise NotImplementedError

    def _load(self) -> None:
        if not self._loaded:
            dict.update(self, self._items())
            self._loaded = True

    def __eq__(self, other: object) -> bool:
        for one in (self, other):
            if isinstance(one, LazyDict):
                one._load()
        return bool(dict.__eq__(self, other)) if isinstance(other, dict) else NotImplemented

    def __ne__(self, other: object) -> bool:
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    __hash__ = None


class _AfterLoading:
    """A method of dictionaries, of one that is filled first; it stays the dictionary's own."""

    def __init__(self, name: str) -> None:
        self._method = getattr(dict, name)

    def __get__(self, it: LazyDict | None, owner: type | None = None) -> Any:
        if it is None:
            return self._method
        it._load()
        return self._method.__get__(it, owner)


for _name in (
    *("__contains__", "__delitem__", "__getitem__", "__ior__", "__iter__", "__len__", "__or__"),
    *("__reversed__", "__ror__", "__setitem__", "clear", "copy", "get", "items", "keys", "pop"),
    *("popitem", "setdefault", "update", "values"),
):
    setattr(LazyDict, _name, _AfterLoading(_name))
