"""Dictionaries whose keys are too few for all categories: no row that was put is stuck in a log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.mem_wal import LsmPointLookupPlanner, LsmScanner, ShardSnapshot

import lancekit as lk
from lancekit.errors import UnsupportedTypeError
from tests.support.shards import LEFT_OPEN_MS, SHARD, newest, opened

_SMALL = pa.dictionary(pa.int8(), pa.string())


def _lists(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), values)


WAYS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "plain": lambda values: values,
    "in structs": lambda values: pa.StructArray.from_arrays([values], ["d"]),
    "in lists of structs": lambda v: _lists(pa.StructArray.from_arrays([v], ["d"])),
}

Names = dict[int, str]


def named(ids: range, letter: str = "n") -> Names:
    return {number: f"{letter}{number}" for number in ids}


def rows(names: Names, way: str = "plain") -> pa.Table:
    """Return rows of ids and names, the names by keys of 8 bits, of which 128 can be told apart."""
    values = pa.array(list(names.values()), pa.string()).dictionary_encode().cast(_SMALL)
    return pa.table({"id": pa.array(list(names), pa.int64()), "c": WAYS[way](values)})


def names_in(table: pa.Table) -> Names:
    values = table["c"]
    while not (pa.types.is_dictionary(values.type) or pa.types.is_string(values.type)):
        is_list = pa.types.is_list(values.type)
        parts = [pc.list_flatten(c) if is_list else c.field("d") for c in values.chunks]
        values = pa.chunked_array(parts)
    assert len(table) == len(set(table["id"].to_pylist()))
    return dict(zip(table["id"].to_pylist(), values.to_pylist(), strict=True))


def made(path: Path, way: str = "plain", **more: Any) -> Any:
    ds = lk.write_dataset(rows({0: "first"}, way), path, primary_key="id", **more)
    ds.initialize_mem_wal()
    return ds


def read(path: Path) -> Names:
    return names_in(lk.dataset(path).to_table(include_mem_wal=True))


def generations(path: Path) -> list[Any]:
    """Return the generations of the shard as pylance opens them."""
    store = opened(path).store
    return [lance.dataset(f"{path}/{store.uri[store.uri.index('_mem_wal') :]}/{table.path}")
            for table in newest(path).sstables]  # fmt: skip


def snapshot(path: Path) -> ShardSnapshot:
    found = ShardSnapshot(SHARD).with_current_generation(newest(path).current_generation)
    for table in newest(path).sstables:
        found = found.with_sstable(table.generation, table.path)
    return found


def merged(path: Path, wanted: Names) -> None:
    """Check the table once all is merged, as both libraries read it."""
    ds = lk.dataset(path)
    ds.merge_mem_wal(flush=True)
    assert names_in(ds.to_table()) == wanted
    assert lance.dataset(path).to_table().num_rows == len(wanted)
    ds.validate(deep=True)
    ds.optimize.compact_files()
    assert names_in(ds.to_table()) == wanted


@pytest.mark.parametrize("version", ["2.0", "2.2"])
@pytest.mark.parametrize("way", WAYS)
def test_a_memtable_is_a_generation_before_its_categories_are_too_many(
    tmp_path: Path, way: str, version: Any
) -> None:
    ds = made(tmp_path, way, data_storage_version=version)
    writer, wanted = ds.mem_wal_writer(SHARD), {0: "first"}
    for names in (named(range(start, start + 100)) for start in (0, 100, 200)):
        writer.put(rows(names, way))
        wanted |= names
        assert names_in(writer.lsm_scanner().to_table()) == wanted
        assert read(tmp_path) == wanted  # by the log and by generations
    writer.put(rows(named(range(50, 60), "new"), way))
    writer.delete({"id": [250]})
    wanted |= named(range(50, 60), "new")
    del wanted[250], writer
    assert read(tmp_path) == wanted
    with lk.dataset(tmp_path).mem_wal_writer(SHARD) as writer:  # it replays the log
        assert names_in(writer.lsm_scanner().to_table()) == wanted
        writer.put(rows(named(range(300, 400)), way))
    wanted |= named(range(300, 400))
    assert read(tmp_path) == wanted
    tables = generations(tmp_path)
    assert len(tables) >= 4
    assert [len(table.get_fragments()) for table in tables] == [1] * len(tables)
    if way == "plain":
        theirs = LsmScanner.from_snapshots(lance.dataset(tmp_path), [snapshot(tmp_path)])
        assert theirs.count_rows() == len(wanted)
        assert names_in(pa.Table.from_batches(theirs.to_batches())) == wanted
    merged(tmp_path, wanted)


@pytest.mark.parametrize("way", WAYS)
def test_a_put_that_no_file_can_hold_is_a_generation_of_several(tmp_path: Path, way: str) -> None:
    ds = made(tmp_path, way)
    chunks = [named(range(100)), named(range(100, 200)), named(range(200, 300))]
    newer = [named(range(100), "a"), named(range(150, 160), "b")]  # nothing is left of the first
    wanted = named(range(300)) | newer[0] | newer[1]
    writer = ds.mem_wal_writer(SHARD)
    writer.put(pa.concat_tables([rows(names, way) for names in (*chunks, *newer)]))
    assert names_in(writer.lsm_scanner().to_table()) == read(tmp_path) == wanted
    writer.put(rows({400: "last"}, way))
    writer.close()
    wanted[400] = "last"
    assert read(tmp_path) == wanted
    (generation,) = generations(tmp_path)
    assert len(generation.get_fragments()) == 4
    assert lk.dataset(tmp_path).repair_mem_wal() == []
    merged(tmp_path, wanted)


def test_pylance_reads_a_generation_of_several_files(tmp_path: Path) -> None:
    ds = made(tmp_path)
    with ds.mem_wal_writer(SHARD) as writer:
        chunks = [named(range(100)), named(range(100, 200)), named(range(50, 100), "new")]
        writer.put(pa.concat_tables([rows(names) for names in chunks]))
    wanted = named(range(200)) | named(range(50, 100), "new")
    base, of = lance.dataset(tmp_path), [snapshot(tmp_path)]
    planner = LsmPointLookupPlanner(base, of)
    found = {n: planner.plan_lookup(pa.array([n])).to_table()["c"].to_pylist() for n in wanted}
    assert found == {number: [name] for number, name in wanted.items()}
    some = LsmScanner.from_snapshots(base, of).filter("id >= 80 AND id < 120").to_table()
    assert names_in(some) == {number: wanted[number] for number in range(80, 120)}


def test_generations_of_several_files_have_indices_and_are_searched(tmp_path: Path) -> None:
    def texts(ids: range) -> pa.Table:
        words = [f"word{number}" for number in ids]
        return (
            rows(named(ids)).append_column("t", pa.array(words)).append_column("x", pa.array(ids))
        )

    ds = lk.write_dataset(texts(range(10)), tmp_path, primary_key="id")
    ds.create_scalar_index("x", "BTREE")
    ds.create_scalar_index("t", "INVERTED")
    ds.initialize_mem_wal()
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(pa.concat_tables([texts(range(100)), texts(range(100, 200))]))
    (generation,) = generations(tmp_path)
    assert len(generation.get_fragments()) == len(generation.describe_indices()) == 2
    for number in (5, 55, 155):
        scanner = lk.dataset(tmp_path).lsm_scanner()
        assert scanner.filter(f"x = {number}").to_table()["id"].to_pylist() == [number]
        scanner = lk.dataset(tmp_path).lsm_scanner()
        found = scanner.full_text_search(f"word{number}", ["t"]).to_table()
        assert found["id"].to_pylist() == [number]


@pytest.mark.parametrize("durable", [True, False])
def test_puts_of_threads_share_no_entry_that_no_file_can_hold(
    tmp_path: Path, durable: bool
) -> None:
    writer = made(tmp_path).mem_wal_writer(SHARD, durable_write=durable)
    puts = [named(range(start, start + 30)) for start in range(0, 900, 30)]

    def put(some: list[Names]) -> None:
        for names in some:
            writer.put(rows(names))

    threads = [threading.Thread(target=put, args=(puts[at::6],)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    wanted = named(range(900))
    assert names_in(writer.lsm_scanner().to_table()) == wanted
    writer.close()
    assert [len(table.get_fragments()) for table in generations(tmp_path)] == [1] * 8
    merged(tmp_path, wanted)


def test_categories_that_no_row_has_are_not_in_the_way(tmp_path: Path) -> None:
    writer = made(tmp_path).mem_wal_writer(
        SHARD, durable_write=False, max_wal_flush_interval_ms=10**8
    )
    wanted = {0: "first"}
    for put in range(4):  # they wait for one entry
        names = pa.array([f"{put} {number}" for number in range(128)])
        codes = pa.array([7, 120], pa.int8())
        table = {"id": [put * 2, put * 2 + 1], "c": pa.DictionaryArray.from_arrays(codes, names)}
        writer.put(pa.table(table))
        wanted |= {put * 2: f"{put} 7", put * 2 + 1: f"{put} 120"}
        assert names_in(writer.lsm_scanner().to_table()) == wanted
    writer.close()
    merged(tmp_path, wanted)


def test_rows_of_several_chunks_find_their_shards(tmp_path: Path) -> None:
    ds = lk.write_dataset(rows({0: "first"}), tmp_path, primary_key="id")
    ds.initialize_mem_wal(bucket_column="id", num_buckets=3)
    ds.mem_wal_upsert(pa.concat_tables([rows(named(range(n, n + 100))) for n in (0, 100, 200)]))
    ds.mem_wal_upsert({"id": [*range(250)], "c": [f"text {number}" for number in range(250)]})
    wanted = named(range(300)) | {number: f"text {number}" for number in range(250)}
    assert read(tmp_path) == wanted
    merged(tmp_path, wanted)


@pytest.mark.parametrize("closed", [False, True])
def test_what_pylance_acknowledged_is_flushed(tmp_path: Path, closed: bool) -> None:
    """Its own generation of such rows cannot be read; as long as the log has them, it is mended."""
    made(tmp_path)
    theirs = lance.dataset(tmp_path)
    writer = theirs.mem_wal_writer(SHARD, max_wal_flush_interval_ms=1 if closed else LEFT_OPEN_MS)
    for start in (0, 100, 200):
        writer.put(rows(named(range(start, start + 100))).cast(theirs.schema))
    if closed:
        writer.close()
        (found,) = lk.dataset(tmp_path).repair_mem_wal()
        assert found.rows == 0
    else:
        assert read(tmp_path) == named(range(300))
        with lk.dataset(tmp_path).mem_wal_writer(SHARD) as ours:
            ours.put(rows({300: "ours"}))
    wanted = named(range(300)) | ({} if closed else {300: "ours"})
    assert read(tmp_path) == wanted
    assert len(generations(tmp_path)[0].get_fragments()) == 3
    merged(tmp_path, wanted)


def test_a_quarantine_holds_more_categories_than_a_file(tmp_path: Path) -> None:
    ds = made(tmp_path)
    with ds.mem_wal_writer(SHARD) as writer:
        for start in (0, 100, 200):
            writer.put(rows(named(range(start, start + 100))))
    ds.constraints.add("few", "id < 10")
    ds.merge_mem_wal(on_error="quarantine")
    waiting = ds.mem_wal_quarantine()
    assert names_in(waiting.to_table()) == named(range(10, 300))
    ds.constraints.drop("few")
    waiting = ds.mem_wal_quarantine()
    waiting.discard(waiting.to_table().slice(0, 10))
    waiting = ds.mem_wal_quarantine()
    waiting.put_back(waiting.to_table().slice(0, 200))
    ds.mem_wal_quarantine().put_back()
    assert names_in(ds.to_table()) == {n: f"n{n}" for n in range(300) if not 10 <= n < 20}


def test_entries_that_were_moved_aside_are_put_back(tmp_path: Path) -> None:
    writer = made(tmp_path).mem_wal_writer(SHARD)
    chunks = [named(range(start, start + 100)) for start in (0, 100, 200)]
    writer.put(pa.concat_tables(map(rows, chunks)))
    del writer
    (entry,) = tmp_path.glob("_mem_wal/*/wal/*.arrow")
    data = entry.read_bytes()
    entry.write_bytes(data[:-1] + bytes([data[-1] ^ 255]))
    ds = lk.dataset(tmp_path)
    ds.repair_mem_wal()
    listed = ds.mem_wal_set_aside().to_table()
    assert names_in(listed) == named(range(300))
    ds.mem_wal_set_aside().put_back(listed.slice(50, 150), unsure=True)
    ds.mem_wal_set_aside().put_back(unsure=True)
    merged(tmp_path, named(range(300)))


def test_files_of_2_0_store_null_as_one_more_category(tmp_path: Path) -> None:
    ds = made(tmp_path, data_storage_version="2.0")
    wanted: Any = {**named(range(128)), 128: None}
    ds.mem_wal_upsert(rows(wanted))
    assert read(tmp_path) == wanted
    merged(tmp_path, wanted)


def test_one_row_of_2_0_has_no_key_for_null(tmp_path: Path) -> None:
    texts: list[Any] = [*named(range(128)).values(), None]
    values = pa.array(texts).dictionary_encode().cast(_SMALL)
    several = pa.table({"id": [0], "c": _lists(values[:1])})
    ds = lk.write_dataset(several, tmp_path, primary_key="id", data_storage_version="2.0")
    ds.initialize_mem_wal()
    row = pa.table(
        {"id": [1], "c": pa.ListArray.from_arrays(pa.array([0, 129], pa.int32()), values)}
    )
    with ds.mem_wal_writer(SHARD) as writer:
        with pytest.raises(UnsupportedTypeError, match=r"'c'.* stores null as one more value"):
            writer.put(row)
        writer.put(several)
    ds.merge_mem_wal(flush=True)
    assert ds.to_table()["c"].to_pylist() == [["n0"]]
    with pytest.raises(UnsupportedTypeError, match=r"'c'.* stores null as one more value"):
        ds.insert(row)
