"""Ctrl-C at every step of a put: nothing acknowledged is lost, nothing is doubled, puts go on."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import lancekit as lk
from lancekit._interrupts import Postponed, heed, pause
from lancekit.errors import StorageError
from tests.support.faults import Call, Faults, injected
from tests.support.shards import SHARD

#: the code in which interrupts strike: the writer, its log, and the files below it
CODE = tuple(
    str(Path(lk.__file__).parent / name)
    for name in (
        "_operations/mem_wal",
        "_shards",
        "_storage",
        "_interrupts.py",
        "_api/shard_writer.py",
    )
)
ROOMS: dict[str, dict[str, Any]] = {
    "durable": {},
    "not durable": {"durable_write": False, "max_wal_flush_interval_ms": 60_000},
    "generations": {"max_memtable_rows": 3},
}


def made(path: Path | str) -> lk.LanceDataset:
    """Return a table without a key: a row that is put twice is there twice."""
    ds = lk.write_dataset({"id": [0]}, path)
    ds.initialize_mem_wal(unsharded=True)
    return ds


def found(ds: lk.LanceDataset) -> list[int]:
    return sorted(lk.dataset(ds.uri).to_table(include_mem_wal=True)["id"].to_pylist())


class Striking:
    """Sends SIGINT to the main thread before the line of some number that it runs in `CODE`."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.lines = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(CODE):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                signal.raise_signal(signal.SIGINT)
        return self

    @contextmanager
    def here(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(before)


def interrupted(work: Callable[[], object], at: int) -> tuple[bool, int]:
    """Do something, interrupted at a line; return whether it was, and how many lines ran."""
    striking = Striking(at)
    try:
        with striking.here():
            work()
    except KeyboardInterrupt:
        return True, striking.lines
    return False, striking.lines


@pytest.mark.torture
@pytest.mark.parametrize("fsync", [True, False])
@pytest.mark.parametrize("room", ROOMS)
def test_at_every_line_of_a_put(tmp_path: Path, room: str, fsync: bool, whole: bool) -> None:
    ds = made(tmp_path / "t")
    rng = random.Random(len(room) + fsync)
    with lk.options(fsync=fsync):
        writer = ds.mem_wal_writer(SHARD, **ROOMS[room])
        writer.put({"id": [1]})
        _, lines = interrupted(lambda: writer.put({"id": [2]}), 0)
        assert lines > 80
        every = range(1, lines + 20)
        acknowledged, unknown = {0, 1, 2}, set[int]()
        for at in every if whole else rng.sample(every, 40):
            stopped, _ = interrupted(lambda at=at: writer.put({"id": [1000 + at]}), at)  # type: ignore[misc]
            (unknown if stopped else acknowledged).add(1000 + at)
            writer.put({"id": [-at]})
            acknowledged.add(-at)
            assert writer.state == "open"
        assert unknown
        writer.close()
    ids = found(ds)
    assert len(ids) == len(set(ids))
    assert acknowledged <= set(ids) <= acknowledged | unknown


@pytest.mark.torture
def test_at_every_line_of_a_close(tmp_path: Path, whole: bool) -> None:
    rng, seen = random.Random(7), 0
    with lk.options(fsync=False):
        ds = made(tmp_path / "t")
        every = range(1, 400)
        for at in every if whole else rng.sample(every, 12):
            writer = ds.mem_wal_writer(SHARD, durable_write=False, max_wal_flush_interval_ms=60_000)
            writer.put({"id": [at]})
            if interrupted(writer.close, at)[0]:
                seen += 1
                if writer.state == "open":
                    writer.put({"id": [-at]})
                    writer.close()
                    assert -at in found(ds)
            assert writer.state == "closed"
            assert found(ds).count(at) == 1
    assert seen


# an interrupt in a callback, as hypothesis has one for collections of garbage, is dropped and shown
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("durable", [True, False])
def test_at_random_beside_other_threads(tmp_path: Path, durable: bool) -> None:
    ds, rng = made(tmp_path / "t"), random.Random(5)
    settings: dict[str, Any] = {"durable_write": durable, "max_memtable_rows": 50}
    writer = ds.mem_wal_writer(SHARD, **settings)
    acknowledged, errors = [0], list[BaseException]()
    done = threading.Event()

    def put_many(who: int) -> None:
        number = who * 100_000
        try:
            while not done.is_set():
                writer.put({"id": [number]})
                acknowledged.append(number)
                number += 1
        except BaseException as error:
            errors.append(error)

    def strike(main: int) -> None:
        while not done.is_set():
            time.sleep(rng.random() * 0.004)
            if armed.wait(0.5):
                armed.clear()
                signal.pthread_kill(main, signal.SIGINT)
                # press again if Python dropped it
                while not came.wait(20) and not done.is_set():
                    dropped.append(number)
                    signal.pthread_kill(main, signal.SIGINT)
                came.clear()

    armed, came, stops = threading.Event(), threading.Event(), 0
    unknown, dropped = list[int](), list[int]()
    threads = [threading.Thread(target=put_many, args=(who,)) for who in (1, 2, 3)]
    threads.append(threading.Thread(target=strike, args=(threading.get_ident(),)))
    for thread in threads:
        thread.start()
    numbers, number = count(-1, -1), 0
    while stops < 50:
        try:
            armed.set()
            while True:
                number = next(numbers)
                writer.put({"id": [number]})
                acknowledged.append(number)
        except KeyboardInterrupt:
            came.set()
            stops += 1
            unknown.append(number)
    done.set()
    with suppress(KeyboardInterrupt):  # the last one may be under way
        armed.set()
        for thread in threads:
            thread.join(20)
    came.set()
    for thread in threads:
        thread.join(20)
    assert not errors
    assert len(dropped) <= 2
    writer.close()
    ids = found(ds)
    assert set(acknowledged) <= set(ids) <= {*acknowledged, *unknown}
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("after", [True, False])
def test_at_every_call_to_the_store(tmp_path: Path, after: bool) -> None:
    """An interrupt that comes out of a call leaves the entry for the next put."""
    armed: list[int] = []

    def stop(call: Call) -> None:
        if armed and call.number >= armed[0]:
            armed.clear()
            if after and call.kind == "put_if_absent":
                call_through(call)
            raise KeyboardInterrupt

    def call_through(call: Call) -> None:
        file = Path(ds.uri) / "_mem_wal" / SHARD / call.name
        file.write_bytes(entry[0])

    with lk.options(fsync=False), injected(Faults(before=stop)) as faults:
        ds = made(tmp_path / "t")
        writer = lk.dataset(ds.uri).mem_wal_writer(SHARD)
        log, entry = writer._writer._log, list[bytes]()
        encode = log.encode

        def encoded(*arguments: Any) -> bytes:
            entry[:] = [encode(*arguments)]
            return entry[0]

        log.encode = encoded  # type: ignore[method-assign]
        acknowledged, stopped = [0], list[int]()
        for at in range(1, 12):
            armed[:] = [len(faults.calls) + at]
            try:
                writer.put({"id": [at]})
                acknowledged.append(at)
                armed.clear()
            except KeyboardInterrupt:
                stopped.append(at)
            assert writer.state == "open"
            writer.put({"id": [100 + at]})
            acknowledged.append(100 + at)
        assert len(stopped) >= 3
        # the entry that was interrupted is written before the next one
        assert found(ds) == sorted(acknowledged + stopped)
        writer.close()
    assert found(ds) == sorted(acknowledged + stopped)


def test_an_upsert_and_a_sink_go_on(tmp_path: Path) -> None:
    place = tmp_path / "t"
    ds = lk.write_dataset({"id": [0], "v": [0]}, place, primary_key="id")
    ds.initialize_mem_wal()
    sink = lk.mem_wal_sink(place, query="q")
    rng = random.Random(3)
    works: list[Callable[[int], object]] = [
        lambda key: ds.mem_wal_upsert({"id": [key], "v": [key]}),
        lambda key: sink({"id": [key], "v": [key]}, batch=key),
    ]
    acknowledged, unknown, key = {0}, set[int](), 1
    with lk.options(fsync=False):
        for work in works:
            work(key)
            acknowledged.add(key)
            _, lines = interrupted(lambda work=work: work(1), 0)  # type: ignore[misc]
            for at in rng.sample(range(1, lines), 15):
                stopped, _ = interrupted(
                    lambda work=work, key=key: work(key + 1),  # type: ignore[misc]
                    at,
                )
                (unknown if stopped else acknowledged).add(key + 1)
                work(key + 2)
                acknowledged.add(key + 2)
                key += 2
        sink.close()
    ids = found(ds)
    assert unknown
    assert len(ids) == len(set(ids))
    assert acknowledged <= set(ids) <= acknowledged | unknown


def test_a_pause_between_attempts_is_left_at_once(tmp_path: Path) -> None:
    failing: list[int] = []

    def fail(call: Call) -> None:
        if failing and call.kind == "put_if_absent":
            threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()
            failing.clear()
            raise StorageError("the network is gone")

    with injected(Faults(before=fail)):
        ds = made(tmp_path / "t")
        writer = lk.dataset(ds.uri).mem_wal_writer(SHARD)
        writer._writer._log._base_delay = 60
        failing.append(1)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            writer.put({"id": [1]})
        assert time.monotonic() - began < 30
        writer.put({"id": [2]})
        writer.close()
    assert found(ds) == [0, 1, 2]


def test_an_interrupt_waits_for_the_end_of_a_block() -> None:
    handler = signal.getsignal(signal.SIGINT)
    done = []

    def blocks() -> None:
        with Postponed():
            with Postponed():
                signal.raise_signal(signal.SIGINT)
                done.append("inner")
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        blocks()
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is handler
    with Postponed():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            heed()
        heed()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            pause(30)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_handler_of_the_user_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    before = signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    try:
        with Postponed():
            signal.raise_signal(signal.SIGINT)
            assert not asked
        assert asked == [signal.SIGINT]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Postponed():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_meanwhile_is_interrupted_as_usual() -> None:
    found = []

    def fork() -> None:
        child = os.fork()
        if child == 0:
            try:
                signal.raise_signal(signal.SIGINT)
                os._exit(1)
            except KeyboardInterrupt:
                os._exit(7)
        found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    with Postponed():
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join(20)
    assert found == [7]
