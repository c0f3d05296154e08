"""Write the entries of a log, serializing the puts of many threads.

See docs/format/memwal.md, 9.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, TypeVar

import pyarrow as pa

from lancekit._format.mem_wal.names import entry_name
from lancekit._interrupts import pause, wait_for
from lancekit._operations.mem_wal.table_watch import TableWatch
from lancekit._scan.fragments.rebatch import exact_batches
from lancekit._shards.entry import encode_entry, read_entry
from lancekit._shards.log import put_entry
from lancekit._shards.manifests import fenced, latest
from lancekit._shards.schema import Shard
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    CommitUnknownError,
    CorruptFileError,
    FencedError,
    LancekitError,
    ShardError,
    StorageError,
)

#: the batches of an entry are concatenated up to this size, which is cheaper than writing each
_JOINED_BYTES = 1 << 20


class LogWriter:
    """Puts the entries of one epoch.  Not thread-safe.

    schema: the schema of its log.
    position: the position of the next entry.
    table: checks that the logs of the table have not ended.
    retries, base_delay: the number of retries of a put that failed, and the pause before the first
        in seconds.  Each pause is twice as long as the one before.
    """

    def __init__(
        self,
        shard: Shard,
        schema: pa.Schema,
        *,
        epoch: int,
        position: int,
        table: TableWatch,
        retries: int,
        base_delay: float,
    ) -> None:
        self._shard = shard
        self._schema = schema
        self._table = table
        self._retries = retries
        self._base_delay = base_delay
        self.epoch = epoch
        self.position: int = position

    def encode(self, batches: Sequence[pa.RecordBatch], size: int, generation: int) -> bytes:
        """Encode rows of `size` bytes as an entry of a generation."""
        if len(batches) > 1 and size <= _JOINED_BYTES:
            batches = [*exact_batches(batches, sum(batch.num_rows for batch in batches))]
        return encode_entry(self._schema, batches, self.epoch, generation)

    def decode(self, entry: bytes) -> list[pa.RecordBatch]:
        """Return the rows of an entry, in memory that the caller of `put` cannot change."""
        with pa.ipc.open_stream(entry) as reader:
            return [
                pa.RecordBatch.from_arrays(batch.columns, schema=self._schema) for batch in reader
            ]

    def check_rows(self, *, look: bool = False) -> None:
        """Raise if the last check found a reason to refuse rows; `look` checks again first."""
        if look:
            self._table.check()
        self._table.check_rows()

    @property
    def seen(self) -> Snapshot:
        """The newest version of the table that a check saw."""
        return self._table.seen

    def is_sealed(self) -> bool:
        """Check whether the shard was sealed since it was claimed."""
        return self._table.log is not None and self._table.log.is_sealed()

    def put(self, entry: bytes, *, again: bool = False, owed: bool = False) -> None:
        """Put an entry durably, and advance to the next position.

        entry: the result of `encode`.
        again: True if an interrupt stopped the same call before, so that the entry may exist.
        owed: True if rows of the entry were acknowledged.  They are written even if the table's
            columns have changed.

        Raises FencedError: another writer has the shard, or the logs of the table ended.  The entry
            is not in the log, and no later writer has its rows.
        Raises SchemaMismatchError: the table has other columns now.
        Raises CorruptFileError: the previous entry is missing.  ``context`` has ``unwritten``.
        Raises CommitUnknownError: the entry may have been written or not.
        Raises ShardError: the position has something else.
        """
        while not self._try(entry, again, owed):
            self._pass_by()
        if self._table.log is not None:
            self._table.log.wrote(self.position)
        self.position += 1

    def _try(self, entry: bytes, again: bool, owed: bool) -> bool:
        """Put an entry, with retries; return False if another one has its position."""
        may_exist = again
        for attempt in range(self._retries + 1):
            try:
                if self._check(entry, may_exist):
                    return True
                if not (may_exist or owed):
                    self._table.check_rows()
                left, may_exist = may_exist, True
                done = put_entry(self._shard, self.position, entry)
                if not done and self._is_there(entry):
                    done = True
                    if left:  # by an earlier attempt, perhaps not flushed to disk
                        self._shard.store.put(entry_name(self.position), entry)
                if done and self._table.is_cheap:  # the logs may have ended meanwhile
                    self._check(entry, may_exist)
            except StorageError as error:
                if attempt == self._retries:
                    raise self._unknown(error) from error
                pause(self._base_delay * 2**attempt)
            else:
                return done
        raise AssertionError("at least one attempt is made")

    def _check(self, entry: bytes, may_exist: bool) -> bool:
        """Check the logs; return True if a cleanup removed the entry because a generation has it.

        may_exist: True if the entry may have been put.  Then it counts even if another writer has
            the shard by now: that writer replays all entries before its sentinel.

        Raises FencedError: another writer has the shard, and the entry was not put.  Or the logs
            of the table ended; then the entry is removed.
        """
        try:
            self._table.check()
        except FencedError as error:
            if not may_exist:
                raise
            is_there, store = self._is_there(entry), self._shard.store
            if error.context.get("ended"):
                if is_there:
                    store.delete(entry_name(self.position))
                store.prune()
                raise
            if not is_there and not self._is_flushed():
                raise
            return not is_there
        return False

    def _is_flushed(self) -> bool:
        """Return True if this position was flushed and removed: a sentinel would have stayed."""
        if self._shard.store.exists(entry_name(self.position)):
            return False
        newest = latest(self._shard)
        return newest is not None and newest.replay_after >= self.position

    def _is_there(self, entry: bytes) -> bool:
        """Return True if this entry is at its position: no other writer has the epoch."""
        try:
            return bytes(self._shard.store.read(entry_name(self.position))) == entry
        except FileNotFoundError:
            return False

    def _pass_by(self) -> None:
        """Skip the sentinel of an earlier epoch, whose writer was stopped during its claim."""
        try:
            other = read_entry(self._shard, self.position)
        except (CorruptFileError, FileNotFoundError) as error:
            raise self._foreign("unreadable data") from error
        if other.epoch > self.epoch:
            raise fenced(self._shard, self.epoch, other.epoch)
        if not other.sentinel:
            raise self._foreign(f"an entry of epoch {other.epoch}")
        self.position += 1

    def _foreign(self, what: str) -> ShardError:
        return ShardError(
            f"Position {self.position} of the log of shard {self._shard.id}, the next one for "
            f"epoch {self.epoch}, already has {what}. The rows were not written.",
            hint="Open the writer again: it replays the log.",
            shard=str(self._shard.id),
            position=self.position,
        )

    def _unknown(self, error: StorageError) -> CommitUnknownError:
        return CommitUnknownError(
            f"Entry {self.position} of the log of shard {self._shard.id} may or may not have been "
            f"written: {error.message}",
            hint="Open the writer again when the storage works, and put the rows again: with a "
            "primary key they count once.",
            shard=str(self._shard.id),
            position=self.position,
        )


# ---- group commit: the puts that queue while an entry is written share the next entry
#
# There is no writer thread.  A put that finds no leader becomes the leader: it writes the queue,
# with its own rows, as one entry.  Then the first put that queued meanwhile becomes the leader.
# So a single put needs no thread switch, and one entry takes all puts that wait.
#
# A leader that is interrupted during a write leaves its group to the next leader, which writes it
# first.  Other interrupts must be postponed (`lancekit._interrupts.Postponed`).

Written = TypeVar("Written")


#: up to this size a batch counts by its whole buffers, which takes 1/50 of the time
_SMALL_BYTES = 1 << 16


def _size(batch: pa.RecordBatch) -> int:
    """Return the bytes of a batch; for a large one without the bytes outside of its rows."""
    size = batch.get_total_buffer_size()
    return size if size <= _SMALL_BYTES else batch.nbytes


@dataclass(slots=True)
class _Fate:
    """The state of rows: written, not written, or ``None`` while an entry with them is written."""

    written: bool | None = False


class Ticket:
    """Rows that wait to be written; without rows, a wait for all earlier rows.

    If `waits` is True, the putting thread waits at `gate` until it is settled or leads.
    """

    __slots__ = ("batches", "bytes", "error", "fate", "gate", "leads", "rows", "waits")

    def __init__(self, batches: list[pa.RecordBatch], *, waits: bool = True) -> None:
        self.batches: list[pa.RecordBatch] = batches
        self.rows: int = sum(batch.num_rows for batch in batches)
        self.bytes: int = sum(map(_size, batches))
        self.waits: bool = waits
        self.leads: bool = False
        self.fate: _Fate = _Fate()
        self.error: BaseException | None = None
        self.gate: threading.Lock = threading.Lock()
        self.gate.acquire()


class _Sink(Protocol[Written]):
    """The target of groups, one at a time.  `room` and `landed` are called with the lock held."""

    def room(self, first: Ticket) -> tuple[int, int, Callable[[list[pa.RecordBatch]], bool]]:
        """Make room; return the most rows and bytes of a group, and a test if batches fit."""

    def write(self, group: list[Ticket]) -> Written:
        """Write the rows of a group, as durably as the settings require.

        After an interrupt this is called again with the same group.
        """

    def landed(self, written: Written) -> None:
        """Show rows that were written to readers."""


class GroupCommit:
    """The queue of rows before a sink.

    lock: guards the queue, and the rows that the sink shows.
    sink: the target of the rows.

    pending_bytes: the bytes of rows that wait or are being written.
    """

    def __init__(self, lock: threading.Lock, sink: _Sink[Written]) -> None:
        self._lock = lock
        self._sink: _Sink[Written] = sink
        self._waiting: deque[Ticket] = deque()
        self._group: list[Ticket] = []
        self._led = False
        self.pending_bytes = 0

    @property
    def pending(self) -> list[Ticket]:
        """The tickets whose rows are not shown yet, in order; the caller holds the lock."""
        return [*self._group, *self._waiting]

    def put(self, ticket: Ticket) -> None:
        """Queue rows; if the ticket waits, return when they are written.

        Raises the error of the write.
        """
        with self._lock:
            self._waiting.append(ticket)
            self.pending_bytes += ticket.bytes
            if not ticket.waits:
                return
            if not self._led:
                self._led = ticket.leads = True
                ticket.gate.release()
        self._wait(ticket)
        while ticket.leads:
            ticket.leads = False
            self._lead(ticket)
            self._wait(ticket)
        if (error := ticket.error) is not None:
            # a copy, because several threads raise it, each with its own traceback
            raise copy(error) if isinstance(error, LancekitError) else error

    def _wait(self, ticket: Ticket) -> None:
        try:
            wait_for(ticket.gate)
        except BaseException:  # an interrupted thread must not block the others
            with self._lock:
                self._leave(ticket)
            raise

    def _leave(self, ticket: Ticket) -> None:
        """Detach the waiting thread from a ticket; if it led, choose another leader."""
        if ticket in self._waiting:
            self._waiting.remove(ticket)
            self.pending_bytes -= ticket.bytes
        ticket.waits = False
        if ticket.leads:
            ticket.leads = False
            ticket.gate.acquire(blocking=False)  # settling the ticket later releases it again
            self._hand_over()

    def _lead(self, ticket: Ticket) -> None:
        try:
            if not self._group:  # otherwise an interrupted leader left its group
                with self._lock:
                    self._take()
            written = self._sink.write(self._group)
            with self._lock:
                self._sink.landed(written)
                self._settle(None)
        except Exception as error:
            with self._lock:
                self._settle(error)
        except BaseException:
            with self._lock:
                ticket.leads = True
                self._leave(ticket)
            raise

    def _take(self) -> None:
        """Move tickets from the queue to the group: the first, and all that fit with it."""
        first = self._waiting.popleft()
        self._group = [first]
        rows, size, holds = self._sink.room(first)
        rows, size = rows - first.rows, size - first.bytes
        while self._waiting:
            rows -= self._waiting[0].rows
            size -= self._waiting[0].bytes
            if rows < 0 or size < 0 or not holds(self._waiting[0].batches):
                break
            self._group.append(self._waiting.popleft())
        for ticket in self._group:
            ticket.fate.written = None

    def _settle(self, error: Exception | None) -> None:
        settled, self._group = self._group, []
        self._hand_over()  # the next leader starts before the settled threads return
        for ticket in settled:
            self.pending_bytes -= ticket.bytes
            ticket.error = error
            if error is None:
                ticket.fate.written = True
            ticket.gate.release()

    def _hand_over(self) -> None:
        queue = chain(self._group, self._waiting)
        following = next((ticket for ticket in queue if ticket.waits), None)
        self._led = following is not None
        if following is not None:
            following.leads = True
            following.gate.release()
