"""The writer of a shard: what is acknowledged stays, whatever happens to whom and when."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._api.shard_writer import ShardWriter
from lancekit._format.mem_wal.names import entry_name
from lancekit._operations.mem_wal import flush
from lancekit._operations.mem_wal.log_writer import GroupCommit, LogWriter, Ticket
from lancekit._shards.entry import read_entry
from lancekit._shards.log import positions
from lancekit.errors import (
    CommitUnknownError,
    FencedError,
    InvalidArgumentError,
    ShardError,
    StorageError,
)
from lancekit.progress import tracking
from tests.support.faults import Crash, Faults, Mode, injected
from tests.support.shard_state import newest_rows
from tests.support.shards import LEFT_OPEN_MS, SHARD, keyed, newest, opened, with_shards

SCHEMA = keyed(pa.schema({"id": pa.int64(), "v": pa.string()}), "id")
FIRST = {1: "a", 2: "b"}
QUICK = {"max_memtable_rows": 4}


def rows(given: dict[int, str]) -> pa.Table:
    return pa.table({"id": list(given), "v": list(given.values())}, schema=SCHEMA)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with_shards(tmp_path / "t", rows(FIRST))
    return tmp_path / "t"


def writer_of(path: Path, **settings: Any) -> ShardWriter:
    return lk.dataset(path).mem_wal_writer(SHARD, **settings)


def found(path: Path) -> dict[int, str]:
    return {key: row["v"] for key, row in newest_rows(path).items()}


def seen_by_pylance(path: Path) -> dict[int, str]:
    """Take the shard as the reference, and scan what it finds."""
    with lance.dataset(str(path)).mem_wal_writer(SHARD) as writer:
        return {row["id"]: row["v"] for row in writer.lsm_scanner().to_table().to_pylist()}


def test_what_is_put_and_deleted(path: Path) -> None:
    with writer_of(path) as writer:
        writer.put(rows({3: "c", 1: "A"}))
        writer.delete({"id": [2, 9]})
        writer.put(rows({9: "i"}))
        assert found(path) == {1: "A", 3: "c", 9: "i"}
        assert [number for number, _ in writer._writer.memtables()] == [1]
        writer.put(rows({}))
        assert positions(opened(path)) == [1, 2, 3]
    assert found(path) == seen_by_pylance(path) == {1: "A", 3: "c", 9: "i"}
    assert [table.generation for table in newest(path).sstables] == [1]
    writer.close()
    with pytest.raises(ShardError, match="is closed"):
        writer.put(rows({4: "d"}))
    with pytest.raises(ShardError, match="is closed"):
        writer._writer.memtables()
    assert writer.stats()["put_count"] == 4


def test_a_writer_without_rows_leaves_no_generation(path: Path) -> None:
    with writer_of(path):
        pass
    assert (newest(path).sstables, newest(path).version) == ((), 1)
    with pytest.raises(ValueError, match="x"), writer_of(path):
        raise ValueError("x")


@pytest.mark.parametrize(
    ("settings", "generations"),
    [
        ({"max_memtable_rows": 4}, 3),
        ({"max_memtable_batches": 2}, 3),
        ({"max_memtable_size": 1}, 6),
        ({"max_unflushed_memtable_bytes": 1}, 6),
        ({}, 1),
    ],
)
def test_settings_are_honoured(path: Path, settings: dict[str, int], generations: int) -> None:
    with writer_of(path, **settings) as writer:
        for number in range(6):
            writer.put(rows({10 + 2 * number: "x", 11 + 2 * number: "y"}))
        assert len(found(path)) == 14
    manifest = newest(path)
    assert [one.generation for one in manifest.sstables] == list(range(1, generations + 1))
    assert (manifest.replay_after, manifest.current_generation) == (6, generations + 1)
    assert len(found(path)) == len(seen_by_pylance(path)) == 14


def test_scanners_of_writers_see_what_was_acknowledged(path: Path) -> None:
    with writer_of(path, max_memtable_rows=3) as writer:
        scanner, expected = writer.lsm_scanner(), dict(FIRST)
        for number in range(20):
            writer.put(rows({10 + number: "x", 2: f"{number}"}))
            expected |= {10 + number: "x", 2: f"{number}"}
            if number % 3 == 0:
                writer.delete({"id": [10 + number]})
                del expected[10 + number]
            assert {r["id"]: r["v"] for r in scanner.to_table().to_pylist()} == expected
    with pytest.raises(ShardError):
        writer.lsm_scanner()


def test_a_put_is_never_divided(path: Path) -> None:
    with writer_of(path, **QUICK) as writer:
        with pytest.raises(InvalidArgumentError, match=r"at most .* rows, got 5"):
            writer.put(rows(dict.fromkeys(range(5), "x")))
        writer.put(rows({3: "c"}))
        writer.put(rows(dict.fromkeys(range(10, 14), "x")))
        assert [len(parts[0]) for _, parts in writer._writer.memtables() if parts] in ([4, 1], [4])


def test_threads_share_entries(path: Path) -> None:
    with writer_of(path, max_memtable_rows=50) as writer:

        def put_many(who: int) -> None:
            for number in range(10):
                key = 100 * who + number
                writer.put(rows({key: f"{who}"}))
                shown = [k for _, parts in writer._writer.memtables() for b in parts for k in b[0]]
                flushed = sum(table.physical_rows or 0 for table in newest(path).sstables)
                assert pa.scalar(key) in shown or flushed

        threads = [threading.Thread(target=put_many, args=(who,)) for who in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert writer.stats()["wal_flush_count"] < 80
    assert len(found(path)) == 82


def test_rows_that_no_put_waits_for(path: Path) -> None:
    settings = {"durable_write": False, "max_wal_flush_interval_ms": 20}
    with writer_of(path, **settings) as writer:
        writer.put(rows({3: "c"}))
        assert writer.memtable_stats()["pending_wal_row_count"] == 1
        assert [b.num_rows for _, parts in writer._writer.memtables() for b in parts] == [1]
        assert writer.lsm_scanner().filter("id = 3").to_table()["v"].to_pylist() == ["c"]
        until = time.monotonic() + 20
        while found(path) == FIRST and time.monotonic() < until:
            time.sleep(0.01)
        assert found(path) == {**FIRST, 3: "c"}
    with writer_of(path, durable_write=False, max_wal_flush_interval_ms=0) as writer:
        writer.put(rows({4: "d"}))
        assert 4 not in found(path)
    assert found(path) == {**FIRST, 3: "c", 4: "d"}
    with writer_of(path, durable_write=False, max_wal_buffer_size=1) as writer:
        writer.put(rows({5: "e"}))
        assert found(path)[5] == "e"


def test_deleted_rows_of_tables_that_have_no_null_structs(tmp_path: Path) -> None:
    schema = keyed(pa.schema({"id": pa.int64(), "s": pa.struct({"a": pa.int8()})}), "id")
    given = pa.table({"id": [1, 2], "s": [{"a": 1}, {"a": 2}]}, schema=schema)
    lance.write_dataset(given, tmp_path, data_storage_version="2.0").initialize_mem_wal()
    with writer_of(tmp_path) as writer:
        writer.delete({"id": [1]})
        writer.put(given.slice(1))
    with lance.dataset(str(tmp_path)).mem_wal_writer(SHARD) as theirs:
        assert theirs.lsm_scanner().to_table().to_pylist() == given.slice(1).to_pylist()
    ds = lk.dataset(tmp_path)
    ds.merge_mem_wal()
    assert ds.to_table().to_pylist() == given.slice(1).to_pylist()


def test_stats_have_the_names_of_pylance(path: Path) -> None:
    theirs = lance.dataset(str(path)).mem_wal_writer(SHARD)
    ours = writer_of(path)
    assert list(ours.stats()) == list(theirs.stats())
    assert list(ours.memtable_stats()) == list(theirs.memtable_stats())
    ours.put(rows({3: "c"}))
    assert ours.stats()["wal_flush_bytes"] == len(opened(path).store.read(entry_name(2)))
    expected = {"row_count": 1, "batch_count": 1, "generation": 1, "frozen_count": 0}
    assert {key: ours.memtable_stats()[key] for key in expected} == expected


@pytest.mark.torture
def test_case_1_and_2_killed_writers(path: Path, tmp_path: Path, whole: bool) -> None:
    """What is acknowledged stays, what is not is there as a whole or not at all."""
    for round_ in range(50 if whole else 1):
        # each on a table of its own: to look at it takes the longer the more it was written to
        at = tmp_path / f"{round_}"
        shutil.copytree(path, at)
        job = {
            "uri": str(at),
            "shard": SHARD,
            "log": str(tmp_path / "said"),
            "settings": {"max_memtable_rows": 15},
            "fsync": bool(round_ % 2),
            "state": FIRST,
        }
        program = [sys.executable, "-m", "tests.support.shard_kills", json.dumps(job)]
        count = 40 if whole else 5
        done = subprocess.run(
            [*program, str(round_ * count), str(count)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert said["done"] > count
        # the reference goes on from what is left
        left = {int(key): value for key, value in said["state"].items() if value is not None}
        assert seen_by_pylance(at) == left


def test_options_are_those_of_who_opened_the_writer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[bool] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(True) or sync(descriptor))
    writer = writer_of(path)
    flushed.clear()
    with lk.options(fsync=False):
        writer.put(rows({3: "c"}))
        assert len(flushed) >= 2  # the entry and its folder
        other = writer_of(path)
    flushed.clear()
    other.put(rows({4: "d"}))
    other.close()
    assert flushed == []


def test_case_9_the_writer_before_is_fenced(path: Path) -> None:
    before = writer_of(path)
    before.put(rows({3: "c"}))
    after = writer_of(path)
    assert [b["id"].to_pylist() for _, p in after._writer.memtables() for b in p] == [[3]]
    for _ in range(2):
        with pytest.raises(FencedError, match="fenced by another writer of shard"):
            before.put(rows({4: "d"}))
    with pytest.raises(FencedError):
        before._writer.memtables()
    version = newest(path).version
    with pytest.raises(FencedError):
        before.close()
    before.close()
    assert newest(path).version == version
    idle, last = after, writer_of(path)
    with pytest.raises(FencedError):
        idle.close()  # it has rows in memory, and does not know yet
    last.put(rows({5: "e"}))
    last.close()
    assert found(path) == seen_by_pylance(path) == {**FIRST, 3: "c", 5: "e"}


def test_case_9_pylance_fences_ours_and_ours_pylance(path: Path) -> None:
    theirs = lance.dataset(str(path)).mem_wal_writer(SHARD, max_wal_flush_interval_ms=LEFT_OPEN_MS)
    theirs.put(rows({3: "c"}))
    ours = writer_of(path)
    with pytest.raises(OSError, match="fenced"):
        theirs.put(rows({4: "d"}))
    ours.put(rows({5: "e"}))
    again = lance.dataset(str(path)).mem_wal_writer(SHARD, max_wal_flush_interval_ms=1)
    with pytest.raises(FencedError):
        ours.put(rows({6: "f"}))
    again.put(rows({7: "g"}))
    again.close()
    assert found(path) == {**FIRST, 3: "c", 5: "e", 7: "g"}


def test_case_11_a_flush_that_meets_a_claim(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = writer_of(path)
    before.put(rows({3: "c"}))
    write = flush.write_generation
    taken: list[ShardWriter] = []

    def claimed_meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(flush, "write_generation", write)
        written = write(*arguments)
        taken.append(writer_of(path))
        return written

    monkeypatch.setattr(flush, "write_generation", claimed_meanwhile)
    with pytest.raises(FencedError):
        before.close()
    assert newest(path).sstables == ()
    assert len(list((path / "_mem_wal" / SHARD).glob("*_gen_1"))) == 1
    taken[0].close()
    assert len(newest(path).sstables) == 1
    assert found(path) == seen_by_pylance(path) == {**FIRST, 3: "c"}


STEPS: list[dict[int, str | None]] = [{3: "c"}, {1: "A", 4: "d"}, {3: None}, {2: "B"}, {1: None}]


def _do_all(path: Path, acknowledged: list[int]) -> None:
    """Do the steps, counting those that are acknowledged."""
    writer = writer_of(path, max_memtable_rows=2)
    for number, step in enumerate(STEPS, start=1):
        if None in step.values():
            writer.delete({"id": list(step)})
        else:
            writer.put(rows({key: value for key, value in step.items() if value}))
        acknowledged.append(number)
    writer.close()


def _after(steps: list[dict[int, str | None]]) -> dict[int, str]:
    state: dict[int, str | None] = dict(FIRST)
    for step in steps:
        state.update(step)
    return {key: value for key, value in state.items() if value is not None}


@pytest.mark.torture
@pytest.mark.parametrize("mode", [Mode.CRASH, Mode.TORN, Mode.LOST, Mode.REFUSED])
def test_case_2_12_and_13_each_storage_call(path: Path, mode: Mode, whole: bool) -> None:
    """Die at, or fail, each call in turn: each row that was acknowledged is there, and once."""
    shutil.copytree(path, path.with_name("count"))
    with injected(Faults()) as faults, lk.options(fsync=False):
        _do_all(path.with_name("count"), [])
    calls = len(faults.calls)
    assert calls > 60
    some = range(3 + 5 * list(Mode).index(mode), calls, 47)
    for number in range(1, calls + 1) if whole else some:
        at = path.with_name(f"{number}")
        shutil.copytree(path, at)
        acknowledged: list[int] = []
        faults = Faults(fail_at=number, mode=mode)
        with injected(faults), lk.options(fsync=False), suppress(Crash, OSError):
            _do_all(at, acknowledged)
        done = len(acknowledged)
        left = found(at)
        assert left in (_after(STEPS[:done]), _after(STEPS[: done + 1]))
        assert seen_by_pylance(at) == found(at) == left
        shutil.rmtree(at)


def test_case_14_a_later_generation_waits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, failing = flush.write_generation, threading.Event()
    failing.set()

    def write_some(shard: Any, schema: Any, batches: Any, number: int, *more: Any) -> Any:
        if failing.is_set() and number == 2:
            raise StorageError("the disk is full")
        return write(shard, schema, batches, number, *more)

    monkeypatch.setattr(flush, "write_generation", write_some)
    writer = writer_of(path, **QUICK)
    expected = dict(FIRST)
    for key in range(10, 26):
        expected[key] = "x"
        writer.put(rows({key: "x"}))
    until = time.monotonic() + 20
    while writer.stats()["memtable_flush_failures"] < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert [table.generation for table in newest(path).sstables] == [1]
    assert [number for number, _ in writer._writer.memtables()] == [5, 4, 3, 2]
    assert found(path) == expected  # as after a kill
    with pytest.raises(StorageError, match="the disk is full"):
        writer.close()
    failing.clear()
    with writer_of(path, **QUICK) as again:
        assert [number for number, _ in again._writer.memtables()] == [5, 4, 3, 2]
    assert [table.generation for table in newest(path).sstables] == [1, 2, 3, 4]
    assert found(path) == seen_by_pylance(path) == expected


def test_puts_wait_for_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, going = flush.write_generation, threading.Event()

    def write_late(*arguments: Any) -> Any:
        going.wait(20)
        return write(*arguments)

    monkeypatch.setattr(flush, "write_generation", write_late)
    writer = writer_of(path, max_unflushed_memtable_bytes=1, backpressure_log_interval_ms=10)
    writer.put(rows({3: "c"}))
    with pytest.raises(ShardError, match=r"in 1 memtables wait .*were not written"):
        writer.put(rows({4: "d"}), timeout=timedelta(seconds=0.05))
    assert 4 not in found(path)
    threading.Timer(0.05, going.set).start()
    writer.put(rows({5: "e"}))
    writer.close()
    assert found(path) == {**FIRST, 3: "c", 5: "e"}


@pytest.mark.parametrize("durable", [True, False])
def test_a_put_that_meets_a_close(
    path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    writer = writer_of(path, durable_write=durable)
    writer.put(rows({3: "c"}))
    queue, log = GroupCommit.put, LogWriter.put
    checked, go, done, writing = (threading.Event() for _ in range(4))
    said: list[Any] = []

    def queued(self: GroupCommit, ticket: Ticket) -> None:
        if ticket.rows:
            checked.set()
            go.wait(5)
        queue(self, ticket)
        if not ticket.rows and not go.is_set():  # the writer is about to freeze what it has
            go.set()
            (writing if durable else done).wait(5)

    def written(self: LogWriter, entry: bytes, **how: bool) -> None:
        if go.is_set():
            writing.set()
            time.sleep(0.05)
        log(self, entry, **how)

    def put() -> None:
        try:
            writer.put(rows({4: "d"}))
            said.append(None)
        except ShardError as error:
            said.append(error)
        done.set()

    monkeypatch.setattr(GroupCommit, "put", queued)
    monkeypatch.setattr(LogWriter, "put", written)
    putting = threading.Thread(target=put)
    putting.start()
    assert checked.wait(5)
    writer.close()
    putting.join(5)
    assert len(said) == 1
    expected = {**FIRST, 3: "c"} | ({4: "d"} if said[0] is None else {})
    assert seen_by_pylance(path) == expected
    assert found(path) == expected


def test_a_writer_goes_on_when_the_operation_stops_in_which_it_was_opened(path: Path) -> None:
    with tracking("opening") as operation:
        writer = writer_of(path, max_memtable_rows=2)
        operation.stop()
    for key in (3, 4, 5, 6):
        writer.put(rows({key: "c"}))
    writer.close()
    assert found(path) == {**FIRST, **dict.fromkeys((3, 4, 5, 6), "c")}


def test_a_usual_end_of_python_keeps_what_was_put(path: Path) -> None:
    program = """
