"""Puts of many threads in one order, those that queue while an entry is written in the next one.

There is no thread that writes.  A put that finds nobody writing leads: it writes at once what
queues, itself too, and hands over to the first of those that came meanwhile.  So a lone put costs
no switch between threads, and of many that wait each entry takes all.

A leader that is interrupted while it writes leaves its group as it is: the next leader writes that
group first.  Interrupts at other places are to be postponed (`lancekit._interrupts.Postponed`).
"""

from __future__ import annotations

import threading
from collections import deque
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, TypeVar

import pyarrow as pa

from lancekit._interrupts import wait_for
from lancekit.errors import LancekitError

__all__ = ["Fate", "GroupCommit", "Sink", "Ticket"]

Written = TypeVar("Written")


#: a batch whose buffers have fewer bytes counts with these, which takes a fiftieth of the time
_SMALL_BYTES = 1 << 16


def _size(batch: pa.RecordBatch) -> int:
    """Return the bytes of a batch; of a large one without what its buffers have beside its rows."""
    size = batch.get_total_buffer_size()
    return size if size <= _SMALL_BYTES else batch.nbytes


@dataclass(slots=True)
class Fate:
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
        self.fate: Fate = Fate()
        self.error: BaseException | None = None
        self.gate: threading.Lock = threading.Lock()
        self.gate.acquire()


class Sink(Protocol[Written]):
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

    Parameters
    ----------
    lock
        Guards the queue, and what the sink shows.
    sink
        Where the rows go.

    Attributes
    ----------
    pending_bytes
        What waits, and what is being written, takes in memory.
    """

    def __init__(self, lock: threading.Lock, sink: Sink[Written]) -> None:
        self._lock = lock
        self._sink: Sink[Written] = sink
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
