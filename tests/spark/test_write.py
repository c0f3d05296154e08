"""Writing on Spark: the same rows as in this process, whatever they are made of."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._pipeline.casts.plan import normalise_new_schema
from lancekit._spark.jobs.client import client_of
from lancekit.errors import (
    DuplicateKeysError,
    EngineError,
    NullKeyError,
    SchemaMismatchError,
    StorageError,
    UnsupportedTypeError,
)
from tests.spark.test_types import ROWS

pytestmark = pytest.mark.spark


def both(data, folder, **options):
    """Write through both engines; return the two datasets."""
    local = lk.write_dataset(data, folder / "local", **options)
    with lk.options(engine="spark"):
        spark = lk.write_dataset(data, folder / "spark", **options)
    return local, spark


def data_files(ds):
    return sorted(path.name for path in (Path(ds.uri) / "data").iterdir())


def sorted_rows(table, by="id"):
    return table.sort_by(by).to_pylist()


def test_every_type_is_stored_as_it_was(spark, tmp_path):
    table = pa.table({name: ROWS[name][0] for name in ROWS})
    local, there = both(table, tmp_path)
    assert there.schema == local.schema == normalise_new_schema(table.schema)
    # as values: each partition has a dictionary of its own
    wanted = local.to_table().to_pydict()
    assert there.to_table().to_pydict() == wanted
    assert lance.dataset(there.uri).to_table().to_pydict() == wanted


def test_nanoseconds_survive_on_the_way_to_spark(spark, tmp_path):
    table = pa.table({"t": pa.array([1, None], pa.timestamp("ns"))})
    _, there = both(table, tmp_path)
    assert there.to_table().equals(table)


def test_columns_that_differ_in_case_only(spark, tmp_path):
    table = pa.table({"a": [1], "A": ["x"], "b c": [True]})
    _, there = both(table, tmp_path)
    assert there.to_table().equals(table)


def test_append_and_overwrite(spark, tmp_path):
    for data in ({"id": [1]}, {"id": [2]}):
        mode = "create" if data["id"] == [1] else "append"
        local, there = both(data, tmp_path, mode=mode)
    assert sorted_rows(there.to_table()) == sorted_rows(local.to_table()) == [{"id": 1}, {"id": 2}]
    local, there = both({"other": ["x"]}, tmp_path, mode="overwrite")
    assert there.to_table().equals(local.to_table())
    assert there.version == local.version == 3


def test_a_frame_of_sparks_own(spark, tmp_path):
    frame = spark.sql(
        "select id, cast(id as decimal(10,2)) / 3 as d, timestamp_micros(id) as at, "
        "timestamp_ntz'2024-01-01 00:00:00.5' as naive, array(1.5f, 2f) as v, 'x' as s, "
        "date'2024-01-01' as day from range(10)"
    )
    ds = lk.write_dataset(frame.select("id", "d", "at", "naive", "s", "day"), tmp_path / "d")
    assert all(field.nullable for field in ds.schema)
    assert ds.schema.field("at").type == pa.timestamp("us", "UTC")
    assert ds.schema.field("naive").type == pa.timestamp("us")
    expected = frame.drop("v").toArrow().to_pylist()
    assert sorted_rows(ds.to_table()) == sorted_rows(pa.Table.from_pylist(expected))
    assert lance.dataset(ds.uri).count_rows("id >= 3") == 7


def test_arrays_become_vectors_again(spark, tmp_path):
    vectors = pa.table({"id": [1], "v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))})
    ds = lk.write_dataset(vectors, tmp_path / "d")
    ds.insert(spark.sql("select array(3f, 4f) as v, 2L as id"))
    assert ds.to_table()["v"].to_pylist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(SchemaMismatchError, match=r"has 1 elements, not 2") as caught:
        ds.insert(spark.sql("select array(3f) as v, 2L as id"))
    assert caught.value.context["column"] == "v"
    assert ds.version == 2


def test_pandas_through_spark(spark, tmp_path):
    frame = pd.DataFrame(
        {"id": [1, 2], "s": ["a", None], "t": pd.to_datetime(["2024-01-01", None])}
    )
    local, there = both(frame, tmp_path)
    assert there.to_table().equals(local.to_table())


def test_a_session_in_another_zone(spark, tmp_path):
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        instant = pa.table(
            {"at": pa.array([0], pa.timestamp("us", "UTC")), "n": pa.array([0], pa.timestamp("us"))}
        )
        local, there = both(instant, tmp_path)
        assert there.to_table().equals(local.to_table())
        again = lk.write_dataset(there.to_spark(), tmp_path / "again")
        assert again.to_table().equals(instant)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_many_small_partitions_make_few_files(spark, tmp_path):
    frame = spark.range(0, 1000, 1, 200)
    ds = lk.write_dataset(frame, tmp_path / "d")
    assert len(ds.get_fragments()) <= 2 * client_of(spark).parallelism()
    assert ds.to_table()["id"].to_pylist() == list(range(1000))  # in the partitions' order
    shuffled = lk.write_dataset(frame.repartition(200), tmp_path / "s")
    assert len(shuffled.get_fragments()) <= 2 * client_of(spark).parallelism()
    assert shuffled.count_rows() == 1000


def test_files_are_cut_as_asked(spark, tmp_path):
    ds = lk.write_dataset(spark.range(0, 100, 1, 1), tmp_path / "d", max_rows_per_file=40)
    assert [f.count_rows() for f in ds.get_fragments()] == [40, 40, 20]


def test_no_rows(spark, tmp_path):
    local, there = both(pa.table({"x": pa.array([], pa.int8())}), tmp_path)
    assert there.schema == local.schema
    assert there.get_fragments() == local.get_fragments() == []
    ds = lk.write_dataset(spark.range(0), tmp_path / "frame")
    assert ds.count_rows() == 0


def test_a_null_key_leaves_nothing_behind(spark, tmp_path):
    frame = spark.range(0, 8, 1, 2).selectExpr("nullif(id, 6) as id")
    with pytest.raises(NullKeyError, match="Primary-key column 'id' holds 1 nulls") as caught:
        lk.write_dataset(frame, tmp_path / "d", primary_key=["id"])
    assert caught.value.context["column"] == "id"
    assert not any((tmp_path / "d").rglob("*.lance"))


def test_duplicates_of_a_primary_key(spark, tmp_path):
    frame = spark.createDataFrame([(i % 40, i) for i in range(50)], "id long, x long")
    frame, uri = frame.repartition(4), str(tmp_path / "t")
    told = r"20 of 50 rows share their primary key \(id\)"
    with pytest.raises(DuplicateKeysError, match=told):
        lk.write_dataset(frame, uri, primary_key="id", primary_key_check="error")
    assert not list(tmp_path.glob("t/**/*.lance"))
    with pytest.warns(UserWarning, match=told):
        ds = lk.write_dataset(frame, uri, primary_key="id")
    assert ds.duplicates().rows == 20
    with pytest.warns(UserWarning, match=told):
        lk.write_dataset(frame, uri, mode="append")
    lk.write_dataset(frame, uri, mode="append", primary_key_check="ignore")
    assert lk.dataset(uri).count_rows() == 150


def test_rows_that_do_not_fit(spark, tmp_path):
    ds = lk.write_dataset(pa.table({"id": pa.array([1], pa.int8())}), tmp_path / "d")
    before = data_files(ds)
    with pytest.raises(
        SchemaMismatchError, match=r"the value (299|300) in row 0 does not fit int8"
    ) as caught:
        ds.insert(spark.range(299, 301))
    assert caught.value.context["column"] == "id"
    with pytest.raises(SchemaMismatchError, match="is it 'id'"):
        ds.insert(spark.sql("select 1L as ID"))
    assert (ds.version, data_files(ds)) == (1, before)


def test_a_source_that_fails(spark, tmp_path):
    def broken(batches):
        raise RuntimeError("no such sensor")
        yield from batches

    with pytest.raises(EngineError, match=r"A Spark job failed: RuntimeError: no such sensor\."):
        lk.write_dataset(spark.range(0, 1, 1, 1).mapInArrow(broken, "id long"), tmp_path / "d")
    with pytest.raises(EngineError, match="is not true"):
        lk.write_dataset(
            spark.sql("select assert_true(id < 1) as x, id from range(1, 2, 1, 1)").select(
                "id", "x"
            ),
            tmp_path / "d",
        )
    assert not (tmp_path / "d" / "_versions").exists()


def test_what_cannot_be_written(spark, tmp_path):
    with pytest.raises(StorageError, match="cannot be sent"):
        lk.write_dataset(spark.range(1), "memory://spark-write")
    with pytest.raises(UnsupportedTypeError, match="'odd' has the Spark type variant"):
        lk.write_dataset(spark.sql("select parse_json('1') as odd"), tmp_path / "d")


def test_delete_through_both_engines(spark, tmp_path):
    table = pa.table({"id": range(1000), "x": np.arange(1000) % 7})
    local, there = both(table, tmp_path, max_rows_per_file=100)
    results = [local.delete("x = 3 or id < 200")]
    with lk.options(engine="spark"):
        results.append(there.delete("x = 3 or id < 200"))
    assert dict(results[0]) == dict(results[1])
    assert [r.engine for r in results] == ["local", "spark"]
    assert sorted_rows(there.to_table()) == sorted_rows(local.to_table())
    assert lance.dataset(there.uri).count_rows() == local.count_rows()


def test_on_an_object_store(spark, tmp_path, s3):
    uri = f"s3://{s3.bucket}/{tmp_path.name}/d"
    ds = lk.write_dataset(spark.range(100), uri, storage_options=s3.storage_options)
    with lk.options(engine="spark"):
        ds.delete("id < 90")
        merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(pa.table({"id": [99, 100]}))
    assert sorted(row.id for row in ds.to_spark().collect()) == [*range(90, 101)]
    settings = {f"storage.{name}": value for name, value in s3.storage_options.items()}
    assert spark.read.format("lance").options(**settings).load(uri).count() == 11
    assert "secret" not in repr(ds.to_spark())


def test_no_rows_with_structs(spark, tmp_path):
    schema = pa.schema([("s", pa.struct([("a", pa.int64())])), ("l", pa.list_(pa.int64()))])
    local, there = both(schema.empty_table(), tmp_path)
    assert there.schema == local.schema
    assert there.count_rows() == 0


def test_rows_without_columns_are_refused(spark, tmp_path):
    """They came out as no rows at all."""
    ds = lk.write_dataset(pa.table({"id": [1]}), tmp_path / "there")
    frame = spark.range(3).select()
    for target, mode in ((tmp_path / "new", "create"), (ds, "append"), (ds, "overwrite")):
        with pytest.raises(SchemaMismatchError, match="no columns"):
            lk.write_dataset(frame, target, mode=mode)
    assert not (tmp_path / "new").exists()
    assert ds.latest_version == 1


def test_a_schema_is_honoured(spark, tmp_path):
    schema = pa.schema([pa.field("s", pa.large_string(), metadata={"a": "b"}), ("n", pa.int8())])
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "n long, s string")
    table = pa.table({"s": ["a", "b"], "n": [1, 2]}, schema)
    ds = lk.write_dataset(frame, tmp_path / "d", schema=schema)
    assert ds.schema.equals(schema, check_metadata=True)
    assert ds.to_table().sort_by("n") == table
    merge = ds.merge_insert("s").when_matched_update_all().when_not_matched_insert_all()
    wide = pa.schema({"n": pa.int16(), "s": pa.string()})
    assert merge.execute(frame, schema=wide)["num_updated_rows"] == 2
    lossy = spark.createDataFrame([(1, "a"), (70000, "b")], "n long, s string")
    wide_ds = lk.write_dataset({"n": [1], "s": ["a"]}, tmp_path / "wide")
    for attempt in (
        lambda: wide_ds.insert(lossy, schema=wide),
        lambda: wide_ds.merge_insert("s").when_matched_update_all().execute(lossy, schema=wide),
        lambda: wide_ds.merge(
            lossy.toDF("m", "s"), "s", schema=wide.set(0, wide[0].with_name("m"))
        ),
    ):
        with pytest.raises(SchemaMismatchError, match=r"fit schema=:\n.*the value 70000"):
            attempt()
    with pytest.raises(SchemaMismatchError, match=r"\+ s: string, not in schema="):
        lk.write_dataset(frame, tmp_path / "e", schema=pa.schema({"n": pa.int64()}))
    assert wide_ds.version == 1


def test_rows_as_python_objects_get_the_types_of_the_dataset(spark, tmp_path):
    schema = pa.schema({"t": pa.timestamp("ns"), "m": pa.map_(pa.string(), pa.int64())})
    rows = [{"t": pd.Timestamp(1), "m": {"a": 1}}, {"t": pd.Timestamp(2), "m": {}}]
    _, there = both(rows, tmp_path, schema=schema)
    merge = there.merge_insert("t").when_matched_update_all().when_not_matched_insert_all()
    with lk.options(engine="spark"):
        there.insert(rows)
        assert merge.execute(there.to_table(limit=2).to_pylist())["num_updated_rows"] == 4
    assert there.count_rows() == 4
    assert there.schema.types == schema.types