import sys, lancekit as lk
ds = lk.dataset(sys.argv[1])
settings = {"durable_write": False, "max_wal_flush_interval_ms": 60_000}
writer = ds.mem_wal_writer(sys.argv[2], **settings)
for number in range(50):
    writer.put({"id": [100 + number], "v": ["x"]})
assert writer.position == 0
"""
    subprocess.run([sys.executable, "-c", program, str(path), SHARD], check=True)
    assert len(found(path)) == len(FIRST) + 50
    assert seen_by_pylance(path) == found(path)


def test_case_23_a_stalled_writer_after_a_collection(path: Path) -> None:
    stalled = writer_of(path)
    stalled.put(rows({3: "c"}))
    for key in (4, 5):
        with writer_of(path) as other:
            other.put(rows({key: "x"}))
    # what a collection leaves: sentinels, and what comes after the newest generation
    shard = opened(path)
    for number in positions(shard):
        if not read_entry(shard, number).sentinel:
            shard.store.delete(entry_name(number))
    with pytest.raises(FencedError):
        stalled.put(rows({6: "f"}))
    assert found(path) == {**FIRST, 3: "c", 4: "x", 5: "x"}


def test_case_24_columns_change_between_entries(path: Path) -> None:
    writer = writer_of(path)
    writer.put(rows({3: "c"}))
    ds = lk.dataset(path)
    ds.alter_columns({"path": "v", "name": "w"})
    ds.add_columns(pa.field("n", pa.int8()))
    with writer_of(path) as again:
        again.put({"id": [4], "w": ["d"], "n": [4]})
        shown = again.lsm_scanner().filter("id > 2").to_table().sort_by("id").to_pylist()
        assert shown == [{"id": 3, "w": "c", "n": None}, {"id": 4, "w": "d", "n": 4}]
    assert newest_rows(path)[3] == {"id": 3, "w": "c", "n": None}
    with lance.dataset(str(path)).mem_wal_writer(SHARD) as theirs:
        table = theirs.lsm_scanner().filter("id > 2").to_table().sort_by("id")
        assert table.to_pylist() == [{"id": 3, "w": "c", "n": None}, {"id": 4, "w": "d", "n": 4}]


def test_case_27_shards_that_change_hands(path: Path) -> None:
    state: dict[int, str | None] = dict(FIRST)
    for round_ in range(6):
        module: Any = (lance, lk)[round_ % 2]
        writer = module.dataset(str(path)).mem_wal_writer(
            SHARD, max_wal_flush_interval_ms=LEFT_OPEN_MS
        )
        for step in ({round_: f"{round_}", 3: f"{round_}"}, {10 + round_: "x"}, {round_ - 1: None}):
            gone = None in step.values()
            given = pa.table({"id": list(step)}, schema=pa.schema([SCHEMA.field("id")]))
            (writer.delete(given) if gone else writer.put(rows(step)))  # type: ignore[arg-type]
            state.update(step)
        if round_ % 3:  # the others leave their rows to whom comes next
            writer.close()
        expected = {key: value for key, value in state.items() if value is not None}
        assert found(path) == expected
    assert seen_by_pylance(path) == found(path) == expected


def test_a_writer_stays_in_its_process(path: Path) -> None:
    writer = writer_of(path)
    with pytest.raises(lk.errors.InvalidTypeError, match="cannot be sent"):
        pickle.dumps(writer)
    program = f"""
