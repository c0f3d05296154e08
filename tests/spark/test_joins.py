"""Spark knows how large a scan is: it sends small tables to all machines, and no large ones."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stdout

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._spark.frames.scan import sized_range

pytestmark = pytest.mark.spark


def plan_of(frame) -> str:
    with redirect_stdout(io.StringIO()) as said:
        frame.explain()
    return said.getvalue()


@pytest.fixture(autouse=True)
def up_to_a_megabyte(spark):
    """Tables of up to this size are sent to all machines."""
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "1m")
    yield
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    rows = pa.table({"id": np.arange(100_000), "x": np.random.default_rng(1).random(100_000)})
    return lk.write_dataset(rows, str(tmp_path_factory.mktemp("joins") / "large"))


@pytest.fixture
def others(spark, tmp_path):
    path = str(tmp_path / "others")
    spark.range(1_200_000).selectExpr("id", "rand() AS y").write.parquet(path)
    return spark.read.parquet(path)


def test_a_large_table_is_sent_nowhere(spark, large, others):
    joined = large.to_spark().join(others, "id")
    assert "SortMergeJoin" in plan_of(joined)
    assert joined.count() == 100_000


def test_a_small_table_is_broadcast(spark, tmp_path, others):
    small = lk.write_dataset(pa.table({"id": range(10), "x": range(10)}), str(tmp_path / "small"))
    joined = small.to_spark().join(others, "id")
    assert "BroadcastHashJoin" in plan_of(joined)
    assert joined.count() == 10


def test_of_long_texts_few_rows_are_large(spark, tmp_path, others):
    texts = pa.table({"id": range(20), "s": [os.urandom(100_000).hex() for _ in range(20)]})
    ds = lk.write_dataset(texts, str(tmp_path / "texts"))
    scan = ds.to_spark()
    assert "SortMergeJoin" in plan_of(scan.join(others, "id"))
    assert [row.id for row in scan.select("id").collect()] == list(range(20))


def test_views_and_sql_know_it_too(spark, large, others):
    large.create_temp_view("large_scan")
    others.createOrReplaceTempView("others")
    both = spark.sql("SELECT sum(x) FROM large_scan JOIN others USING (id)")
    assert "SortMergeJoin" in plan_of(both)


@pytest.mark.cover
@pytest.mark.parametrize("threshold", ["10485760b", "1m", "-1", "64MB"])
@pytest.mark.parametrize("size", [0, 100, 1 << 20, 1 << 40])
def test_each_task_has_one_number(spark, threshold, size):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
    numbers, each = sized_range(spark, 5, size)
    assert sorted(row.id // each for row in numbers.collect()) == [0, 1, 2, 3, 4]
    assert numbers.mapInArrow(lambda batches: batches, "id long").count() == 5
