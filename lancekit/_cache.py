"""Cache for immutable objects of storage: one for the process, and always correct.

Manifests, data files and deletion files never change under their names, unless somebody rewrites
them by hand.  So the cache keys are not names but *identities*, which a store returns when it opens
an object (`storage.identity`).  A replaced object has another identity.  Entries of the old object
are never found again, and are evicted as the least recently used.

Errors are not cached.  Threads and handles share the values, so they must not change.  Values own
their memory (no view of a mapped file, or of a larger block), so that eviction frees it.

`lancekit.options.cache_bytes` is the limit.  In a ``with`` block only the value 0 has an effect:
files opened in it have no identity, so nothing of them is looked up or cached.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast

from lancekit._display import Displayed
from lancekit._machine import total_memory
from lancekit.options import options, when_set

_Entries: TypeAlias = "OrderedDict[Hashable, tuple[str, int, Any]]"
T = TypeVar("T")
Wanted: TypeAlias = tuple[Hashable, int, int]

#: maximum of the default limit in bytes, and the fraction (1 / n) of the machine's memory
_MOST, _SHARE = 1 << 30, 10

#: Overhead of an entry in bytes: two table slots, a tuple, and the parts of its key.
_ENTRY_BYTES = 400

#: Kind of decoded values.  They are evicted before all other kinds, which are smaller and save as
#: much time, unless the other kinds exceed 1 / `_SMALL_SHARE` of the limit.
VALUES, _SMALL_SHARE = "values", 4

#: Maximum number of recorded keys that were requested but not cached: about 5 MB.
_MOST_MISSED = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """Cache usage of one kind: bytes, entries, hits and misses."""

    bytes: int = 0
    entries: int = 0
    hits: int = 0
    misses: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheInfo(Displayed):
    """Usage of this process's cache.

    Attributes
    ----------
    limit
        Maximum size in bytes.
    bytes, entries, hits, misses
        Sums over all kinds.
    kinds
        Usage by kind of cached object.
    """

    limit: int = 0
    kinds: Mapping[str, CacheUse] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Number of bytes in use, including keys."""
        return sum(use.bytes for use in self.kinds.values())

    @property
    def entries(self) -> int:
        """Number of cached objects."""
        return sum(use.entries for use in self.kinds.values())

    @property
    def hits(self) -> int:
        """Number of successful lookups."""
        return sum(use.hits for use in self.kinds.values())

    @property
    def misses(self) -> int:
        """Number of failed lookups."""
        return sum(use.misses for use in self.kinds.values())

    def _plain(self) -> str:
        return (
            f"cache of {self.limit:,} bytes: {self.bytes:,} bytes in {self.entries:,} entries, "
            f"{self.hits:,} hits, {self.misses:,} misses"
        )


class _Cache:
    """Thread-safe LRU cache."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: small objects, and decoded values, which are evicted first; least recently used first
        self._entries: tuple[_Entries, _Entries] = (OrderedDict(), OrderedDict())
        self._uses: dict[str, list[int]] = {}  # kind -> bytes, entries, hits, misses
        self._bytes = 0
        #: missed keys -> clock at the last request, in bytes read, and the units requested
        self._missed: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        self._clock = 0

    def get(self, kind: str, key: Hashable) -> object:
        """Return a value, or ``None`` if it is not cached."""
        with self.lock:
            entries = self._entries[kind == VALUES]
            found = entries.get(key)
            use = self._use(kind)
            if found is None:
                use[3] += 1
                return None
            use[2] += 1
            entries.move_to_end(key)
            return found[2]

    def find(self, kind: str, wanted: Sequence[Wanted], size: int, limit: int) -> list[object]:
        """Return each value; for a missing one, True if it was requested recently."""
        last = _last_read.get()
        found: list[object] = []
        with self.lock:
            use, entries = self._use(kind), self._entries[kind == VALUES]
            for key, uses, whole in wanted:
                entry = entries.get(key)
                if entry is not None:
                    use[2] += 1
                    entries.move_to_end(key)
                    found.append(entry[2])
                    continue
                use[3] += 1
                if last:
                    found.append(False)
                    continue
                self._clock += size * uses // max(whole, 1)
                when, before = self._missed.pop(key, (0, 0))
                total = uses + (before if self._clock - when <= limit else 0)
                self._missed[key] = self._clock, total
                found.append(total > whole)
            while len(self._missed) > _MOST_MISSED:
                self._missed.popitem(last=False)
        return found

    def put(self, kind: str, key: Hashable, value: object, size: int, limit: int) -> object:
        """Add a value unless the key has one; return the cached value."""
        size += _ENTRY_BYTES
        with self.lock:
            entries = self._entries[kind == VALUES]
            found = entries.get(key)
            if found is not None:
                return found[2]
            if size <= limit:
                entries[key] = (kind, size, value)
                self._count(kind, size, 1)
                self._shrink(limit)
            return value

    def shrink(self, limit: int) -> None:
        """Evict the least recently used values until the rest fits."""
        with self.lock:
            self._shrink(limit)

    def clear(self) -> None:
        """Remove everything, and reset the counters."""
        with self.lock:
            for entries in self._entries:
                entries.clear()
            self._uses.clear()
            self._missed.clear()
            self._bytes = 0

    def info(self, limit: int) -> CacheInfo:
        """Return the cache's usage."""
        with self.lock:
            kinds = {
                kind: CacheUse(bytes=use[0], entries=use[1], hits=use[2], misses=use[3])
                for kind, use in sorted(self._uses.items())
            }
        return CacheInfo(limit=limit, kinds=kinds)

    def _shrink(self, limit: int) -> None:
        small, values = self._entries
        while self._bytes > limit:
            of_values = self._use(VALUES)[0]
            take_value = values and (not small or self._bytes - of_values <= limit // _SMALL_SHARE)
            _, (kind, size, _) = (values if take_value else small).popitem(last=False)
            self._count(kind, -size, -1)

    def _count(self, kind: str, size: int, entries: int) -> None:
        self._bytes += size
        use = self._use(kind)
        use[0] += size
        use[1] += entries

    def _use(self, kind: str) -> list[int]:
        use = self._uses.get(kind)
        if use is None:
            use = self._uses[kind] = [0, 0, 0, 0]
        return use


_cache = _Cache()


_last_read = ContextVar("last_read", default=False)


@contextmanager
def read_for_the_last_time() -> Iterator[None]:
    """Cache no values that are decoded in the block, because their files are being replaced.

    Cached values are still used.
    """
    token = _last_read.set(True)
    try:
        yield
    finally:
        _last_read.reset(token)


def _renew_lock() -> None:
    _cache.lock = threading.Lock()


# a lock that another thread holds during a fork would stay locked in the child
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _cache.lock.acquire(),  # noqa: PLW0108  # a child has another lock
        after_in_parent=lambda: _cache.lock.release(),  # noqa: PLW0108
        after_in_child=_renew_lock,
    )