import os, sys
import lancekit as lk
writer = lk.dataset({str(path)!r}).mem_wal_writer({SHARD!r})
child = os.fork()
if child == 0:
    try:
        writer.put({{"id": [7], "v": ["x"]}})
    except lk.errors.ShardError as error:
        os._exit(7 if "forked" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
writer.put({{"id": [8], "v": ["y"]}})
writer.close()
"""
    path_of = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=path_of, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert found(path) == {**FIRST, 8: "y"}


def test_a_thread_that_does_not_start_is_started_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writer_of(path, max_memtable_rows=1)

    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        with pytest.raises(RuntimeError):
            writer.put(rows({3: "c"}))
    writer.close()
    assert [table.generation for table in newest(path).sstables] == [1]
    assert found(path) == {**FIRST, 3: "c"}


def test_a_log_that_cannot_be_written(path: Path) -> None:
    with injected(Faults()) as faults:
        writer = writer_of(path, **QUICK)
        writer.put(rows({3: "c"}))
        faults.before = _refuse_entries
        with pytest.raises(CommitUnknownError, match="may or may not have been written"):
            writer.put(rows({4: "d"}))
        faults.before = None
        with pytest.raises(CommitUnknownError):
            writer.put(rows({5: "e"}))
        with pytest.raises(CommitUnknownError):
            writer.close()
    with writer_of(path) as again:
        again.put(rows({4: "d"}))
    assert found(path) == {**FIRST, 3: "c", 4: "d"}


def _refuse_entries(call: Any) -> None:
    if call.kind == "put_if_absent":
        raise StorageError("the network is gone")
