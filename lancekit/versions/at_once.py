"""Small files at the same time, where each takes long to come: not from a local disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["at_once", "takes_long"]

K = TypeVar("K")
V = TypeVar("V")

_AT_ONCE = 8
_LONG = 0.005


def takes_long(seconds: float) -> bool:
    """Tell whether a file that took so long is worth a thread of its own."""
    return seconds > _LONG


def at_once(read: Callable[[K], V], keys: Iterable[K]) -> list[V]:
    """Return what ``read`` returns for each key, called in a few threads."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lancekit-small-files") as pool:
        return list(pool.map(read, keys))
