"""Files follow the bytes of the rows, not Spark's partitions, on every master."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def frame(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    return spark.range(0, rows, 1, partitions).selectExpr("id", "id * 2 AS v")


def files_of(folder: Path) -> set[str]:
    return {path.name for path in (folder / "data").iterdir()}


def listed(ds: Any) -> set[str]:
    return {file.path for fragment in ds.get_fragments() for file in fragment.metadata.files}


def test_few_rows_in_many_partitions_are_one_file_in_their_order(spark, tmp_path):
    ds = lk.write_dataset(frame(spark, 600, 40), str(tmp_path))
    assert len(ds.get_fragments()) == 1
    assert ds.to_table()["id"].to_pylist() == list(range(600))
    assert lance.dataset(tmp_path).to_table() == ds.to_table()
    # what was joined is gone
    assert files_of(tmp_path) == listed(ds)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row-ids"])
def test_a_merge_of_few_rows_adds_one_file(spark, tmp_path, stable):
    table = pa.table({"id": np.arange(600), "v": np.zeros(600, np.int64)})
    ds = lk.write_dataset(table, str(tmp_path), enable_stable_row_ids=stable)
    before = dict(zip(*ds.to_table(with_row_id=True).select(["id", "_rowid"]), strict=True))
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    result = merge.execute(frame(spark, 900, 30).where("id % 3 = 0"))
    assert (result["num_updated_rows"], result["num_inserted_rows"]) == (200, 100)
    assert len(ds.get_fragments()) == 2
    rows = ds.to_table(with_row_id=True).sort_by("id")
    expected = [2 * n if n % 3 == 0 else 0 for n in range(900) if n < 600 or n % 3 == 0]
    assert rows["v"].to_pylist() == expected
    if stable:
        now = dict(zip(*rows.select(["id", "_rowid"]), strict=True))
        assert {key: now[key] for key in before} == before
        assert len(set(now.values())) == 700
    assert lance.dataset(tmp_path).to_table().sort_by("id") == ds.to_table().sort_by("id")
    assert files_of(tmp_path) == listed(ds)


def test_a_large_partition_is_cut(spark, tmp_path):
    """A column's pages have 8 MiB: a file is as long as its last page at least."""
    rows = spark.range(0, 40_000, 1, 1)
    vectors = rows.selectExpr("id", "transform(sequence(1, 64), i -> rand()) AS vector")
    with lk.options(target_file_bytes=8 << 20):
        ds = lk.write_dataset(vectors, str(tmp_path))
    sizes = [file.file_size_bytes for f in ds.get_fragments() for file in f.metadata.files]
    assert len(sizes) >= 2
    assert max(sizes) < 17 << 20
    assert ds.to_table(columns=["id"])["id"].to_pylist() == list(range(40_000))


def test_zero_leaves_files_as_the_partitions_are(spark, tmp_path):
    with lk.options(target_file_bytes=0):
        ds = lk.write_dataset(frame(spark, 600, 3), str(tmp_path))
    assert [f.count_rows() for f in ds.get_fragments()] == [200, 200, 200]


def test_the_limits_of_the_caller_hold(spark, tmp_path):
    ds = lk.write_dataset(frame(spark, 400, 4), str(tmp_path), max_rows_per_file=250)
    assert [f.count_rows() for f in ds.get_fragments()] == [200, 200]


def test_spark_writes_of_the_source_are_joined_too(spark, tmp_path):
    lk.spark_session()
    frame(spark, 600, 40).write.format("lance").mode("append").save(str(tmp_path))
    ds = lk.dataset(str(tmp_path))
    assert len(ds.get_fragments()) == 1
    assert ds.to_table()["id"].to_pylist() == list(range(600))


def test_every_type_is_joined(spark, tmp_path):
    """Rows that are brought to Spark keep their types through two files."""
    table = pa.table(
        {
            "text": ["a", None, "c"] * 20,
            "words": pa.array([["x"], [], None] * 20),
            "point": pa.array([{"x": 1, "y": None}, None, {"x": 3, "y": "z"}] * 20),
            "vector": pa.array([[1.0, 2.0]] * 60, pa.list_(pa.float32(), 2)),
            "kind": pa.array(["p", "q", None] * 20).dictionary_encode(),
            "when": pa.array([1, None, 3] * 20, pa.timestamp("ns", "Europe/Zurich")),
        }
    )
    lk.write_dataset(table.slice(0, 30), str(tmp_path / "here"))
    with lk.options(engine="spark"):
        ds = lk.write_dataset(table, str(tmp_path / "there"), max_rows_per_file=1000)
    assert ds.to_table().cast(table.schema) == table


@pytest.mark.classic
def test_more_than_a_few_bytes_are_joined_by_tasks(spark, tmp_path):
    """The rows of a cluster do not pass through the driver."""
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    for rows, jobs in ((100_000, 1), (3_000_000, 2)):
        before = scheduler.numTotalJobs()
        frame = spark.range(0, rows, 1, 4).selectExpr("id", "rand() AS x")
        with lk.options(progress=False):
            ds = lk.write_dataset(frame, tmp_path / str(rows), max_rows_per_file=rows)
        assert (len(ds.get_fragments()), ds.count_rows()) == (1, rows)
        assert scheduler.numTotalJobs() - before == jobs
