"""Scans as DataFrames."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import StorageError, UnsupportedTypeError
from lancekit.scan.scanner import ScanRequest, plan_columns
from lancekit.scan.sources import fragment_sources
from lancekit.spark import frame as frame_module
from lancekit.spark.frame import cut_pieces, read_piece
from tests.spark.test_types import ROWS


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Seven fragments of 100 rows, every third row deleted."""
    table = pa.table({"id": range(700), "x": [n / 2 for n in range(700)], "s": ["ab"] * 700})
    place = tmp_path_factory.mktemp("frame") / "seven.lance"
    ds = lk.write_dataset(table, place, max_rows_per_file=100)
    ds.delete("id % 3 = 0")
    return ds


@pytest.fixture
def tiny_pieces(monkeypatch):
    monkeypatch.setattr(frame_module, "_LEAST_BYTES", 1)


def request_of(dataset, columns=None):
    return ScanRequest(outputs=plan_columns(dataset._snapshot.manifest.schema, columns))


@pytest.mark.parametrize("parallelism", [1, 2, 3, 40])
def test_pieces_cover_all_rows_once(dataset, tiny_pieces, parallelism):
    sources = fragment_sources(dataset._snapshot)
    request = request_of(dataset, ["id"])
    pieces = cut_pieces(sources, request, parallelism)
    assert len(pieces) == 4 * parallelism
    ids = [i for p in pieces for b in read_piece(p, request) for i in b.column(0).to_pylist()]
    assert ids == dataset.to_table(["id"])["id"].to_pylist()


def test_small_fragments_share_a_piece(dataset):
    sources = fragment_sources(dataset._snapshot)
    (piece,) = cut_pieces(sources, request_of(dataset), parallelism=8)
    assert len(piece.ranges) == 7
    assert cut_pieces([], request_of(dataset), 8) == []


def test_a_huge_fragment_is_many_pieces(dataset):
    whole = fragment_sources(dataset._snapshot)[0]
    fragment = SimpleNamespace(physical_rows=10**9)
    source = SimpleNamespace(fragment=fragment, schema=whole.schema)
    pieces = cut_pieces([source], request_of(dataset), parallelism=2)
    assert len(pieces) == 80 * 10**9 >> 30
    assert pieces[0].ranges[0][1:] == (0, pieces[1].ranges[0][1])


@pytest.mark.spark
def test_rows_columns_and_filter(spark, dataset, tiny_pieces):
    frame = dataset.to_spark(columns=["x", "id"], filter="id > 350 AND x < 300", with_row_id=True)
    expected = dataset.to_table(["x", "id"], "id > 350 AND x < 300", with_row_id=True)
    assert frame.columns == ["x", "id", "_rowid"]
    assert frame.schema["_rowid"].dataType.simpleString() == "bigint"
    assert frame.toArrow().to_pylist() == expected.to_pylist()


@pytest.mark.spark
def test_computed_columns(spark, dataset):
    frame = dataset.to_spark(columns={"twice": "id * 2", "s": "s"}, filter="id < 5")
    assert frame.toArrow().to_pydict() == {"twice": [2, 4, 8], "s": ["ab"] * 3}


@pytest.mark.spark
def test_pinned_to_its_version(spark, tmp_path):
    ds = lk.write_dataset(pa.table({"x": [1, 2]}), tmp_path / "d")
    frame = ds.to_spark()
    ds.insert(pa.table({"x": [3]}))
    ds.delete("x = 1")
    assert [row.x for row in frame.collect()] == [1, 2]
    assert [row.x for row in ds.to_spark().collect()] == [2, 3]


@pytest.mark.spark
def test_no_columns(spark, dataset):
    assert dataset.to_spark(columns=[], filter="id < 5").count() == 3


@pytest.mark.spark
def test_limit_and_offset(spark, dataset):
    scan = dataset.scanner(["id"], limit=4, offset=2)._scan
    rows = frame_module.scan_frame(scan).toArrow()["id"].to_pylist()
    assert rows == dataset.to_table(["id"], limit=4, offset=2)["id"].to_pylist()


@pytest.mark.spark
def test_no_rows(spark, dataset, tmp_path):
    assert dataset.to_spark(filter="id < 0").count() == 0
    empty = lk.write_dataset(pa.table({"x": pa.array([], pa.int8())}), tmp_path / "empty")
    assert empty.to_spark().toArrow().num_rows == 0


@pytest.mark.spark
def test_every_type(spark, tmp_path):
    table = pa.table({name: ROWS[name][0] for name in ROWS})
    ds = lk.write_dataset(table, tmp_path / "types")
    frame = ds.to_spark()
    got, stored = frame.toArrow(), ds.to_table()
    for name in ROWS:
        assert got.schema.field(name).type == ROWS[name][1], name
        assert got[name].to_pylist() == _plain(stored[name]), name


def _plain(column):
    values = column.to_pylist()
    values = [v.bytes if isinstance(v, uuid.UUID) else v for v in values]
    return [v.item() if isinstance(v, np.generic) else v for v in values]


@pytest.mark.spark
def test_sql_over_a_view(spark, dataset):
    dataset.to_spark().createOrReplaceTempView("seven")
    (row,) = spark.sql("select count(*) n, sum(x) x from seven where s = 'ab'").collect()
    assert (row.n, row.x) == (466, sum(n / 2 for n in range(700) if n % 3))


@pytest.mark.spark
def test_what_spark_cannot_hold(spark, tmp_path):
    ds = lk.write_dataset(
        pa.table({"x": [1], "wide": pa.array([1], pa.decimal256(60))}), tmp_path / "d"
    )
    with pytest.raises(UnsupportedTypeError, match="'wide' is of type decimal256"):
        ds.to_spark()
    assert ds.to_spark(columns=["x"]).count() == 1


@pytest.mark.spark
def test_memory_is_of_one_process(spark):
    ds = lk.write_dataset(pa.table({"x": [1]}), "memory://spark-frame")
    with pytest.raises(StorageError, match="cannot be sent") as caught:
        ds.to_spark()
    assert "keep the dataset on a disk" in caught.value.hint
