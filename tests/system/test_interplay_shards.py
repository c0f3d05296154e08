"""Rows that wait in shards beside what else a table has and does, as both libraries read it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import UnsupportedTypeError


def made(place: Path, **settings: object) -> lk.LanceDataset:
    rows = pa.table({"id": range(10), "v": [float(n) for n in range(10)]})
    ds = lk.write_dataset(rows, place, primary_key="id", max_rows_per_file=5, **settings)  # type: ignore[arg-type]
    ds.initialize_mem_wal(bucket_column="id", num_buckets=2)
    return ds


def put(ds: lk.LanceDataset, *ids: int, v: float, flush: bool = False) -> None:
    ds.mem_wal_upsert({"id": list(ids), "v": [v] * len(ids)}, flush=flush)


def values(ds: lk.LanceDataset) -> dict[int, float]:
    rows = ds.to_table(include_mem_wal=True)
    assert len(set(rows["id"].to_pylist())) == rows.num_rows
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def merged(ds: lk.LanceDataset) -> dict[int, float]:
    """Merge all rows, and return them as pylance reads them."""
    ds.mem_wal_upsert({"id": [], "v": []}, flush=True)
    for shard in ds.mem_wal_shards():
        ds.mem_wal_writer(shard.shard_id).close()
    ds.merge_mem_wal()
    rows = lance.dataset(ds._location.uri).to_table()
    assert rows.num_rows == len(set(rows["id"].to_pylist()))
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def test_rows_that_are_deleted_in_the_table(tmp_path: Path) -> None:
    """A delete is of versions alone: what waits in shards is newer, and stays."""
    ds = made(tmp_path / "t")
    put(ds, 1, 20, v=7.0, flush=True)
    ds.delete("id < 4")
    put(ds, 2, v=8.0)
    expected = {1: 7.0, 2: 8.0, 20: 7.0} | {n: float(n) for n in range(4, 10)}
    assert values(ds) == merged(ds) == values(ds) == expected


@pytest.mark.parametrize("stable", [False, True])
def test_compaction_and_cleanup_while_rows_wait(tmp_path: Path, stable: bool) -> None:
    ds = made(tmp_path / "t", enable_stable_row_ids=stable)
    put(ds, 1, 20, v=7.0, flush=True)
    put(ds, 20, 21, v=8.0)
    ds.delete("id = 3")
    ds.optimize.compact_files()
    ds.cleanup_old_versions(older_than=timedelta(0))
    expected = {n: float(n) for n in range(10) if n != 3} | {1: 7.0, 20: 8.0, 21: 8.0}
    assert values(ds) == merged(ds) == expected
    ds.optimize.compact_files()
    ds.cleanup_old_versions(older_than=timedelta(0))
    ds.cleanup_mem_wal(grace=timedelta(0))
    assert values(ds) == expected


def test_tables_with_base_paths(tmp_path: Path) -> None:
    far = lk.DatasetBasePath(str(tmp_path / "far"), name="far")
    rows = pa.table({"id": range(10), "v": [float(n) for n in range(10)]})
    ds = lk.write_dataset(
        rows, tmp_path / "t", primary_key="id", initial_bases=[far], target_bases=["far"]
    )
    ds.initialize_mem_wal(bucket_column="id", num_buckets=2)
    put(ds, 1, 20, v=7.0)
    expected = {n: float(n) for n in range(10)} | {1: 7.0, 20: 7.0}
    assert values(ds) == merged(ds) == expected
    assert not (tmp_path / "far" / "_mem_wal").exists()  # shards lie with the table


def test_tags_and_pinned_handles_leave_shards_out(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    ds.tags.create("before", ds.version)
    put(ds, 1, 20, v=7.0)
    assert merged(ds)[1] == 7.0
    before = ds.checkout_version("before")
    assert before.count_rows() == 10
    assert before.to_table(filter="id = 1")["v"].to_pylist() == [1.0]
    assert ds.diff("before").counts.inserted == 1
    assert [change.version for change in ds.row_history({"id": 20})] == [ds.version]


def test_a_branch_and_its_source_write_at_once(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    side = ds.create_branch("side")
    put(ds, 1, v=7.0)
    put(side, 1, v=8.0)
    assert (values(ds)[1], values(side)[1]) == (7.0, 8.0)
    for one in (ds, side):
        one.mem_wal_upsert({"id": [2], "v": [0.5]}, flush=True)
        one.merge_mem_wal()
    assert (values(ds)[1], values(side)[1]) == (7.0, 8.0)
    ds.update({"v": "v + 1"}, where="id = 1")
    assert (values(ds)[1], values(side)[1]) == (8.0, 8.0)


def test_blobs_go_through_a_shard(tmp_path: Path) -> None:
    """Those of the first form; the second form is refused."""
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), blob])
    first = pa.table({"id": [1, 2], "b": [b"one", b"two"]}, schema=schema)
    second = lk.write_dataset(first, tmp_path / "second", primary_key="id")
    with pytest.raises(UnsupportedTypeError, match="Blob column"):
        second.initialize_mem_wal(unsharded=True)
    ds = lk.write_dataset(first, tmp_path / "t", primary_key="id", data_storage_version="2.1")
    ds.initialize_mem_wal(unsharded=True)
    ds.mem_wal_upsert(pa.table({"id": [2, 3], "b": [b"TWO", b"3"]}, schema=schema), flush=True)
    ds.merge_mem_wal()
    ids = ds.to_table(["id"])["id"].to_pylist()
    theirs = lance.dataset(ds.uri)
    for table in (ds, theirs):
        found = table.take_blobs("b", indices=[ids.index(number) for number in (1, 2, 3)])
        assert [file.read() for file in found] == [b"one", b"TWO", b"3"]
