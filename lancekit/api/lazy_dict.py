"""`LazyDict`: a dictionary whose items are worked out when somebody asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
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


def _after_loading(name: str) -> Callable[..., Any]:
    method = getattr(dict, name)

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        for one in args:
            if isinstance(one, LazyDict):
                one._load()
        return method(*args, **kwargs)

    return call


for _name in (
    *("__contains__", "__delitem__", "__eq__", "__getitem__", "__ior__", "__iter__", "__len__"),
    *("__ne__", "__or__", "__reversed__", "__ror__", "__setitem__", "clear", "copy", "get"),
    *("items", "keys", "pop", "popitem", "setdefault", "update", "values"),
):
    setattr(LazyDict, _name, _after_loading(_name))
