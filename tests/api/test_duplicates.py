"""Rows that share a key: counted when they are written, and shown afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import (
    ColumnNotFoundError,
    DuplicateKeysError,
    InvalidArgumentError,
    MergeConflictError,
)


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
    assert caught.value.hint == 'Pass them: ds.duplicates(["id"]).'
    with pytest.raises(InvalidArgumentError, match="cannot be a key"):
        ds.duplicates("l")
    with pytest.raises(ColumnNotFoundError):
        ds.duplicates("nosuch")


def two_rows_of_a_key(
    name: str, *, stable: bool = False
) -> tuple[lk.LanceDataset, lk.LanceDataset]:
    ds = lk.write_dataset(
        {"id": [1, 1, 2], "v": [1, 2, 3]},
        f"memory://{name}-{stable}",
        primary_key="id",
        primary_key_check="ignore",
        enable_stable_row_ids=stable,
    )
    return ds, ds.create_branch("b")


def rows_of(ds: lk.LanceDataset) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in ds.to_table().to_pylist())


def test_a_refused_branch_merge_leads_there() -> None:
    ds, branch = two_rows_of_a_key("refused")
    branch.update({"v": "v + 10"}, where="id = 1")
    ds.update({"v": "v + 20"}, where="id = 1")
    with pytest.raises(InvalidArgumentError, match=r"share their key \(id\)") as caught:
        ds.branches.merge("b", conflicts="theirs")
    assert caught.value.hint.startswith(
        "ds.duplicates(['id']) shows such rows of a version. Leave at most one row of each such "
        "key on both sides; or "
    )
    for side in (ds, branch):
        _, doubled = side.duplicates(["id"]).to_table()["_rowid"].to_pylist()
        side.delete(f"_rowid = {doubled}")
        assert side.duplicates().rows == 0
    with pytest.raises(MergeConflictError):  # nobody can tell which row of the base each was
        ds.branches.merge("b")
    ds.branches.merge("b", conflicts="theirs")
    assert rows_of(ds) == [(1, 11), (2, 3)]
    branch.update({"v": "12"}, where="id = 1")
    ds.branches.merge("b")
    assert rows_of(ds) == [(1, 12), (2, 3)]


@pytest.mark.parametrize(("side", "left"), [("ours", [(1, 2)]), ("theirs", [(1, 11)])])
def test_a_row_that_a_side_kept_conflicts_with_one_that_the_other_changed(
    side: str, left: list[tuple[int, int]]
) -> None:
    ds, branch = two_rows_of_a_key(f"kept-{side}")
    branch.update({"v": "v + 10"}, where="id = 1")
    branch.delete("v = 12")
    ds.delete("v = 1")
    with pytest.raises(MergeConflictError):
        ds.branches.merge("b")
    ds.branches.merge("b", conflicts=side)
    assert rows_of(ds) == [*left, (2, 3)]


def test_a_side_that_left_the_key_alone_takes_the_row_of_the_other() -> None:
    ds, branch = two_rows_of_a_key("alone")
    ds.update({"v": "4"}, where="id = 2")
    branch.update({"v": "v + 10"}, where="id = 1")
    branch.delete("v = 12")
    ds.branches.merge("b")
    assert rows_of(ds) == [(1, 11), (2, 4)]


@pytest.mark.parametrize(("side", "left"), [("ours", [(1, 2)]), ("theirs", [(1, 1)])])
@pytest.mark.parametrize("stable", [False, True])
def test_sides_that_kept_another_row_conflict(
    stable: bool, side: str, left: list[tuple[int, int]]
) -> None:
    ds, branch = two_rows_of_a_key(f"apart-{side}", stable=stable)
    branch.delete("v = 2")
    ds.delete("v = 1")
    with pytest.raises(MergeConflictError):  # else no row of the key would be left
        ds.branches.merge("b")
    ds.branches.merge("b", conflicts=side)
    assert rows_of(ds) == [*left, (2, 3)]


@pytest.mark.parametrize("stable", [False, True])
def test_sides_that_kept_another_of_two_equal_rows_keep_one(stable: bool) -> None:
    ds, _ = two_rows_of_a_key("equal", stable=stable)
    ds.update({"v": "2"}, where="v = 1")
    branch = ds.create_branch("equal")
    for side, at in ((ds, 0), (branch, 1)):
        side.delete(f"_rowid = {side.duplicates(['id']).to_table()['_rowid'][at].as_py()}")
    ds.branches.merge("equal")
    assert rows_of(ds) == [(1, 2), (2, 3)]


@pytest.mark.parametrize(("side", "left"), [("ours", [(1, 9)]), ("theirs", [(1, 11)])])
def test_a_row_told_by_its_id_conflicts_with_one_that_replaced_it(
    side: str, left: list[tuple[int, int]]
) -> None:
    ds, branch = two_rows_of_a_key(f"ids-{side}", stable=True)
    branch.update({"v": "11"}, where="v = 1")
    branch.delete("v = 2")
    ds.delete("id = 1")
    ds.insert({"id": [1], "v": [9]})
    with pytest.raises(MergeConflictError):
        ds.branches.merge("b")
    ds.branches.merge("b", conflicts=side)
    assert rows_of(ds) == [*left, (2, 3)]


@pytest.mark.parametrize(("side", "left"), [("ours", []), ("theirs", [(1, 11)])])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_side_without_a_row_of_the_key(
    reverse: bool, side: str, left: list[tuple[int, int]]
) -> None:
    ds, branch = two_rows_of_a_key(f"none-{reverse}-{side}")
    empty, other = (branch, ds) if reverse else (ds, branch)
    other.update({"v": "v + 10"}, where="id = 1")
    other.delete("v = 12")
    empty.delete("id = 1")
    with pytest.raises(MergeConflictError) as caught:
        ds.branches.merge("b")
    (row,) = caught.value.context["conflicts"].sample()
    assert (row.kind, row.key) == ("update/delete" if reverse else "delete/update", {"id": 1})
    if reverse:
        side = {"ours": "theirs", "theirs": "ours"}[side]
    ds.branches.merge("b", conflicts=side)
    assert rows_of(ds) == [*left, (2, 3)]
    other.delete("id = 1")
    ds.branches.merge("b")
    assert rows_of(ds) == [(2, 3)]


@pytest.mark.parametrize("reverse", [False, True])
def test_values_of_a_new_column_are_not_lost(reverse: bool) -> None:
    ds, branch = two_rows_of_a_key(f"column-{reverse}")
    wide, other = (branch, ds) if reverse else (ds, branch)
    other.update({"v": "v + 10"}, where="id = 1")
    wide.add_columns({"x": "id * 100"})
    with pytest.raises(InvalidArgumentError, match="share their key"):
        ds.branches.merge("b")
    other.delete("v = 12")
    wide.delete("v = 2")
    ds.branches.merge("b", conflicts="ours" if reverse else "theirs")
    assert rows_of(ds) == [(1, 11, 100), (2, 3, 200)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_new_columns_do_not_settle_rows_that_one_side_alone_changed(
    side: str, reverse: bool
) -> None:
    rows = {"id": [1, 1, 2], "v": [1, 2, 3]}
    ds = lk.write_dataset(rows, f"memory://settled-{side}-{reverse}")
    branch = ds.create_branch("b")
    wide, other = (branch, ds) if reverse else (ds, branch)
    other.update({"v": "12"}, where="v = 2")
    wide.add_columns({"x": "id * 100"})
    with pytest.raises(InvalidArgumentError, match="share their key"):
        ds.branches.merge("b", on="id", conflicts=side)


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_that_came_have_nulls_in_new_columns(reverse: bool) -> None:
    ds, branch = two_rows_of_a_key(f"came-{reverse}")
    wide, other = (branch, ds) if reverse else (ds, branch)
    lk.write_dataset({"id": [7, 7], "v": [1, 2]}, other, mode="append", primary_key_check="ignore")
    wide.add_columns({"x": "v * 100"})
    ds.branches.merge("b")
    rows = [(1, 1, 100), (1, 2, 200), (2, 3, 300), (7, 1, None), (7, 2, None)]
    assert rows_of(ds) == rows


def test_a_check_that_nobody_knows() -> None:
    with pytest.raises(InvalidArgumentError, match=r"primary_key_check must be .* got 'x'"):
        lk.write_dataset({"id": [1]}, "memory://x", primary_key_check="x")
