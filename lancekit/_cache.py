"""What is immutable, remembered: one cache for the whole process, which is always right.

Manifests, data files and deletion files do not change under their names, save where somebody
writes them anew by hand.  So nothing is remembered of a name, but of an *identity*, which a store
gives for an object as it is opened (`storage.identity`): what is put in its place later has
another one, and what was remembered of the first is never met again, until it is dropped as what
was not used for longest.

Errors are not remembered.  Values are shared by threads and handles: they must not change, and own
their memory (no view of a mapped file, or of a larger block), so that what is dropped is free.

`lancekit.options.cache_bytes` says how much is kept.  In a ``with`` block only 0 makes a
difference: files opened in it have no identity, so that nothing of them is looked up or kept.
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

#: at most, whatever the memory; and the share of the memory
_MOST, _SHARE = 1 << 30, 10

#: What an entry takes besides its value: its place in two tables, a tuple, and its key's own parts.
_ENTRY_BYTES = 400

#: What decoded values are called.  They go before all else, which is small and saves as much,
#: unless that has come to take more than its share.
VALUES, _SMALL_SHARE = "values", 4

#: Keys of what was asked for once that are held at most: some 5 MB.
_MOST_MISSED = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """How much of one kind is remembered, and how often it was found or not."""

    bytes: int = 0
    entries: int = 0
    hits: int = 0
    misses: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheInfo(Displayed):
    """What this process remembers of the files that it has read.

    Attributes
    ----------
    limit
        The bytes that are kept at most.
    bytes, entries, hits, misses
        Sums over all kinds.
    kinds
        The same by kind of what is remembered.
    """

    limit: int = 0
    kinds: Mapping[str, CacheUse] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The bytes that are taken, keys included."""
        return sum(use.bytes for use in self.kinds.values())

    @property
    def entries(self) -> int:
        """The number of things remembered."""
        return sum(use.entries for use in self.kinds.values())

    @property
    def hits(self) -> int:
        """How often something was found."""
        return sum(use.hits for use in self.kinds.values())

    @property
    def misses(self) -> int:
        """How often something was not found."""
        return sum(use.misses for use in self.kinds.values())

    def _plain(self) -> str:
        return (
            f"cache of {self.limit:,} bytes: {self.bytes:,} bytes in {self.entries:,} entries, "
            f"{self.hits:,} hits, {self.misses:,} misses"
        )


class _Cache:
    """Entries by key, the least recently used first; every method may be called in any thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: what is small, and then decoded values, which go first
        self._entries: tuple[_Entries, _Entries] = (OrderedDict(), OrderedDict())
        self._uses: dict[str, list[int]] = {}  # of each kind: bytes, entries, hits, misses
        self._bytes = 0
        #: keys of what was missed, how many bytes had been by then, and how much of it was wanted
        self._missed: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        self._clock = 0

    def get(self, kind: str, key: Hashable) -> object:
        """Return a value, ``None`` if it is not there."""
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
        """Return each value; of one that is not there, whether it was wanted not long ago."""
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
        """Keep a value, unless one is there already; returns the one that is kept."""
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
        """Drop what was not used for longest, until the rest fits."""
        with self.lock:
            self._shrink(limit)

    def clear(self) -> None:
        """Drop everything, and count anew."""
        with self.lock:
            for entries in self._entries:
                entries.clear()
            self._uses.clear()
            self._missed.clear()
            self._bytes = 0

    def info(self, limit: int) -> CacheInfo:
        """Return what is kept."""
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
    """Keep nothing of the values that are decoded in the block: other files take their place.

    What is remembered already is used.
    """
    token = _last_read.set(True)
    try:
        yield
    finally:
        _last_read.reset(token)


def _renew_lock() -> None:
    _cache.lock = threading.Lock()


# A child must not find the lock taken by a thread that it does not have, nor a table half changed.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _cache.lock.acquire(),  # noqa: PLW0108  # a child has another lock
        after_in_parent=lambda: _cache.lock.release(),  # noqa: PLW0108
        after_in_child=_renew_lock,
    )


def look_up(kind: str, key: Hashable) -> Any:
    """Return what is remembered under a key, ``None`` if nothing is."""
    return _cache.get(kind, key)


def found_or_seen(kind: str, wanted: Sequence[Wanted], size: int) -> list[object]:
    """Return what is remembered under each key; if nothing, whether it was asked for before.

    That is so if more of it was asked for, now and before, than there is.  What was asked for so
    long ago that the cache would not hold all that was asked for since counts as new: a scan of
    more than that, done again and again, drives nothing out.

    Parameters
    ----------
    wanted
        Keys, how much of each is asked for, and how much there is.
    size
        About what each of the values takes.
    """
    return _cache.find(kind, wanted, size, cache_limit())


def keep(kind: str, key: Hashable, value: T, size: int) -> T:
    """Remember a value of so many bytes; returns the one that is remembered under the key."""
    return cast("T", _cache.put(kind, key, value, size, cache_limit()))


def remembered(
    kind: str, key: Hashable | None, make: Callable[[], T], size: Callable[[T], int]
) -> T:
    """Return what is remembered under a key, or make it and remember it.

    Parameters
    ----------
    kind
        What it is called where it is counted.
    key
        ``None`` for what has no identity, and is made anew each time.
    make, size
        What makes it, and how many bytes it takes.
    """
    if key is None:
        return make()
    found = look_up(kind, key)
    if found is not None:
        return cast("T", found)
    made = make()
    return keep(kind, key, made, size(made))


def is_wanted() -> bool:
    """Whether files that are opened now may be remembered."""
    return bool(options.cache_bytes != 0)


def cache_limit() -> int:
    """Return how many bytes are kept at most in this process."""
    asked = options.for_the_process("cache_bytes")
    return _default_limit() if asked is None else int(asked)


def cache_info() -> CacheInfo:
    """Return what this process remembers of the files that it has read.

    Examples
    --------
    >>> import lancekit as lk
    >>> info = lk.cache_info()
    >>> info.bytes <= info.limit
    True
    """
    return _cache.info(cache_limit())


def clear_cache() -> None:
    """Forget all that is remembered of files, and count anew.

    No result changes by it: what is remembered is always what would be read.

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
    """Register what lets go of things that are remembered elsewhere; returns it."""
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
