"""What of shards is read with which version, whatever goes on meanwhile."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.mem_wal import CompactedSsTable

import lancekit as lk
from lancekit._api import planned_scan
from lancekit._api.lsm_scanner import LsmScanner, ShardSnapshot
from lancekit._api.scanner import LanceScanner
from lancekit._format.mem_wal.names import entry_name
from lancekit._operations.mem_wal.reader import parts, sources
from lancekit._operations.mem_wal.reader.sources import newest_read_set
from lancekit._shards.manifests import change
from lancekit.errors import CorruptFileError, ShardError
from tests.support.shard_model import ShardedTable
from tests.support.shards import LEFT_OPEN_MS, SHARD, keyed, newest, opened, with_shards

SCHEMA = keyed(pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64())]), "id")


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [k for k, _ in pairs], "v": [v for _, v in pairs]}, schema=SCHEMA)


def keys(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=pa.schema([SCHEMA.field("id")]))


def base(path: Path) -> Path:
    with_shards(path, rows((1, 10), (2, 20), (3, 30)), unsharded=True)
    return path


def put(
    path: Path, *pairs: tuple[int, int], gone: tuple[int, ...] = (), flush: bool = True
) -> None:
    often = 1 if flush else LEFT_OPEN_MS
    writer = lance.dataset(str(path)).mem_wal_writer(SHARD, max_wal_flush_interval_ms=often)
    if pairs:
        writer.put(rows(*pairs))
    if gone:
        writer.delete(keys(*gone))
    if flush:
        writer.close()


def merge(path: Path, generation: int, *pairs: tuple[int, int], gone: str = "false") -> None:
    ds = lance.dataset(str(path))
    ds.delete(gone)
    upsert = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    upsert.mark_sstables_as_compacted([CompactedSsTable(SHARD, generation)]).execute(rows(*pairs))


def drain(path: Path, *, files: bool = True) -> None:
    """Take all generations off the manifest, and away."""
    tables = newest(path).sstables
    change(opened(path), None, lambda manifest: replace(manifest, sstables=()))
    for table in tables if files else ():
        shutil.rmtree(path / "_mem_wal" / SHARD / table.path)


def read(path: Path) -> dict[int, int]:
    found = lk.dataset(path).to_table(include_mem_wal=True).to_pydict()
    assert len(set(found["id"])) == len(found["id"])
    return dict(zip(found["id"], found["v"], strict=True))


def test_case_19_a_stale_snapshot_does_not_hide_what_changed_after_a_merge(tmp_path: Path) -> None:
    path = base(tmp_path / "d")
    put(path, (1, 100), gone=(2,))
    stale = ShardSnapshot(SHARD).with_sstable(1, newest(path).sstables[0].path)
    ds = lk.dataset(path)
    scanner = LsmScanner.from_snapshots(ds, [stale])
    assert sorted(scanner.to_table()["v"].to_pylist()) == [30, 100]
    merge(path, 1, (1, 100), gone="id = 2")
    lance.dataset(str(path)).update({"v": "77"}, "id = 1")
    lance.dataset(str(path)).insert(rows((2, 22)))
    assert sorted(scanner.to_table()["v"].to_pylist()) == [22, 30, 77]
    assert read(path) == {1: 77, 2: 22, 3: 30}
    drain(path)
    assert sorted(scanner.to_table()["v"].to_pylist()) == [22, 30, 77]


@pytest.mark.parametrize("moment", ["latest_snapshot", "open_generation", "shards_of", "_state"])
def test_case_20_what_is_merged_drained_and_removed_meanwhile_is_planned_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    path = base(tmp_path / "d")
    put(path, (1, 100), gone=(2,))
    put(path, (4, 40), flush=False)
    module = parts if moment == "open_generation" else sources
    original: Callable[..., object] = getattr(module, moment)
    merged = []

    def meanwhile(*given: object) -> object:
        found = original(*given) if moment == "shards_of" else None
        if not merged:
            merged.append(True)
            merge(path, 1, (1, 100), gone="id = 2")
            drain(path)
        return found or original(*given)

    monkeypatch.setattr(module, moment, meanwhile)
    assert read(path) == {1: 100, 3: 30, 4: 40}
    assert merged


def test_case_20_files_that_go_while_they_are_read_are_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = base(tmp_path / "d")
    put(path, (1, 100), gone=(2,))
    scanner = lk.dataset(path).lsm_scanner()
    planned = []
    original = LsmScanner._scan

    def then_gone(self: LsmScanner, of: sources.ReadSet) -> object:
        found = original(self, of)
        if not planned:
            merge(path, 1, (1, 100), gone="id = 2")
            drain(path)
            planned.append(found)
        return found

    monkeypatch.setattr(LsmScanner, "_scan", then_gone)
    assert sorted(scanner.to_table()["v"].to_pylist()) == [30, 100]
    assert scanner.count_rows() == 2


def test_case_20_files_that_go_after_the_first_rows_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = base(tmp_path / "d")
    put(path, (1, 100), gone=(2,))
    original = LanceScanner.to_batches

    def then_gone(self: LanceScanner) -> Any:
        for number, batch in enumerate(original(self)):
            if number:
                raise CorruptFileError("data/x.lance is missing.")
            yield batch

    monkeypatch.setattr(LanceScanner, "to_batches", then_gone)
    found = lk.dataset(path).to_batches(batch_size=1, include_mem_wal=True)
    assert next(found).num_rows == 1
    with pytest.raises(CorruptFileError, match=r"data/x.lance is missing"):  # nothing was merged
        next(found)
    found = lk.dataset(path).to_batches(batch_size=1, include_mem_wal=True)
    assert next(found).num_rows == 1
    merge(path, 1, (1, 100), gone="id = 2")
    drain(path)
    with pytest.raises(ShardError, match=r"(?s)after the first rows.*x.lance.*Read again.*grace"):
        next(found)


def test_case_20_files_that_go_while_a_scan_is_planned_are_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = base(tmp_path / "d")
    put(path, (1, 100), gone=(2,))
    original, merged = planned_scan.planned, []

    def meanwhile(*given: Any) -> Any:
        if not merged:
            merged.append(True)
            merge(path, 1, (1, 100), gone="id = 2")
            drain(path)
        return original(*given)

    monkeypatch.setattr(planned_scan, "planned", meanwhile)
    found = lk.dataset(path).to_table(include_mem_wal=True)
    assert sorted(found["v"].to_pylist()) == [30, 100]
    assert merged


def test_case_21_a_key_that_comes_goes_and_comes_is_right_at_each_step(
    tmp_path: Path,
) -> None:
    path = base(tmp_path / "d")
    put(path, (1, 11))
    assert read(path) == {1: 11, 2: 20, 3: 30}
    put(path, gone=(1,))
    assert read(path) == {2: 20, 3: 30}
    put(path, (1, 13), flush=False)
    assert read(path) == {1: 13, 2: 20, 3: 30}
    merge(path, 1, (1, 11))
    assert read(path) == {1: 13, 2: 20, 3: 30}
    merge(path, 2, gone="id = 1")
    assert read(path) == {1: 13, 2: 20, 3: 30}
    drain(path, files=False)
    assert read(path) == {1: 13, 2: 20, 3: 30}


def test_case_22_rotations_under_a_reader_miss_no_acknowledged_row(tmp_path: Path) -> None:
    path = base(tmp_path / "d")
    acknowledged, stop, failed = [0], threading.Event(), list[BaseException]()

    def write() -> None:
        try:
            for number in range(1, 26):
                writer = lance.dataset(str(path)).mem_wal_writer(
                    SHARD, max_wal_flush_interval_ms=LEFT_OPEN_MS
                )
                writer.put(rows((number + 10, number)))
                acknowledged[0] = number
                if number % 4:
                    writer.close()
                if number % 7 == 0:
                    found = newest(path).sstables
                    merge(path, found[-1].generation, *((n + 10, n) for n in range(1, number + 1)))
                    drain(path)
        except BaseException as error:
            failed.append(error)
        finally:
            stop.set()

    thread = threading.Thread(target=write)
    thread.start()
    reads = 0
    while not stop.is_set():
        before = acknowledged[0]
        found = read(path)
        assert {n + 10: n for n in range(1, before + 1)}.items() <= found.items()
        reads += 1
    thread.join()
    assert not failed
    assert reads > 3
    assert len(read(path)) == 28


def test_case_24_columns_of_entries_and_generations_are_found_by_their_ids(tmp_path: Path) -> None:
    path = base(tmp_path / "d")
    put(path, (1, 100), gone=(2,))
    put(path, (3, 300), flush=False)
    ds = lk.dataset(path)
    ds.alter_columns({"path": "v", "name": "w"})
    # it gets the id that the mark of deleted rows has in the generation and the log
    ds.add_columns(pa.schema([pa.field("v", pa.int64())]))
    found = lk.dataset(path).to_table(include_mem_wal=True, order_by=["id"]).to_pydict()
    assert found == {"id": [1, 3], "w": [100, 300], "v": [None, None]}
    theirs = lance.dataset(str(path))
    merged = theirs.merge_insert("id").when_not_matched_insert_all()
    merged.execute(
        pa.table({"id": [9], "w": [90], "v": [91]}, schema=lance.dataset(str(path)).schema)
    )
    found = lk.dataset(path).to_table(include_mem_wal=True, order_by=["id"]).to_pydict()
    assert found == {"id": [1, 3, 9], "w": [100, 300, 90], "v": [None, None, 91]}


def test_a_generation_that_is_gone_unmerged_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_PAUSE_SECONDS", 0)
    path = base(tmp_path / "d")
    put(path, (1, 100))
    folder = newest(path).sstables[0].path
    shutil.rmtree(path / "_mem_wal" / SHARD / folder)
    with pytest.raises(CorruptFileError, match=f"Generation 1 of shard {SHARD} .*{folder}"):
        read(path)


def test_a_missing_entry_is_an_error_and_a_torn_last_one_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_PAUSE_SECONDS", 0)
    path = base(tmp_path / "d")
    for number in (4, 5, 6):
        put(path, (number, number), flush=False)
    log = path / "_mem_wal" / SHARD
    last = max(place for place in range(1, 12) if (log / entry_name(place)).exists())
    whole = (log / entry_name(last)).read_bytes()
    (log / entry_name(last)).write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="is torn"):
        assert read(path) == {1: 10, 2: 20, 3: 30, 4: 4, 5: 5}
    (log / entry_name(1)).unlink()
    with pytest.raises(CorruptFileError, match="Entry 1"):
        read(path)


def test_what_an_overwrite_left_behind_is_not_the_new_tables(tmp_path: Path) -> None:
    path = base(tmp_path / "d")
    put(path, (1, 100))
    lance.write_dataset(rows((7, 70)), str(path), mode="overwrite")
    with pytest.warns(UserWarning, match="no MemWAL: they were not read"):
        assert read(path) == {7: 70}


def test_a_branch_reads_its_own_shards_and_none_of_main(tmp_path: Path) -> None:
    path = base(tmp_path / "d")
    put(path, (1, 100))
    branch = lk.dataset(path).create_branch("b")
    assert branch.to_table(include_mem_wal=True, order_by=["id"])["v"].to_pylist() == [10, 20, 30]
    assert newest_read_set(branch._location).parts == ()


def test_rows_of_a_writer_of_this_process_are_read_and_not_its_log(tmp_path: Path) -> None:
    table = ShardedTable(tmp_path / "d", Random(5), shards=1)
    for _ in range(12):
        table.put()
    line = lk.dataset(table.path)._location
    (state,) = [sources._state(shard, None) for shard in sources.shards_of(line.store)]
    assert state is not None
    held = state.memtables(sources.latest_snapshot(line).manifest.schema)
    memory = [(one.generation, one.given) for one in held]
    shutil.rmtree(tmp_path / "d" / "_mem_wal" / table.shards[0] / "wal")
    of = newest_read_set(line, {state.shard.id: memory})
    found = LsmScanner(lk.dataset(table.path)._snapshot, lambda: of).to_table().to_pylist()
    assert {table.key(row): row for row in found} == table.rows()


def test_the_memory_of_a_writer_is_read_in_todays_columns(tmp_path: Path) -> None:
    ds = lk.dataset(base(tmp_path / "d"))
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows((1, 100), (9, 90), (8, 80)))
        writer.delete(keys(8))
        lk.dataset(tmp_path / "d").alter_columns({"path": "v", "name": "w"})
        found = writer.lsm_scanner().with_memtable_gen().to_table().to_pydict()
        assert found == {
            "id": [1, 9, 2, 3],
            "w": [100, 90, 20, 30],
            "_memtable_gen": [1, 1, 0, 0],
        }
        assert writer.lsm_scanner().filter("id = 8").count_rows() == 0


def test_a_log_that_becomes_a_generation_while_it_is_read_is_read_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = base(tmp_path / "d")
    put(path, (1, 100), (4, 40), flush=False)
    original, flushed = sources._entries, []

    def meanwhile(*given: object) -> object:
        if not flushed:
            lance.dataset(str(path)).mem_wal_writer(SHARD).close()
            flushed.append(lk.dataset(path).cleanup_mem_wal(grace=timedelta(0)))
        return original(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(sources, "_entries", meanwhile)
    assert read(path) == {1: 100, 2: 20, 3: 30, 4: 40}
    assert flushed


def test_what_a_writer_held_does_not_hide_what_it_flushed_since(tmp_path: Path) -> None:
    path = base(tmp_path / "d")
    ds = lk.dataset(path)
    writer = ds.mem_wal_writer(SHARD)
    writer.put(rows((1, 100)))
    held = writer._writer.memtables()
    writer.put(rows((1, 101)))
    writer.close()
    of = newest_read_set(ds._location, {opened(path).id: held})
    found = LsmScanner(ds._snapshot, lambda: of).to_table().to_pydict()
    assert dict(zip(found["id"], found["v"], strict=True)) == {1: 101, 2: 20, 3: 30}
