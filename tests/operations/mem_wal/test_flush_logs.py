"""`merge_mem_wal` with rows that are in logs alone: of this process, of others, of pylance."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import entry_name
from lancekit._shards.manifests import change
from lancekit._shards.schema import shard_of
from lancekit.errors import CorruptFileError, ShardError
from lancekit.mem_wal import WaitingRows
from tests.support.mem_wal_model import table_of

ONE, TWO = (str(uuid.UUID(int=number)) for number in (1, 2))


def rows(*keys: int) -> Any:
    return table_of({key: (float(key), str(key)) for key in keys})


def keys(ds: Any) -> list[int]:
    """Return the keys of the newest version, as pylance reads it."""
    found: list[int] = lance.dataset(ds.uri).to_table()["id"].to_pylist()
    return sorted(found)


@pytest.fixture
def ds(tmp_path: Path) -> Any:
    """A table of one row that may have shards."""
    made = lk.write_dataset(rows(0), tmp_path / "t", primary_key="id")
    made.initialize_mem_wal()
    return made


def test_rows_of_open_writers_of_this_process_are_merged(ds: Any) -> None:
    ds.mem_wal_upsert(rows(1, 2))
    with ds.mem_wal_writer(ONE) as writer, lk.mem_wal_sink(ds.uri, query="q") as sink:
        writer.put(rows(3))
        done = ds.merge_mem_wal()
        assert (done.num_inserted_rows, done.waiting) == (3, WaitingRows())
        assert keys(ds) == [0, 1, 2, 3]
        writer.put(rows(4))  # the writer stays open, and is not fenced
        sink(rows(5))
        assert ds.merge_mem_wal().num_inserted_rows == 2
        assert writer.epoch == 1
    assert keys(ds) == [0, 1, 2, 3, 4, 5]
    assert ds.merge_mem_wal().commits == 0


def test_a_writer_that_lost_its_shard_is_left_alone(ds: Any, tmp_path: Path) -> None:
    lost = ds.mem_wal_writer(ONE)
    lost.put(rows(1))
    with ds.mem_wal_writer(ONE) as writer:
        writer.put(rows(2))
        assert ds.merge_mem_wal().num_inserted_rows == 2
    assert lost.state == "open"
    assert len(list((tmp_path / "t" / "_mem_wal" / ONE).glob("*_gen_*"))) == 1


def test_rows_without_a_wait_for_the_log_are_merged(ds: Any) -> None:
    with ds.mem_wal_writer(ONE, durable_write=False, max_wal_flush_interval_ms=0) as writer:
        writer.put(rows(1))
        assert ds.merge_mem_wal().num_inserted_rows == 1


def test_rows_of_other_processes_wait_and_the_result_names_the_argument(ds: Any) -> None:
    theirs = lance.dataset(ds.uri).mem_wal_writer(ONE, max_wal_flush_interval_ms=50)
    theirs.put(rows(1, 2))
    done = ds.merge_mem_wal()
    assert done.waiting == WaitingRows(in_logs=2, shards=1)
    advice = f"{done.waiting.merge_call} merges them"
    assert advice == "ds.merge_mem_wal(flush=True) merges them"
    assert advice in str(done)
    theirs.put(rows(3))  # which did not fence the writer
    assert "3 rows are only in logs" in str(ds.explain.merge_mem_wal())
    told = ds.explain.merge_mem_wal(flush=True)
    assert "from other processes" in str(told)
    assert (told.commits, told.writes.rows) == (("Update",), 3)
    assert ds.explain.merge_mem_wal().commits == ()
    done = ds.merge_mem_wal(flush=True)
    assert (done.num_inserted_rows, done.waiting) == (3, WaitingRows())
    assert keys(ds) == [0, 1, 2, 3]
    with pytest.raises(OSError, match="fenced"):
        theirs.put(rows(4))


def test_a_shard_without_rows_in_its_log_keeps_its_writer(ds: Any) -> None:
    theirs = lance.dataset(ds.uri).mem_wal_writer(ONE, max_wal_flush_interval_ms=50)
    ds.merge_mem_wal(flush=True)
    theirs.put(rows(1))
    theirs.close()
    assert ds.merge_mem_wal().num_inserted_rows == 1


def test_chosen_shards_alone_are_flushed(ds: Any) -> None:
    with ds.mem_wal_writer(ONE) as one, ds.mem_wal_writer(TWO) as two:
        one.put(rows(1))
        two.put(rows(2))
        assert ds.merge_mem_wal([TWO], flush=True).num_inserted_rows == 1
        assert keys(ds) == [0, 2]


def test_the_log_of_a_sealed_shard_is_merged(ds: Any) -> None:
    theirs = lance.dataset(ds.uri).mem_wal_writer(ONE, max_wal_flush_interval_ms=50)
    theirs.put(rows(1))
    shard = shard_of(ds._location.store, uuid.UUID(ONE))
    change(shard, None, lambda found: replace(found, status=1))
    assert ds.merge_mem_wal(flush=True).num_inserted_rows == 1
    assert ds.mem_wal_shards()[0].sealed
    with pytest.raises(ShardError, match="is sealed"):
        ds.mem_wal_writer(ONE)


def test_a_damaged_log_keeps_no_other_shard_from_being_merged(ds: Any, tmp_path: Path) -> None:
    for shard, key in ((ONE, 1), (TWO, 2)):
        theirs = lance.dataset(ds.uri).mem_wal_writer(shard, max_wal_flush_interval_ms=50)
        theirs.put(rows(key))
    entry = tmp_path / "t" / "_mem_wal" / ONE / entry_name(1)
    entry.write_bytes(b"\0" * 200 + entry.read_bytes()[200:])
    with pytest.raises(CorruptFileError, match="repair_mem_wal"):
        ds.merge_mem_wal(flush=True)
    assert keys(ds) == [0, 2]
    assert ds.version == lance.dataset(ds.uri).version
    ds.repair_mem_wal()
    assert ds.merge_mem_wal(flush=True).waiting == WaitingRows()


def test_puts_beside_flushes_are_there_once(ds: Any) -> None:
    """An entry that names a generation which is frozen already would be lost."""
    problems: list[BaseException] = []

    def put(writer: Any, first: int) -> None:
        try:
            for key in range(first, first + 40):
                writer.put(rows(key))
        except BaseException as error:
            problems.append(error)

    with ds.mem_wal_writer(ONE) as writer:
        threads = [threading.Thread(target=put, args=(writer, 100 * n)) for n in range(1, 5)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            ds.merge_mem_wal()
            writer.put(rows(0))
        for thread in threads:
            thread.join()
        assert not problems
        assert lk.dataset(ds.uri).count_rows(include_mem_wal=True) == 161
    ds.merge_mem_wal()
    assert keys(ds) == [0, *(100 * n + i for n in range(1, 5) for i in range(40))]
