"""Local data files that a handle keeps open: to map one anew costs more than to look up a few rows.

A mapping is not a name: before a file is taken from here, the disk is asked whether its name still
leads to it, so that one that was removed or put in its place is met as if nothing were kept.  What
is kept is let go with the handle, and goes sooner once files have too many columns together, or
once so much was looked at of them that it should not stay in memory.  All handles together keep no
more files than leave most of a process's mappings, which systems limit, to others.
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

#: columns of all files that are kept
_MOST_COLUMNS = 4096
#: files that all handles keep together; systems have 65,530 mappings for a process, if not more
_MOST_FILES = 1 << 14
#: of these as many are left once they were too many
_KEPT_SHARE = 7 / 8
#: of the bytes that the cache may take, as many may have been looked at in files that are kept
_SEEN_SHARE = 1 / 4


class OpenFiles:
    """Files of the datasets that a handle reads, those last used still open.  Thread-safe.

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
        self._begin()
        _all[id(self)] = self

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._last_used = monotonic()
        self._kept: OrderedDict[Hashable, tuple[FileReader, MappedFile]] = OrderedDict()
        self._columns = self._opened = 0

    def open(
        self, store: Store, name: str, size: int | None = None, *, compared: bool = False
    ) -> FileReader:
        """Open a file, or return one that is still open.

        With `compared` the pages of a file on a local disk are compared with their checksums, each
        before it is first decoded.  An object store would have to send pages as wholes.

        Raises FileNotFoundError: there is none of that name.
        Raises CorruptFileError, UnsupportedFeatureError: as of `FileReader.open`.
        """
        # what is to be compared with checksums is read each time; other stores count or fetch
        is_kept = isinstance(store, LocalStore) and not options.verify_checksums
        identity = store.identity(name) if is_kept else None
        if identity is None:  # a file that was written a moment ago, too
            from lancekit._file.reader import FileReader

            return FileReader.open(store.open(name, size), compared=compared and is_kept)
        self._last_used = monotonic()
        # the memory decides what a page may be decoded to
        key = identity, options.page_memory_bytes, compared
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept[1].seen <= cache_limit() * _SEEN_SHARE:
                self._kept.move_to_end(key)
                return kept[0]
        from lancekit._file.reader import FileReader
        from lancekit._storage.mapped import MappedFile

        mapped = store.open(name, size)
        reader = FileReader.open(mapped, compared=compared)
        if isinstance(mapped, MappedFile) and mapped.identity == identity:
            self._keep(key, reader, mapped)
            _make_room(self)
        return reader

    def clear(self) -> None:
        """Let go of all files."""
        with self._lock:
            self._kept.clear()
            self._columns = self._opened = 0

    def _keep(self, key: Hashable, reader: FileReader, mapped: MappedFile) -> None:
        with self._lock:
            self._forget(key)
            self._kept[key] = reader, mapped
            self._columns += reader.num_columns
            while self._columns > _MOST_COLUMNS:
                self._forget(next(iter(self._kept)))
            self._opened += 1
            # all are gone through as often as they change, so that each takes the same however
            # many there are
            if 2 * self._opened >= len(self._kept):
                self._opened = 0
                self._forget_much_seen()

    def _forget(self, key: Hashable) -> None:
        reader, _ = self._kept.pop(key, (None, None))
        self._columns -= reader.num_columns if reader else 0

    def _forget_much_seen(self) -> None:
        seen, most = 0, cache_limit() * _SEEN_SHARE
        for key, (_, mapped) in reversed(list(self._kept.items())):
            seen += mapped.seen
            if seen > most:
                self._forget(key)

    def __reduce__(self) -> tuple[object, ...]:
        return OpenFiles, ()  # another process opens its own


_all: WeakValueDictionary[int, OpenFiles] = WeakValueDictionary()
#: how many files were opened to be kept, and with how many all that are kept are counted next
_opened = count(1)
_count_at = [0]


def _living() -> list[OpenFiles]:
    # a list of references is made at once, whoever opens a dataset meanwhile
    return [files for reference in _all.valuerefs() if (files := reference()) is not None]


def _make_room(newest: OpenFiles) -> None:
    """Let handles that were used longest ago go of their files while all have too many.

    All handles are counted only once as many files came as there was room for, and what then has to
    go makes some room, so that one file more takes the same however many handles there are.
    """
    opened = next(_opened)
    if opened < _count_at[0]:
        return
    living = _living()
    number = sum(len(files._kept) for files in living)
    if number > _MOST_FILES:
        most = int(_MOST_FILES * _KEPT_SHARE)
        for files in sorted(living, key=lambda one: one._last_used):
            if files is not newest and number > most:
                number -= len(files._kept)
                files.clear()
    _count_at[0] = opened + max(1, _MOST_FILES + 1 - number)


@when_cleared
def _clear_all() -> None:
    for files in _living():
        files.clear()


def _begin_all() -> None:
    for files in _living():
        files._begin()


# In a child the lock may be held by a thread that it does not have, and the table half changed.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)
