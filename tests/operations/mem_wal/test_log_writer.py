"""Entries that are put: lost answers, other writers, and a storage that fails."""

from __future__ import annotations

import errno
from pathlib import Path
from uuid import UUID, uuid4

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import entry_name
from lancekit._format.schema import LanceSchema
from lancekit._operations.mem_wal.log_writer import LogWriter
from lancekit._operations.mem_wal.table_watch import TableWatch
from lancekit._shards.entry import encode_sentinel, read_entry
from lancekit._shards.log import positions, put_entry
from lancekit._shards.schema import Shard, wal_schema
from lancekit._storage.local import LocalStore
from lancekit.errors import CommitUnknownError, FencedError, ShardError
from tests.support.faults import Faults, FaultyStore, Mode

SCHEMA = wal_schema(LanceSchema.from_arrow(pa.schema({"id": pa.int64()})))


def opened(path: Path, faults: Faults | None = None) -> LogWriter:
    store = LocalStore(path) if faults is None else FaultyStore(LocalStore(path), faults)
    shard = Shard(store, UUID(int=7))
    return LogWriter(
        shard, SCHEMA, epoch=5, position=3, table=watch(shard), retries=2, base_delay=0.001
    )


def watch(shard: Shard) -> TableWatch:
    table = lk.write_dataset({"id": [0]}, f"memory://{uuid4()}", primary_key="id")
    return TableWatch(table._snapshot, shard)


def batch(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(ids), pa.array([False] * len(ids))], schema=SCHEMA)


def entry(log: LogWriter, *ids: int) -> bytes:
    return log.encode([batch(*ids)], 0, 1)


def test_batches_of_an_entry_are_joined(tmp_path: Path) -> None:
    log = opened(tmp_path)
    data = log.encode([batch(1), batch(2, 3)], 40, 4)
    assert log.decode(data) == [batch(1, 2, 3)]
    log.put(data)
    found = read_entry(Shard(LocalStore(tmp_path), UUID(int=7)), 3)
    assert (found.epoch, found.generation, log.position) == (5, 4, 4)
    large = pa.RecordBatch.from_arrays(
        [pa.array(range(100_000)), pa.array([False] * 100_000)], schema=SCHEMA
    )
    assert log.decode(log.encode([large, large], 2 * large.nbytes, 4)) == [large, large]


def test_rows_do_not_change_with_the_memory_that_was_put(tmp_path: Path) -> None:
    log = opened(tmp_path)
    memory = pa.py_buffer(bytearray(8))
    ids = pa.Array.from_buffers(pa.int64(), 1, [None, memory])
    given = pa.RecordBatch.from_arrays([ids, pa.array([False])], schema=SCHEMA)
    (kept,) = log.decode(log.encode([given], given.nbytes, 1))
    memoryview(memory.to_pybytes())
    memoryview(memory).cast("B")[0] = 9
    assert (given["id"].to_pylist(), kept["id"].to_pylist()) == ([9], [0])


@pytest.mark.parametrize("mode", [Mode.REFUSED, Mode.LOST])
def test_case_25_an_entry_whose_answer_was_lost_is_there_once(tmp_path: Path, mode: Mode) -> None:
    faults = Faults(fail_at=1, mode=mode)
    log = opened(tmp_path, faults)
    log.put(entry(log, 1))
    log.put(entry(log, 2))
    shard = Shard(LocalStore(tmp_path), UUID(int=7))
    assert positions(shard) == [3, 4]
    assert read_entry(shard, 3).batches[0]["id"].to_pylist() == [1]
    # what an attempt that failed left is made durable again
    assert ("put" in {call.kind for call in faults.calls}) == (mode is Mode.LOST)


def test_an_answer_that_says_taken_may_be_about_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)

    def repeated(shard: Shard, number: int, data: bytes) -> bool:
        assert put_entry(shard, number, data)
        return put_entry(shard, number, data)

    monkeypatch.setattr("lancekit._operations.mem_wal.log_writer.put_entry", repeated)
    log.put(entry(log, 1))
    assert log.position == 4


def test_a_storage_that_keeps_failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)
    calls = []

    def fails(shard: Shard, number: int, data: bytes) -> bool:
        calls.append(number)
        return FaultyStore(shard.store, Faults(1)).put_if_absent("x", data)

    monkeypatch.setattr("lancekit._operations.mem_wal.log_writer.put_entry", fails)
    with pytest.raises(CommitUnknownError, match="Entry 3 "):
        log.put(entry(log, 1))
    assert (calls, log.position) == ([3, 3, 3], 3)


def test_a_newer_writer_fences(tmp_path: Path) -> None:
    log = opened(tmp_path)
    put_entry(log._shard, 3, encode_sentinel(6))
    with pytest.raises(FencedError, match="epoch 6"):
        log.put(entry(log, 1))
    assert positions(log._shard) == [3]


def test_the_sentinel_of_an_older_claim_is_passed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    put_entry(log._shard, 3, encode_sentinel(4))
    log.put(entry(log, 1))
    assert (positions(log._shard), log.position) == ([3, 4], 5)


@pytest.mark.parametrize("other", [b"?", None])
def test_something_else_at_the_position(tmp_path: Path, other: bytes | None) -> None:
    log = opened(tmp_path)
    table = watch(log._shard)
    older = LogWriter(log._shard, SCHEMA, epoch=4, position=3, table=table, retries=0, base_delay=0)
    log._shard.store.put(entry_name(3), older.encode([batch(8)], 0, 1) if other is None else other)
    with pytest.raises(ShardError, match="Position 3 ") as caught:
        log.put(entry(log, 1))
    assert not isinstance(caught.value, FencedError)
    assert positions(log._shard) == [3]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)
    log.put(entry(log, 1))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("lancekit._storage.durable.os.fsync", full)
        with pytest.raises(CommitUnknownError, match="No space left on device"):
            log.put(entry(log, 2))
    assert positions(log._shard) == [3]
    assert [path.name for path in tmp_path.rglob("*") if path.name.startswith(".tmp")] == []
    log.put(entry(log, 2), again=True)
    assert positions(log._shard) == [3, 4]
