"""However a merge on Spark finds its keys, it does what the plain model says."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.merge_insert import check_clauses, dry_merge, merge_rows
from lancekit._pipeline import probe_ranges as hashed_keys
from lancekit._pipeline.merge_plan import MergeClauses
from lancekit._pipeline.source import open_source
from lancekit._spark import source as source_module
from lancekit._spark.jobs.client import is_connect
from lancekit._spark.merge import cached_source
from lancekit.errors import DuplicateKeysError, InvalidArgumentError, MatchedRowsError
from tests.support.merge_model import Case, cases, expected, same_rows
from tests.system.test_equivalence import runs

pytestmark = pytest.mark.spark

STRATEGIES = ["driver", "closure", "file", "broadcast", "shuffle"]
numbers = itertools.count()


def on_spark(ds, data, clauses, *, dry=False):
    snapshot = ds._snapshot
    checked = check_clauses(snapshot.manifest.schema, clauses)
    with open_source(data) as source:
        assert source.engine == "spark"
        if dry:
            return dry_merge(snapshot, source, checked), ds
        landed, result = merge_rows(snapshot, source, checked, RetryPolicy())
    return result, lk.dataset(ds.uri, version=landed.version)


@pytest.mark.torture
def test_random_merges(spark, tmp_path, whole):
    tried = set()

    def merge(case, strategy, stable):
        tried.add(strategy)
        check_merge(tmp_path, case, strategy, stable=stable)

    draw = given(cases(), st.sampled_from(STRATEGIES), st.booleans())
    runs(100 if whole else 3)(draw(merge))()
    assert not whole or tried == set(STRATEGIES)


def check_merge(tmp_path, case: Case, strategy, *, stable):
    ds = lk.write_dataset(
        case.target,
        tmp_path / str(next(numbers)),
        max_rows_per_file=case.file_rows,
        enable_stable_row_ids=stable,
    )
    before = ds.to_table(with_row_id=True).column("_rowid").to_pylist()
    with lk.options(engine="spark", merge_match=strategy):
        wanted = expected(case)
        joined = strategy in {"broadcast", "shuffle"}
        if joined and case.clauses.dedupe is not None:
            wanted = InvalidArgumentError  # no order is left after a join
        if isinstance(wanted, type):
            with pytest.raises(wanted):
                on_spark(ds, case.source, case.clauses)
            assert same_rows(lk.dataset(ds.uri).to_table(), case.target.to_pylist())
            return
        plan, _ = on_spark(ds, case.source, case.clauses, dry=True)
        result, after = on_spark(ds, case.source, case.clauses)
    rows, counts = wanted
    assert same_rows(after.to_table(), rows)
    assert tuple(dict(result).values()) == counts[:3]
    assert (plan.inserted, plan.updated, plan.deleted) == counts[:3]
    assert plan.examples.num_rows == counts[0] + counts[1]
    assert result.match.strategy == strategy
    if not joined:
        assert result.num_skipped_rows == counts[3]
    if stable:
        ids = after.to_table(with_row_id=True).column("_rowid").to_pylist()
        assert len(set(ids) & set(before)) == len(ids) - counts[0]
    files = {path.name for path in (Path(ds.uri) / "data").glob("*")}
    assert files == {
        file.path
        for version in (1, after.version)
        for fragment in lk.dataset(ds.uri, version=version).get_fragments()
        for file in fragment.metadata.files
    }


def persistent(spark):
    """Return the numbers of what Spark keeps; over Connect nobody tells."""
    if is_connect(spark):
        return set()
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet().toArray())


def upsert(ds):
    return ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()


@pytest.mark.parametrize("strategy", ["driver", "closure", "broadcast", "shuffle"])
def test_a_random_source_is_one_and_the_same(spark, tmp_path, strategy):
    """Its keys and its values are those that were read first, in every pass."""
    before = persistent(spark)
    ds = lk.write_dataset(pa.table({"k": range(1000), "v": [-1] * 1000}), tmp_path / "d")
    frame = spark.range(0, 400, 1, 4).selectExpr(
        "id * 1000 + cast(rand() * 900 as long) as k", "cast(rand() * 1e9 as long) as v"
    )
    with lk.options(merge_match=strategy):
        result = upsert(ds).execute(frame)
    assert result.num_inserted_rows + result.num_updated_rows == 400
    table = ds.to_table()
    assert table.num_rows == 1000 + result.num_inserted_rows
    assert np.count_nonzero(table.column("v").to_numpy() >= 0) == 400
    assert persistent(spark) <= before


def test_nothing_is_kept_after_an_error(spark, tmp_path):
    before = persistent(spark)
    ds = lk.write_dataset(pa.table({"k": [1, 2]}), tmp_path / "d")
    twice = spark.range(10).selectExpr("id % 9 as k")
    with pytest.raises(DuplicateKeysError, match="k = 0"):
        upsert(ds).execute(twice)
    with lk.options(merge_match="file"), pytest.raises(MatchedRowsError, match="k = 1"):
        ds.merge_insert("k").when_matched_fail().execute(spark.range(2).toDF("k"))
    assert persistent(spark) <= before
    assert len(list((Path(ds.uri) / "data").iterdir())) == 1


@pytest.mark.parametrize("strategy", ["closure", "shuffle"])
def test_the_newest_row_of_a_key(spark, tmp_path, strategy):
    ds = lk.write_dataset(pa.table({"k": [1], "v": [0]}), tmp_path / "d")
    frame = spark.createDataFrame(
        [(1, 5), (2, 7), (1, 9), (2, 6), (None, 1), (None, 1)], "k long, v long"
    )
    with lk.options(merge_match=strategy):
        clauses = MergeClauses(on=("k",), matched="update", insert=True, dedupe_by="v")
        _, after = on_spark(ds, frame, clauses)
        rows = after.to_table().to_pylist()
        assert sorted((row["k"] or 0, row["v"]) for row in rows) == [(0, 1), (0, 1), (1, 9), (2, 7)]
        unordered = MergeClauses(on=("k",), matched="update", dedupe="last")
        with pytest.raises(InvalidArgumentError, match="dedupe_by"):
            on_spark(ds, frame, unordered)


def test_the_targets_other_columns_are_not_read(spark, tmp_path):
    """Data files of a column that the merge has no use for may be missing."""
    ds = lk.write_dataset(pa.table({"k": range(100), "v": [0] * 100}), tmp_path / "d")
    kept = set((Path(ds.uri) / "data").iterdir())
    ds.add_columns({"wide": "'x'"})
    for path in set((Path(ds.uri) / "data").iterdir()) - kept:
        path.unlink()
    frame = spark.range(90, 110).selectExpr("id as k", "id as v", "'y' as wide")
    for strategy in STRATEGIES:
        with lk.options(merge_match=strategy):
            merge = ds.merge_insert("k").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(frame)
    assert ds.count_rows() == 110


def test_wide_updates_read_the_target_piece_by_piece(spark, tmp_path):
    """Rows that need columns of the target go to the tasks that read them, in several pieces."""
    rows = 60_000
    ds = lk.write_dataset(
        pa.table({"k": np.arange(rows), "v": np.zeros(rows, int), "w": np.arange(rows)}),
        tmp_path / "d",
        max_rows_per_file=14_000,
    )
    frame = spark.range(1, rows + 100).selectExpr("id as k", "1 as v")
    with lk.options(merge_match="closure"):
        result = upsert(ds).execute(frame)
    assert dict(result)["num_updated_rows"] == rows - 1
    table = ds.to_table().sort_by("k")
    assert table.column("w").to_pylist() == [*range(rows), *[None] * 100]
    assert table.column("v").to_pylist() == [0, *[1] * (rows + 99)]


@pytest.mark.parametrize("strategy", ["closure", "file"])
def test_many_keys_of_several_columns_go_by_their_numbers(spark, tmp_path, monkeypatch, strategy):
    monkeypatch.setattr(hashed_keys, "_LEAST_KEYS", 1)
    old = pa.table({"k": [f"row {n}" for n in range(500)], "x": [0.5, None] * 250, "v": [0] * 500})
    new = pa.table({"k": ["row 4", "row 6", "row 7", "x"], "x": [0.5, 1, None, 0.5], "v": [1] * 4})
    ds = lk.write_dataset(old, tmp_path / "d", max_rows_per_file=70)
    with lk.options(engine="spark", merge_match=strategy):
        merge = ds.merge_insert(["k", "x"]).when_matched_update_all()
        result = merge.when_not_matched_insert_all().execute(new)
    assert dict(result) == {"num_inserted_rows": 3, "num_updated_rows": 1, "num_deleted_rows": 0}
    added = [row for row in ds.to_table().to_pylist() if row["v"]]
    assert sorted(map(repr, added)) == sorted(map(repr, new.to_pylist()))


@pytest.mark.cover
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("columns", [False, True])
def test_a_merge_into_no_rows_at_all(spark, tmp_path, strategy, columns):
    ds = lk.write_dataset({"id": [1, 2], "v": ["a", "b"], "w": [0, 0]}, tmp_path / "t")
    ds.truncate_table()
    assert ds.get_fragments() == []
    clauses = MergeClauses(on=("id",), matched="update", rewrite_columns=columns)
    with lk.options(merge_match=strategy):
        frame = spark.createDataFrame(pa.table({"id": [2, 3], "v": ["x", "y"]}))
        result, ds = on_spark(ds, frame, clauses)
    assert (result.num_updated_rows, result.num_inserted_rows, ds.count_rows()) == (0, 0, 0)


def test_keys_that_spark_joins_do_not_come_here(spark, tmp_path, monkeypatch):
    """Each partition has few of them, and all have more than may travel."""
    found = []

    def surveyed(*arguments):
        found.append(cached_source.survey(*arguments))
        return found[-1]

    monkeypatch.setattr(source_module, "survey", surveyed)
    monkeypatch.setattr(cached_source, "WIDE_BYTES", 1000)
    monkeypatch.setattr(source_module, "CLOSURE_BYTES", 1000)
    ds = lk.write_dataset(pa.table({"k": range(1000), "v": [0] * 1000}), tmp_path / "d")
    result = upsert(ds).execute(spark.range(0, 2000, 1, 4).selectExpr("id as k", "id as v"))
    assert (result.num_updated_rows, result.num_inserted_rows) == (1000, 1000)
    assert {few for summary in found for few in summary._few} == {None}
