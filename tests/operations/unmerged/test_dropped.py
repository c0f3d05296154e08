"""Rows that wait when the reference drops the MemWAL are taken up by the next one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import lance
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import MEM_WAL
from lancekit._operations.mem_wal import merge
from lancekit.errors import InvalidArgumentError
from tests.support.faults import Call, Faults, injected


def _rows(first: int) -> dict[str, list[int]]:
    return {"id": list(range(20)), "v": list(range(first, first + 20))}


def _dropped(path: Path, flush: bool, **sharding: object) -> lk.LanceDataset:
    ds = lk.write_dataset({"id": [100], "v": [0]}, path, primary_key="id")
    ds.initialize_mem_wal(**sharding)  # type: ignore[arg-type]
    ds.mem_wal_upsert(_rows(0), flush=flush)
    lance.dataset(path).drop_index(MEM_WAL)
    lance.dataset(path).delete("id = 100")  # some version more
    return lk.dataset(path)


TAKE_UP: dict[str, Callable[[lk.LanceDataset], object]] = {
    "initialized": lambda ds: ds.initialize_mem_wal(),
    "the same sharding": lambda ds: ds.initialize_mem_wal(bucket_column="id", num_buckets=2),
    "put": lambda ds: None,
}


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("how", TAKE_UP)
def test_rows_that_wait_keep_their_sharding(tmp_path: Path, how: str, flush: bool) -> None:
    path = tmp_path / "t"
    ds = _dropped(path, flush, bucket_column="id", num_buckets=2)
    TAKE_UP[how](ds)
    ds.mem_wal_upsert(_rows(100))
    details = ds.mem_wal_index_details()
    assert details is not None
    assert details["num_shards"] == 2
    found = ds.to_table(include_mem_wal=True).sort_by("id")
    assert found.to_pydict() == _rows(100)
    ds.merge_mem_wal(flush=True)
    assert ds.to_table().sort_by("id").to_pydict() == _rows(100)
    assert lance.dataset(path).to_table().sort_by("id").to_pydict() == _rows(100)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (
            {"bucket_column": "id", "num_buckets": 2},
            {"bucket_column": "id", "num_buckets": 8},
            "=2",
        ),
        ({"bucket_column": "id", "num_buckets": 2}, {"unsharded": True}, "bucket of id"),
        ({"unsharded": True}, {"identity_column": "id"}, "one shard for all rows"),
        ({}, {"bucket_column": "id", "num_buckets": 2}, "one shard for all rows"),
    ],
)
def test_another_sharding_is_refused_while_rows_wait(
    tmp_path: Path, before: dict[str, object], after: dict[str, object], named: str
) -> None:
    ds = _dropped(tmp_path / "t", False, **before)
    with pytest.raises(InvalidArgumentError, match=f"under another sharding: .*{named}") as caught:
        ds.initialize_mem_wal(**after)  # type: ignore[arg-type]
    assert "initialize_mem_wal() without a sharding" in str(caught.value)
    ds.initialize_mem_wal()  # what the hint says
    ds.merge_mem_wal(flush=True)
    ds.drop_index(MEM_WAL)
    ds.initialize_mem_wal(**after)  # type: ignore[arg-type]
    ds.mem_wal_upsert(_rows(100))
    assert ds.to_table(include_mem_wal=True).sort_by("id").to_pydict() == _rows(100)


def test_the_quarantine_is_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = lk.write_dataset({"id": [1], "v": [1]}, path, primary_key="id")
    ds.mem_wal_upsert({"id": [1, 2, 3], "v": [2, 200, 300]})
    ds.constraints.add("small", "v < 100", existing="allow")
    ds.merge_mem_wal(flush=True, on_error="quarantine")
    lance.dataset(path).drop_index(MEM_WAL)
    lance.dataset(path).delete("id = 100")
    ds = lk.dataset(path)
    assert "2 rows in quarantine; the table has no MemWAL" in repr(ds)
    assert "mem_wal_quarantine() reads" not in repr(ds)
    with pytest.raises(InvalidArgumentError, match=r"2 rows waited.*ds.initialize_mem_wal\(\)"):
        ds.mem_wal_quarantine()
    ds.initialize_mem_wal()
    assert len(ds.mem_wal_quarantine()) == 2
    ds.mem_wal_upsert({"id": [2], "v": [5]})  # follows the key into quarantine
    ds.merge_mem_wal(flush=True)
    assert len(ds.mem_wal_quarantine()) == 3
    ds.mem_wal_quarantine().put_back({"id": [2, 3], "v": [5, 3]})
    assert sorted(ds.to_table()["v"].to_pylist()) == [2, 3, 5]
    lance.dataset(path).drop_index(MEM_WAL)  # an empty quarantine is in nobody's way
    assert "in quarantine" not in repr(lk.dataset(path))
    assert len(lk.dataset(path).mem_wal_quarantine()) == 0


def test_merged_generations_that_are_listed_are_not_merged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    ds = lk.write_dataset({"id": [1], "v": [1]}, path, primary_key="id")
    ds.mem_wal_upsert({"id": [1, 2], "v": [2, 2]}, flush=True)
    with monkeypatch.context() as stopped:  # killed between the commit and the drain
        stopped.setattr(merge, "drain", _killed)
        with pytest.raises(KeyboardInterrupt):
            ds.merge_mem_wal()
    lance.dataset(path).drop_index(MEM_WAL)
    ds = lk.dataset(path)
    ds.merge_insert("id").when_matched_update_all().execute({"id": [1], "v": [3]})
    ds.initialize_mem_wal()
    assert sorted(ds.to_table(include_mem_wal=True)["v"].to_pylist()) == [2, 3]
    ds.merge_mem_wal(flush=True)
    assert sorted(ds.to_table()["v"].to_pylist()) == [2, 3]


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_versions_that_take_long_to_come_are_read_several_at_a_time(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "v": [1]}, tmp_path, primary_key="id")
    ds.mem_wal_upsert({"id": [1], "v": [200]})
    ds.constraints.add("small", "v < 100", existing="allow")
    ds.merge_mem_wal(flush=True, on_error="quarantine")
    lance.dataset(tmp_path).drop_index(MEM_WAL)
    for number in range(40):
        ds.update_config({"number": str(number)})
    met: list[int] = []
    together = threading.Barrier(8, action=lambda: met.append(8), timeout=20)

    def wait(call: Call) -> None:
        if not call.name.endswith(".manifest"):
            return
        time.sleep(0.006)
        # those that come after the second time are too few to meet, and would wait in vain
        if threading.current_thread().name.startswith("lancekit-small-files") and len(met) < 2:
            with suppress(threading.BrokenBarrierError):
                together.wait()

    with (
        injected(Faults(before=wait)),
        pytest.raises(InvalidArgumentError, match="1 row waited"),
    ):
        lk.dataset(tmp_path).mem_wal_quarantine()
    assert met == [8, 8]
