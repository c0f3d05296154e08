"""Nested columns from every kind of input, appended, merged and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError, SchemaMismatchError, UnsupportedTypeError

STRUCTS = [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, None]


def batches() -> Iterator[pa.RecordBatch]:
    for n in range(3):
        yield pa.record_batch({"l": pa.array([[n], None]), "s": pa.array([{"a": n}, None])})


NO_NESTED = {"a": 2, "l": None, "s": None}
INPUTS: dict[str, Any] = {
    "pandas": lambda: pd.DataFrame(
        {
            "l": [[1, 2], None, []],
            "s": STRUCTS,
            "v": [np.array([1.0, 2.0]), np.array([3.0, 4.0]), None],
            "c": pd.Categorical(["a", "b", None]),
            "ls": [[{"a": [1, 2]}], [], None],
            "arrow": pd.Series([[1], None, []], dtype=pd.ArrowDtype(pa.list_(pa.int8()))),
        }
    ),
    "polars": lambda: pl.DataFrame(
        {
            "l": [[1, 2], None, []],
            "s": STRUCTS,
            "v": pl.Series([[1.0, 2.0], [3.0, 4.0], None], dtype=pl.Array(pl.Float32, 2)),
            "c": pl.Series(["a", "b", None], dtype=pl.Categorical),
            "e": pl.Series(["a", "b", None], dtype=pl.Enum(["a", "b"])),
            "ls": [[{"q": 1}], [], None],
        }
    ),
    "columns": lambda: {
        "l": [[1, 2], None],
        "s": [{"a": 1}, None],
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
    },
    "rows": lambda: [{"a": 1, "l": [1], "s": {"x": {"y": [1, 2]}}}, NO_NESTED],
    "batches": batches,
    "arrow": lambda: pa.table(
        {
            "d": pa.array(["a", None, "b"]).dictionary_encode(),
            "ds": pa.StructArray.from_arrays(
                [pa.array(["a", "b", "a"]).dictionary_encode()], ["d"]
            ),
            "lm": pa.array(
                [[[("k", [1])]], [None], None], pa.list_(pa.map_(pa.string(), pa.list_(pa.int32())))
            ),
            # last: the reference cannot read what comes after it
            "e": pa.array([{}, {}, {}], pa.struct([])),
        }
    ),
    # alone: the reference cannot read it together with another column
    "structs of a fixed number": lambda: pa.table(
        {"f": pa.array([[{"a": 1}, {"a": 2}], None], pa.list_(pa.struct([("a", pa.int8())]), 2))}
    ),
    "empty": lambda: pa.table(
        {
            "l": pa.array([], pa.list_(pa.struct([("a", pa.int8())]))),
            "m": pa.array([], pa.map_(pa.string(), pa.int8())),
        }
    ),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_every_input(tmp_path: Path, kind: str) -> None:
    make = INPUTS[kind]
    ds = lk.write_dataset(make(), tmp_path / "ours")
    theirs = lance.dataset(tmp_path / "ours")
    found = ds.to_table()
    assert found.num_rows == (6 if kind == "batches" else theirs.count_rows())
    assert theirs.to_table().to_pylist() == found.to_pylist()
    if kind not in ("columns", "rows"):  # which the reference does not take in this form
        options = {"schema": ds.schema} if kind == "batches" else {}
        written = lance.write_dataset(make(), tmp_path / "theirs", **options)
        assert written.schema == ds.schema
        assert lk.dataset(tmp_path / "theirs").to_table().to_pylist() == found.to_pylist()


BASE = pa.table(
    {
        "id": [1],
        "s": pa.array([{"a": 1, "b": "x"}], pa.struct([("a", pa.int32()), ("b", pa.string())])),
        "l": pa.array([[1]], pa.list_(pa.int32())),
        "v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
        "m": pa.array([[("k", {"p": 1})]], pa.map_(pa.string(), pa.struct([("p", pa.int32())]))),
    }
)


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    return lk.write_dataset(BASE, tmp_path / "d")


def rows(ds: lk.LanceDataset) -> list[dict[str, Any]]:
    found = ds.to_table().sort_by("id").to_pylist()
    assert lance.dataset(ds.uri).to_table().sort_by("id").to_pylist() == found
    return found


def test_appends_are_cast(ds: lk.LanceDataset) -> None:
    wide = pa.map_(pa.large_string(), pa.struct([("p", pa.int64())]))
    ds.insert(
        {
            "id": [2],
            "s": [{"b": "y", "a": 5}],
            "l": pa.array([[7, 8]], pa.large_list(pa.int64())),
            "v": [[3.0, 4.0]],
            "m": pa.array([[("z", {"p": 2})]], wide),
        }
    )
    ds.insert(pl.DataFrame({"id": [3], "s": [{"b": "z", "a": 6}], "l": [[9]]}))
    ds.insert(pd.DataFrame({"id": [4], "s": [{"a": 7, "b": None}], "v": [np.array([5.0, 6.0])]}))
    _, second, third, fourth = rows(ds)
    assert second == {
        "id": 2, "s": {"a": 5, "b": "y"}, "l": [7, 8], "v": [3.0, 4.0], "m": [("z", {"p": 2})],
    }  # fmt: skip
    assert third == {"id": 3, "s": {"a": 6, "b": "z"}, "l": [9], "v": None, "m": None}
    assert fourth == {"id": 4, "s": {"a": 7, "b": None}, "l": None, "v": [5.0, 6.0], "m": None}


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("s", {"b": "y", "a": 2**40}, "does not fit int32 exactly"),
        ("s", {"b": "y", "c": 5}, "in the rows"),
        ("s", {"a": 1}, "in the rows"),
        ("v", [1.0, 2.0, 3.0], "has 3 elements, not 2"),
        ("l", "x", "string in the rows"),
    ],
)
def test_what_does_not_fit_is_named(
    ds: lk.LanceDataset, column: str, value: Any, problem: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=problem) as raised:
        ds.insert({"id": [5], column: [value]})
    assert column in str(raised.value)
    assert ds.count_rows() == 1


def test_merges_and_deletes(ds: lk.LanceDataset) -> None:
    new = {
        "id": [1, 9],
        "s": [{"a": 100, "b": "m"}, None],
        "l": [None, []],
        "v": [[9.0, 9.0], None],
    }
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    assert merge.execute(new).num_inserted_rows == 1
    first, last = rows(ds)
    assert first == {
        "id": 1, "s": {"a": 100, "b": "m"}, "l": None, "v": [9.0, 9.0], "m": [("k", {"p": 1})],
    }  # fmt: skip
    assert last == {"id": 9, "s": None, "l": [], "v": None, "m": None}
    when = ds.merge_insert("id").when_matched_update_all("source.s.a > target.s.a")
    changed = when.execute({"id": [1, 9], "s": [{"a": 101, "b": "mm"}, {"a": 0, "b": "no"}]})
    assert changed.num_updated_rows == 1
    assert rows(ds)[0]["s"] == {"a": 101, "b": "mm"}
    by_source = ds.merge_insert("id").when_not_matched_by_source_delete("s IS NULL")
    by_source.when_matched_update_all().execute(ds.to_table().slice(0, 0))
    assert [row["id"] for row in rows(ds)] == [1]
    ds.insert(BASE)
    ds.delete("s.a = 101 OR array_has(l, 8)")
    assert [row["l"] for row in rows(ds)] == [[1]]
    (batch,) = ds.sql("SELECT s['a'] AS a FROM dataset").build().to_batch_records()
    assert batch.to_pydict() == {"a": [1]}
    lk.write_dataset(BASE.select(["s"]), ds, mode="overwrite")
    assert lance.dataset(ds.uri).to_table().equals(BASE.select(["s"]))


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'s' of type struct.* cannot be a key"):
        lk.write_dataset(BASE, tmp_path / "key", primary_key="s")
    for version in ("2.0", "2.1"):
        with pytest.raises(UnsupportedTypeError, match=r"'m'.*map.*version"):
            lk.write_dataset(BASE, tmp_path / version, data_storage_version=version)
    nulls = pa.table({"s": pa.array([{"a": 1}, None])})
    ds = lk.write_dataset(nulls, tmp_path / "two", data_storage_version="2.1")
    assert ds.to_table().equals(nulls)
    interval = pa.table({"i": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(UnsupportedTypeError, match="month_day_nano"):
        lk.write_dataset(interval, tmp_path / "interval")
