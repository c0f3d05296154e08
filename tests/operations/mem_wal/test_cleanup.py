"""Which files of shards go, and which have to stay however old they are."""

from __future__ import annotations

import os
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import position
from lancekit._operations.mem_wal import cleanup
from lancekit._shards.entry import read_entry
from lancekit._shards.manifests import latest
from lancekit._shards.schema import Shard, shard_of
from lancekit._storage.local import LocalStore
from lancekit.errors import InvalidArgumentError
from tests.support.faults import Call, Faults, injected
from tests.support.mem_wal_model import table_of, write_with_pylance
from tests.support.shards import LEFT_OPEN_MS

ONE = uuid.UUID(int=1)
NOW = timedelta(0)


@pytest.fixture
def ds(tmp_path: Path) -> Any:
    """Return a table that may have shards."""
    made = lance.write_dataset(table_of({1: (1.0, "a")}), str(tmp_path / "t"))
    made.initialize_mem_wal(unsharded=True)
    return made


def shard(ds: Any) -> Shard:
    return shard_of(LocalStore(Path(ds.uri)), ONE)


def folder(ds: Any) -> Path:
    return Path(ds.uri, "_mem_wal", str(ONE))


def generations(ds: Any) -> list[str]:
    return sorted(path.name.partition("_")[2] for path in folder(ds).glob("*_gen_*"))


def entries(ds: Any) -> list[int]:
    return sorted(position(path.name) for path in folder(ds).glob("wal/*"))


def make_older(ds: Any, hours: float) -> None:
    """Let all files look as if they had been there for so long."""
    then = time.time() - hours * 3600
    for path in folder(ds).rglob("*"):
        os.utime(path, (then, then))


def test_drained_generations_go_after_the_grace(ds: Any) -> None:
    for key in (1, 2):
        write_with_pylance(ds, str(ONE), {key: (10.0, "b")}, [])
    mine = lk.dataset(ds.uri)
    make_older(ds, 3)
    assert mine.cleanup_mem_wal().generations_removed == 0  # none is merged
    assert generations(ds) == ["gen_1", "gen_2"]
    mine.merge_mem_wal()
    # a reader that began before the drain may still read them, however old they are
    assert mine.cleanup_mem_wal().generations_removed == 0
    assert generations(ds) == ["gen_1", "gen_2"]
    make_older(ds, 2)
    done = mine.cleanup_mem_wal()
    assert (done.generations_removed, generations(ds)) == (2, [])
    assert done.bytes_removed > 2000
    assert done.files_removed > 10
    assert mine.cleanup_mem_wal() == cleanup.MemWalCleanupStats()
    write_with_pylance(ds, str(ONE), {5: (50.0, "")}, [1])
    mine.merge_mem_wal()
    table = lance.dataset(ds.uri).to_table().sort_by("id")
    assert table.to_pydict() == table_of({2: (10.0, "b"), 5: (50.0, "")}).to_pydict()


def test_what_was_left_behind_goes_once_its_number_is_past(ds: Any) -> None:
    orphan = folder(ds) / "0a1b2c3d_gen_1"
    (orphan / "data").mkdir(parents=True)
    (orphan / "data/x.lance").write_bytes(b"x")
    foreign = folder(ds) / "notes"
    foreign.mkdir()
    writer = ds.mem_wal_writer(str(ONE))
    make_older(ds, 2)
    # a writer may be about to commit it
    assert lk.dataset(ds.uri).cleanup_mem_wal(grace=NOW).generations_removed == 0
    writer.put(table_of({2: (2.0, "")}))
    writer.close()
    assert lk.dataset(ds.uri).cleanup_mem_wal().generations_removed == 1
    assert not orphan.exists()
    assert foreign.exists()
    assert generations(ds) == ["gen_1"]


