"""Cache of open local data files: mapping a file costs more than looking up a few rows.

A mapping does not follow the file's name.  Before a cached file is used, the store checks that its
name still leads to the same file, so removed and replaced files behave as without the cache.  Files
leave the cache with their handle.  They leave it sooner if all files have too many columns, or if
the bytes read from them would take too much memory.  All handles together keep few enough files to
leave most of the process's limited number of mappings to others.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from lancekit._cache import cache_limit, when_cleared
from lancekit._storage.base import Store
from lancekit._storage.local import LocalStore
from lancekit.options import options

if TYPE_CHECKING:
    from lancekit._file.reader import FileReader
    from lancekit._storage.mapped import MappedFile

#: maximum number of columns over a handle's cached files
_MOST_COLUMNS = 4096
#: maximum number of cached files over all handles; a process can have 65,530 mappings or more
_MOST_FILES = 1 << 14
#: share of `_MOST_FILES` that remains after an eviction
_REMAINING_SHARE = 7 / 8
#: maximum bytes read from cached files, as a share of the cache's limit
_READ_SHARE = 1 / 4


class OpenFiles:
    """Cache of a handle's most recently used files, which stay open.  Thread-safe.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancekit._file.writer import FileWriter
    >>> from lancekit._storage.places import open_store
    >>> store = open_store("memory://")
    >>> writer = FileWriter(store.create("a.lance"), pa.schema({"n": pa.int8()}))
    >>> writer.write(pa.record_batch({"n": pa.array([1, 2], pa.int8())}))
    >>> _ = writer.finish()
    >>> OpenFiles().open(store, "a.lance").num_rows
    2
    """

    def __init__(self) -> None:
        self._reset()
        _all[id(self)] = self

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._last_used = monotonic()
        self._cached: OrderedDict[Hashable, tuple[FileReader, MappedFile]] = OrderedDict()
        self._columns = self._opened = 0

    def open(
        self, store: Store, name: str, size: int | None = None, *, compared: bool = False
    ) -> FileReader:
        """Open a file, or return it from the cache.

        With `compared` each page of a local file is compared with its checksum before it is first
        decoded.  An object store would have to send whole pages for that.

        Raises FileNotFoundError: the file does not exist.
        Raises CorruptFileError, UnsupportedFeatureError: see `FileReader.open`.
        """
        # `verify_checksums` reads a file each time, and only local files can be mapped
        may_cache = isinstance(store, LocalStore) and not options.verify_checksums
        identity = store.identity(name) if may_cache else None
        if identity is None:  # a recently written file has no identity, either
            from lancekit._file.reader import FileReader

            return FileReader.open(store.open(name, size), compared=compared and may_cache)
        self._last_used = monotonic()
        # the page memory limits the decoded size of a page
        key = identity, options.page_memory_bytes, compared
        with self._lock:
            cached = self._cached.get(key)
            if cached is not None and cached[1].seen <= cache_limit() * _READ_SHARE:
                self._cached.move_to_end(key)
                return cached[0]
        from lancekit._file.reader import FileReader
        from lancekit._storage.mapped import MappedFile

        mapped = store.open(name, size)
        reader = FileReader.open(mapped, compared=compared)
        if isinstance(mapped, MappedFile) and mapped.identity == identity:
            self._add(key, reader, mapped)
            _evict_over_limit(self)
        return reader

    def clear(self) -> None:
        """Close all cached files."""
        with self._lock:
            self._cached.clear()
            self._columns = self._opened = 0

    def _add(self, key: Hashable, reader: FileReader, mapped: MappedFile) -> None:
        with self._lock:
            self._evict(key)
            self._cached[key] = reader, mapped
            self._columns += reader.num_columns
            while self._columns > _MOST_COLUMNS:
                self._evict(next(iter(self._cached)))
            self._opened += 1
            # the scan over all files runs when half the files changed: constant amortised cost
            if 2 * self._opened >= len(self._cached):
                self._opened = 0
                self._evict_much_read()

    def _evict(self, key: Hashable) -> None:
        reader, _ = self._cached.pop(key, (None, None))
        self._columns -= reader.num_columns if reader else 0

    def _evict_much_read(self) -> None:
        seen, most = 0, cache_limit() * _READ_SHARE
        for key, (_, mapped) in reversed(list(self._cached.items())):
            seen += mapped.seen
            if seen > most:
                self._evict(key)

    def __reduce__(self) -> tuple[object, ...]:
        return OpenFiles, ()  # another process has its own cache


_all: WeakValueDictionary[int, OpenFiles] = WeakValueDictionary()
#: number of files opened for a cache, and the number at which all cached files are counted again
_opened = count(1)
_count_at = [0]


def _live_caches() -> list[OpenFiles]:
    # the list of references is created atomically, even if other threads open datasets
    return [files for reference in _all.valuerefs() if (files := reference()) is not None]


def _evict_over_limit(newest: OpenFiles) -> None:
    """Evict the files of the least recently used handles if all handles have too many.

    Files are counted again only after as many opens as there was room for, and an eviction makes
    some room.  So the amortised cost of an open does not depend on the number of handles.
    """
    opened = next(_opened)
    if opened < _count_at[0]:
        return
    living = _live_caches()
    number = sum(len(files._cached) for files in living)
    if number > _MOST_FILES:
        most = int(_MOST_FILES * _REMAINING_SHARE)
        for files in sorted(living, key=lambda one: one._last_used):
            if files is not newest and number > most:
                number -= len(files._cached)
                files.clear()
    _count_at[0] = opened + max(1, _MOST_FILES + 1 - number)


@when_cleared
def _clear_all() -> None:
    for files in _live_caches():
        files.clear()


def _reset_all() -> None:
    for files in _live_caches():
        files._reset()


# in a child process, a missing thread may hold the lock, and the table may be half changed
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
