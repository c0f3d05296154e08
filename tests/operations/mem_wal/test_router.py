"""Rows that find their shards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import LOGS, MEM_WAL, mem_wal_entry
from lancekit._operations.mem_wal import router
from lancekit._operations.mem_wal.log_writer import LogWriter
from lancekit._operations.mem_wal.open_writer import open_writer
from lancekit._operations.mem_wal.writer import Writer
from lancekit._shards.manifests import fenced
from lancekit._shards.schema import shard_of
from lancekit.errors import (
    FencedError,
    InvalidArgumentError,
    NullKeyError,
    ShardError,
    StorageError,
)
from tests.support.shard_state import newest_rows
from tests.support.shards import keyed, with_shards

SCHEMA = keyed(pa.schema({"id": pa.int64(), "who": pa.string()}), "id")


def rows(*ids: int, who: str = "x") -> pa.Table:
    return pa.table({"id": list(ids), "who": [who] * len(ids)}, schema=SCHEMA)


def made(path: Path, **sharding: Any) -> lk.LanceDataset:
    with_shards(path, rows(1, 2), **(sharding or {"bucket_column": "id", "num_buckets": 3}))
    return lk.dataset(path)


def found(path: Path) -> dict[int, str]:
    return {key: row["who"] for key, row in newest_rows(path).items()}


def ids_of(path: Path) -> list[int]:
    """Return the keys of the table's newest version, as the reference reads them."""
    return sorted(lance.dataset(str(path)).to_table()["id"].to_pylist())


def test_rows_go_to_the_shards_of_the_spec(tmp_path: Path) -> None:
    ds = made(tmp_path)
    first = ds.mem_wal_upsert(rows(*range(20)))
    assert (len(first), sum(shard.rows for shard in first.values())) == (3, 20)
    assert {(shard.epoch, shard.position) for shard in first.values()} == {(1, 1)}
    again = ds.mem_wal_upsert(rows(5, who="y").to_pylist(), flush=True)
    assert [(shard.rows, shard.epoch, shard.position) for shard in again.values()] == [(1, 1, 2)]
    told = ds.mem_wal_shards()
    assert [len(shard.generations) for shard in told] == [1, 1, 1]
    buckets = [int.from_bytes(shard.values["bucket"], "little") for shard in told]
    assert sorted(buckets) == [0, 1, 2]
    assert found(tmp_path) == {**dict.fromkeys(range(20), "x"), 5: "y"}
    by_id = {shard.shard_id: shard for shard in told}
    for shard in first:  # a generation has the rows of its bucket, and the reference agrees
        (generation,) = by_id[shard].generations
        table = lance.dataset(f"{tmp_path}/{LOGS}/{shard}/{generation.path}").to_table()
        (spec,) = lance.dataset(str(tmp_path)).mem_wal_index_details()["sharding_specs"]
        (batch,) = table.select(["id", "who"]).combine_chunks().to_batches()
        schema = lance.dataset(str(tmp_path)).lance_schema
        values = lance.mem_wal.evaluate_sharding_spec(batch, spec, schema)
        assert set(values["bucket"].to_pylist()) == {
            int.from_bytes(by_id[shard].values["bucket"], "little")
        }


def test_a_shard_is_taken_again_after_the_versions_between_were_cleaned_up(tmp_path: Path) -> None:
    ds = made(tmp_path, identity_column="who")
    ds.mem_wal_upsert(rows(6, who="a"))
    ds.merge_mem_wal()
    ds.create_scalar_index("id", "BTREE")
    (shard,) = ds.mem_wal_upsert(rows(7, who="a"))
    before = mem_wal_entry(ds._snapshot.indices)
    lance.dataset(tmp_path).optimize.compact_files()
    ds.mem_wal_upsert(rows(8, who="a"))
    entry = mem_wal_entry(lk.dataset(tmp_path)._snapshot.indices)
    assert entry is not None
    assert before is not None
    assert entry.created_at != before.created_at  # the reference made the entry anew
    ds.mem_wal_writer(shard).close()
    ds.insert(rows(31))
    ds.cleanup_old_versions(older_than=timedelta(0))
    ds.mem_wal_upsert(rows(9, who="a"))  # the shard was taken
    ds.mem_wal_upsert(rows(10, who="b"))  # and another one is opened
    assert found(tmp_path).keys() == {1, 2, 6, 7, 8, 9, 10, 31}


