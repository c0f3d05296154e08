"""A handle for each row: the process keeps the writers of a table between handles."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.mem_wal import router


def made(path: Path, **columns: Any) -> lk.LanceDataset:
    ds = lk.write_dataset({"id": [0], "v": [0], **columns}, path, primary_key="id")
    ds.initialize_mem_wal(unsharded=True)
    return ds


def upsert(path: Path, key: int, **columns: Any) -> int:
    """Put a row by a new handle; return the epoch of the writer."""
    (done,) = lk.dataset(path).mem_wal_upsert({"id": [key], "v": [key], **columns}).values()
    return done.epoch


def ids(path: Path) -> list[int]:
    found = lk.dataset(path).to_table(columns=["id"], include_mem_wal=True)
    return sorted(found.column(0).to_pylist())


def test_handles_share_a_writer(tmp_path: Path) -> None:
    made(tmp_path)
    assert [upsert(tmp_path, key) for key in range(1, 6)] == [1] * 5
    lk.dataset(tmp_path).insert({"id": [9], "v": [9]})  # another version
    assert upsert(tmp_path, 6) == 1
    lk.dataset(tmp_path).mem_wal_upsert({"id": [7], "v": [7]}, flush=True)
    assert upsert(tmp_path, 8) == 2
    assert ids(tmp_path) == list(range(10))


def test_other_options_have_other_writers(tmp_path: Path) -> None:
    """What is put with fsync is flushed, whoever opened the shard before."""
    made(tmp_path)
    with lk.options(fsync=False):
        assert [upsert(tmp_path, key) for key in (1, 2)] == [1, 1]
    with lk.options(fsync=True):
        assert [upsert(tmp_path, key) for key in (3, 4)] == [2, 2]


def test_a_writer_that_was_fenced_takes_the_shard_back(tmp_path: Path) -> None:
    ds = made(tmp_path)
    upsert(tmp_path, 1)
    (shard,) = ds.mem_wal_shards()
    with ds.mem_wal_writer(shard.shard_id) as writer:
        writer.put({"id": [2], "v": [2]})
    assert upsert(tmp_path, 3) == 3
    reference = lance.dataset(str(tmp_path)).mem_wal_writer(shard.shard_id)
    reference.put(pa.table({"id": [4], "v": [4]}, schema=ds.schema))
    reference.close()
    assert upsert(tmp_path, 5) == 5
    assert ids(tmp_path) == list(range(6))


@pytest.mark.parametrize("moved", [True, False])
def test_a_table_in_the_place_of_another_one(tmp_path: Path, moved: bool) -> None:
    path = tmp_path / "t"
    made(path)
    upsert(path, 1)
    shutil.move(path, tmp_path / "old") if moved else shutil.rmtree(path)
    made(path)
    assert upsert(path, 2) == 1
    assert ids(path) == [0, 2]
    if moved:
        assert ids(tmp_path / "old") == [0, 1]


def test_columns_that_changed(tmp_path: Path) -> None:
    made(tmp_path)
    upsert(tmp_path, 1)
    lk.dataset(tmp_path).add_columns(pa.field("w", pa.int64()))
    assert upsert(tmp_path, 2, w=[7]) == 2
    lance.dataset(str(tmp_path)).drop_columns(["w"])
    assert upsert(tmp_path, 3) == 3
    assert ids(tmp_path) == [0, 1, 2, 3]


def test_branches_have_writers_of_their_own(tmp_path: Path) -> None:
    ds = made(tmp_path)
    upsert(tmp_path, 1)
    ds.create_branch("b")
    branch = lk.dataset(tmp_path, version=("b", None))
    branch.mem_wal_upsert({"id": [2], "v": [2]})
    assert ids(tmp_path) == [0, 1]
    assert sorted(branch.to_table(include_mem_wal=True)["id"].to_pylist()) == [0, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_opens_writers_of_its_own(tmp_path: Path) -> None:
    made(tmp_path)
    upsert(tmp_path, 1)
    if not (child := os.fork()):
        os._exit(0 if upsert(tmp_path, 2) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert upsert(tmp_path, 3) == 3
    assert ids(tmp_path) == [0, 1, 2, 3]


def test_the_writers_of_some_tables_are_kept(tmp_path: Path) -> None:
    for number in range(12):
        made(tmp_path / str(number))
        upsert(tmp_path / str(number), 1)
    assert len(router._cached_routers) == 8
    assert [upsert(tmp_path / str(number), 2) for number in (11, 4)] == [1, 1]
    assert upsert(tmp_path / "0", 2) == 2
