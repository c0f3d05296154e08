"""Rows from elsewhere reach Spark's tasks without this process holding all of them."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._spark import source as bringing
from lancekit._spark.frames.types import to_spark_batch, wire_schema
from lancekit._spark.source import in_checkpoints, in_files, transfer
from tests.conftest import ON_CLUSTER

pytestmark = pytest.mark.spark


def rows(start, stop):
    keys = np.arange(start, stop)
    return pa.table(
        {
            "k": pa.array(keys, pa.uint32()),
            "s": pa.array([f"{key:08}" for key in keys]),
            "t": pa.array(keys, pa.timestamp("ns")),
            "v": pa.FixedSizeListArray.from_arrays(np.repeat(keys, 2).astype(np.float16), 2),
        }
    )


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(bringing, "_PIECE_BYTES", 20_000)


@pytest.fixture
def folders(monkeypatch, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def upsert(ds, data, **how):
    merge = ds.merge_insert("k", **how).when_matched_update_all()
    return merge.when_not_matched_insert_all().execute(data)


@pytest.mark.skipif(ON_CLUSTER, reason="the files are in the store there")
@pytest.mark.parametrize("match", ["driver", "closure", "shuffle"])
def test_a_reader_is_merged_piece_by_piece(spark, tmp_path, folders, small_pieces, match):
    """Each batch is made only when those before it are in files, which are gone at the end."""
    there: list[int] = []

    def batches():
        for start in range(500, 5500, 500):
            there.append(len(list(folders.rglob("*.arrow"))))
            yield rows(start, start + 500).to_batches()[0]

    ds = lk.write_dataset(rows(0, 1000), tmp_path / "d")
    reader = pa.RecordBatchReader.from_batches(ds.schema, batches())
    with lk.options(engine="spark", merge_match=match):
        result = upsert(ds, reader)
    assert result.engine == "spark"
    assert dict(result) == {
        "num_inserted_rows": 4500,
        "num_updated_rows": 500,
        "num_deleted_rows": 0,
    }
    assert ds.to_table().sort_by("k").equals(rows(0, 5500))
    assert there[-1] > 5
    assert list(folders.iterdir()) == []


def test_a_reader_is_written_in_order(spark, tmp_path, folders, small_pieces):
    whole = rows(0, 5000)
    with lk.options(engine="spark"):
        ds = lk.write_dataset(whole.to_reader(300), tmp_path / "d")
    gc.collect()
    assert ds.to_table().equals(whole)
    assert list(folders.iterdir()) == []


def test_a_reader_that_fails_leaves_nothing(spark, tmp_path, folders, small_pieces):
    def batches():
        yield from rows(0, 2000).to_batches(300)
        raise pa.ArrowInvalid("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(rows(0, 1).schema, batches())
    with lk.options(engine="spark"), pytest.raises(pa.ArrowInvalid, match="the disk"):
        lk.write_dataset(reader, tmp_path / "d")
    assert list(folders.iterdir()) == []


@pytest.mark.parametrize("way", [in_files, in_checkpoints])
def test_both_ways_give_the_same_rows(spark, way, folders):
    whole = rows(0, 900)
    wire = wire_schema(whole.schema, exact=True)
    pieces = [
        pa.Table.from_batches([to_spark_batch(batch, wire)], wire)
        for batch in whole.to_batches(max_chunksize=100)
    ]
    brought = way(spark, pieces, whole.schema)
    assert brought.frame.toArrow().column("c1").to_pylist() == whole.column("s").to_pylist()
    some = brought.read(["t", "k"]).toArrow()
    assert some.column_names == ["c0", "c1"]
    assert some.column("c1").to_pylist() == whole.column("k").to_pylist()
    brought.release()
    assert list(folders.iterdir()) == []


def test_tasks_scan_a_dataset(spark, tmp_path):
    """This process reads none of its data files, and a merge by key no others than its columns."""
    ds = lk.write_dataset(rows(0, 1000), tmp_path / "d")
    other = lk.write_dataset(rows(500, 1500), tmp_path / "other", max_rows_per_file=300)
    other.delete("k = 700")
    with lk.options(engine="spark"):
        brought = transfer(spark, other, None)
        assert brought.read is not None
        files = (Path(other.uri) / "data").iterdir()
        sizes = sum(path.stat().st_size for path in files)
        assert sizes > 0
        result = upsert(ds, other, dedupe="last")
    assert dict(result)["num_inserted_rows"] == 500
    assert dict(result)["num_updated_rows"] == 499
    assert ds.to_table().sort_by("k").equals(rows(0, 1500))


@pytest.mark.parametrize("how", ["fragment", "filter", "limit", "both", "sorted", "memory"])
def test_scans_of_all_kinds(spark, tmp_path, how):
    place = "memory://bring-scans" if how == "memory" else tmp_path / "other"
    other = lk.write_dataset(rows(0, 1000), place, max_rows_per_file=300, mode="overwrite")
    data = {
        "fragment": lambda: other.get_fragments()[1],
        "filter": lambda: other.scanner(columns=["k", "s"], filter="k % 3 = 0"),
        "limit": lambda: other.scanner(limit=400, offset=250),
        "both": lambda: other.scanner(filter="k % 2 = 0", limit=100, offset=50),
        "sorted": lambda: other.scanner(order_by=["s"], limit=10),
        "memory": lambda: other,
    }[how]()
    wanted = (data if hasattr(data, "to_table") else data.scanner()).to_table()
    with lk.options(engine="spark"):
        copy = lk.write_dataset(data, tmp_path / "copy")
    assert copy.to_table().equals(wanted)
