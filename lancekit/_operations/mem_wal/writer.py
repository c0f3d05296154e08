"""The writer of a shard: rows go to the log, then to memory, then to a generation.

See docs/format/memwal.md, 9.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from time import monotonic, perf_counter
from weakref import WeakSet

import pyarrow as pa

from lancekit._defaults import PUT_TIMEOUT
from lancekit._interrupts import LOOK_SECONDS, Postponed, attempting, heed
from lancekit._operations.mem_wal import writer_messages as messages
from lancekit._operations.mem_wal.claim import Claim
from lancekit._operations.mem_wal.flush import Flushes, FlushQueue
from lancekit._operations.mem_wal.generation import Memtable
from lancekit._operations.mem_wal.log_writer import GroupCommit, LogWriter, Ticket
from lancekit._operations.mem_wal.settings import Memory, WriterSettings, WriterStats
from lancekit._shards.schema import Shard
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import LancekitError
from lancekit.progress import context_of_its_own

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the log: its bytes, its rows, and the time when its encoding began."""

    data: bytes
    batches: list[pa.RecordBatch]
    started: float


class Writer:
    """Takes rows for one shard, from any number of threads.

    log, flushes: the targets of entries and generations.
    claimed: the claim of the shard.
    """

    def __init__(
        self, log: LogWriter, flushes: Flushes, claimed: Claim, settings: WriterSettings
    ) -> None:
        *frozen, self._active = claimed.memtables
        self._log = log
        self._flushes = flushes
        self._settings = settings
        self._lock = threading.Lock()
        # notified when memory is free again, and when a flush failed
        self._changed = threading.Condition(self._lock)
        self.stats: WriterStats = WriterStats()
        self._waiting = FlushQueue(
            frozen, flushes, settings, self.stats, self._changed, self._in_background
        )
        self._queue = GroupCommit(self._lock, self)
        # the entry that is being written; after an interrupt the next leader writes it
        self._unfinished: _Entry | None = None
        self._ticking = self._closing = self._closed = self._freezes = False
        self.process: int = os.getpid()
        # has the options of the opening thread, not of the leading one, and no operation: that may
        # end long before the writer is closed
        self._context = context_of_its_own()
        self._logged_at = monotonic()
        with self._lock:
            self._freeze() if self._active.lacking else self._full()
        _writers.add(self)

    # ---- calls of users

    def put(self, batches: list[pa.RecordBatch], timeout: timedelta = PUT_TIMEOUT) -> None:
        """Put rows, which have the form of the log: all of them or none.

        When this returns, the rows are durable and visible, or only visible if the settings say so.

        An interrupt is raised after this thread has written an entry, or while it waits for memory,
        another thread or a retry.  The rows are in the log or not, and the writer stays open.

        Raises InvalidArgumentError: there are more rows than a memtable may have.
        Raises FencedError: another writer has the shard.
        Raises SchemaMismatchError: the table's columns changed since the writer was opened.
        Raises CorruptFileError: the last entry of the log is missing.
        Raises CommitUnknownError: the storage failed, and the rows may be in the log or not.
        Raises ShardError: the writer is closed or failed before, or no memory became free in time.
        """
        self.check_rows()
        started, settings = perf_counter(), self._settings
        ticket = Ticket(batches, waits=settings.durable_write)
        if ticket.rows > settings.max_memtable_rows:
            raise messages.too_many(ticket.rows, settings.max_memtable_rows)
        with Postponed():
            self._put(ticket, timeout, started)

    def _put(self, ticket: Ticket, timeout: timedelta, started: float) -> None:
        settings = self._settings
        log, shard, fate = self._log, self.shard.id, ticket.fate  # a note keeps no memtable alive
        say = partial(messages.log_state, shard, lambda: log.position - 1)
        with attempting(say, lambda: fate.written, shard, messages.AFTER_PUT):
            with self._own_lock():
                self._wait_for_room(timeout)
                full = self._queue.pending_bytes + ticket.bytes > settings.max_wal_buffer_size
                ticket.waits = ticket.waits or full
            if ticket.rows:
                self._queue.put(ticket)
        with self._lock:
            if self._closed and ticket in self._queue.pending:
                raise messages.closed()  # it was queued too late to be written
            self.stats.add("put", started)
            if ticket.waits:
                return
            if not self._ticking and settings.max_wal_flush_interval_ms:
                self._in_background(self._tick)
                self._ticking = True

    def close(self) -> None:
        """Write waiting rows, flush memory to a generation, and accept nothing more.

        An interrupt leaves the writer open.

        Raises FencedError: another writer has the shard, and this one had unflushed rows.  The
            other writer replays them from the log.
        Raises LancekitError: the rows could not be flushed.  They are in the log, and the next
            writer flushes them.
        """
        with Postponed():
            with self._own_lock():
                if self._closing:
                    return
                self._closing = True
            try:
                self._close()
            except Exception:
                self._forget()
                raise
            except BaseException:
                self._closing = self._closed = False
                raise
            self._forget()

    def _close(self) -> None:
        self._stop_taking()
        with self._lock:
            self._freeze()
            self._waiting.wait()

    def _forget(self) -> None:
        with self._lock:
            self._closed = True
            self._waiting.tables.clear()
            self._active = Memtable(self._active.generation)

    def flush(self) -> None:
        """Flush all rows that were put before to a generation; the writer stays open.

        Raises FencedError, LancekitError: as `close` raises them, or the error of an earlier put.
        """
        with self._own_lock():
            self._check_open()
            self._freezes = True
        self.write_waiting()  # the leader freezes the memtable between entries
        with Postponed(), self._lock:
            self._waiting.wait()

    def write_waiting(self) -> None:
        """Return when all rows that were put before are in the log."""
        with Postponed():
            self._queue.put(Ticket([]))

    def _stop_taking(self) -> None:
        """Write waiting rows, and then accept nothing more."""
        # a later entry would name the generation that `close` flushes, but be behind its cursor:
        # replay would skip it
        while not self._closed:
            self._queue.put(Ticket([]))  # returns when all earlier tickets are written
            with self._lock:
                self._closed = not self._queue.pending

    def memtables(self) -> list[tuple[int, list[pa.RecordBatch]]]:
        """Return unflushed rows by generation, newest first; each has its rows in write order."""
        with self._own_lock():
            self._check_open()
            active = self._active.given
            if not self._settings.durable_write:  # pending rows are acknowledged
                active += [batch for ticket in self._queue.pending for batch in ticket.batches]
            older = [(table.generation, table.given) for table in reversed(self._waiting.tables)]
            return [(self._active.generation, active), *older]

    def check_rows(self, *, look: bool = False) -> None:
        """Raise if the last check found a reason to refuse rows; `look` checks again first."""
        self._log.check_rows(look=look)

    def is_sealed(self) -> bool:
        """Check whether the shard was sealed since the writer was opened; the writer stays open."""
        return self._log.is_sealed()

    def memory(self) -> Memory:
        """Return the memory use of the writer."""
        with self._own_lock():
            pending, entries = self._queue.pending, self.stats.wal_flush_count
            return Memory.of(self._active, self._waiting.tables, pending, entries)

    @property
    def shard(self) -> Shard:
        """The shard of the writer."""
        return self._flushes.shard

    @property
    def seen(self) -> Snapshot:
        """The newest version of the table that a check saw."""
        return self._log.seen

    @property
    def epoch(self) -> int:
        """The epoch of the writer."""
        return self._log.epoch

    @property
    def position(self) -> int:
        """The position of the last written entry."""
        return self._log.position - 1

    @property
    def settings(self) -> WriterSettings:
        """The settings of the writer."""
        return self._settings

    @property
    def state(self) -> str:
        """``"open"``, ``"closed"``, or ``"failed: ..."`` with the error."""
        if self._waiting.ended is not None:
            return f"failed: {self._waiting.ended.message}"
        return "closed" if self._closing else "open"

    # ---- the sink of the queue

    def room(self, first: Ticket) -> tuple[int, int, Callable[[list[pa.RecordBatch]], bool]]:
        """Freeze the memtable if a put does not fit.

        Return the rows and bytes that an entry may have, and a test of its dictionaries.
        """
        if self._waiting.ended is not None:
            raise self._waiting.ended
        if self._closed:
            raise messages.closed()
        most = self._settings.max_memtable_rows
        if self._active.rows + first.rows > most or not self._active.holds(first.batches):
            self._freeze()
            self._active.holds(first.batches)
        return most - self._active.rows, self._settings.max_wal_buffer_size, self._active.holds

    def write(self, group: list[Ticket]) -> _Entry | None:
        """Put the rows of a group into the log, as one entry."""
        try:
            entry, again = self._unfinished, self._unfinished is not None
            if entry is None:
                entry = self._unfinished = self._encoded(group)
            if entry is not None:
                owed = again or any(ticket.rows and not ticket.waits for ticket in group)
                self._context.copy().run(self._log.put, entry.data, again=again, owed=owed)
        except Exception as error:
            known = error if isinstance(error, LancekitError) else messages.stopped(error)
            if known.context.get("unwritten"):  # the memtable can still be flushed
                self._unfinished = None
            else:
                self._waiting.ended = known
            raise
        return entry

    def _encoded(self, group: list[Ticket]) -> _Entry | None:
        started = perf_counter()
        batches = [batch for ticket in group for batch in ticket.batches]
        if not batches:
            return None
        size = sum(ticket.bytes for ticket in group)
        data = self._log.encode(batches, size, self._active.generation)
        return _Entry(data, self._log.decode(data), started)

    def landed(self, written: _Entry | None) -> None:
        """Show rows that are in the log, and freeze the memtable if a flush waits for it."""
        if written is not None:
            self._show(written)
        if self._freezes:
            self._freezes = False
            self._freeze()

    def _show(self, written: _Entry) -> None:
        self._unfinished = None
        size = len(written.data)
        self._active.add(written.batches, size, self.position)
        self.stats.add("wal_flush", written.started)
        self.stats.wal_flush_bytes += size
        self._full()
        interval, now = self._settings.stats_log_interval_ms / 1000, monotonic()
        if interval and now - self._logged_at >= interval:
            self._logged_at = now
            LOGGER.info("shard %s: %s", self.shard.id, self.stats.shown())

    # ---- memory, with the lock held

    def _unflushed(self) -> int:
        return self._active.bytes + self._waiting.bytes

    def _full(self) -> None:
        """Freeze the memtable if it has reached a limit of the settings."""
        settings, active = self._settings, self._active
        if (
            active.rows >= settings.max_memtable_rows
            or len(active.batches) >= settings.max_memtable_batches
            or active.bytes >= settings.max_memtable_size
            or self._unflushed() >= settings.max_unflushed_memtable_bytes
        ):
            self._freeze()
        else:
            self._waiting.start()

    def _freeze(self) -> None:
        if self._active.rows:
            self._waiting.tables.append(self._active)
            self._active = Memtable(self._active.generation + 1)
        self._waiting.start()

    def _wait_for_room(self, timeout: timedelta) -> None:
        most, started = self._settings.max_unflushed_memtable_bytes, monotonic()
        interval = self._settings.backpressure_log_interval_ms / 1000
        logged_at = started
        self._check_open()
        waiting = self._waiting
        while waiting.tables and self._unflushed() >= most:
            waiting.start()
            waited = monotonic() - started
            left = timeout.total_seconds() - waited
            if left <= 0:
                held = self._unflushed(), len(waiting.tables)
                raise messages.no_room(self.shard.id, timeout, held, most, waiting.error)
            self._changed.wait(min(left, LOOK_SECONDS))
            heed()
            if interval and monotonic() - logged_at >= interval:
                logged_at = monotonic()
                LOGGER.warning(
                    "shard %s: a put has waited %d s for %d memtables to be flushed",
                    self.shard.id,
                    monotonic() - started,
                    len(waiting.tables),
                )
            self._check_open()

    def _own_lock(self) -> threading.Lock:
        """Return the lock; raise in a forked process, which must not take it."""
        if os.getpid() != self.process:
            raise messages.forked(self.shard.id)
        return self._lock

    def _check_open(self) -> None:
        if self._waiting.ended is not None:
            raise copy(self._waiting.ended)
        if self._closing:
            raise messages.closed()

    # ---- background threads, which end when they have no work

    def _in_background(self, work: Callable[[], None]) -> None:
        run = self._context.copy().run
        threading.Thread(target=run, args=(work,), name="lancekit-mem-wal", daemon=True).start()

    def _tick(self) -> None:
        """Write waiting rows at intervals, until no rows wait."""
        while True:
            time.sleep(self._settings.max_wal_flush_interval_ms / 1000)
            if self._closed:  # `close` wrote the rows
                return
            try:
                self._queue.put(Ticket([]))
            except Exception:  # the next put raises the writer's error
                LOGGER.exception("shard %s: rows were not written", self.shard.id)
            with self._lock:
                if self._waiting.ended is not None or not self._queue.pending:
                    self._ticking = False
                    return


# ---- the open writers of this process, which can be flushed without fencing them


#: all writers that are not garbage-collected
_writers: WeakSet[Writer] = WeakSet()


def _open_here() -> list[Writer]:
    return [one for one in list(_writers) if one.state == "open" and one.process == os.getpid()]


def writers_of(shards: Iterable[Shard]) -> list[Writer]:
    """Return the open writers of this process for some shards."""
    places = {shard.store.uri for shard in shards}
    return [one for one in _open_here() if one.shard.store.uri in places]


@atexit.register
def _write_what_waits() -> None:
    """Write the rows of puts that did not wait for the log; a killed process loses them."""
    for writer in _open_here():
        try:
            writer.write_waiting()
        except Exception:
            LOGGER.exception("rows were not written when Python ended")
