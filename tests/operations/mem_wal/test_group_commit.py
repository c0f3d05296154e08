"""Puts of many threads: in groups, in order, with errors for those whom they are about."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from lancekit._operations.mem_wal.log_writer import GroupCommit, Ticket
from lancekit.errors import StorageError


@dataclass
class Slow:
    """A sink that takes its time, and fails when told."""

    most_rows: int = 1000
    groups: list[list[int]] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    error: BaseException | None = None
    seconds: float = 0.005
    gate: threading.Event | None = None
    strange: pa.RecordBatch | None = None

    def room(self, first: Ticket) -> tuple[int, int, Callable[[list[pa.RecordBatch]], bool]]:
        return self.most_rows, 1 << 20, lambda batches: batches != [self.strange]

    def write(self, group: list[Ticket]) -> list[int]:
        values = [value for ticket in group for b in ticket.batches for value in b[0].to_pylist()]
        time.sleep(self.seconds)
        if self.gate is not None:
            self.gate.wait(10)
        if self.error is not None:
            raise self.error
        self.groups.append(values)
        return values

    def landed(self, written: list[int]) -> None:
        self.shown += written


def ticket(*values: int, waits: bool = True) -> Ticket:
    return Ticket([pa.record_batch({"x": pa.array(values)})] if values else [], waits=waits)


def test_those_who_wait_share_the_next_entry() -> None:
    sink = Slow()
    queue = GroupCommit(threading.Lock(), sink)

    def put_many(who: int) -> None:
        for number in range(10):
            queue.put(ticket(who * 100 + number))

    threads = [threading.Thread(target=put_many, args=(who,)) for who in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(sink.shown) == sorted(w * 100 + n for w in range(16) for n in range(10))
    assert [value for group in sink.groups for value in group] == sink.shown
    for who in range(16):  # each thread's own are in its order
        own = [value for value in sink.shown if value // 100 == who]
        assert own == sorted(own)
    assert len(sink.groups) < 60
    assert queue.pending_bytes == 0
    assert queue.pending == []


def test_a_group_has_what_the_sink_has_room_for() -> None:
    sink = Slow(most_rows=3)
    queue = GroupCommit(threading.Lock(), sink)
    for start in (0, 2, 4):
        queue.put(ticket(start, start + 1, waits=False))
    assert queue.pending_bytes == 48
    queue.put(ticket(*range(10, 15)))
    assert sink.groups == [[0, 1], [2, 3], [4, 5], [10, 11, 12, 13, 14]]


def test_a_group_has_no_ticket_that_the_sink_cannot_hold_with_the_others() -> None:
    sink, alone = Slow(), ticket(2, waits=False)
    (sink.strange,) = alone.batches
    queue = GroupCommit(threading.Lock(), sink)
    for one in (ticket(1, waits=False), alone, ticket(3, waits=False)):
        queue.put(one)
    queue.put(ticket())
    assert sink.groups == [[1], [2, 3]]


def test_a_ticket_without_rows_waits_for_all_before() -> None:
    sink = Slow()
    queue = GroupCommit(threading.Lock(), sink)
    queue.put(ticket(1, waits=False))
    assert sink.shown == []
    queue.put(ticket())
    assert sink.shown == [1]


def test_an_error_is_raised_for_all_of_the_group_and_no_other() -> None:
    sink = Slow(error=StorageError("full"), gate=threading.Event())
    queue = GroupCommit(threading.Lock(), sink)
    raised: dict[int, BaseException | None] = {}

    def put_one(who: int) -> None:
        try:
            queue.put(ticket(who))
        except StorageError as error:
            raised[who] = error

    threads = [threading.Thread(target=put_one, args=(who,)) for who in range(5)]
    for thread in threads:
        thread.start()
    while len(queue.pending) < 5:
        time.sleep(0.001)
    sink.gate.set()
    for thread in threads:
        thread.join(20)
    assert sorted(raised) == [0, 1, 2, 3, 4]
    assert len({id(error) for error in raised.values()}) == 5
    sink.error = None
    queue.put(ticket(9))
    assert sink.shown == [9]


def test_who_is_interrupted_lets_the_others_go_on() -> None:
    sink = Slow(error=KeyboardInterrupt(), gate=threading.Event())
    queue = GroupCommit(threading.Lock(), sink)
    raised: list[BaseException] = []

    def put_one(who: int) -> None:
        try:
            queue.put(ticket(who))
        except BaseException as error:
            raised.append(error)

    first = threading.Thread(target=put_one, args=(1,))
    first.start()
    while not queue.pending:
        time.sleep(0.001)
    second = threading.Thread(target=put_one, args=(2,))
    second.start()
    while len(queue.pending) < 2:
        time.sleep(0.001)
    sink.gate.set()
    first.join(20)
    second.join(20)
    assert [type(error) for error in raised] == [KeyboardInterrupt] * 2  # one after the other
    sink.error = None
    queue.put(ticket(3))
    assert sink.shown == [1, 3]  # the second had not begun with its own rows
    assert queue.pending_bytes == 0


def test_the_next_leader_writes_the_group_of_an_interrupted_one() -> None:
    sink = Slow()
    queue = GroupCommit(threading.Lock(), sink)
    behind = ticket(2, waits=False)
    queue.put(behind)
    sink.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        queue.put(ticket(1))
    assert [one.rows for one in queue.pending] == [1, 1]
    sink.error = None
    queue.put(ticket(3))
    assert sink.groups == [[2, 1], [3]]
    assert behind.error is None
    assert queue.pending == []


def test_a_thread_in_the_group_of_an_interrupted_one_leads() -> None:
    sink = Slow(gate=threading.Event(), error=KeyboardInterrupt())
    queue = GroupCommit(threading.Lock(), sink)
    done: list[object] = []

    def put_one(who: int) -> None:
        try:
            queue.put(ticket(who))
            done.append(who)
        except BaseException as error:
            sink.error = None
            done.append(type(error))

    queue.put(ticket(0, waits=False))
    threads = [threading.Thread(target=put_one, args=(who,)) for who in range(1, 6)]
    for thread in threads:
        thread.start()
    while len(queue.pending) < 6:
        time.sleep(0.001)
    sink.gate.set()
    for thread in threads:
        thread.join(20)
    assert len(done) == 5
    assert done.count(KeyboardInterrupt) == 1
    assert sorted(sink.shown) == list(range(6))


def test_a_waiting_thread_that_gives_up_is_not_written() -> None:
    sink = Slow(gate=threading.Event())
    queue = GroupCommit(threading.Lock(), sink)
    leader = threading.Thread(target=queue.put, args=(ticket(1),))
    leader.start()
    while not queue.pending:
        time.sleep(0.001)

    class Impatient:
        def acquire(self) -> None:
            raise KeyboardInterrupt

        def release(self) -> None: ...

    gone = ticket(2)
    gone.gate = Impatient()
    with pytest.raises(KeyboardInterrupt):
        queue.put(gone)
    sink.gate.set()
    leader.join(20)
    queue.put(ticket(3))
    assert sink.shown == [1, 3]
    assert queue.pending_bytes == 0
