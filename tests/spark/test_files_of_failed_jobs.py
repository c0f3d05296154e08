"""A job that fails leaves no file, whoever's code it was that failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import EngineError, LancekitError
from tests.support.patience import until

pytestmark = pytest.mark.spark


def data_files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "data").glob("*")}


def no_good(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import time

    for batch in batches:
        if 17 in batch.column(0).to_pylist():
            time.sleep(1)  # the others are done by then
            raise ValueError("row 17 is no good")
        yield batch


@pytest.fixture
def rows(spark):
    frame = spark.range(0, 400, 1, 4).selectExpr("id", "id AS v")
    return frame.mapInArrow(no_good, "id long, v long")


def test_of_a_write(rows, tmp_path):
    with pytest.raises(EngineError, match=r"row 17 is no good.*\n  in no_good, line 28 of "):
        lk.write_dataset(rows, str(tmp_path))
    until(lambda: not data_files(tmp_path))


def test_of_a_merge(rows, tmp_path):
    ds = lk.write_dataset(pa.table({"id": range(200), "v": range(200)}), str(tmp_path))
    before = data_files(tmp_path)
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(EngineError, match=r"row 17 is no good.*\n  in no_good, line 28 of "):
        merge.execute(rows)
    until(lambda: data_files(tmp_path) == before)
    assert ds.count_rows() == 200


def test_of_columns_by_a_key(rows, tmp_path):
    table = pa.table({"id": range(400)})
    ds = lk.write_dataset(table, str(tmp_path), max_rows_per_file=100)
    before = data_files(tmp_path)
    with pytest.raises(EngineError, match=r"row 17 is no good.*\n  in no_good, line 28 of "):
        ds.merge(rows, "id")
    until(lambda: data_files(tmp_path) == before)


def test_of_a_write_of_sparks(rows, tmp_path):
    lk.spark_session()
    with pytest.raises(Exception, match="row 17 is no good"):
        rows.write.format("lance").mode("append").save(str(tmp_path))
    until(lambda: not data_files(tmp_path))


def test_of_values_that_do_not_fit(spark, tmp_path):
    lk.write_dataset(pa.table({"id": pa.array([1], pa.int8())}), str(tmp_path))
    before = data_files(tmp_path)
    with pytest.raises(LancekitError):
        lk.write_dataset(spark.range(0, 400, 1, 4), str(tmp_path), mode="append")
    until(lambda: data_files(tmp_path) == before)
