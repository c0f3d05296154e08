"""Cleanups keep the versions that the next merge of two branches compares with."""

from __future__ import annotations

import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import RefConflictError, UnsupportedFeatureError
from tests.support.faults import Faults, injected

NOW = timedelta(0)


def versions(ds: lk.LanceDataset) -> list[int]:
    return [entry["version"] for entry in ds.versions()]


def merged_once(folder: Path) -> tuple[lk.LanceDataset, lk.LanceDataset]:
    """Return main and a branch whose version 2 was merged, and which has a version 3."""
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, folder / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.update({"n": "10"}, where="id = 1")
    ds.update({"n": "20"}, where="id = 2")
    ds.branches.merge("exp")
    exp.update({"n": "11"}, where="id = 1")
    return ds, exp


def test_a_cleanup_keeps_the_base_of_the_next_merge(tmp_path: Path) -> None:
    ds, exp = merged_once(tmp_path)
    told = exp.explain_cleanup_old_versions(NOW, delete_unverified=True)
    assert told.warnings == ["the next merge of main and exp keeps version 2, their merge base"]
    assert exp.cleanup_old_versions(NOW, delete_unverified=True).old_versions == 1
    assert versions(exp) == [2, 3]
    ds.branches.merge("exp")
    assert sorted(ds.to_table()["n"].to_pylist()) == [11, 20]
    # the next merge compares with version 3
    exp.update({"n": "12"}, where="id = 1")
    assert exp.cleanup_old_versions(NOW).old_versions == 1
    assert versions(exp) == [3, 4]
    ds.branches.merge("exp")
    assert lance.dataset(ds.uri).to_table(filter="id = 1")["n"].to_pylist() == [12]


def test_a_base_that_is_named(tmp_path: Path) -> None:
    ds, exp = merged_once(tmp_path)
    for call in (exp.cleanup_old_versions, exp.explain_cleanup_old_versions):
        with pytest.raises(RefConflictError, match=r"Version 2 of exp .* merge base of main"):
            call(versions=[1, 2])
    assert versions(exp) == [1, 2, 3]
    assert exp.cleanup_old_versions(versions=[1]).old_versions == 1
    ds.branches.merge("exp")
    assert exp.update({"n": "12"}, where="id = 1")
    assert exp.cleanup_old_versions(versions=[2]).old_versions == 1


def test_a_branch_that_needs_a_newer_lancekit_keeps_all(tmp_path: Path) -> None:
    """A newer release may have merged it in a way that this one does not know."""
    ds, exp = merged_once(tmp_path)
    ds.update({"n": "21"}, where="id = 2")
    exp.update_config({"lancekit.requires": "merge-keys octopus"})
    kept = versions(ds)
    for call in (ds.cleanup_old_versions, ds.explain_cleanup_old_versions):
        with pytest.raises(UnsupportedFeatureError, match=r"'octopus', .* of exp of"):
            call(NOW)
    assert versions(ds) == kept
    exp.update_config({"lancekit.requires": None})
    assert ds.cleanup_old_versions(NOW).old_versions == 2


