"""Constants beside timestamps: no constant decides the unit of a column."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lancekit as lk
from lancekit.errors import PredicateError

#: nanoseconds since 1970
COUNTS = [0, 1, 999, 1000]
EPOCH = "TIMESTAMP '1970-01-01 00:00:00'"


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    return lk.write_dataset(
        pa.table(
            {
                "id": pa.array(range(4), pa.int64()),
                "ns": pa.array(COUNTS, pa.timestamp("ns")),
                "zoned": pa.array(COUNTS, pa.timestamp("ns", "UTC")),
                "s": pa.array(range(4), pa.timestamp("s")),
                "items": pa.array([[count] for count in COUNTS], pa.list_(pa.timestamp("ns"))),
                "day": pa.array([0, 1, 2, 2932896], pa.date32()),
            }
        ),
        str(tmp_path / "d"),
    )


def ids(ds: lk.LanceDataset, text: str) -> list[int]:
    return list(ds.to_table(["id"], filter=text)["id"].to_pylist())


CASES = {
    f"ns > {EPOCH}": [1, 2, 3],
    f"{EPOCH} < ns": [1, 2, 3],
    f"ns <= {EPOCH}": [0],
    f"ns = {EPOCH}": [0],
    f"ns <> {EPOCH}": [1, 2, 3],
    f"NOT ns > {EPOCH}": [0],
    f"ns IN ({EPOCH})": [0],
    f"ns IN ({EPOCH}, TIMESTAMP '1970-01-01 00:00:00.000001')": [0, 3],
    f"ns = {EPOCH} OR ns = TIMESTAMP '1970-01-01 00:00:00.000001'": [0, 3],
    f"ns BETWEEN {EPOCH} AND TIMESTAMP '1970-01-01 00:00:00.0000005'": [0, 1],
    f"ns IS DISTINCT FROM {EPOCH}": [1, 2, 3],
    f"array_has(items, {EPOCH})": [0],
    f"coalesce(ns, {EPOCH}) > {EPOCH}": [1, 2, 3],
    "ns > CAST('1970-01-01' AS timestamp)": [1, 2, 3],
    "ns > CAST('1970-01-01' AS timestamp(0))": [1, 2, 3],
    "ns > '1970-01-01'": [1, 2, 3],
    "ns > DATE '1970-01-01'": [1, 2, 3],
    f"zoned > {EPOCH}": [1, 2, 3],
    "zoned > TIMESTAMP '1970-01-01 00:00:00Z'": [1, 2, 3],
    # nine digits
    "ns = TIMESTAMP '1970-01-01 00:00:00.000001000'": [3],
    "ns = TIMESTAMP '1970-01-01 00:00:00.000001001'": [],
    "ns = TIMESTAMP '1970-01-01 00:00:00.000000999'": [2],
    "zoned >= TIMESTAMP '1970-01-01 00:00:00.000000999Z'": [2, 3],
    # a constant between two values of the column's unit
    "s < TIMESTAMP '1970-01-01 00:00:00.5'": [0],
    "s < '1970-01-01 00:00:00.5'": [0],
    "s = TIMESTAMP '1970-01-01 00:00:00.5'": [],
    "s IN (TIMESTAMP '1970-01-01 00:00:00.5', TIMESTAMP '1970-01-01 00:00:01')": [1],
    "day < TIMESTAMP '1970-01-02 00:00:00.000000001'": [0, 1],
    # beyond the range of nanoseconds
    "ns < TIMESTAMP '9999-12-31 00:00:00'": [0, 1, 2, 3],
    "ns < '9999-12-31'": [0, 1, 2, 3],
    "ns > DATE '9999-12-31'": [],
    "ns IN (TIMESTAMP '9999-12-31 00:00:00')": [],
    "ns <= now()": [0, 1, 2, 3],
    "day > now()": [3],
}


@pytest.mark.parametrize("text", CASES)
def test_a_constant_is_compared_exactly(ds: lk.LanceDataset, text: str) -> None:
    assert ids(ds, text) == CASES[text]


@pytest.mark.parametrize("kind", ["BTREE", "ZONEMAP", "BITMAP"])
def test_an_index_gives_the_same_rows(ds: lk.LanceDataset, kind: str) -> None:
    for column in ("ns", "zoned", "s"):
        ds.create_scalar_index(column, kind)
    assert {text: ids(ds, text) for text in CASES} == CASES


def test_a_delete_keeps_the_rows_between_two_microseconds(ds: lk.LanceDataset) -> None:
    assert ds.delete(f"ns <= {EPOCH}").num_deleted_rows == 1
    assert ids(ds, "true") == [1, 2, 3]


def test_an_update_stores_nine_digits(ds: lk.LanceDataset) -> None:
    ds.update({"ns": "TIMESTAMP '1970-01-01 00:00:00.000001001'"}, where="id = 0")
    stored = ds.to_table(["ns"], filter="id = 0")["ns"].cast(pa.int64())
    assert stored.to_pylist() == [1001]


def test_a_moment_that_no_unit_holds_is_an_error(ds: lk.LanceDataset) -> None:
    with pytest.raises(PredicateError, match="is not a timestamp"):
        ids(ds, "s < TIMESTAMP '9999-12-31 23:59:59.9999999'")


def test_statements_compare_exactly(ds: lk.LanceDataset) -> None:
    for text in (f"ns > {EPOCH}", f"NOT ns <= {EPOCH}", f"ns IS DISTINCT FROM {EPOCH}"):
        rows = lk.sql(f"SELECT id FROM t WHERE {text}", t=ds).to_table()
        assert sorted(rows["id"].to_pylist()) == [1, 2, 3]
    lk.sql(f"DELETE FROM t WHERE ns <= {EPOCH}", t=ds)
    assert ids(ds, "true") == [1, 2, 3]


@pytest.mark.spark
def test_statements_compare_exactly_on_spark(ds: lk.LanceDataset, spark: SparkSession) -> None:
    with lk.options(engine="spark"):
        test_statements_compare_exactly(ds)


def test_statements_refuse_what_is_finer_than_a_microsecond(ds: lk.LanceDataset) -> None:
    with pytest.raises(PredicateError, match="is not a value of timestamp"):
        lk.sql("SELECT id FROM t WHERE ns = TIMESTAMP '1970-01-01 00:00:00.000001001'", t=ds)
    with pytest.raises(PredicateError, match="not a SQL value"):
        lk.sql("SELECT id FROM t WHERE ns = $at", t=ds, at=pd.Timestamp(1001))
