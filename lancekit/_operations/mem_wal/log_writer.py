"""Entries of a log, put one after the other, of many threads in one order.

See docs/format/memwal.md, 9.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, TypeVar

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.mem_wal.names import entry_name
from lancekit._interrupts import pause, wait_for
from lancekit._operations.mem_wal.table_watch import TableWatch
from lancekit._shards.entry import encode_entry, read_entry
from lancekit._shards.log import put_entry
from lancekit._shards.manifests import fenced
from lancekit._shards.schema import Shard
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    CommitUnknownError,
    CorruptFileError,
    LancekitError,
    ShardError,
    StorageError,
)

#: batches of an entry are joined up to this many bytes: that is cheaper than to write each
_JOINED_BYTES = 1 << 20


class LogWriter:
    """Puts the entries of one epoch.  Not for several threads at once.

    shard: the shard.
    schema: that of its log.
    epoch: the writer's.
    position: where the next entry goes.
    table: looks whether the table still has its logs.
    retries, base_delay: how often an entry is put again that could not be stored, and after how
        many seconds at first; each time it is twice as long.
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
        """Return the entry of rows, of so many bytes, that are to be in a generation."""
        if len(batches) > 1 and size <= _JOINED_BYTES:
            batches = [ak.concat_batches(batches)]
        return encode_entry(self._schema, batches, self.epoch, generation)

    def decode(self, entry: bytes) -> list[pa.RecordBatch]:
        """Return the rows of an entry.

        What the caller does to the memory of what was put does not reach them.
        """
        with pa.ipc.open_stream(entry) as reader:
            return [
                pa.RecordBatch.from_arrays(batch.columns, schema=self._schema) for batch in reader
            ]

    def check_rows(self, *, look: bool = False) -> None:
        """Raise if rows could not be put at the last look, as `put` raises; `look` looks now."""
        if look:
            self._table.check()
        self._table.check_rows()

    @property
    def seen(self) -> Snapshot:
        """The newest version of the table that was looked at."""
        return self._table.seen

    def is_sealed(self) -> bool:
        """Look whether the shard was sealed since it was claimed."""
        return self._table.log is not None and self._table.log.is_sealed()

    def put(self, entry: bytes, *, again: bool = False, owed: bool = False) -> None:
        """Put an entry durably, and go on to the next position.

        entry: what `encode` returned.
        again: true if an interrupt left the same call before: the entry may be there.
        owed: true if rows of the entry were acknowledged: they are written whatever columns the
            table has now.

        Raises FencedError: another writer has the shard, or the logs of the table ended.
        Raises SchemaMismatchError: the table has other columns now.
        Raises CorruptFileError: the entry before is missing; ``context`` has ``unwritten``.
        Raises CommitUnknownError: the entry may be there or not.
        Raises ShardError: something else is at its position.
        """
        while not (self._try(entry, again, owed) or self._is_there(entry)):
            self._pass_by()
        if self._table.is_cheap:  # they may have ended while the entry was written
            name = entry_name(self.position)
            self._table.check_written(lambda: self._shard.store.delete(name))
        if self._table.log is not None:
            self._table.log.wrote(self.position)
        self.position += 1

    def _try(self, entry: bytes, again: bool, owed: bool) -> bool:
        """Put an entry, several times if it has to be; ``False`` if its position is taken."""
        for attempt in range(self._retries + 1):
            try:
                self._table.check()
                if not (attempt or owed):
                    self._table.check_rows()
                free = put_entry(self._shard, self.position, entry)
                if (attempt or again) and not free and self._is_there(entry):
                    # an attempt that failed or was interrupted left it, perhaps in memory alone
                    self._shard.store.put(entry_name(self.position), entry)
            except StorageError as error:
                if attempt == self._retries:
                    raise self._unknown(error) from error
                pause(self._base_delay * 2**attempt)
            else:
                return free
        raise AssertionError("there is one attempt at least")

    def _is_there(self, entry: bytes) -> bool:
        """Tell whether this very entry is at its position: nobody else has the epoch."""
        try:
            return bytes(self._shard.store.read(entry_name(self.position))) == entry
        except FileNotFoundError:
            return False

    def _pass_by(self) -> None:
        """Go past the sentinel of a writer that was stopped while it took the shard before us."""
        try:
            other = read_entry(self._shard, self.position)
        except (CorruptFileError, FileNotFoundError) as error:
            raise self._foreign("something that cannot be read") from error
        if other.epoch > self.epoch:
            raise fenced(self._shard, self.epoch, other.epoch)
        if not other.sentinel:
            raise self._foreign(f"an entry of epoch {other.epoch}")
        self.position += 1

    def _foreign(self, what: str) -> ShardError:
        return ShardError(
            f"Position {self.position} of the log of shard {self._shard.id}, where the next entry "
            f"of epoch {self.epoch} goes, has {what}. The rows were not written.",
            hint="Open the writer again: it reads what the log has.",
            shard=str(self._shard.id),
            position=self.position,
        )

    def _unknown(self, error: StorageError) -> CommitUnknownError:
        return CommitUnknownError(
            f"Entry {self.position} of the log of shard {self._shard.id} could not be written: "
            f"{error.message} Its rows may be there or not.",
            hint="Open the writer again when the storage works, and put the rows again: with a "
            "primary key they count once.",
            shard=str(self._shard.id),
            position=self.position,
        )