def test_case_23_earlier_writers_stay_out(ds: Any) -> None:
    """Each of two that were stopped finds the position taken that it writes to next."""
    stopped = []
    for key in (2, 3):
        writer = ds.mem_wal_writer(str(ONE), max_wal_flush_interval_ms=LEFT_OPEN_MS)
        writer.put(table_of({key: (float(key), "")}))
        stopped.append(writer)
    for key in range(4, 12):
        write_with_pylance(ds, str(ONE), {key: (float(key), "")}, [])
    lk.dataset(ds.uri).merge_mem_wal()
    before = entries(ds)
    done = lk.dataset(ds.uri).cleanup_mem_wal(grace=NOW)
    kept = entries(ds)
    assert done.log_entries_removed == len(before) - len(kept) > 6
    assert max(kept) == max(before)
    fences = [number for number in before if number in kept and number != max(before)]
    assert len(fences) == 9
    assert all(read_entry(shard(ds), number).sentinel for number in fences)
    for writer in stopped:
        with pytest.raises(OSError, match="fenced"):
            writer.put(table_of({99: (0.0, "lost")}))
    write_with_pylance(ds, str(ONE), {1: (7.0, "")}, [])
    lk.dataset(ds.uri).merge_mem_wal()
    found = lance.dataset(ds.uri).to_table().sort_by("id")
    assert found["id"].to_pylist() == list(range(1, 12))
    assert found["v"].to_pylist() == [7.0, *map(float, range(2, 12))]


def test_entries_that_no_generation_has_stay(ds: Any) -> None:
    writer = ds.mem_wal_writer(str(ONE))
    for key in range(2, 6):
        writer.put(table_of({key: (float(key), "")}))
    assert lk.dataset(ds.uri).cleanup_mem_wal(grace=NOW) == cleanup.MemWalCleanupStats()
    del writer
    assert entries(ds)[:4] == [1, 2, 3, 4]


def test_entries_stay_that_a_reader_may_be_replaying(ds: Any) -> None:
    writer = ds.mem_wal_writer(str(ONE))
    writer.put(table_of({2: (2.0, "")}))
    writer.put(table_of({3: (3.0, "")}))
    make_older(ds, 2)
    writer.close()  # a manifest from before says that they are to be replayed
    assert lk.dataset(ds.uri).cleanup_mem_wal().log_entries_removed == 0
    make_older(ds, 2)
    assert lk.dataset(ds.uri).cleanup_mem_wal().log_entries_removed == 1


def test_the_newest_manifests_stay(ds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "_MANIFESTS_KEPT", 3)
    for key in range(4):
        write_with_pylance(ds, str(ONE), {key: (10.0, "b")}, [])
    newest = latest(shard(ds))
    assert newest is not None
    names = {position(p.name) for p in folder(ds).glob("manifest/*.binpb")}
    assert names == set(range(1, newest.version + 1))
    make_older(ds, 2)
    assert lk.dataset(ds.uri).cleanup_mem_wal().manifests_removed == newest.version - 4
    names = {position(p.name) for p in folder(ds).glob("manifest/*.binpb")}
    assert names == set(range(newest.version - 3, newest.version + 1))
    for hint in (None, b'{"version":1}'):
        path = folder(ds) / "manifest/version_hint.json"
        path.unlink(missing_ok=True)
        if hint is not None:
            path.write_bytes(hint)
        assert latest(shard(ds)) == newest
        with ds.mem_wal_writer(str(ONE)) as writer:
            writer.put(table_of({1: (11.0, "")}))
        newest = latest(shard(ds))
        assert newest is not None


def test_what_is_refused(ds: Any) -> None:
    mine = lk.dataset(ds.uri)
    with pytest.raises(TypeError, match=r"grace must be .* got 3600"):
        mine.cleanup_mem_wal(grace=3600)  # type: ignore[arg-type]
    with pytest.raises(
        InvalidArgumentError, match="grace must not be negative, got -86400 seconds"
    ):
        mine.cleanup_mem_wal(grace=timedelta(days=-1))
    with pytest.raises(InvalidArgumentError, match="no shard"):
        mine.cleanup_mem_wal([ONE])


def test_two_cleanups_at_once(ds: Any) -> None:
    """The other one is done before each call of this one, where it may: its files are gone."""
    for number in range(3):
        write_with_pylance(ds, str(ONE), {number: (1.0, "")}, [])
    lk.dataset(ds.uri).merge_mem_wal()
    make_older(ds, 2)

    def other(call: Call) -> None:
        if call.kind == "read" and "wal/" in call.name:
            lk.dataset(ds.uri).cleanup_mem_wal(grace=NOW)

    with injected(Faults()) as faults:
        mine = lk.dataset(ds.uri)
    faults.before = other
    mine.cleanup_mem_wal(grace=NOW)
    assert generations(ds) == []
