"""The guard of inserted keys: in every configuration, two merges never insert one key."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.key_filter import BloomKeyFilter, ExactKeySet
from lancekit.errors import CommitConflictError, DuplicateKeysError

KEYS: dict[str, pa.Array] = {
    "int64": pa.array([1, 2, 3], pa.int64()),
    "int16": pa.array([1, 2, 3], pa.int16()),
    "uint32": pa.array([1, 2, 3], pa.uint32()),
    "bool": pa.array([True, False, True]),
    "float": pa.array([1.5, -0.0, float("nan")]),
    "string": pa.array(["a", "", "c"]),
    "binary": pa.array([b"a", b"", b"c"]),
    "date": pa.array([dt.date(2020, 1, n) for n in (1, 2, 3)]),
    "timestamp": pa.array([dt.datetime(2020, 1, n) for n in (1, 2, 3)], pa.timestamp("us", "UTC")),
    "decimal": pa.array([Decimal("1.5"), Decimal("-2.25"), Decimal("3")], pa.decimal128(9, 2)),
}


def upsert(merge: Any) -> Any:
    return merge.when_matched_update_all().when_not_matched_insert_all()


def insert(merge: Any) -> Any:
    return merge.when_not_matched_insert_all()


def guard_of(ds: Any) -> Any:
    return lk.dataset(ds.uri).read_transaction(ds.version).operation.inserted_rows


@pytest.mark.parametrize("clauses", [upsert, insert])
@pytest.mark.parametrize("kind", KEYS)
def test_every_type_of_key(tmp_path: Path, kind: str, clauses: Callable[[Any], Any]) -> None:
    values = KEYS[kind]
    first = pa.table({"k": values.slice(0, 1), "v": [0]})
    new = pa.table({"k": values.slice(1, 1), "v": [1]})
    ds = lk.write_dataset(first, tmp_path / "d", primary_key="k")
    stale = lk.dataset(ds.uri)
    clauses(ds.merge_insert()).execute(new)
    assert guard_of(ds) is not None
    result = clauses(stale.merge_insert()).execute(new)
    assert result.num_inserted_rows == 0
    assert result.attempts == 2
    assert lance.dataset(ds.uri).count_rows() == 2


ROWS = pa.table({"a": [1, 1], "b": ["x", "y"], "c": [1, 2]})
MORE = pa.table({"a": [1, 2], "b": ["y", "z"], "c": [3, 4]})


@pytest.mark.parametrize("on", [["a", "b"], ["b", "a"], ["b"], ["c"], ["b", "a", "c"]], ids=str)
@pytest.mark.parametrize("indexed", [False, True])
def test_every_choice_of_columns(tmp_path: Path, on: list[str], indexed: bool) -> None:
    """The filter holds the primary key in its own order, whatever the merge is on."""
    ds = lk.write_dataset(ROWS, tmp_path / "d", primary_key=["a", "b"])
    if indexed:
        reference = lance.dataset(ds.uri)
        reference.create_scalar_index("a", "BTREE")
        reference.create_scalar_index("b", "BITMAP")
        ds.checkout_latest()
    stale = lk.dataset(ds.uri)
    upsert(ds.merge_insert(on)).execute(MORE)
    guard = guard_of(ds)
    assert guard.field_ids == (0, 1)
    result = upsert(stale.merge_insert(on)).execute(MORE)
    assert (result.attempts, result.num_inserted_rows) == (2, 0)
    assert result.key_guard == ("exact" if isinstance(guard, ExactKeySet) else "bloom")


def test_nothing_new_means_no_guard(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d", primary_key=["a", "b"])
    ds.merge_insert().when_matched_update_all().execute(MORE)
    assert guard_of(ds) is None
    ds.merge_insert().when_matched_delete().execute(MORE.select(["a", "b"]))
    assert guard_of(ds) is None
    plain = lk.write_dataset(ROWS, tmp_path / "plain")
    assert upsert(plain.merge_insert("c")).execute(MORE).key_guard is None


def test_an_update_on_other_columns_may_bring_a_key_in(tmp_path: Path) -> None:
    ds = lk.write_dataset({"k": [1, 2], "mail": ["a", "b"]}, tmp_path / "d", primary_key="k")
    stale = lk.dataset(ds.uri)
    ds.merge_insert("mail").when_matched_update_all().execute({"k": [7], "mail": ["a"]})
    assert guard_of(ds) is not None
    result = insert(stale.merge_insert("k")).execute({"k": [7], "mail": ["new"]})
    assert (result.attempts, result.num_inserted_rows) == (2, 0)
    with pytest.raises(DuplicateKeysError, match="k = 9"):
        upsert(ds.merge_insert("mail")).execute({"k": [9, 9], "mail": ["x", "y"]})


def test_a_key_inside_a_struct(tmp_path: Path) -> None:
    mark = {"lance-schema:unenforced-primary-key": "true"}
    struct = pa.struct([pa.field("id", pa.int64(), False, mark), pa.field("t", pa.string())])
    schema = pa.schema([pa.field("s", struct, False), pa.field("n", pa.int64())])

    def table(*ids: int) -> pa.Table:
        return pa.table([[{"id": i, "t": "x"} for i in ids], list(ids)], schema=schema)

    ds = lk.write_dataset(table(1), tmp_path / "d")
    stale = lk.dataset(ds.uri)
    upsert(ds.merge_insert("n")).execute(table(2))
    assert guard_of(ds).field_ids == (1,)
    result = upsert(stale.merge_insert("n")).execute(table(2, 3))
    assert (result.attempts, result.num_inserted_rows, result.num_updated_rows) == (2, 1, 1)


def test_a_merge_committed_later_is_still_guarded(tmp_path: Path) -> None:
    ds = lk.write_dataset({"k": [1], "v": ["old"]}, tmp_path / "d", primary_key="k")
    merge = upsert(ds.merge_insert())
    source = pa.table({"k": [1, 2], "v": ["new", "new"]}).to_reader()
    transaction, counts = merge.execute_uncommitted_batches(source)
    assert counts == {"num_inserted_rows": 1, "num_updated_rows": 1, "num_deleted_rows": 0}
    assert (ds.version, ds.count_rows()) == (1, 1)
    assert isinstance(transaction.operation.inserted_rows, BloomKeyFilter)
    again, _ = merge.execute_uncommitted({"k": [2, 3], "v": ["late", "late"]})
    other, _ = merge.execute_uncommitted({"k": [4], "v": ["late"]})
    landed = lk.LanceDataset.commit(ds, transaction)
    assert landed.to_table().to_pylist() == [{"k": 1, "v": "new"}, {"k": 2, "v": "new"}]
    with pytest.raises(CommitConflictError) as caught:
        lk.LanceDataset.commit(ds, again)
    assert caught.value.retryable
    assert lk.LanceDataset.commit(ds, other).count_rows() == 3
    assert lance.dataset(ds.uri).count_rows() == 3


@pytest.mark.spark
def test_spark_guards_the_same_keys(tmp_path: Path, spark: Any) -> None:
    source = pa.table({"a": [1, 2, 3], "b": ["x", "z", "z"], "c": [1, 9, 2]})
    guards = []
    for name, data in (("local", source), ("spark", spark.createDataFrame(source.to_pandas()))):
        ds = lk.write_dataset(ROWS, tmp_path / name, primary_key=["a", "b"])
        upsert(ds.merge_insert("c")).execute(data)
        guards.append(guard_of(ds))
    assert guards[0] is not None
    assert guards[0] == guards[1]
