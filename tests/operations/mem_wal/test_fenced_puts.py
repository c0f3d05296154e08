"""Whoever takes a shard while an entry is put: an entry that is there counts once, for certain."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import MEM_WAL
from lancekit._operations.mem_wal import log_writer
from lancekit._shards.log import put_entry
from lancekit._shards.schema import Shard
from lancekit.errors import FencedError, StorageError
from tests.support.shards import SHARD

#: how the answer to a put is lost
LOST = StorageError("the answer was lost")


def made(path: Path) -> lk.LanceDataset:
    """Return a table without a key: a row that is put twice is there twice."""
    ds = lk.write_dataset({"id": [0]}, path)
    ds.initialize_mem_wal(unsharded=True)
    return ds


def found(path: Path) -> list[int]:
    return sorted(lk.dataset(path).to_table(include_mem_wal=True)["id"].to_pylist())


def cleanup(path: Path) -> None:
    lk.dataset(path).cleanup_mem_wal(grace=timedelta(0))


def take(path: Path, shard: str) -> Any:
    return lk.dataset(path).mem_wal_writer(shard)


def take_and_cleanup(path: Path, shard: str) -> Any:
    """Remove the entry before the one that is put; leave that one, which is in no generation."""
    writer = take(path, shard)
    cleanup(path)
    return writer


def flush_and_cleanup(path: Path, shard: str) -> None:
    """Remove both entries."""
    take(path, shard).close()
    cleanup(path)


def flush_merge_and_cleanup(path: Path, shard: str) -> None:
    take(path, shard).close()
    lk.dataset(path).merge_mem_wal()
    cleanup(path)


def pylance_takes(path: Path, shard: str) -> None:
    lance.dataset(str(path)).mem_wal_writer(shard).close()
    cleanup(path)


Work = Callable[[Path, str], Any]


def after_the_entry(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any], fails: bool) -> None:
    """Do something once, when the next entry is there and before its writer knows."""
    armed = [True]

    def put(shard: Shard, number: int, data: bytes) -> bool:
        done = put_entry(shard, number, data)
        if armed:
            armed.clear()
            kept.append(work())
            if fails:
                raise LOST
        return done

    kept: list[Any] = []
    monkeypatch.setattr(log_writer, "put_entry", put)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("last", ["row", "sentinel"])
@pytest.mark.parametrize(
    "work",
    [take, take_and_cleanup, flush_and_cleanup, flush_merge_and_cleanup, pylance_takes],
)
def test_an_entry_counts_once_whoever_takes_the_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Work, fails: bool, last: str
) -> None:
    """A sentinel stays, so that the writer before does not see that the log has changed."""
    path = tmp_path / "t"
    writer = made(path).mem_wal_writer(SHARD)
    writer.put({"id": [1]})
    writer._writer.flush()
    if last == "sentinel":
        writer = take(path, SHARD)
    after_the_entry(monkeypatch, lambda: work(path, SHARD), fails)
    writer.put({"id": [2]})
    with pytest.raises(FencedError, match="fenced by another writer of shard"):
        writer.put({"id": [3]})
    assert found(path) == [0, 1, 2]
    with take(path, SHARD) as other:
        other.put({"id": [4]})
    lk.dataset(path).merge_mem_wal()
    cleanup(path)
    assert sorted(lk.dataset(path).to_table()["id"].to_pylist()) == [0, 1, 2, 4]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("work", [take, flush_and_cleanup])
def test_an_upsert_does_not_put_its_rows_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Work, fails: bool
) -> None:
    path = tmp_path / "t"
    ds = made(path)
    (shard,) = ds.mem_wal_upsert({"id": [1]})
    after_the_entry(monkeypatch, lambda: work(path, shard), fails)
    ds.mem_wal_upsert({"id": [2]})
    assert found(path) == [0, 1, 2]
    ds.mem_wal_upsert({"id": [3]})
    assert found(path) == [0, 1, 2, 3]


def test_a_put_that_failed_before_its_entry_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is at the position decides: the sentinel of the writer that has the shard."""
    path = tmp_path / "t"
    writer = made(path).mem_wal_writer(SHARD)
    writer.put({"id": [1]})
    writer._writer.flush()

    def refused(shard: Shard, number: int, data: bytes) -> bool:
        monkeypatch.undo()
        flush_and_cleanup(path, SHARD)
        raise LOST

    monkeypatch.setattr(log_writer, "put_entry", refused)
    with pytest.raises(FencedError):
        writer.put({"id": [2]})
    assert found(path) == [0, 1]


@pytest.mark.parametrize("fails", [False, True])
def test_rows_of_ended_logs_do_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    path = tmp_path / "t"
    writer = made(path).mem_wal_writer(SHARD)
    writer.put({"id": [1]})
    drop = lance.dataset(str(path)).drop_index
    after_the_entry(monkeypatch, lambda: drop(MEM_WAL), fails)
    with pytest.raises(FencedError, match="not written"):
        writer.put({"id": [2]})
    lk.dataset(path).initialize_mem_wal(unsharded=True)
    assert found(path) == [0, 1]


def test_a_check_that_fails_after_the_entry_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    writer = made(path).mem_wal_writer(SHARD)
    watch, check = writer._writer._log._table, writer._writer._log._table.check

    def fail() -> None:
        def failing() -> None:
            monkeypatch.setattr(watch, "check", check)
            raise LOST

        monkeypatch.setattr(watch, "check", failing)

    after_the_entry(monkeypatch, fail, fails=False)
    writer.put({"id": [1]})
    writer.put({"id": [2]})
    writer.close()
    assert found(path) == [0, 1, 2]
