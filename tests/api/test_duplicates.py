"""Rows that share a key: counted when they are written, and shown afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import ColumnNotFoundError, DuplicateKeysError, InvalidArgumentError


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_duplicates_of_one_write_are_counted_with_an_example(tmp_path: Path, mode: str) -> None:
    uri = str(tmp_path / "d")
    if mode != "create":
        lk.write_dataset({"id": [1]}, uri, primary_key="id")
    rows = {"id": [5, 7, 5, 8, 5, 7]}
    key = "id" if mode == "create" else None
    told = r"5 of 6 rows share their primary key \(id\) .* more than one row has id = [57]"
    with pytest.raises(DuplicateKeysError, match=told) as caught:
        lk.write_dataset(rows, uri, mode=mode, primary_key=key, primary_key_check="error")
    assert caught.value.context["keys"] in ([(5,)], [(7,)])
    assert not list(tmp_path.glob("d/data/*.lance")) or mode != "create"
    with pytest.warns(UserWarning, match=told) as warned:
        ds = lk.write_dataset(rows, uri, mode=mode, primary_key=key)
    assert warned[0].filename == __file__
    assert "ds.duplicates()" in str(warned[0].message)
    lk.write_dataset(rows, ds, mode="append", primary_key_check="ignore")


def test_streams_and_several_files_are_looked_at_as_one_write(tmp_path: Path) -> None:
    schema = pa.schema({"a": pa.string(), "b": pa.int8(), "x": pa.int64()})

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(5):
            rows = {"a": ["p", f"q{number}"], "b": [number, 1], "x": [number, number]}
            yield pa.record_batch(rows, schema)
        yield pa.record_batch({"a": ["q3"], "b": [1], "x": [9]}, schema)

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.warns(UserWarning, match="2 of 11 rows .* a = 'q3', b = 1"):
        ds = lk.write_dataset(
            reader, str(tmp_path / "d"), primary_key=["a", "b"], max_rows_per_file=3
        )
    found = ds.duplicates()
    assert (found.on, found.rows, found.keys, found.total) == (("a", "b"), 2, 1, 11)
    table = found.to_table()
    assert table.select(["a", "b", "x"]).to_pylist() == [
        {"a": "q3", "b": 1, "x": 3},
        {"a": "q3", "b": 1, "x": 9},
    ]
    ds.delete(f"_rowid = {table['_rowid'][1].as_py()}")
    assert ds.duplicates().rows == 0
    assert ds.duplicates().to_table().num_rows == 0


def test_keys_that_are_no_number_are_the_same_key() -> None:
    rows = {"id": [float("nan"), 1.0, float("nan")]}
    with pytest.warns(UserWarning, match="2 of 3 rows share their primary key .* id = nan"):
        ds = lk.write_dataset(rows, "memory://nan-keys", primary_key="id")
    assert ds.duplicates().rows == 2


def test_rows_without_duplicates_are_written_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = {"id": ["a", "b"], "x": [1, 1]}
        ds = lk.write_dataset(rows, "memory://unique", primary_key="id")
        ds.insert(rows)  # rows of the dataset are not looked at
        lk.write_dataset({"x": [1, 1]}, "memory://keyless")
    assert ds.duplicates().rows == 4


def test_columns_that_are_named() -> None:
    rows = {
        "x": [1.5, float("nan"), float("nan"), None, None],
        "s": [{"k": 1}, {"k": 2}, None, {"k": 1}, {"k": 3}],
        "l": [[1]] * 5,
    }
    ds = lk.write_dataset(rows, "memory://named")
    assert ds.duplicates("x").rows == 2  # a null equals no other
    assert ds.duplicates(["s.k"]).to_table(limit=1)["x"].to_pylist() == [1.5]
    assert ds.duplicates(["s.k"]).to_pandas()["_rowid"].tolist() == [0, 3]
    with pytest.raises(InvalidArgumentError, match="no primary key") as caught:
        ds.duplicates()
    assert caught.value.hint == 'Name them: ds.duplicates(["id"]).'
    with pytest.raises(InvalidArgumentError, match="cannot be a key"):
        ds.duplicates("l")
    with pytest.raises(ColumnNotFoundError):
        ds.duplicates("nosuch")


def test_a_refused_branch_merge_leads_there() -> None:
    ds = lk.write_dataset(
        {"id": [1, 1, 2], "v": [1, 2, 3]},
        "memory://refused",
        primary_key="id",
        primary_key_check="ignore",
    )
    ds.create_branch("b").update({"v": "v + 1"})
    ds.update({"v": "v + 2"})
    with pytest.raises(InvalidArgumentError, match=r"share their key \(id\)") as caught:
        ds.branches.merge("b")
    assert "ds.duplicates(['id'])" in caught.value.hint


def test_a_check_that_nobody_knows() -> None:
    with pytest.raises(InvalidArgumentError, match="primary_key_check is 'x'"):
        lk.write_dataset({"id": [1]}, "memory://x", primary_key_check="x")
