"""Which operations run on Spark: jobs are counted, and a page of the reference has the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._spark.session.preflight import check_workers

pytestmark = [pytest.mark.spark, pytest.mark.classic]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "spark-details.md"
ROWS = 1000

Case = tuple[str, Callable[[Any, Any, Any], object], str]


def table(start: int, stop: int) -> pa.Table:
    vectors = np.random.default_rng(1).random((stop - start, 4), np.float32)
    return pa.table(
        {
            "id": np.arange(start, stop),
            "v": np.arange(start, stop),
            "t": [f"row number {n}" for n in range(start, stop)],
            "e": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 4),
        }
    )


def upsert(ds: lk.LanceDataset) -> lk.MergeInsertBuilder:
    return ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()


def matched(strategy: str) -> Callable[[Any, Any, Any], object]:
    def call(ds: Any, rows: Any, at: Any) -> object:
        with lk.options(merge_match=strategy):
            return upsert(ds).execute(rows)

    return call


def branch(ds: Any, rows: Any, at: Any) -> Any:
    other = ds.create_branch("b")
    other.delete("id = 1")
    ds.update({"v": "0"}, where="id = 2")
    return ds


def optimized(ds: Any, rows: Any, at: Any) -> Any:
    ds.create_scalar_index("id", "BTREE")
    return lk.write_dataset(table(ROWS, ROWS + 100), ds, mode="append")


#: the call as the page writes it, the call, and what stays in this process
CASES: list[Case] = [
    ("`lk.write_dataset(df, uri)`", lambda ds, rows, at: lk.write_dataset(rows, at), "the commit"),
    (
        '`df.write.format("lance")`',
        lambda ds, rows, at: rows.write.format("lance").mode("append").save(at),
        "nothing: Spark's own process commits",
    ),
    ("`ds.to_spark()`, an action", lambda ds, rows, at: ds.to_spark().count(), "the plan"),
    (
        '`spark.read.format("lance")`, an action',
        lambda ds, rows, at: rows.sparkSession.read.format("lance").load(ds.uri).count(),
        "nothing",
    ),
    (
        "`lk.sql(...)` on Spark",
        lambda ds, rows, at: lk.sql("SELECT sum(v) FROM t", t=ds).to_table(),
        "the plan",
    ),
    (
        "`merge_insert`, keys looked up in this process",
        matched("driver"),
        "the source's keys; the target's key column is read here",
    ),
    ("`merge_insert`, keys sent to tasks", matched("closure"), "the source's keys"),
    ("`merge_insert`, joined by Spark", matched("shuffle"), "bitmaps of updated rows"),
    (
        "`merge_insert(...).preview(df)`",
        lambda ds, rows, at: upsert(ds).preview(rows),
        "as its merge",
    ),
    (
        "`merge_insert(...).explain(df)`",
        lambda ds, rows, at: upsert(ds).explain(rows),
        "the plan",
    ),
    ("`ds.delete(...)`", lambda ds, rows, at: ds.delete("id % 2 = 1"), "deletion files"),
    (
        "`ds.update(...)`",
        lambda ds, rows, at: ds.update({"v": "v + 1"}, where="id % 2 = 1"),
        "deletion files",
    ),
    ("`ds.add_columns(...)`", lambda ds, rows, at: ds.add_columns({"w": "v + 1"}), "the commit"),
    (
        "`ds.alter_columns(...)` with another type",
        lambda ds, rows, at: ds.alter_columns({"path": "v", "data_type": pa.int32()}),
        "the commit",
    ),
    (
        '`ds.merge(df, "id")`: columns by a key',
        lambda ds, rows, at: ds.merge(rows.selectExpr("id", "v AS w"), "id"),
        "the commit",
    ),
    (
        "`ds.optimize.compact_files()`",
        lambda ds, rows, at: ds.optimize.compact_files(),
        "the plan, and the commit",
    ),
    (
        '`ds.create_scalar_index(..., "BTREE")`',
        lambda ds, rows, at: ds.create_scalar_index("id", "BTREE"),
        "the commit",
    ),
    (
        '`ds.create_scalar_index(..., "INVERTED")`',
        lambda ds, rows, at: ds.create_scalar_index("t", "INVERTED"),
        "the commit",
    ),
    (
        '`ds.create_index(..., "IVF_FLAT")`',
        lambda ds, rows, at: ds.create_index("e", "IVF_FLAT", num_partitions=2),
        "the model, of a sample of at most 256 MiB",
    ),
    ("`ds.diff(...)`", lambda ds, rows, at: _diffed(ds), "which rows are the same"),
    ("`ds.validate()`", lambda ds, rows, at: ds.validate(), "manifests and footers"),
    ("`ds.validate(deep=True)`", lambda ds, rows, at: ds.validate(deep=True), "the answers"),
    (
        "`ds.optimize.optimize_indices()`",
        lambda ds, rows, at: ds.optimize.optimize_indices(),
        "everything",
    ),
    (
        "`ds.branches.merge(...)`",
        lambda ds, rows, at: ds.branches.merge("b", on="id"),
        "everything",
    ),
    ("`ds.restore()`", lambda ds, rows, at: ds.checkout_version(1).restore(), "everything"),
    ("`ds.to_table(filter=...)`", lambda ds, rows, at: ds.to_table(filter="v = 1"), "everything"),
    (
        "`ds.to_table(nearest=...)`",
        lambda ds, rows, at: ds.to_table(nearest={"column": "e", "q": [0.0] * 4, "k": 3}),
        "everything",
    ),
    (
        "`ds.cleanup_old_versions()`",
        lambda ds, rows, at: ds.cleanup_old_versions(),
        "everything",
    ),
]
PREPARED = {
    "`ds.branches.merge(...)`": branch,
    "`ds.optimize.optimize_indices()`": optimized,
}


def _diffed(ds: Any) -> object:
    ds.update({"v": "v + 1"}, where="id = 3")
    return ds.diff(ds.version - 1, ds.version).to_table()


def _jobs(spark: Any) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def test_the_table_of_the_page(spark: Any, tmp_path: Path) -> None:
    """Of 1,000 rows in four fragments, by ``engine="spark"``."""
    check_workers(spark)
    lines = ["| call | jobs | in this process |", "| --- | --- | --- |"]
    for number, (name, call, stays) in enumerate(CASES):
        ds = lk.write_dataset(table(0, ROWS), tmp_path / f"d{number}", max_rows_per_file=ROWS // 4)
        ds = PREPARED.get(name, lambda ds, *_: ds)(ds, None, None)
        rows = spark.range(ROWS - 100, ROWS + 100, 1, 4).selectExpr("id", "id AS v")
        before = _jobs(spark)
        with lk.options(engine="spark", progress=False):
            call(ds, rows, str(tmp_path / f"n{number}"))
        lines.append(f"| {name} | {_jobs(spark) - before} | {stays} |")
    made = "\n".join(lines)
    assert made in PAGE.read_text(), f"{PAGE} is to have:\n\n{made}\n"
