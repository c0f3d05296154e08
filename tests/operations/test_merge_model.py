"""Merge-insert against a plain model: random tables and clauses, in this process."""

from __future__ import annotations

import gc
import itertools
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancekit as lk
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.merge_insert import check_clauses, dry_merge, merge_rows
from lancekit._pipeline.merge_plan import MergeClauses
from lancekit._pipeline.source import open_source
from lancekit.errors import (
    ColumnNotFoundError,
    DuplicateKeysError,
    InvalidArgumentError,
    MatchedRowsError,
    SchemaMismatchError,
)
from tests.support.merge_model import Case, cases, expected, same_rows

numbers = itertools.count()


def merged(ds, data, clauses):
    """Merge with clauses that the builder may not offer; return the result and the new version."""
    snapshot = ds._snapshot
    with open_source(data) as source:
        checked = check_clauses(snapshot.manifest.schema, clauses)
        landed, result = merge_rows(snapshot, source, checked, RetryPolicy())
    return result, lk.dataset(ds.uri, version=landed.version)


@pytest.mark.torture
def test_random_merges(whole):
    draw = given(cases(), st.booleans(), st.booleans())
    settings(max_examples=1000 if whole else 20)(draw(check_merge))()


def check_merge(case: Case, stable, spilled):
    ds = lk.write_dataset(
        case.target,
        f"memory://merge-model-{next(numbers)}",
        max_rows_per_file=case.file_rows,
        enable_stable_row_ids=stable,
    )
    ids = {}
    if stable:
        before = ds.to_table(with_row_id=True).to_pylist()
        ids = {row["_rowid"]: row["n"] for row in before}
    data = case.source.to_reader(3) if spilled else case.source
    with lk.options(source_memory_bytes=0 if spilled else 1 << 20):
        wanted = expected(case)
        if isinstance(wanted, type):
            with pytest.raises(wanted):
                merged(ds, data, case.clauses)
            return
        result, after = merged(ds, data, case.clauses)
    rows, counts = wanted
    assert same_rows(after.to_table(), rows)
    assert (*dict(result).values(), result.num_skipped_rows) == counts
    if stable:
        table = after.to_table(with_row_id=True)
        kept = {r["_rowid"] for r in table.to_pylist() if r["_rowid"] in ids}
        updated_or_kept = table.num_rows - counts[0]
        assert len(kept) == updated_or_kept


@pytest.mark.parametrize("clauses", [{"insert": True}, {"matched": "update", "insert": True}])
def test_a_dry_merge_writes_nothing(tmp_path, clauses):
    ds = lk.write_dataset(pa.table({"k": range(5), "v": range(5)}), tmp_path / "d")
    files = sorted(map(str, Path(ds.uri).rglob("*")))
    snapshot = ds._snapshot
    wanted = check_clauses(snapshot.manifest.schema, MergeClauses(on=("k",), **clauses))
    reader = pa.table({"k": [3, 4, 7], "v": [30, 40, 70]}).to_reader()
    with open_source(reader) as source:
        plan = dry_merge(snapshot, source, wanted)
        assert sorted(map(str, Path(ds.uri).rglob("*"))) == files
        _, result = merge_rows(snapshot, source, wanted, RetryPolicy())
    updates = 2 if wanted.matched == "update" else 0
    assert (plan.inserted, plan.updated, plan.deleted) == tuple(dict(result).values())
    assert plan.examples.column("_rowaddr").to_pylist() == [*[3, 4][:updates], None]
    assert plan.match.strategy == "driver"
    assert sum(len(m.rows) for m in plan.marked) == updates


