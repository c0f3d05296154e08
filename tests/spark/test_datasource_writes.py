"""``df.write.format("lance")`` and ``insert into``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

import lancekit as lk

pytestmark = pytest.mark.spark


def save(frame, place, mode="append", **options):
    frame.write.format("lance").mode(mode).options(**options).save(str(place))
    return lk.dataset(place)


def ids(ds):
    return sorted(ds.to_table(["id"])["id"].to_pylist())


def test_it_creates_appends_and_overwrites(spark, tmp_path):
    ds = save(spark.range(0, 10, 1, 2), tmp_path / "d")
    assert (ds.version, ids(ds), len(ds.get_fragments())) == (1, [*range(10)], 1)
    ds = save(spark.range(10, 12), tmp_path / "d")
    assert (ds.version, ids(ds)) == (2, [*range(12)])
    ds = save(spark.range(3).withColumn("s", F.lit("x")), tmp_path / "d", "overwrite")
    assert (ds.version, ids(ds), ds.schema.names) == (3, [0, 1, 2], ["id", "s"])
    operations = [type(t.operation).__name__ for t in ds.get_transactions()]
    assert sorted(operations) == ["Append", "Overwrite", "Overwrite"]


def test_options(spark, tmp_path):
    ds = save(
        spark.range(0, 100, 1, 1),
        tmp_path / "d",
        max_rows_per_file="30",
        data_storage_version="2.0",
        enableStableRowIds="true",
        commit_message="from spark",
    )
    assert [fragment.physical_rows for fragment in ds.get_fragments()] == [30, 30, 30, 10]
    assert ds.data_storage_version == "2.0"
    assert ds.has_stable_row_ids
    assert ds.versions()[-1].message == "from spark"
    ds.create_branch("side")
    save(spark.range(100, 101), tmp_path / "d", branch="side")
    assert ds.checkout_version(("side", None)).count_rows() == 101
    assert lk.dataset(tmp_path / "d").count_rows() == 100


def test_no_rows(spark, tmp_path):
    ds = save(spark.range(0), tmp_path / "d")
    assert (ds.count_rows(), ds.schema.names) == (0, ["id"])
    assert save(spark.range(0), tmp_path / "d").version == 2


def test_an_append_restores_the_types(spark, tmp_path):
    kinds = {
        "vector": pa.list_(pa.float32(), 2),
        "half": pa.list_(pa.float16(), 2),
        "u8": pa.uint8(),
        "u64": pa.uint64(),
        "f16": pa.float16(),
        "day": pa.date64(),
        "when": pa.timestamp("ms", "UTC"),
        "fixed": pa.binary(2),
        "word": pa.dictionary(pa.int32(), pa.string()),
    }
    rows = pa.table(
        {
            "vector": pa.array([[1, 2]], kinds["vector"]),
            "half": pa.array([np.array([1, 2], np.float16)], kinds["half"]),
            "u8": pa.array([255], kinds["u8"]),
            "u64": pa.array([2**64 - 1], kinds["u64"]),
            "f16": pa.array([np.float16(1.5)], kinds["f16"]),
            "day": pa.array([86_400_000], kinds["day"]),
            "when": pa.array([1], kinds["when"]),
            "fixed": pa.array([b"ab"], kinds["fixed"]),
            "word": pa.array(["a"]).cast(kinds["word"]),
        }
    )
    ds = lk.write_dataset(rows, tmp_path / "d")
    again = save(ds.to_spark(), tmp_path / "d")
    assert again.schema == ds.schema
    table = again.to_table()
    assert table.slice(0, 1).to_pylist() == table.slice(1, 1).to_pylist()
    short = spark.sql("select array(1f) as vector")
    with pytest.raises(Exception, match=r"SchemaMismatchError(.|\n)*vector"):
        save(short, tmp_path / "d")


def failing(frame):
    @F.udf("long")
    def boom(value):
        if value == 99:
            raise RuntimeError("no more")
        return value

    return frame.select(boom("id").alias("id"))


def test_a_failed_job_leaves_no_version_and_no_files(spark, tmp_path):
    ds = save(spark.range(0, 10, 1, 1), tmp_path / "d")
    before = sorted(path.name for path in (tmp_path / "d" / "data").iterdir())
    with pytest.raises(Exception, match="no more"):
        save(failing(spark.range(0, 100, 1, 4)), tmp_path / "d")
    assert ds.latest_version == 1
    # of tasks that were still at work when the job was given up, some files may stay for cleanup
    ds.cleanup_old_versions(delete_unverified=True)
    assert sorted(path.name for path in (tmp_path / "d" / "data").iterdir()) == before


def test_what_does_not_fit_is_said_before_and_removed_after(spark, tmp_path):
    ds = lk.write_dataset(
        pa.table({"id": [1]}, pa.schema([pa.field("id", pa.uint8(), False)])), tmp_path / "d"
    )
    before = sorted(path.name for path in (tmp_path / "d" / "data").iterdir())
    with pytest.raises(Exception, match="SchemaMismatchError"):
        save(spark.sql("select 'x' as other"), tmp_path / "d")
    with pytest.raises(Exception, match="the value 290"):  # known only when the rows are looked at
        save(spark.range(290, 301, 1, 2), tmp_path / "d")
    with pytest.raises(Exception, match="UnsupportedTypeError"):
        save(spark.sql("select parse_json('1') as v"), tmp_path / "new")
    assert ds.latest_version == 1
    assert sorted(path.name for path in (tmp_path / "d" / "data").iterdir()) == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"version": "1"}, "'version' is not for a write"),
        ({"filter": "id > 1"}, "'filter' is not for a write"),
        ({"branch": "nope"}, "BranchNotFoundError"),
        ({"data_storage_version": "9"}, "data_storage_version must be .* got '9'"),
        (
            {"max_rows_per_file": "-1"},
            "max_rows_per_file must be an integer of 1 or more, got '-1'",
        ),
    ],
    ids=str,
)
def test_bad_options(spark, tmp_path, options, said):
    lk.write_dataset({"id": [1]}, tmp_path / "d")
    with pytest.raises(Exception, match=said):
        save(spark.range(1), tmp_path / "d", **options)


def test_other_modes_are_refused_by_spark(spark, tmp_path):
    for mode in ("error", "ignore"):
        with pytest.raises(AnalysisException, match=r"(?i)mode"):
            save(spark.range(1), tmp_path / "d", mode)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("place", ["options (path '{}')", "location '{}'"])
def test_sql_inserts(spark, tmp_path, place):
    ds = lk.write_dataset(pa.table({"id": pa.array([1], pa.int64())}), tmp_path / "d")
    spark.sql(f"create table lk_inserts using lance {place.format(ds.uri)}")
    try:
        at = f"with (`path` = '{ds.uri}')"  # Spark gives no options of the table to an insert
        with pytest.raises(AnalysisException, match=r"INSERT INTO t WITH \(`path`"):
            spark.sql("insert into lk_inserts values (2L)")
        spark.sql(f"insert into lk_inserts {at} values (2L), (3L)")
        assert ids(lk.dataset(ds.uri)) == [1, 2, 3]
        with pytest.raises(AnalysisException, match="create_temp_view"):
            spark.table("lk_inserts").count()
        spark.sql(f"insert overwrite lk_inserts {at} values (9L)")
        assert ids(lk.dataset(ds.uri)) == [9]
    finally:
        spark.sql("drop table lk_inserts")
    assert lk.dataset(ds.uri).count_rows() == 1
