"""Batches of Spark's streams into shards: restarts of the query, and writers that are killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from tests.conftest import OVER_CONNECT
from tests.support.patience import HANG_SECONDS, started

pytestmark = pytest.mark.spark


def made(place: Path, *, key: str | None = "id", **initial: Any) -> lk.LanceDataset:
    ds = lk.write_dataset(pa.table({"id": pa.array([], pa.int64())}), place, primary_key=key)
    ds.initialize_mem_wal(bucket_column="id", num_buckets=4, **initial)
    return ds


def ids(ds: lk.LanceDataset) -> list[int]:
    return sorted(ds.to_table(["id"], include_mem_wal=True)["id"].to_pylist())


def test_a_batch_of_several_partitions(spark: Any, tmp_path: Path) -> None:
    ds = made(tmp_path / "t", max_memtable_rows=20)
    sink = lk.mem_wal_sink(tmp_path / "t", query="q")
    for _ in range(2):
        sink(spark.range(0, 100, 1, 5), 0)
    sink(spark.range(100, 103, 1, 2), 1)
    sink(spark.range(0), 2)
    assert ids(ds) == list(range(103))
    assert (sink.batches, sink.last_batch) == (4, 2)
    sink.close()
    ds.merge_mem_wal()
    assert sorted(lance.dataset(ds.uri).to_table()["id"].to_pylist()) == list(range(103))


@pytest.mark.parametrize("key", ["id", None])
def test_a_query_that_is_started_again(spark: Any, tmp_path: Path, key: str | None) -> None:
    place, incoming = tmp_path / "t", tmp_path / "in"
    ds = made(place, key=key)
    incoming.mkdir()

    def run() -> None:
        frame = spark.readStream.schema("id long").json(str(incoming))
        query = started(
            frame.writeStream.foreachBatch(lk.mem_wal_sink(place, query="files"))
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
        )
        assert query.awaitTermination(HANG_SECONDS)

    (incoming / "a.json").write_text('{"id": 1}')
    run()
    # as if the process had ended before Spark noted that the batch was done
    for file in (tmp_path / "c" / "commits").iterdir():
        if file.name.strip(".").startswith("0"):
            file.unlink()
    (incoming / "b.json").write_text('{"id": 2}')
    run()
    assert ids(ds) == ([1, 2] if key else [1, 1, 2])


# ---- a stream whose writer is killed

WRITER = """
import json, sys
import pyarrow as pa
import lancekit as lk
sink = lk.mem_wal_sink(sys.argv[1], query="rates")
while size := sys.stdin.buffer.readline():
    number, size = json.loads(size)
    rows = pa.ipc.open_stream(sys.stdin.buffer.read(size)).read_all()
    sink(rows, number)
    print(number, flush=True)
sink.close()
"""


class Process:
    """A sink in a process that can be killed, for each batch that the query gives."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.lock = threading.Lock()
        self.writer = self._start()
        self.batches: dict[int, int] = {}
        self.failed = 0
        self.last = -1
        self.over = False

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", WRITER, str(self.place)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def kill(self) -> None:
        self.writer.send_signal(signal.SIGKILL)

    def __call__(self, frame: Any, batch: int) -> None:
        with self.lock:
            if not self.over:
                self._put(frame, batch)

    def _put(self, frame: Any, batch: int) -> None:
        rows = frame.selectExpr("value as id").toArrow()
        data = pa.BufferOutputStream()
        with pa.ipc.new_stream(data, rows.schema) as stream:
            stream.write_table(rows)
        sent = data.getvalue().to_pybytes()
        pipe, answers = self.writer.stdin, self.writer.stdout
        assert pipe
        assert answers
        answer = b""
        with suppress(BrokenPipeError):
            pipe.write(json.dumps([batch, len(sent)]).encode() + b"\n" + sent)
            pipe.flush()
            answer = answers.readline()
        if answer.strip() != str(batch).encode():
            self.failed += 1
            with suppress(BrokenPipeError):
                pipe.close()
            answers.close()
            self.writer.wait()
            self.writer = self._start()
            raise RuntimeError("the writer is dead")
        self.batches[batch] = self.batches.get(batch, 0) + 1
        if rows.num_rows:
            self.last = max(self.last, int(np.max(rows["id"].to_numpy())))

    def close(self) -> None:
        with self.lock:
            self.over = True
            out, _ = self.writer.communicate(timeout=120)
        assert self.writer.returncode == 0
        assert out == b""


@pytest.mark.skipif(OVER_CONNECT, reason="the batches are another process's there")
@pytest.mark.torture
def test_a_stream_whose_writer_is_killed(spark: Any, tmp_path: Path, whole: bool) -> None:
    """5,000 rows a second; a merger and a reader beside; two kills: each row is there once."""
    seconds = 300.0 if whole else 9.0
    place, reads, merges = tmp_path / "t", list[int](), list[int]()
    ds = made(place, max_memtable_rows=2_500)
    sink, done = Process(place), threading.Event()
    wrong: list[object] = []

    def beside(work: Any, pause: float) -> threading.Thread:
        def run() -> None:
            while not done.wait(pause):
                try:
                    work(lk.dataset(place))
                except Exception as error:  # shown at the end
                    wrong.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def merge(table: lk.LanceDataset) -> None:
        merges.append(table.merge_mem_wal()["num_merged_generations"])
        table.cleanup_mem_wal(grace=timedelta(seconds=2))

    def read(table: lk.LanceDataset) -> None:
        before = sink.last
        found = table.to_table(["id"], include_mem_wal=True)["id"].to_numpy()
        reads.append(len(found))
        if len(np.unique(found)) != len(found):
            wrong.append("a row was read twice")
        if np.count_nonzero(found <= before) != before + 1:
            wrong.append(f"rows up to {before} were acknowledged, and not all read")

    def start() -> Any:
        rates = spark.readStream.format("rate").option("rowsPerSecond", 5_000)
        stream = rates.option("numPartitions", 2).load().writeStream.foreachBatch(sink)
        checkpoint = stream.option("checkpointLocation", str(tmp_path / "c"))
        return started(checkpoint.trigger(processingTime="500 milliseconds"))

    threads = [beside(merge, 0.7), beside(read, 1.0 if whole else 0.5)]
    query = start()
    began = time.monotonic()
    kills, least = [began + seconds * share for share in (0.35, 0.7)], 1
    try:
        while (now := time.monotonic()) < began + seconds or kills or sink.last < least:
            if kills and now > kills[0] and sink.last >= least and sink.failed == 2 - len(kills):
                kills.pop(0)
                time.sleep(0.3 * np.random.default_rng(len(kills)).random())
                sink.kill()
                least = sink.last + 5_000  # seen to go on after it
            if not query.isActive:
                query = start()
            time.sleep(0.02)
            assert now < began + seconds + 120
        sink.over = True
        query.stop()
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sink.close()
    assert wrong == []
    assert sink.failed == 2
    ds.merge_mem_wal()
    expected = np.arange(sink.last + 1)
    found = np.sort(lance.dataset(ds.uri).to_table()["id"].to_numpy())
    assert np.array_equal(found, expected)
    assert ids(lk.dataset(place)) == expected.tolist()
    # how often a merger comes to its turn in a short run is the machine's
    assert sum(merges) > (4 if whole else 0)
    assert reads == sorted(reads)
    print(f"{len(expected):,} rows, {len(sink.batches)} batches, {sum(merges)} merged generations")
    if whole:
        assert len(expected) > 0.9 * 5_000 * seconds