def test_a_stream_is_spilled_and_removed(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    seen = []

    def batches(fail=False):
        for start in range(0, 1000, 100):
            seen.append(len(list(folder.iterdir())))
            if fail and start == 900:
                raise KeyboardInterrupt
            yield pa.record_batch({"k": np.arange(start, start + 100), "v": np.ones(100, int)})

    ds = lk.write_dataset(pa.table({"k": range(500), "v": range(500)}), tmp_path / "d")
    merge = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    with lk.options(source_memory_bytes=4000):
        result = merge.execute(batches())
        assert max(seen) == 1
        assert not list(folder.iterdir())
        assert dict(result) == {
            "num_inserted_rows": 500,
            "num_updated_rows": 500,
            "num_deleted_rows": 0,
        }
        with pytest.raises(KeyboardInterrupt):
            merge.execute(batches(fail=True))
        assert not list(folder.iterdir())
        source = open_source(batches())
        dry_merge(ds._snapshot, source, MergeClauses(on=("k",), insert=True))
        assert list(folder.iterdir())
        del source
        gc.collect()
    assert not list(folder.iterdir())


def test_a_dataset_and_its_scanner_are_sources(tmp_path):
    ds = lk.write_dataset(pa.table({"k": range(10), "v": [0] * 10}), tmp_path / "d")
    other = lk.write_dataset(pa.table({"k": range(5, 15), "v": [1] * 10}), tmp_path / "o")
    merge = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    with lk.options(source_memory_bytes=0):
        assert merge.execute(other).num_inserted_rows == 5
        assert merge.execute(other.scanner(filter="k < 7")).num_updated_rows == 2
        assert merge.execute(other.get_fragments()[0]).num_updated_rows == 10


def test_a_key_in_a_struct(tmp_path):
    def table(ids, values):
        return pa.table({"s": [None if i is None else {"id": i, "x": i} for i in ids], "v": values})

    ds = lk.write_dataset(table([1, 2, None], [1, 2, 3]), tmp_path / "d")
    merge = ds.merge_insert("s.id").when_matched_update_all().when_not_matched_insert_all()
    assert dict(merge.execute(table([2, 5, None], [20, 50, 60]))) == {
        "num_inserted_rows": 2,
        "num_updated_rows": 1,
        "num_deleted_rows": 0,
    }
    assert ds.to_table().column("v").to_pylist() == [1, 3, 20, 50, 60]
    with pytest.raises(ColumnNotFoundError, match=r"s\.nope"):
        ds.merge_insert("s.nope").when_matched_update_all().execute(table([1], [1]))


def test_which_of_several_rows_is_kept(tmp_path):
    source = pa.table({"k": [1, 2, 1, None, 1, None], "v": [5, 0, 9, 1, 9, 2]})

    def kept(**how):
        ds = lk.write_dataset(pa.table({"k": [1], "v": [0]}), f"memory://kept-{next(numbers)}")
        clauses = MergeClauses(on=("k",), matched="update", insert=True, **how)
        result, after = merged(ds, source, clauses)
        rows = after.to_table().to_pylist()
        assert result.num_skipped_rows == 2
        assert sum(row["k"] is None for row in rows) == 2
        return next(row["v"] for row in rows if row["k"] == 1)

    assert kept(dedupe="first") == 5
    assert kept(dedupe="last") == 9
    assert kept(dedupe_by="v") == 9
    ds = lk.write_dataset(pa.table({"k": [1], "v": [0]}), f"memory://kept-{next(numbers)}")
    refused = [
        ({"dedupe": "newest"}, InvalidArgumentError),
        ({"dedupe": "first", "dedupe_by": "v"}, InvalidArgumentError),
        ({"dedupe_by": "nope"}, ColumnNotFoundError),
        ({}, DuplicateKeysError),
    ]
    for how, kind in refused:
        with pytest.raises(kind):
            merged(ds, source, MergeClauses(on=("k",), insert=True, **how))
    clauses = MergeClauses(on=("k",), matched="update", dedupe_by="v")
    with pytest.raises(ColumnNotFoundError):
        merged(ds, source.select(["k"]), clauses)


def test_missing_columns_without_nulls_are_named():
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int64(), nullable=False)])
    uri = f"memory://missing-{next(numbers)}"
    ds = lk.write_dataset(pa.table({"k": [1], "v": [1]}, schema=schema), uri)
    with pytest.raises(SchemaMismatchError, match="'v'") as caught:
        ds.merge_insert("k").when_not_matched_insert_all().execute(pa.table({"k": [2]}))
    assert caught.value.context["missing"] == ["v"]
    clauses = MergeClauses(on=("k",), matched="delete")
    assert merged(ds, pa.table({"k": [1]}), clauses)[0].num_deleted_rows == 1


def test_a_match_that_is_forbidden(tmp_path):
    ds = lk.write_dataset(pa.table({"k": [1, 2]}), tmp_path / "d")
    merge = ds.merge_insert("k").when_matched_fail().when_not_matched_insert_all()
    with pytest.raises(MatchedRowsError):
        merge.execute(pa.table({"k": [2, 3]}))
    assert len(list((tmp_path / "d" / "data").iterdir())) == 1
