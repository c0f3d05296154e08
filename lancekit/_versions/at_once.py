"""Small files at the same time: many to write, or to read where the first takes long to come."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["at_once", "timed"]

K = TypeVar("K")
V = TypeVar("V")

_AT_ONCE = 8
_LONG = 0.005


def timed(read: Callable[[K], V], key: K) -> tuple[V, bool]:
    """Return what ``read`` returns, and whether more that take as long are worth `at_once`."""
    began = time.perf_counter()
    found = read(key)
    return found, time.perf_counter() - began > _LONG


def at_once(work: Callable[[K], V], keys: Collection[K]) -> list[V]:
    """Return what ``work`` returns for each key, called in a few threads."""
    if len(keys) < 2:
        return [work(key) for key in keys]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lancekit-small-files") as pool:
        return list(pool.map(work, keys))
