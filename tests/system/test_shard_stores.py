"""Shards in object stores: threads, writers that take shards from each other, requests repeated."""

from __future__ import annotations

import threading
import uuid
from datetime import timedelta
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit.errors import FencedError, ShardError
from tests.support.faults import Faults, Mode, injected
from tests.support.s3 import S3Server

SHARD = str(uuid.UUID(int=1))


@pytest.fixture(params=["memory", "s3"])
def place(request: pytest.FixtureRequest, s3: S3Server) -> tuple[str, dict[str, str] | None]:
    name = f"shards-{uuid.uuid4()}"
    if request.param == "s3":
        return f"s3://{s3.bucket}/{name}", s3.storage_options
    return f"memory://{name}", None


@pytest.fixture
def ds(place: tuple[str, dict[str, str] | None]) -> Any:
    rows = {"id": [0], "v": ["first"]}
    made = lk.write_dataset(rows, place[0], primary_key="id", storage_options=place[1])
    made.initialize_mem_wal()
    return made


def seen(ds: Any) -> dict[int, str]:
    table = ds.to_table(include_mem_wal=True)
    assert table.num_rows == len(set(table["id"].to_pylist()))
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def test_many_threads_then_another_writer_then_a_merge(ds: Any, place: tuple[str, Any]) -> None:
    first = ds.mem_wal_writer(SHARD, max_memtable_rows=16)

    def put(thread: int) -> None:
        for number in range(6):
            first.put({"id": [10 * thread + number + 1], "v": [f"{thread}"]})

    threads = [threading.Thread(target=put, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {0: "first"} | {10 * t + n + 1: f"{t}" for t in range(4) for n in range(6)}
    assert seen(ds) == expected
    with ds.mem_wal_writer(SHARD) as second:
        with pytest.raises(FencedError):
            first.put({"id": [1], "v": ["late"]})
        second.delete({"id": [0, 1]})
        second.put({"id": [2], "v": ["second"]})
        expected = {key: v for key, v in expected.items() if key > 1} | {2: "second"}
        assert seen(ds) == expected
    if place[1]:
        theirs = lance.dataset(place[0], storage_options=place[1]).mem_wal_writer(SHARD)
        found = theirs.lsm_scanner().to_table()
        theirs.close()
        assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
    done = ds.merge_mem_wal()
    assert done.num_merged_generations >= 2
    ds.cleanup_mem_wal(grace=timedelta(0))
    (shard,) = ds.mem_wal_shards()
    assert (shard.generations, shard.unmerged_generations) == ((), ())
    table = ds.to_table()
    assert dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True)) == expected
    with ds.mem_wal_writer(SHARD) as third:
        third.put({"id": [0], "v": ["third"]})
    assert seen(ds) == expected | {0: "third"}


def test_requests_whose_answers_are_lost(ds: Any, place: tuple[str, Any]) -> None:
    """A store that repeats them, or a writer that does: each row is there once."""
    faults = Faults(mode=Mode.LOST)
    with injected(faults):
        mine = lk.dataset(place[0], storage_options=place[1])
        writer = mine.mem_wal_writer(SHARD, max_memtable_rows=3)
        for number in range(8):
            faults.fail_at = len(faults.calls) + 1
            writer.put({"id": [number], "v": [f"{number}"]})
        writer.close()
    assert seen(ds) == {number: f"{number}" for number in range(8)}
    assert sum(one.rows or 0 for one in ds.mem_wal_shards()[0].generations) == 8


def test_a_put_is_three_looks_and_one_write(s3: S3Server) -> None:
    uri, asked = f"s3://{s3.bucket}/requests-{uuid.uuid4()}", s3.log
    made = lk.write_dataset(
        {"id": [0], "v": ["first"]},
        uri,
        primary_key="id",
        storage_options=s3.storage_options,
    )
    made.initialize_mem_wal()
    writer = made.mem_wal_writer(SHARD)
    writer.put({"id": [5], "v": ["z"]})  # after the first entry a manifest tells of it
    for work, rows in (
        (writer.put, {"id": [1], "v": ["x"]}),
        (writer.put, {"id": [1, 2], "v": ["y", "z"]}),
        (writer.delete, {"id": [1]}),
    ):
        before = len(asked)
        work(rows)
        assert [method for method, _ in asked[before:]] == ["HEAD", "HEAD", "HEAD", "PUT"]
    writer.close()
    before = len(asked)
    writer.close()
    assert asked[before:] == []
    assert seen(made) == {0: "first", 2: "z", 5: "z"}


@pytest.mark.cover(2)
@pytest.mark.parametrize("gone", ["_mem_wal", "shard", "begun again"])
@pytest.mark.parametrize("put_before", ["nothing", "by hand", "upsert"])
def test_a_removed_log_fences_its_writer(
    ds: Any, place: tuple[str, dict[str, str] | None], gone: str, put_before: str
) -> None:
    store = ds._snapshot.store
    by_hand = put_before != "upsert"
    put = ds.mem_wal_writer(SHARD).put if by_hand else ds.mem_wal_upsert
    if put_before != "nothing":
        put({"id": [1], "v": ["x"]})
    shard = ds.mem_wal_shards()[0].shard_id
    store.delete_tree("_mem_wal" if gone == "_mem_wal" else f"_mem_wal/{shard}")
    before: list[int] = []
    if gone == "begun again":
        with lk.dataset(ds.uri, storage_options=place[1]).mem_wal_writer(str(shard)) as other:
            other.put({"id": [1], "v": ["y"]})  # as many entries as the log before had
            before = [1]
    files = [file.name for file in store.list_tree("_mem_wal")]
    with pytest.raises(FencedError if by_hand else ShardError, match="not written"):
        put({"id": [2], "v": ["x"]})
    assert [file.name for file in store.list_tree("_mem_wal")] == files
    lk.dataset(ds.uri, storage_options=place[1]).mem_wal_upsert({"id": [3], "v": ["z"]})
    assert sorted(seen(lk.dataset(ds.uri, storage_options=place[1]))) == [0, *before, 3]