def test_automatic_cleanups_keep_it_too(tmp_path: Path) -> None:
    ds, exp = merged_once(tmp_path)
    exp.update_config(
        {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.retain_versions": "1"}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(4):
            exp.update({"n": str(100 + number)}, where="id = 1")
    assert 2 in versions(exp)
    assert len(versions(exp)) <= 4
    ds.branches.merge("exp")
    assert lance.dataset(ds.uri).to_table(filter="id = 1")["n"].to_pylist() == [103]


def test_a_base_of_two_other_branches(tmp_path: Path) -> None:
    """Both merged a version of main, and neither is main."""
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    one, other = ds.create_branch("one"), ds.create_branch("other")
    ds.update({"n": "20"}, where="id = 2")  # version 2, the base of the two branches
    for line in (one, other):
        line.branches.rebase(line.branch or "")
        line.checkout_latest()
    ds.update({"n": "30"}, where="id = 2")
    ds.update({"n": "40"}, where="id = 2")
    one.update({"n": "3"}, where="id = 1")
    ds.cleanup_old_versions(NOW)
    assert versions(ds) == [1, 2, 4]
    assert other.branches.compare("one").base == ("main", 2)
    other.update({"n": "2"}, where="id = 2")
    other.branches.merge("one", into="other")
    other.checkout_latest()
    assert sorted(other.to_table()["n"].to_pylist()) == [2, 3]


def test_branches_that_were_never_merged_keep_where_they_forked(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "n": [1]}, tmp_path / "t", primary_key="id")
    for number in range(3):
        ds.create_branch(f"b{number}").update({"n": str(number)})
    for number in range(5):
        ds.update({"n": str(number)})
    assert ds.cleanup_old_versions(NOW).old_versions == 4
    assert versions(ds) == [1, 6]
    assert ds.explain_cleanup_old_versions(NOW).warnings == []


def test_a_named_version_at_which_branches_start(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t", primary_key="id")
    for number in range(2, 6):
        ds.insert({"id": [number]}, mode="append")
    for name, version in (("exp", 2), ("trial", 3)):
        ds.create_branch(name, version)
    for call in (ds.cleanup_old_versions, ds.explain_cleanup_old_versions):
        with pytest.raises(RefConflictError) as caught:
            call(versions=[1, 2, 3])
        text = "Version 2 of main cannot be removed: branch exp starts at it; version 3: branch"
        assert text in str(caught.value)
        assert caught.value.context["versions"] == [2, 3]
    assert versions(ds) == [1, 2, 3, 4, 5]
    assert ds.cleanup_old_versions(versions=[1, 4]).old_versions == 2


Change = dict[str, Any]
#: changes of names and types, and the names of the columns behind them
COLUMNS: dict[str, tuple[list[Change], dict[str, str]]] = {
    "renamed": ([{"path": "n", "name": "m"}], {"n": "m"}),
    "twice": ([{"path": "n", "name": "k"}, {"path": "k", "name": "m"}], {"n": "m"}),
    "cast": ([{"path": "n", "name": "m"}, {"path": "m", "data_type": pa.int32()}], {"n": "m"}),
    "swapped": (
        [{"path": "n", "name": "k"}, {"path": "w", "name": "n"}, {"path": "k", "name": "w"}],
        {"n": "w", "w": "n"},
    ),
}


@pytest.mark.parametrize("who", ["branch", "main"])
@pytest.mark.parametrize("columns", COLUMNS)
def test_a_cleanup_keeps_versions_that_show_renamed_columns(
    tmp_path: Path, columns: str, who: str
) -> None:
    """Once all is compacted, no file tells whether a column was renamed or another one came."""
    rows = {"id": [1, 2], "w": [3, 4], "n": [1, 2]}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    changed, other = (exp, ds) if who == "branch" else (ds, exp)
    steps, names = COLUMNS[columns]
    for step in steps:
        changed.alter_columns(step)
    changed.update({"id": "id"}, where="id = 1")
    changed.optimize.compact_files()
    first, last = 2, changed.version
    needed = list(range(first, first + len(steps)))
    told = changed.explain_cleanup_old_versions(NOW).warnings
    assert told == [
        f"the next merge of main and exp keeps version {version}, to recognise renamed columns"
        for version in needed
    ]
    with pytest.raises(RefConflictError, match="the next merge of main and exp needs it"):
        changed.cleanup_old_versions(versions=[*range(2, last)])
    for _ in range(2):
        changed.cleanup_old_versions(NOW, delete_unverified=True)
        assert versions(changed) == [*([1] if who == "main" else []), *needed, last]
    other.update({"n": "n + 10"}, where="id = 1")
    other.branches.merge(changed.branch or "main", into=other.branch or "main")
    found = lance.dataset(ds.uri).checkout_version((other.branch, None)).to_table()
    expected = {names.get(name, name): values for name, values in rows.items()}
    expected[names["n"]] = [11, 2]
    assert found.sort_by("id").to_pydict() == expected
    # the next merge starts from the merged version
    assert changed.cleanup_old_versions(NOW).old_versions == len(needed)


def test_a_column_that_was_cast_is_renamed_after_a_cleanup(tmp_path: Path) -> None:
    """Its name shows what it was only as long as it has the name."""
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    ds.alter_columns({"path": "n", "data_type": pa.int32()})
    ds.update({"id": "id"}, where="id = 1")
    ds.cleanup_old_versions(NOW, delete_unverified=True)
    ds.alter_columns({"path": "n", "name": "m"})
    exp.update({"n": "7"}, where="id = 2")
    ds.branches.merge("exp")
    found = lance.dataset(ds.uri).to_table().sort_by("id").to_pydict()
    assert found == {"id": [1, 2], "m": [1, 7]}


def test_a_cleanup_keeps_no_version_whose_columns_files_tell(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.alter_columns({"path": "n", "name": "m"})
    exp.insert({"id": [3], "m": [3]}, mode="append")
    exp.cleanup_old_versions(NOW)
    assert versions(exp) == [3]
    ds.update({"n": "n + 10"}, where="id = 1")
    ds.branches.merge("exp")
    assert ds.to_table().sort_by("id").to_pydict() == {"id": [1, 2, 3], "m": [11, 2, 3]}


def test_a_column_that_a_merge_brought_is_renamed_before_a_cleanup(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.add_columns({"m": "n * 2"})
    ds.update({"n": "7"}, where="id = 2")
    ds.branches.merge("exp")
    ds.alter_columns({"path": "m", "name": "k"})
    ds.update({"id": "id"}, where="id = 1")
    ds.optimize.compact_files()
    ds.cleanup_old_versions(NOW, delete_unverified=True)
    exp.update({"m": "20"}, where="id = 1")
    ds.branches.merge("exp")
    found = lance.dataset(ds.uri).to_table().sort_by("id").to_pydict()
    assert found == {"id": [1, 2], "n": [1, 7], "k": [20, 4]}


def test_a_tag_keeps_a_version_that_shows_a_rename_from_pylance(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.alter_columns({"path": "n", "name": "m"})
    exp.tags.create("renamed", ("exp", 2))
    exp.update({"id": "id"}, where="id = 1")
    exp.optimize.compact_files()
    other = lance.dataset(ds.uri).checkout_version(("exp", None))
    other.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert versions(exp) == [2, exp.version]
    ds.update({"n": "n + 10"}, where="id = 1")
    ds.branches.merge("exp")
    assert ds.to_table().sort_by("id").to_pydict() == {"id": [1, 2], "m": [11, 2]}


@pytest.mark.parametrize("change", ["append", "update"])
def test_how_many_versions_of_branches_a_cleanup_reads(tmp_path: Path, change: str) -> None:
    """All, as each may read files of main; the newest alone where no such file is to go."""
    ds = lk.write_dataset({"id": [1], "n": [1]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    for number in range(30):
        exp.update_config({"a": f"{number}"})
    for number in range(10):
        if change == "append":
            ds.insert({"id": [2 + number], "n": [1]}, mode="append")
        else:
            ds.update({"n": f"{number}"})
    faults = Faults()
    with injected(faults):
        lk.dataset(ds.uri).cleanup_old_versions(NOW)
    read = {call.name for call in faults.calls if call.kind == "tail"}
    # main has the numbers up to 11, too
    assert len({name for name in read if name.startswith("_versions/")}) == (
        12 if change == "append" else 31
    )
    assert versions(ds) == [1, 11]
