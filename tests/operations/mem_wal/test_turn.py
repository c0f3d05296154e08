"""Writers that take turns at a shard."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import WAL
from lancekit._operations.mem_wal.claim import LONG_LOG, POLL_SECONDS, Turn
from lancekit._operations.mem_wal.open_writer import open_writer
from lancekit._operations.mem_wal.settings import WriterSettings
from lancekit._shards.schema import Shard, shard_of
from lancekit._versions.listing import latest_snapshot
from lancekit.errors import FencedError

ONE = UUID(int=1)


@pytest.fixture
def ds(tmp_path: Path) -> Any:
    """A table of one row that may have shards."""
    made = lk.write_dataset({"id": [0]}, tmp_path / "t", primary_key="id")
    made.initialize_mem_wal()
    return made


def shard(ds: Any) -> Shard:
    return shard_of(latest_snapshot(ds._location).store, ONE)


def waited(turn: Turn, of: Shard) -> float:
    """Return how many seconds the claimer waits for its turn."""
    started = time.monotonic()
    while not turn.poll(of)[1]:
        assert time.monotonic() - started < 30
        time.sleep(POLL_SECONDS)
    return time.monotonic() - started


def test_a_shard_that_nobody_writes_to_is_taken_at_once(ds: Any) -> None:
    assert Turn().poll(shard(ds)) == (0, True)
    ds.mem_wal_writer(str(ONE)).put({"id": [1]})
    assert Turn().poll(shard(ds)) == (1, False)
    long_ago = time.time() - 60
    os.utime(Path(ds.uri) / "_mem_wal" / str(ONE) / WAL, (long_ago, long_ago))
    assert Turn().poll(shard(ds)) == (1, True)


def test_the_claimer_before_loses_nothing(ds: Any) -> None:
    ds.mem_wal_writer(str(ONE)).put({"id": [1]})
    turn = Turn()
    turn.own_epoch = 1
    assert turn.poll(shard(ds)) == (1, True)


def test_a_writer_that_puts_rows_keeps_its_shard_for_a_turn(ds: Any) -> None:
    writer, stopped = ds.mem_wal_writer(str(ONE)), threading.Event()

    def put() -> None:
        while not stopped.is_set():
            writer.put({"id": [1]})

    thread = threading.Thread(target=put)
    thread.start()
    try:
        assert waited(Turn(), shard(ds)) >= 0.15
    finally:
        stopped.set()
        thread.join()


def test_a_writer_has_the_time_to_put_its_first_row(ds: Any) -> None:
    ds.mem_wal_writer(str(ONE)).put({"id": [1]})
    ds.mem_wal_writer(str(ONE))  # which put nothing
    assert waited(Turn(), shard(ds)) >= 1


@pytest.mark.parametrize("entries", [1, LONG_LOG])
def test_a_writer_has_the_time_to_make_a_generation_of_a_long_log(ds: Any, entries: int) -> None:
    """Else it is fenced meanwhile, and so is the next one, which begins again."""
    with lk.options(fsync=False):
        writer = ds.mem_wal_writer(str(ONE))
        for number in range(entries):
            writer.put({"id": [number]})
        ds.mem_wal_writer(str(ONE))  # which put nothing yet
    turn = Turn()
    assert turn.poll(shard(ds)) == (2, False)
    turn._claimed -= 10  # seconds
    assert turn.poll(shard(ds)) == (2, entries < LONG_LOG)
    turn._claimed -= 10
    assert turn.poll(shard(ds)) == (2, True)


def test_rows_that_were_flushed_end_the_turn(ds: Any) -> None:
    with ds.mem_wal_writer(str(ONE)) as writer:
        writer.put({"id": [1]})
    assert waited(Turn(), shard(ds)) < 1


def test_of_two_claims_after_one_epoch_one_succeeds(ds: Any) -> None:
    newest, settings = latest_snapshot(ds._location), WriterSettings()
    writer, _ = open_writer(newest, ONE, settings, after=0)
    for epoch in (0, 7):
        with pytest.raises(FencedError, match="fenced by another writer of shard"):
            open_writer(newest, ONE, settings, after=epoch)
    assert writer.state == "open"
    assert open_writer(newest, ONE, settings, after=1)[0].epoch == 2