def test_a_flush_leaves_rows_to_the_writer_that_took_their_shard(tmp_path: Path) -> None:
    ds = made(tmp_path, identity_column="who")
    (shard,) = ds.mem_wal_upsert(rows(7, who="a"))
    with ds.mem_wal_writer(shard) as writer:
        writer.put(rows(8, who="a"))
        ds.mem_wal_upsert(rows(9, who="b"), flush=True)
    ds.merge_mem_wal()
    assert ids_of(tmp_path) == [1, 2, 7, 8, 9]


def test_a_flush_names_rows_that_are_in_no_log(tmp_path: Path) -> None:
    ds = made(tmp_path, identity_column="who", durable_write=False, max_wal_flush_interval_ms=10**6)
    (shard,) = ds.mem_wal_upsert(rows(7, who="a"))
    with ds.mem_wal_writer(shard), pytest.raises(FencedError):
        ds.mem_wal_upsert(rows(9, who="b"), flush=True)


@pytest.mark.parametrize("by_pylance", [False, True])
def test_a_dropped_column_of_the_sharding(tmp_path: Path, by_pylance: bool) -> None:
    ds = made(tmp_path, bucket_column="who", num_buckets=2)
    ds.mem_wal_upsert(rows(7, who="a"))
    if by_pylance:
        lance.dataset(tmp_path).drop_columns(["who"])
    else:
        ds.drop_columns(["who"])
    ds = lk.dataset(tmp_path)
    for refused in (
        lambda: ds.mem_wal_upsert({"id": [8]}),
        lambda: lk.mem_wal_sink(str(tmp_path), query="q"),
    ):
        with pytest.raises(InvalidArgumentError, match="bucket of a column that was dropped"):
            refused()
    ds.merge_mem_wal(flush=True)  # what the hint says
    ds.drop_index(MEM_WAL)
    ds.initialize_mem_wal(bucket_column="id", num_buckets=2)
    ds.mem_wal_upsert({"id": [8]}, flush=True)
    ds.merge_mem_wal()
    assert ids_of(tmp_path) == [1, 2, 7, 8]


def test_a_writer_takes_the_rows_of_its_shard_alone(tmp_path: Path) -> None:
    ds = made(tmp_path, identity_column="who")
    (shard,) = ds.mem_wal_upsert(rows(7, who="a"), flush=True)
    with ds.mem_wal_writer(shard) as writer:
        writer.put(rows(8, who="a"))
        with pytest.raises(InvalidArgumentError, match="mem_wal_upsert"):
            writer.put(pa.concat_tables([rows(9, who="a"), rows(10, who="b")]))
        writer.delete({"id": [7]})
    assert found(tmp_path) == {1: "x", 2: "x", 8: "a"}


@pytest.mark.parametrize("initialized", [False, True])
def test_all_rows_go_to_one_shard_by_default(tmp_path: Path, initialized: bool) -> None:
    if initialized:
        with_shards(tmp_path, rows(1))
    else:
        lk.write_dataset(rows(1), tmp_path)
    handles = [lk.dataset(tmp_path) for _ in range(2)]
    for number, handle in enumerate(handles):
        (done,) = handle.mem_wal_upsert(rows(5, 6, 7 + number), flush=bool(number)).values()
        assert done.rows == 3
    assert len(handles[0].mem_wal_shards()) == 1
    assert found(tmp_path) == dict.fromkeys((1, 5, 6, 7, 8), "x")
    with lance.dataset(str(tmp_path)).mem_wal_writer(*handles[0].mem_wal_upsert(rows(9))) as theirs:
        assert theirs.lsm_scanner().count_rows() == 6


