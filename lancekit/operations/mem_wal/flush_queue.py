"""Memtables that are full become generations, in the background.

See docs/format/memwal.md, 9.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from copy import copy
from time import perf_counter

from lancekit.errors import LancekitError, ShardError
from lancekit.interrupts import LOOK_SECONDS, heed
from lancekit.operations.mem_wal.flush import Flushes
from lancekit.operations.mem_wal.memtable import Memtable
from lancekit.operations.mem_wal.settings import WriterSettings
from lancekit.operations.mem_wal.stats import WriterStats

__all__ = ["FlushQueue"]


class FlushQueue:
    """The full memtables of a writer, oldest first.

    One background thread at a time makes generations of the memtables, in order.  Callers hold the
    lock of ``changed``, which is the writer's.

    Parameters
    ----------
    tables
        Memtables that were full when the writer was opened.
    changed
        Notified when a memtable is gone, and when a flush failed.
    begin
        Starts a function in a new thread.
    """

    def __init__(
        self,
        tables: Iterable[Memtable],
        flushes: Flushes,
        settings: WriterSettings,
        stats: WriterStats,
        changed: threading.Condition,
        begin: Callable[[Callable[[], None]], None],
    ) -> None:
        self.tables = deque(tables)
        #: why nothing more is flushed; the writer sets it if its log failed
        self.ended: LancekitError | None = None
        #: why the last flush failed
        self.error: BaseException | None = None
        self.running = False
        self._flushes, self._settings, self._stats = flushes, settings, stats
        self._changed, self._begin = changed, begin

    @property
    def bytes(self) -> int:
        """The bytes of all memtables."""
        return sum(table.bytes for table in self.tables)

    def start(self) -> None:
        """Start the background thread if memtables wait and no thread runs."""
        if self.tables and not self.running and self.ended is None:
            self._begin(self._flush_all)  # which needs the lock
            self.running = True

    def wait(self) -> None:
        """Return when all memtables are generations; raise why one is not."""
        while self.tables and self.running:
            self._changed.wait(LOOK_SECONDS)
            heed()
        error = self.ended or self.error
        if self.tables and error is not None:
            raise copy(error) if isinstance(error, LancekitError) else error

    def _flush_all(self) -> None:
        failures, retries = 0, self._settings.max_wal_persist_retries
        while True:
            with self._changed:
                if not self.tables or self.ended is not None or failures > retries:
                    self.running = False
                    self._changed.notify_all()
                    return
                table = self.tables[0]
            started = perf_counter()
            try:
                self._flushes.flush(table)
            except BaseException as error:
                failures = failures + 1 if isinstance(error, Exception) else retries + 1
                with self._changed:
                    self._failed(error)
                time.sleep(self._settings.wal_persist_retry_base_delay_ms / 1000 * 2**failures)
                continue
            failures = 0
            with self._changed:
                self.tables.popleft()
                self.error = None
                self._stats.add("memtable_flush", started)
                self._stats.memtable_flush_rows += table.rows
                self._changed.notify_all()

    def _failed(self, error: BaseException) -> None:
        self._stats.memtable_flush_failures += 1
        self.error = error
        if isinstance(error, ShardError):  # another writer has the shard
            self.ended = error
        self._changed.notify_all()
