"""Whole columns written anew: one DataReplacement, which both pylances read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    InvalidTypeError,
    PredicateError,
    RetriesExhaustedError,
    RetryableConflictError,
    SchemaMismatchError,
)

VERSIONS = ("2.0", "2.1", "2.2")


def table(rows: int = 40) -> pa.Table:
    number = range(rows)
    return pa.table(
        {
            "id": pa.array(number, pa.int64()),
            "x": pa.array((i % 7 for i in number), pa.int32()),
            "name": [f"row {i}" for i in number],
            "part": [{"a": i, "b": f"b{i}"} for i in number],
        }
    )


def make(where: Path | str, **settings: Any) -> lk.LanceDataset:
    ds = lk.write_dataset(table(), str(where), max_rows_per_file=15, **settings)
    ds.delete("id % 10 = 3")
    return ds


def double(batch: pa.RecordBatch) -> pa.Table:
    return pa.table({"x": pc.multiply(batch.column("x"), 2).cast(pa.int64())})


#: what gives x, and x itself, of the live rows of `make`
WAYS: dict[str, tuple[Any, Callable[[pa.Table], list[Any]]]] = {
    "sql": ({"x": "x * 2 + id"}, lambda t: [r["x"] * 2 + r["id"] for r in t.to_pylist()]),
    "function": (double, lambda t: [r["x"] * 2 for r in t.to_pylist()]),
    "rows": (pa.table({"x": np.arange(36)}), lambda _: list(range(36))),
    "two": ({"x": "id", "name": "upper(name)"}, lambda t: t["id"].to_pylist()),
}


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("way", WAYS)
def test_all_rows_get_new_values_and_pylance_reads_them(
    tmp_path: Path, way: str, version: str
) -> None:
    ds = make(tmp_path / "t", data_storage_version=version)
    before = ds.to_table()
    given, expected = WAYS[way]
    result = ds.replace_columns(given)
    assert result["num_rows_updated"] == 36
    assert (result.version, result.engine) == (3, "local")
    after = ds.to_table()
    assert after.schema == before.schema
    assert after["x"].to_pylist() == expected(before)
    kept = ["id", "part"] if way == "two" else ["id", "name", "part"]
    assert after.select(kept) == before.select(kept)
    transaction = ds.read_transaction(3)
    assert transaction is not None
    assert type(transaction.operation).__name__ == "DataReplacement"
    theirs = lance.dataset(str(tmp_path / "t"))
    assert theirs.to_table() == after
    cast(Any, theirs).validate()
    ds.validate()


def test_pylance_4_reads_it(tmp_path: Path, pylance4: Callable[..., Any]) -> None:
    ds = make(tmp_path / "t", data_storage_version="2.1")
    ds.replace_columns({"x": "x + 100", "part": "NULL"})
    ds.replace_columns({"x": "x + 100", "part": "NULL"})
    program = """
