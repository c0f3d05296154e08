"""Blame names the version that last changed a row, as the versions themselves say."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import ColumnNotFoundError, InvalidArgumentError, PredicateError
from tests.support.row_stories import Story, story


def check(told: Story) -> None:
    ds = lk.dataset(told.path)
    name = told.names[ds.version]["id"]
    found = ds.blame()
    assert found.select(ds.schema.names) == ds.to_table()
    expected = {key: told.last_change(key) for key in told.rows(ds.version)}
    assert (
        dict(zip(*(found[n].to_pylist() for n in (name, "_changed_in")), strict=True)) == expected
    )
    commits = {v.version: v for v in ds.versions()}
    for row in found.to_pylist():
        commit = commits.get(row["_changed_in"])
        facts = (row["_changed_at"], row["_changed_by"], row["_changed_message"])
        assert facts == (
            (None, None, None)
            if commit is None
            else (commit.timestamp, commit.operation, commit.message)
        )


@pytest.mark.torture
@pytest.mark.parametrize("stable", [False, True])
def test_of_random_histories(tmp_path: Path, stable: bool, whole: bool) -> None:
    for seed in range(200 if whole else 2):
        check(story(tmp_path / f"t{seed}", seed, 14, stable=stable, clean=seed % 2 == 0))


def test_some_rows_and_some_columns(tmp_path: Path) -> None:
    rows = {"id": [1, 2, 3], "v": [1, 2, 3], "w": [1, 2, 3]}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id")
    ds.update({"v": "9"}, where="id = 1")
    ds.update({"w": "9"}, where="id > 1")
    ds.alter_columns({"path": "w", "name": "x"})
    ds.optimize.compact_files()
    assert ds.blame(columns=["id", "v"])["_changed_in"].to_pylist() == [2, 1, 1]
    assert ds.blame(columns=["x"])["_changed_in"].to_pylist() == [1, 3, 3]
    found = ds.blame("v = 9 OR x = 9", ["x", "id"])
    assert found.column_names == [
        *("x", "id", "_changed_in", "_changed_branch", "_changed_at", "_changed_by"),
        *("_changed_message", "_changed_from"),
    ]
    assert found.sort_by("id")["_changed_in"].to_pylist() == [1, 3, 3]
    assert ds.blame("id > 99").num_rows == 0
    with pytest.raises(ColumnNotFoundError):
        ds.blame(columns=["nope"])
    with pytest.raises(PredicateError):
        ds.blame("nope > 1")
    ds.add_columns({"_changed_at": "1"})
    with pytest.raises(InvalidArgumentError, match="'_changed_at' clashes with a column"):
        ds.blame()


def test_on_a_branch_and_over_blobs(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), lk.blob_field("b")])
    rows = pa.table([pa.array([1, 2]), lk.blob_array([b"one", b"two"])], schema=schema)
    ds = lk.write_dataset(
        rows, tmp_path / "t", data_storage_version="2.2", enable_stable_row_ids=True
    )
    branch = ds.create_branch("side", 1)
    branch.update({"id": "3"}, where="id = 2")
    branch.optimize.compact_files()
    assert branch.blame(columns=["id"]).to_pydict()["_changed_in"] == [1, 2]
    found = branch.blame()
    assert found["_changed_in"].to_pylist() == [1, 2]
    assert found["_changed_branch"].to_pylist() == ["main", "side"]
    clone = branch.shallow_clone(tmp_path / "c", branch.version)
    clone.delete("id = 3")
    assert clone.blame()["_changed_in"].to_pylist() == [1]
