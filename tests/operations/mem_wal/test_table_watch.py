"""Whatever ends a table, a branch or its logs fences the writers of its shards."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import LOGS, MEM_WAL
from lancekit.errors import CorruptFileError, FencedError, LancekitError, ShardError
from tests.support.shards import SHARD, keyed

SCHEMA = keyed(pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64())]), "id")


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": list(ids)}, schema=SCHEMA)


def made(path: Path, *ids: int) -> lk.LanceDataset:
    ds = lk.write_dataset(rows(*ids), path)
    ds.initialize_mem_wal()
    return ds


def read(ds: lk.LanceDataset) -> list[int]:
    return sorted(ds.to_table(include_mem_wal=True)["id"].to_pylist())


def replace(path: Path) -> None:
    path.rename(path.with_name("old"))
    made(path, 9)


def replace_by_as_many_versions(path: Path) -> None:
    replace(path)
    lk.dataset(path).insert(rows(8))
    lk.dataset(path).delete("id = 8")


ENDINGS: dict[str, Callable[[Path], object]] = {
    "overwrite": lambda path: lk.write_dataset(rows(9), path, mode="overwrite"),
    "overwrite by pylance": lambda path: lance.write_dataset(rows(9), path, mode="overwrite"),
    "drop": lambda path: lk.dataset(path).drop_index(MEM_WAL),
    "drop by pylance": lambda path: lance.dataset(path).drop_index(MEM_WAL),
    "restore": lambda path: lk.dataset(path, version=1).restore(),
    "restore by pylance": lambda path: lance.dataset(path, version=1).restore(),
    "delete the folder": shutil.rmtree,
    "replace the folder": replace,
    "replace the folder by one of as many versions": replace_by_as_many_versions,
}


@pytest.mark.cover
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
def test_what_ends_a_table_fences_its_writer(tmp_path: Path, ending: str, again: bool) -> None:
    path = tmp_path / "t"
    ds = made(path, 0)
    writer = ds.mem_wal_writer(SHARD)
    writer.put(rows(1))
    writer.close()  # lancekit refuses to overwrite rows that are in shards alone
    ds.merge_mem_wal()
    writer = ds.mem_wal_writer(SHARD)
    ENDINGS[ending](path)
    exists = path.exists()
    if exists and again and "replace" not in ending:
        lk.dataset(path).initialize_mem_wal()
    folder = path / LOGS / SHARD
    before = sorted(path.rglob("*"))
    for _ in range(2):
        with pytest.raises(FencedError, match="since the writer of shard"):
            writer.put(rows(2))
    assert sorted(path.rglob("*")) == before
    assert writer.state != "open"
    if exists:
        now = lk.dataset(path)
        if not again and "replace" not in ending:
            now.initialize_mem_wal()
        assert 2 not in read(now)
        with now.mem_wal_writer(SHARD) as fresh:
            fresh.put(rows(3))
        assert folder.exists()
        assert 3 in read(now)
        now.merge_mem_wal()
        assert 3 in now.to_table()["id"].to_pylist()
        assert 2 not in now.to_table()["id"].to_pylist()


def test_what_does_not_end_a_table_leaves_its_writer_alone(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", 0)
    writer = ds.mem_wal_writer(SHARD)
    theirs = lance.dataset(ds.uri)
    changes: list[Callable[[], object]] = [
        lambda: lk.dataset(ds.uri).insert(rows(10)),
        lambda: theirs.insert(rows(11)),
        lambda: lk.dataset(ds.uri).optimize.compact_files(num_threads=1),
        lambda: lk.dataset(ds.uri).create_scalar_index("v", "BTREE"),
        lambda: lk.dataset(ds.uri).merge_mem_wal(),
        lambda: lk.dataset(ds.uri).cleanup_old_versions(delete_unverified=True, retain_versions=1),
        lambda: lk.dataset(ds.uri).tags.create("t", None),
        lambda: lk.dataset(ds.uri).create_branch("b"),
    ]
    for number, change in enumerate(changes, 1):
        change()
        writer.put(rows(number))
    writer.close()
    assert read(ds) == [*range(len(changes) + 1), 10, 11]


def test_merges_of_pylance_leave_a_writer_alone(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", 0)
    with ds.mem_wal_writer(SHARD) as first:
        first.put(rows(1))
    writer = ds.mem_wal_writer(SHARD)
    (generation,) = ds.mem_wal_shards()[0].generations
    merge = lance.dataset(ds.uri).merge_insert("id").when_not_matched_insert_all()
    merge.mark_sstables_as_compacted([lance.mem_wal.CompactedSsTable(SHARD, generation.number)])
    merge.execute(rows(1))
    writer.put(rows(2))
    assert read(ds) == [0, 1, 2]


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_a_deleted_branch_takes_its_logs_along(tmp_path: Path, anew: bool, nested: bool) -> None:
    ds = made(tmp_path / "t", 0)
    branch = ds.create_branch("b")
    if nested:
        ds.create_branch("b/c")
    with branch.mem_wal_writer(SHARD) as first:
        first.put(rows(5))
    writer = branch.mem_wal_writer(SHARD)
    writer.put(rows(6))
    ds.branches.delete("b")
    if anew:
        assert read(ds.create_branch("b")) == [0]
    for _ in range(2):
        with pytest.raises(FencedError):
            writer.put(rows(7))
    with pytest.raises(FencedError):
        writer.close()
    assert (tmp_path / "t/tree/b" / LOGS).exists() is False
    assert read(ds if anew else ds.create_branch("b")) == [0]


def test_a_branch_is_deleted_beside_an_active_writer(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", 0)
    with lk.options(fsync=False):
        for attempt in range(5):
            writer = ds.create_branch(f"b{attempt}").mem_wal_writer(SHARD)
            stopped = threading.Event()

            def put(writer: Any = writer, stopped: threading.Event = stopped) -> None:
                number = 1
                try:
                    while not stopped.is_set():
                        writer.put(rows(number))
                        number += 1
                except lk.errors.LancekitError:
                    return

            thread = threading.Thread(target=put)
            thread.start()
            while writer.position < 5:
                stopped.wait(0.001)
            ds.branches.delete(f"b{attempt}")
            thread.join(30)
            stopped.set()
            assert not thread.is_alive()
            assert read(ds.create_branch(f"b{attempt}")) == [0]


def test_entries_that_were_there_before_the_shard_are_moved_aside(tmp_path: Path) -> None:
    """A writer of pylance goes on in the table that takes the place of its own."""
    path = tmp_path / "t"
    made(path, 0)
    stale = lance.dataset(str(path)).mem_wal_writer(SHARD)
    stale.put(rows(1))
    replace(path)
    stale.put(rows(2))
    ds = lk.dataset(path)
    assert read(ds) == [9]
    with pytest.warns(UserWarning, match="precedes the shard's first manifest"):
        writer = ds.mem_wal_writer(SHARD)
    writer.put(rows(3))
    assert read(ds) == [3, 9]
    assert len(list((path / LOGS / SHARD / "set_aside").iterdir())) == 1


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("gone", ["_mem_wal", "shard", "copy"])
def test_a_log_that_is_removed_or_replaced_below_the_table(
    tmp_path: Path, gone: str, by_hand: bool
) -> None:
    place = tmp_path / "t"
    ds = lk.write_dataset({"id": [1]}, str(place), primary_key="id")
    ds.mem_wal_upsert({"id": [10]})
    (shard,) = (place / "_mem_wal").iterdir()
    writer = ds.mem_wal_writer(shard.name) if by_hand else None
    if writer is not None:
        writer.put({"id": [11]})
    if gone == "copy":
        shutil.copytree(shard, tmp_path / "copy")
        shutil.rmtree(shard)
        # with the same times a file may be the same one to all marks, and so is its content
        shutil.copytree(tmp_path / "copy", shard, copy_function=shutil.copy)
    else:
        shutil.rmtree(place / "_mem_wal" if gone == "_mem_wal" else shard)
    if writer is not None:
        with pytest.raises(FencedError, match="not written"):
            writer.put({"id": [20]})
        assert shard.exists() == (gone == "copy")
    lk.dataset(str(place)).mem_wal_upsert({"id": [21]})
    with pytest.raises(ShardError, match="not written"):
        ds.mem_wal_upsert({"id": [22]})
    before = {10, *([11] if by_hand else [])} if gone == "copy" else set()
    read = lk.dataset(str(place)).to_table(include_mem_wal=True)
    assert set(read["id"].to_pylist()) == {1, 21, *before}


@pytest.mark.parametrize("way", ["close", "upsert", "upsert by a new handle"])
def test_an_older_copy_in_place_of_a_log(tmp_path: Path, way: str) -> None:
    """Its files may have the times and inodes of those before; its last entries are missing."""
    place = tmp_path / "t"
    ds = lk.write_dataset({"id": [1]}, str(place), primary_key="id")
    ds.mem_wal_upsert({"id": [10]})
    (shard,) = (place / "_mem_wal").iterdir()
    writer = ds.mem_wal_writer(shard.name) if way == "close" else None
    put = ds.mem_wal_upsert if writer is None else writer.put
    put({"id": [11]})
    put({"id": [12]})
    # an entry is called by its number, the lowest bit first: two may have the same time
    entries = sorted(shard.glob("wal/*"), key=lambda path: int(path.stem[::-1], 2))
    for entry in entries[-2:]:
        entry.unlink()
    expected = [1, 10, 11, 12, 20]
    if writer is not None:
        for _ in range(2):
            with pytest.raises(CorruptFileError, match="entry 4 was written and is gone"):
                writer.put({"id": [20]})
        assert sorted(shard.glob("wal/*")) == sorted(entries[:-2])
        writer.close()  # its memory has what the log lost
        with ds.mem_wal_writer(shard.name) as again:
            again.put({"id": [20]})
    elif way == "upsert":
        put({"id": [20]})
    else:
        lk.dataset(str(place)).mem_wal_upsert({"id": [20]})
    assert read(lk.dataset(str(place))) == expected
    lk.dataset(str(place)).merge_mem_wal(flush=True)
    assert sorted(lk.dataset(str(place)).to_table()["id"].to_pylist()) == expected
    assert len(ds.repair_mem_wal()) == 0


def test_a_whole_copy_in_place_of_a_log_loses_nothing(tmp_path: Path) -> None:
    place = tmp_path / "t"
    ds = lk.write_dataset({"id": [1]}, str(place), primary_key="id")
    ds.initialize_mem_wal()
    writer, put = ds.mem_wal_writer(SHARD), [10]
    writer.put({"id": [10]})
    shutil.copytree(place / LOGS, tmp_path / "copy")
    shutil.rmtree(place / LOGS)
    shutil.copytree(tmp_path / "copy", place / LOGS)
    with suppress(FencedError):  # if the disk gave the files other inodes
        writer.put({"id": [11]})
        put.append(11)
    with lk.dataset(str(place)).mem_wal_writer(SHARD) as other:
        other.put({"id": [12]})
    with pytest.raises(FencedError):
        writer.put({"id": [13]})
    assert read(ds) == [1, *put, 12]


@pytest.mark.parametrize("used", [False, True])
def test_a_handle_of_a_table_that_another_one_replaced(tmp_path: Path, used: bool) -> None:
    place = str(tmp_path / "t")
    lk.write_dataset({"id": [1]}, place, primary_key="id").mem_wal_upsert({"id": [10]})
    old = lk.dataset(place)
    if used:
        old.mem_wal_upsert({"id": [11]})
    shutil.rmtree(place)
    other = lk.write_dataset({"id": [7]}, place, primary_key="id")
    other.initialize_mem_wal(unsharded=True)
    other.insert({"id": [8]})
    for _ in range(2):
        with pytest.raises(LancekitError):
            old.mem_wal_upsert({"id": [20]})
    lk.dataset(place).mem_wal_upsert({"id": [21]})
    with pytest.raises(LancekitError):
        old.mem_wal_upsert({"id": [22]})
    read = lk.dataset(place).to_table(include_mem_wal=True)
    assert sorted(read["id"].to_pylist()) == [7, 8, 21]


def test_a_handle_from_before_the_logs_were_dropped_begins_them_again(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    ds = lk.write_dataset({"id": [1]}, place, primary_key="id")
    ds.mem_wal_upsert({"id": [10]})
    ds.merge_mem_wal(flush=True)
    old = lk.dataset(place)
    lk.dataset(place).drop_index("__lance_mem_wal")
    old.mem_wal_upsert({"id": [11]})
    read = lk.dataset(place).to_table(include_mem_wal=True)
    assert sorted(read["id"].to_pylist()) == [1, 10, 11]