# ---- puts of many threads in one order, those that queue while an entry is written in the next
# one
#
# There is no thread that writes.  A put that finds nobody writing leads: it writes at once what
# queues, itself too, and hands over to the first of those that came meanwhile.  So a lone put costs
# no switch between threads, and of many that wait each entry takes all.
#
# A leader that is interrupted while it writes leaves its group as it is: the next leader writes
# that group first.  Interrupts at other places are to be postponed
# (`lancekit._interrupts.Postponed`).

Written = TypeVar("Written")


#: a batch whose buffers have fewer bytes counts with these, which takes a fiftieth of the time
_SMALL_BYTES = 1 << 16


def _size(batch: pa.RecordBatch) -> int:
    """Return the bytes of a batch; of a large one without what its buffers have beside its rows."""
    size = batch.get_total_buffer_size()
    return size if size <= _SMALL_BYTES else batch.nbytes


@dataclass(slots=True)
class _Fate:
    """Whether rows were written; ``None`` as long as an entry with them is being written."""

    written: bool | None = False


class Ticket:
    """Rows that wait to be written; without rows, for all before them to be.

    Whoever `waits` does so at `gate`, until it is settled or his turn to lead.
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
    """Where groups go, one at a time.  `room` and `landed` are called with the lock held."""

    def room(self, first: Ticket) -> tuple[int, int]:
        """Make room for a ticket; return how many rows and bytes its group may have."""

    def write(self, group: list[Ticket]) -> Written:
        """Write the rows of a group; when this returns they are as durable as they have to be.

        After an interrupt this is called again with the same group.
        """

    def landed(self, written: Written) -> None:
        """Show rows that were written."""


class GroupCommit:
    """The queue before a sink.

    lock: guards the queue, and what the sink shows.
    sink: where the rows go.

    pending_bytes: what waits, and what is being written, takes in memory.
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
        """What is not shown yet, in order; to be read with the lock held."""
        return [*self._group, *self._waiting]

    def put(self, ticket: Ticket) -> None:
        """Queue rows, and unless they do not wait return when they are written.

        Raises what kept them from being written.
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
        if ticket.error is not None:
            raise _for_this_thread(ticket.error)

    def _wait(self, ticket: Ticket) -> None:
        try:
            wait_for(ticket.gate)
        except BaseException:  # who is interrupted lets the others go on
            with self._lock:
                self._leave(ticket)
            raise

    def _leave(self, ticket: Ticket) -> None:
        """Have nobody wait for a ticket any more; if it led, another one leads."""
        if ticket in self._waiting:
            self._waiting.remove(ticket)
            self.pending_bytes -= ticket.bytes
        ticket.waits = False
        if ticket.leads:
            ticket.leads = False
            ticket.gate.acquire(blocking=False)  # a ticket that is settled later opens it again
            self._hand_over()

    def _lead(self, ticket: Ticket) -> None:
        try:
            if not self._group:  # else its leader was interrupted
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
        """Take from the queue what one entry can hold: the first, and those that still fit."""
        first = self._waiting.popleft()
        self._group = [first]
        rows, size = self._sink.room(first)
        rows, size = rows - first.rows, size - first.bytes
        while self._waiting:
            rows -= self._waiting[0].rows
            size -= self._waiting[0].bytes
            if rows < 0 or size < 0:
                break
            self._group.append(self._waiting.popleft())
        for ticket in self._group:
            ticket.fate.written = None

    def _settle(self, error: Exception | None) -> None:
        settled, self._group = self._group, []
        self._hand_over()  # who leads goes on first: the others only return
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


def _for_this_thread(error: BaseException) -> BaseException:
    """Return the error for one of several threads that raise it, each with its own traceback."""
    return copy(error) if isinstance(error, LancekitError) else error