def look_up(kind: str, key: Hashable) -> Any:
    """Return the cached value of a key, or ``None``."""
    return _cache.get(kind, key)


def found_or_seen(kind: str, wanted: Sequence[Wanted], size: int) -> list[object]:
    """Return the cached value of each key; for a missing one, True if it is worth caching.

    It is worth caching if more units were requested, now and before, than it has.  Earlier requests
    count only if fewer bytes have been read since than the cache can hold.  So repeated scans of
    more than that evict nothing.

    Parameters
    ----------
    wanted
        (key, number of requested units, number of all units).
    size
        Approximate bytes of each value.
    """
    return _cache.find(kind, wanted, size, cache_limit())


def keep(kind: str, key: Hashable, value: T, size: int) -> T:
    """Add a value of ``size`` bytes, unless the key has one; return the cached value."""
    return cast("T", _cache.put(kind, key, value, size, cache_limit()))


def remembered(
    kind: str, key: Hashable | None, make: Callable[[], T], size: Callable[[T], int]
) -> T:
    """Return the cached value of a key, or compute and cache it.

    Parameters
    ----------
    kind
        Name of the kind, for the counters.
    key
        ``None`` for objects without identity, which are always computed.
    make, size
        Functions that compute the value, and its bytes.
    """
    if key is None:
        return make()
    found = look_up(kind, key)
    if found is not None:
        return cast("T", found)
    value = make()
    return keep(kind, key, value, size(value))


def is_wanted() -> bool:
    """Return True if files that are opened now may be cached."""
    return bool(options.cache_bytes != 0)


def cache_limit() -> int:
    """Return the cache's limit in bytes for this process."""
    configured = options.for_the_process("cache_bytes")
    return _default_limit() if configured is None else int(configured)


def cache_info() -> CacheInfo:
    """Return the usage of this process's cache.

    Examples
    --------
    >>> import lancekit as lk
    >>> info = lk.cache_info()
    >>> info.bytes <= info.limit
    True
    """
    return _cache.info(cache_limit())


def clear_cache() -> None:
    """Clear the cache, and reset its counters.

    Results never depend on the cache.

    Examples
    --------
    >>> import lancekit as lk
    >>> lk.clear_cache()
    >>> lk.cache_info().entries
    0
    """
    _cache.clear()
    _clear_others()


def _clear_others() -> None:
    for clear in _cleared_with:
        clear()


_cleared_with: list[Callable[[], None]] = []


def when_cleared(clear: Callable[[], None]) -> Callable[[], None]:
    """Register a function that `clear_cache` calls, to clear other caches; return it."""
    _cleared_with.append(clear)
    return clear


def _limit() -> None:
    _cache.shrink(cache_limit())
    if cache_limit() == 0:
        _clear_others()


when_set("cache_bytes", _limit)


@cache
def _default_limit() -> int:
    return min(_MOST, total_memory() // _SHARE)