ds = lance.dataset(arguments["uri"])
ds.delete("id = 0")
result = [ds.to_table(columns=["x"])["x"].to_pylist(), ds.version]
"""
    rows, version = pylance4(program, uri=str(tmp_path / "t"))
    assert (rows, version) == (ds.to_table(filter="id <> 0")["x"].to_pylist(), 5)


def test_a_second_time_the_file_is_swapped(tmp_path: Path) -> None:
    ds = make(tmp_path / "t")
    ds.replace_columns({"x": "1"})
    assert {len(f.data_files()) for f in ds.get_fragments()} == {2}
    ds.replace_columns({"x": "2"})
    assert {len(f.data_files()) for f in ds.get_fragments()} == {2}
    assert ds.to_table()["x"].unique().to_pylist() == [2]
    assert ds.checkout_version(3).to_table()["x"].unique().to_pylist() == [1]


def test_no_file_stays_of_which_all_fields_are_replaced_or_dropped(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1], "gone": ["a"]}, tmp_path / "d")
    ds.add_columns({"k": "x + 1"})
    ds.drop_columns(["gone"])
    ds.replace_columns({"x": "x * 10"})
    reference = lance.dataset(str(tmp_path / "d"))
    reference.validate()
    assert reference.to_table().to_pylist() == [{"x": 10, "k": 2}]
    assert [list(f.fields) for f in reference.get_fragment(0).data_files()] == [[2], [0]]


def test_other_columns_are_not_read(tmp_path: Path) -> None:
    ds = make(tmp_path / "t")
    ds.add_columns({"wide": "name"})
    for fragment in ds.get_fragments():
        (tmp_path / "t/data" / fragment.data_files()[1].path).unlink()
    ds.replace_columns({"x": "id"})
    assert (
        ds.to_table(columns=["x"])["x"].to_pylist() == ds.to_table(columns=["id"])["id"].to_pylist()
    )


def test_row_versions_say_that_all_rows_changed(tmp_path: Path) -> None:
    ds = make(tmp_path / "t", enable_stable_row_ids=True)
    ids = ds.to_table(columns=["_rowid"])
    ds.replace_columns({"x": "0"})
    hidden = ["_row_created_at_version", "_row_last_updated_at_version"]
    found = ds.to_table(columns=["_rowid", *hidden])
    assert found.select(["_rowid"]) == ids
    assert [found[name].unique().to_pylist() for name in hidden] == [[1], [3]]
    assert lance.dataset(str(tmp_path / "t")).to_table(columns=["_rowid", *hidden]) == found


def test_an_index_on_the_column_is_pruned(tmp_path: Path) -> None:
    make(tmp_path / "t")
    lance.dataset(str(tmp_path / "t")).create_scalar_index("x", "BTREE")
    ds = lk.dataset(tmp_path / "t")
    ds.replace_columns({"x": "id"})
    theirs = lance.dataset(str(tmp_path / "t"))
    assert theirs.to_table(filter="x = 21")["id"].to_pylist() == [21]
    assert theirs.to_table(filter="x = 5")["id"].to_pylist() == [5]


def test_wrong_arguments_are_named_and_leave_nothing(tmp_path: Path) -> None:
    ds = make(tmp_path / "t")
    lk.write_dataset(pa.table({"k": [1, 2], "v": ["a", "b"]}), tmp_path / "key", primary_key="k")
    keyed = lk.dataset(tmp_path / "key")
    before = _files(tmp_path)
    wrong: list[tuple[Any, type[Exception], str]] = [
        ({"nope": "1"}, ColumnNotFoundError, "nope"),
        ({}, InvalidArgumentError, "No updates"),
        ({"x": {1}}, InvalidTypeError, "column 'x' must be"),
        ({"x": "y + 1"}, PredicateError, "no column 'y'"),
        ({"x": "name"}, PredicateError, "'row \\d+' as a scalar"),
        (pa.table({"x": [1]}), InvalidArgumentError, "fewer rows"),
        (pa.table({"x": range(50)}), InvalidArgumentError, "more rows"),
        (pa.table({"x": ["a"] * 36}), SchemaMismatchError, "x"),
        (5, InvalidTypeError, "builtins.int"),
        (lambda batch: pa.table({"x": [1]}), InvalidArgumentError, "1 rows for"),
        (lambda batch: {"nope": batch["x"]}, ColumnNotFoundError, "nope"),
    ]
    for given, kind, text in wrong:
        with pytest.raises(kind, match=text):
            ds.replace_columns(given)
    with pytest.raises(SchemaMismatchError, match="is not nullable"):
        keyed.replace_columns({"k": "NULL"})
    with pytest.raises(SchemaMismatchError, match="'k' are null"):
        keyed.replace_columns(lambda b: pa.table({"k": pa.nulls(b.num_rows, pa.int64())}))
    assert ds.version == 2
    assert _files(tmp_path) == before


def _files(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_over_rows_that_moved_it_is_worked_out_again(tmp_path: Path) -> None:
    ds = make(tmp_path / "t")
    late = lk.dataset(tmp_path / "t")
    ds.update({"x": "1000"}, where="id = 5")
    result = late.replace_columns({"x": "x + 1"})
    assert result.attempts == 2
    assert late.to_table(filter="id = 5")["x"].to_pylist() == [1001]
    again = lk.dataset(tmp_path / "t")
    late.update({"x": "1000"}, where="id = 6")
    with pytest.raises((RetriesExhaustedError, RetryableConflictError)):
        again.replace_columns(pa.table({"x": range(36)}))


def test_a_table_without_rows_gets_a_version(tmp_path: Path) -> None:
    ds = lk.write_dataset(table().slice(0, 0), tmp_path / "t")
    assert ds.replace_columns({"x": "1"})["num_rows_updated"] == 0
    assert lance.dataset(str(tmp_path / "t")).version == 2


@pytest.mark.spark
@pytest.mark.parametrize("way", ["sql", "function"])
def test_on_spark_it_gives_the_same(spark: Any, tmp_path: Path, way: str) -> None:
    made = {}
    for engine in ("local", "spark"):
        ds = make(tmp_path / engine)
        with lk.options(engine=engine):
            assert ds.replace_columns(WAYS[way][0]).engine == engine
        made[engine] = ds.to_table()
    assert made["local"] == made["spark"]