def test_a_table_without_a_key_says_that_it_has_logs(tmp_path: Path) -> None:
    with_shards(tmp_path / "t", rows(1))
    plain = lk.write_dataset({"id": [1], "who": ["x"]}, tmp_path / "plain")
    for call in (
        lambda: plain.mem_wal_upsert(rows(2)),
        lambda: plain.mem_wal_writer("00000000-0000-0000-0000-000000000001"),
    ):
        with pytest.raises(InvalidArgumentError, match="initialize_mem_wal"):
            call()
    with pytest.raises(ValueError, match="must be a UUID"):
        lk.dataset(tmp_path / "t").mem_wal_writer("x")


def test_nothing_is_written_of_rows_that_do_not_fit(tmp_path: Path) -> None:
    ds = made(tmp_path)
    with pytest.raises(NullKeyError):
        ds.mem_wal_upsert({"id": [3, None], "who": ["a", "b"]})
    assert ds.mem_wal_shards() == []
    assert ds.mem_wal_upsert(rows()) == {}


def test_what_was_acknowledged_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = made(tmp_path)
    done = ds.mem_wal_upsert(rows(*range(9)))
    failing = min(done)
    put = LogWriter.put

    def put_some(self: LogWriter, entry: bytes, **how: bool) -> None:
        if str(self._shard.id) == failing:
            raise StorageError("the disk is full")
        put(self, entry, **how)

    monkeypatch.setattr(LogWriter, "put", put_some)
    with pytest.raises(ShardError, match="1 of 3 shards did not") as caught:
        ds.mem_wal_upsert(rows(*range(9), who="y"))
    assert list(caught.value.context["failed"]) == [failing]
    told = caught.value.context["acknowledged"]
    assert told == {shard: one.rows for shard, one in done.items() if shard != failing}
    assert list(found(tmp_path).values()).count("y") == sum(told.values())
    monkeypatch.undo()
    again = ds.mem_wal_upsert(rows(*range(9), who="z"), timeout=timedelta(seconds=5))
    assert again[failing].epoch == 2
    assert found(tmp_path) == dict.fromkeys(range(9), "z")


def test_handles_that_take_shards_from_each_other(tmp_path: Path) -> None:
    made(tmp_path)
    handles = [lk.dataset(tmp_path) for _ in range(2)]
    for number in range(6):
        handles[number % 2].mem_wal_upsert(rows(1, 2, 3, who=f"{number}"))
    assert found(tmp_path) == dict.fromkeys((1, 2, 3), "5")


UPSERTS = """
import sys, time
from datetime import timedelta
import lancekit as lk
path, first, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
ds, number = lk.dataset(path), 1
ds.mem_wal_upsert({"id": [first, first + 1, first + 2], "who": [str(first)] * 3})
print("ready", flush=True)
sys.stdin.readline()
end = time.monotonic() + seconds
while time.monotonic() < end:
    ids = [first + number * 3 + i for i in range(3)]
    ds.mem_wal_upsert(
        {"id": ids, "who": [str(first)] * 3}, claim_timeout=timedelta(seconds=10)
    )
    number += 1
print(number * 3, flush=True)
"""


@pytest.mark.torture
def test_processes_that_take_a_shard_from_each_other(tmp_path: Path, whole: bool) -> None:
    """No put takes ten seconds, also beside merges without a pause that take the shard."""
    if whole:
        check_turns(tmp_path / "alone", many=10, seconds=60, merges=False)
        check_turns(tmp_path / "merges", many=10, seconds=60, merges=True)
    else:
        check_turns(tmp_path, many=2, seconds=1, merges=True)


