"""Categories with keys of 8 bits on Spark, of which rows have more than one file can count."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

import lancekit as lk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_KIND = pa.dictionary(pa.int8(), pa.large_string())


def _rows(numbers: range) -> pd.DataFrame:
    names = pd.Categorical([f"n{number}" for number in numbers])
    return pd.DataFrame({"id": numbers, "name": names, "v": 0})


def _table(folder: Path, **options: Any) -> lk.LanceDataset:
    """300 names in three files."""
    ds = lk.write_dataset(_rows(range(100)), str(folder), **options)
    for start in (100, 200):
        ds.insert(_rows(range(start, start + 100)))
    return ds


def _check(ds: lk.LanceDataset, rows: int) -> None:
    found = ds.to_table(["id", "name"])
    assert found["name"].to_pylist() == [f"n{number}" for number in found["id"].to_pylist()]
    assert (found.num_rows, found.schema.field("name").type) == (rows, _KIND)
    ds.validate(deep=True)


def test_rows_that_are_written_and_read(spark: SparkSession, tmp_path: Path) -> None:
    ds = _table(tmp_path / "t")
    many = _rows(range(1000, 1400))
    few = _rows(range(2000, 2003)).assign(
        name=lambda rows: rows["name"].cat.add_categories([f"m{n}" for n in range(300)])
    )
    with lk.options(engine="spark"):
        for rows in (many, few):
            lk.write_dataset(rows, ds.uri, mode="append")
        ds.checkout_latest()
        _check(ds, 703)
        ds.update({"name": "concat('n', CAST(id AS string))", "v": "1"})
        _check(ds, 703)
        copy = lk.write_dataset(ds, str(tmp_path / "copy"))
    _check(copy, 703)
    assert ds.to_spark().count() == 703
    assert sorted(row.name for row in ds.to_spark().collect()) == sorted(
        ds.to_table()["name"].to_pylist()
    )
    ds.to_spark().write.format("lance").mode("append").save(str(tmp_path / "copy"))
    copy.checkout_latest()
    _check(copy, 1406)


@pytest.mark.cover
@pytest.mark.parametrize("strategy", ["driver", "closure", "file", "broadcast", "shuffle"])
@pytest.mark.parametrize("stable", [False, True])
def test_merges(spark: SparkSession, tmp_path: Path, strategy: str, stable: bool) -> None:
    ds = _table(tmp_path / "t", enable_stable_row_ids=stable)
    with lk.options(engine="spark", merge_match=strategy):
        merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        result = merge.execute(_rows(range(50, 450)))
        assert (result["num_updated_rows"], result["num_inserted_rows"]) == (250, 150)
        _check(ds, 450)
        # updated rows have the names that they had
        ds.merge_insert("id").when_matched_update_all().execute(
            pd.DataFrame({"id": range(0, 450, 2), "v": 2})
        )
        _check(ds, 450)
        assert ds.count_rows("v = 2") == 225
        columns = ds.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns")
        columns.execute(_rows(range(0, 450, 3)).drop(columns="v"))
        _check(ds, 450)


def test_columns_are_joined(spark: SparkSession, tmp_path: Path) -> None:
    ds = _table(tmp_path / "t")
    rows = _rows(range(300)).rename(columns={"name": "n"}).drop(columns="v")
    table = pa.Table.from_pandas(rows, preserve_index=False)
    numbers = range(0, 300, 100)
    parts = [table["n"][start : start + 100].combine_chunks() for start in numbers]
    narrow = [
        pa.array(part.to_pylist(), pa.large_string()).dictionary_encode().cast(_KIND)
        for part in parts
    ]
    ds.delete("id % 10 = 4")
    with lk.options(engine="spark"):
        ds.merge(table.set_column(1, "n", pa.chunked_array(narrow)), "id")
    assert ds.schema.field("n").type == _KIND
    assert ds.count_rows("n = name") == 270
    ds.validate(deep=True)
