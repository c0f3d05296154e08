"""Scans as DataFrames."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._spark.frames import scan as frame_module
from lancekit._spark.frames.scan import (
    cut_pieces,
    read_piece,
    scan_pieces,
    scan_ranges,
    whole_ranges,
)
from lancekit.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    PredicateError,
    StorageError,
    UnsupportedTypeError,
)
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
    request = request_of(dataset, ["id"])
    pieces = cut_pieces(whole_ranges(fragment_sources(dataset._snapshot)), request, parallelism)
    assert len(pieces) == 4 * parallelism
    ids = [i for p in pieces for b in read_piece(p, request) for i in b.column(0).to_pylist()]
    assert ids == dataset.to_table(["id"])["id"].to_pylist()


def test_small_fragments_of_a_piece_are_read_together(dataset, monkeypatch):
    opened = []
    read = frame_module.scan_together
    monkeypatch.setattr(
        frame_module,
        "scan_together",
        lambda some, request: opened.append(some) or read(some, request),
    )
    names = ["id", "s", "_rowaddr", "_row_created_at_version"]
    request = request_of(dataset, names)
    (piece,) = cut_pieces(whole_ranges(fragment_sources(dataset._snapshot)), request, 8)
    found = pa.Table.from_batches(read_piece(piece, request))
    assert [len(some) for some in opened] == [7]
    assert found.equals(dataset.to_table(names).combine_chunks())


@pytest.mark.parametrize("cut", [0, 30])
def test_files_that_are_not_on_a_disk_are_read_in_threads(cut):
    ds = lk.write_dataset(
        pa.table({"id": range(700)}), f"memory://{uuid.uuid4()}", max_rows_per_file=100
    )
    ds.delete("id % 3 = 0")
    request = request_of(ds)
    first, *rest = whole_ranges(fragment_sources(ds._snapshot))
    piece = frame_module.Piece(((first[0], cut, 100), *rest))
    ids = [i for b in read_piece(piece, request) for i in b.column(0).to_pylist()]
    assert ids == [n for n in range(cut, 700) if n % 3]


def test_small_fragments_share_a_piece(dataset):
    ranges = whole_ranges(fragment_sources(dataset._snapshot))
    (piece,) = cut_pieces(ranges, request_of(dataset), parallelism=8)
    assert len(piece.ranges) == 7
    assert cut_pieces([], request_of(dataset), 8) == []


def test_a_huge_fragment_is_many_pieces(dataset):
    whole = fragment_sources(dataset._snapshot)[0]
    source = SimpleNamespace(schema=whole.schema, fragment=whole.fragment, files=())
    pieces = cut_pieces([(source, 0, 10**9)], request_of(dataset), parallelism=2)
    assert len(pieces) == 80 * 10**9 >> 30
    assert pieces[0].ranges[0][1:] == (0, pieces[1].ranges[0][1])


def test_many_small_files_are_many_pieces(dataset):
    """To open a file is work too, however little is in it."""
    ranges = whole_ranges(fragment_sources(dataset._snapshot)) * 300
    request = request_of(dataset, ["id"])
    assert len(cut_pieces(ranges, request, parallelism=2)) == 8


def test_long_values_are_weighed_by_their_files(tmp_path):
    noise = [np.random.default_rng(n).bytes(1 << 20) for n in range(50)]
    ds = lk.write_dataset({"n": range(50), "raw": noise}, tmp_path / "d")
    ranges = whole_ranges(fragment_sources(ds._snapshot))
    assert len(cut_pieces(ranges, request_of(ds), parallelism=8)) == 3
    assert len(cut_pieces(ranges, request_of(ds, ["n"]), parallelism=8)) == 1


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
def test_no_columns_decode_none(spark, tmp_path):
    ds = lk.write_dataset(pa.table({"x": range(10)}), tmp_path / "d")
    ds.delete("x < 2")
    for file in (tmp_path / "d" / "data").iterdir():
        file.unlink()  # nobody looks into it
    assert ds.to_spark(columns=[]).count() == 8
    assert ds.to_spark(columns=["_rowid"]).count() == 8


WINDOWS = [(4, 2), (0, 5), (None, 460), (70, 130), (1000, 0), (3, 1000), (None, None), (66, None)]


@pytest.mark.parametrize(("limit", "offset"), WINDOWS)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_ranges_of_limit_and_offset(dataset, tiny_pieces, limit, offset, parallelism):
    scan = dataset.scanner(["id"], limit=limit, offset=offset)._scan
    pieces = cut_pieces(scan_ranges(scan), scan.request, parallelism)
    ids = [i for p in pieces for b in read_piece(p, scan.request) for i in b[0].to_pylist()]
    assert ids == scan.to_table()["id"].to_pylist()


def test_a_limit_names_its_fragments(dataset):
    ranges = scan_ranges(dataset.scanner(["id"], limit=5, offset=70)._scan)
    assert [(source.fragment.id, stop - start) for source, start, stop in ranges] == [(1, 7)]


@pytest.mark.spark
@pytest.mark.parametrize("condition", [None, "id > 10"])
def test_limit_and_offset(spark, dataset, condition):
    for limit, offset in WINDOWS[:4]:
        rows = dataset.to_spark(["id"], condition, limit, offset).toArrow()["id"]
        expected = dataset.to_table(["id"], condition, limit=limit, offset=offset)["id"]
        assert rows.to_pylist() == expected.to_pylist()


@pytest.mark.spark
def test_a_column_of_sparks_filters_after_the_scan(spark, dataset):
    from pyspark.sql import functions as F

    frame = dataset.to_spark(["id"], F.col("id") % 7 == 1, limit=3, offset=1)
    assert [row.id for row in frame.collect()] == [8, 22, 29]


@pytest.mark.spark
def test_a_pyarrow_expression(spark, dataset):
    frame = dataset.to_spark(["id"], pc.field("x") < 3)
    assert frame.toArrow()["id"].to_pylist() == [1, 2, 4, 5]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """The same with an index, and rows that it does not cover."""
    table = pa.table({"id": range(700), "x": [n % 5 for n in range(700)]})
    ds = lk.write_dataset(table, tmp_path_factory.mktemp("i") / "d", max_rows_per_file=100)
    ds.create_scalar_index("id", "BTREE")
    ds.insert(pa.table({"id": [7, 8], "x": [0, 1]}))
    ds.delete("id = 205")
    return ds


@pytest.mark.parametrize("text", ["id IN (7, 205, 301, 302)", "id > 690 AND x = 1", "id < 0"])
def test_indices_are_asked_before_tasks_are_made(indexed, text):
    scan = indexed.scanner(["id", "x"], filter=text, with_row_id=True)._scan
    pieces = scan_pieces(scan, 3)
    ids = {source.fragment.id for p in pieces for source, *_ in p.ranges}
    assert ids == {7}  # of the others indices know the rows
    found = [b for p in pieces for b in read_piece(p, scan.request)]
    expected = indexed.to_table(["id", "x"], text, with_row_id=True, use_scalar_index=False)
    assert pa.Table.from_batches(found, scan.request.schema).equals(expected)


@pytest.mark.spark
def test_a_filter_asks_indices(spark, indexed):
    text = "id IN (7, 205, 301) AND x < 4"
    expected = sorted(indexed.to_table(filter=text)["id"].to_pylist())
    assert sorted(row.id for row in indexed.to_spark(filter=text).collect()) == expected
    frame = spark.read.format("lance").option("filter", text).load(indexed.uri)
    assert sorted(row.id for row in frame.collect()) == expected


def test_row_ids_leave_fragments_out(dataset):
    scan = dataset.scanner(["id"], filter=f"_rowid IN ({5 << 32 | 1}, {2 << 32})")._scan
    assert [source.fragment.id for source, *_ in scan_ranges(scan)] == [2, 5]


@pytest.mark.spark
def test_hidden_columns(spark, tmp_path):
    ds = lk.write_dataset({"id": [1, 2, 3]}, tmp_path / "d", enable_stable_row_ids=True)
    ds.update({"id": "id + 10"}, where="id = 2")
    hidden = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]
    frame = ds.to_spark(["id", *hidden[2:]], with_row_id=True, with_row_address=True)
    assert {frame.schema[name].dataType.simpleString() for name in hidden} == {"bigint"}
    expected = ds.to_table(["id", *hidden[2:]], with_row_id=True, with_row_address=True)
    assert frame.toArrow().to_pylist() == expected.to_pylist()
    (row,) = ds.to_spark(filter="_row_last_updated_at_version = 2").collect()
    assert row.id == 12


@pytest.mark.spark
def test_chosen_fragments_and_defaults(spark, dataset):
    one = dataset.get_fragment(6)
    assert dataset.to_spark(["id"], fragments=[one]).count() == one.count_rows()
    again = lk.dataset(dataset.uri, default_scan_options={"with_row_id": True})
    assert again.to_spark(["id"], limit=1).columns == ["id", "_rowid"]


@pytest.mark.spark
def test_two_versions_side_by_side(spark, tmp_path):
    ds = lk.write_dataset({"id": [1, 2], "v": ["a", "b"]}, tmp_path / "d")
    ds.tags.create("first", 1)
    ds.update({"v": "'B'"}, where="id = 2")
    ds.create_temp_view("now_", ["id", "v"])
    ds.create_temp_view("before_", ["id", "v"], version="first")
    ds.create_temp_view("one_", filter="id = 1", version=1)
    text = "select id from now_ n join before_ b using (id) where n.v <> b.v"
    assert [row.id for row in spark.sql(text).collect()] == [2]
    assert spark.sql("select count(*) n from one_").first().n == 1
    with pytest.raises(InvalidTypeError, match=r"name must be .* got 3"):
        ds.create_temp_view(3)
    with pytest.raises(InvalidArgumentError, match="'no name!' is not a valid view name"):
        ds.create_temp_view("no name!")


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
    with pytest.raises(UnsupportedTypeError, match="'wide' has type decimal256"):
        ds.to_spark()
    assert ds.to_spark(columns=["x"]).count() == 1


@pytest.mark.spark
def test_memory_is_of_one_process(spark):
    ds = lk.write_dataset(pa.table({"x": [1]}), "memory://spark-frame")
    with pytest.raises(StorageError, match="cannot be sent") as caught:
        ds.to_spark()
    assert "use a dataset on a disk" in caught.value.hint


@pytest.mark.spark
def test_a_condition_over_a_column_that_was_not_chosen(spark, tmp_path):
    from pyspark.sql import functions as F

    ds = lk.write_dataset(pa.table({"id": [1], "x": [2]}), tmp_path / "d")
    with pytest.raises(PredicateError, match=r"`x` cannot be resolved.*The columns are id\."):
        ds.to_spark(["id"], F.col("x") > 1)