def check_turns(path: Path, *, many: int, seconds: int, merges: bool) -> None:
    ds = made(path, unsharded=True)
    command = [sys.executable, "-c", UPSERTS, str(path)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [
        subprocess.Popen([*command, str(10**6 * number), str(seconds)], **pipes)
        for number in range(1, many + 1)
    ]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    while merges and any(process.poll() is None for process in running):
        ds.merge_mem_wal(flush=True)
    acknowledged = [int(process.communicate()[0]) for process in running]
    assert [process.returncode for process in running] == [0] * many
    read = ds.to_table(include_mem_wal=True)["id"].to_pylist()
    assert len(read) == len(set(read)) == 2 + sum(acknowledged)
    assert min(acknowledged) > 0


@pytest.mark.parametrize("argument", ["timeout", "claim_timeout"])
@pytest.mark.parametrize("value", [timedelta(seconds=-1), -1, float("nan"), True, "1s"])
def test_a_timeout_that_is_none_is_refused_by_name(
    tmp_path: Path, argument: str, value: Any
) -> None:
    ds = made(tmp_path, unsharded=True)
    for call in (
        lambda: ds.mem_wal_upsert(rows(3), **{argument: value}),
        lambda: lk.mem_wal_sink(str(tmp_path), "q", **{argument: value}),
    ):
        with pytest.raises((InvalidArgumentError, TypeError), match=f"^{argument} (is|must)"):
            call()
    assert ds.mem_wal_shards() == []


def test_more_rows_than_a_memtable_has(tmp_path: Path) -> None:
    ds = made(tmp_path, unsharded=True, max_memtable_rows=4)
    (done,) = ds.mem_wal_upsert(rows(*range(11), who="y")).values()
    assert (done.rows, done.position) == (11, 3)
    assert found(tmp_path) == dict.fromkeys(range(11), "y")


def test_a_shard_that_is_not_taken_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = made(tmp_path, unsharded=True)

    def never(snapshot: Any, shard: UUID, *_: Any, **__: Any) -> Any:
        raise fenced(shard_of(snapshot.store, shard), 1, 2)

    monkeypatch.setattr(router, "open_writer", never)
    started = time.monotonic()
    with pytest.raises(ShardError, match="claim_timeout of 0\\.3 seconds"):
        ds.mem_wal_upsert(rows(3), claim_timeout=timedelta(seconds=0.3))
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("by", ["handle", "sink"])
def test_upserts_go_on_in_a_table_that_was_made_anew(tmp_path: Path, by: str) -> None:
    ds = made(tmp_path, unsharded=True)
    put: Any = ds.mem_wal_upsert
    if by == "sink":
        put = lk.mem_wal_sink(str(tmp_path), "q")
    put(rows(3))
    if by == "sink":
        put.close()
    else:
        put(rows(3), flush=True)
    ds.merge_mem_wal()
    put(rows(4))
    lance.write_dataset(rows(1), str(tmp_path), mode="overwrite")
    lance.dataset(str(tmp_path)).initialize_mem_wal(unsharded=True)
    with pytest.raises(ShardError, match="1 of 1 shards"):
        put(rows(5))
    ds.checkout_latest()
    put(rows(6))
    assert 6 in ds.to_table(include_mem_wal=True)["id"].to_pylist()


def test_a_shard_that_is_lost_while_it_is_taken_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds, lost = made(tmp_path), []

    def open_late(snapshot: Any, shard: UUID, *others: Any, **more: Any) -> Any:
        if not lost:
            lost.append(shard)
            raise fenced(shard_of(snapshot.store, shard), 1, 1)
        return open_writer(snapshot, shard, *others, **more)

    monkeypatch.setattr(router, "open_writer", open_late)
    ds.mem_wal_upsert(rows(*range(9), who="z"))
    assert len(lost) == 1
    assert found(tmp_path) == dict.fromkeys(range(9), "z")


def test_a_handle_that_was_forked_has_writers_of_its_own(tmp_path: Path) -> None:
    made(tmp_path)
    program = f"""
import os
import lancekit as lk
ds = lk.dataset({str(tmp_path)!r})
ds.mem_wal_upsert({{"id": [3], "who": ["before"]}})
child = os.fork()
if child == 0:
    try:
        ds.mem_wal_upsert({{"id": [3], "who": ["child"]}})
    finally:
        os._exit(ds.to_table(include_mem_wal=True, filter="id = 3")["who"][0].as_py() == "child")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
ds.mem_wal_upsert({{"id": [4], "who": ["parent"]}})
"""
    path_of = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=path_of, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert found(tmp_path) == {1: "x", 2: "x", 3: "child", 4: "parent"}


def test_threads_of_one_handle(tmp_path: Path) -> None:
    ds = made(tmp_path)

    def put(who: int) -> None:
        for number in range(5):
            flush = who == 1 and number > 2  # closes the writers below the others
            ds.mem_wal_upsert(rows(100 * who + number, 100 * who + 50 + number), flush=flush)

    threads = [threading.Thread(target=put, args=(who,)) for who in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found(tmp_path)) == 52


def test_after_the_columns_changed_there_are_other_writers(tmp_path: Path) -> None:
    ds = made(tmp_path)
    ds.mem_wal_upsert(rows(3))
    ds.add_columns(pa.field("n", pa.int8()))
    ds.mem_wal_upsert({"id": [4], "who": ["a"], "n": [4]})
    assert newest_rows(tmp_path)[4] == {"id": 4, "who": "a", "n": 4}
    assert newest_rows(tmp_path)[3] == {"id": 3, "who": "x", "n": None}


def test_threads_that_come_first_at_once_share_the_writers(tmp_path: Path) -> None:
    lk.write_dataset({"id": [-1]}, tmp_path / "t", primary_key="id").initialize_mem_wal(
        bucket_column="id", num_buckets=2
    )
    for turn in range(3):
        ds = lk.dataset(tmp_path / "t")
        start, epochs = threading.Barrier(8), set[int]()

        def put(number: int, ds: Any = ds, start: Any = start, epochs: Any = epochs) -> None:
            start.wait()
            done = ds.mem_wal_upsert({"id": [number]})
            epochs.update(shard.epoch for shard in done.values())

        threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert epochs == {turn + 1}
        ds.mem_wal_upsert({"id": [0]}, flush=True)  # closes the writers, which the process keeps
    assert ds.count_rows(include_mem_wal=True) == 9


def test_writers_are_opened_and_closed_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = made(tmp_path)
    met = threading.Barrier(3)  # of the three shards none is done before all have begun
    close = Writer.close

    def open_together(*given: Any, **more: Any) -> Any:
        met.wait(60)
        return open_writer(*given, **more)

    def close_together(self: Writer) -> None:
        met.wait(60)
        close(self)

    monkeypatch.setattr(router, "open_writer", open_together)
    monkeypatch.setattr(Writer, "close", close_together)
    assert len(ds.mem_wal_upsert(rows(*range(20)), flush=True)) == 3
    monkeypatch.undo()
    assert [len(shard.generations) for shard in ds.mem_wal_shards()] == [1, 1, 1]
    assert found(tmp_path) == dict.fromkeys(range(20), "x")


def test_a_writer_that_cannot_be_closed_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = made(tmp_path)
    failing = min(ds.mem_wal_upsert(rows(*range(20))))
    close = Writer.close

    def close_some(self: Writer) -> None:
        if str(self._flushes.shard.id) == failing:
            raise StorageError("the disk is full")
        close(self)

    monkeypatch.setattr(Writer, "close", close_some)
    with pytest.raises(StorageError, match="the disk is full"):
        ds.mem_wal_upsert(rows(50), flush=True)
    monkeypatch.undo()
    flushed = {shard.shard_id: len(shard.generations) for shard in ds.mem_wal_shards()}
    assert flushed == {shard: int(shard != failing) for shard in flushed}
    ds.mem_wal_upsert(rows(*range(20), who="y"), flush=True)
    assert found(tmp_path) == {**dict.fromkeys(range(20), "y"), 50: "x"}
