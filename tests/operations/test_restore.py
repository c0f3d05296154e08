"""The newest change is taken back, or it is said why not."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit._commit import protocol
from lancekit.errors import (
    InvalidArgumentError,
    ReadOnlyError,
    RetryableConflictError,
    VersionNotFoundError,
)


@pytest.mark.parametrize("stable", [False, True])
def test_what_was_before_is_the_newest_again(tmp_path: Path, stable: bool) -> None:
    ds = lk.write_dataset({"id": [1, 2, 3]}, tmp_path / "t", enable_stable_row_ids=stable)
    first = ds.to_table(with_row_id=True)
    ds.delete("id = 2")
    ds.undo()
    assert ds.version == 3
    for module in (lk, lance):
        assert module.dataset(str(tmp_path / "t")).to_table(with_row_id=True) == first
    assert not ds.diff(1).counts.deleted
    with pytest.warns(UserWarning, match=r"took back version 3 \(Restore\): an undo"):
        ds.undo()  # the undoing is a change, too
    assert ds.to_table()["id"].to_pylist() == [1, 3]
    lance.write_dataset(lance.dataset(ds.uri).to_table(), ds.uri, mode="append")
    ds.checkout_latest()
    ds.undo()
    assert ds.count_rows() == 2


def test_a_branch_by_itself(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2]}, tmp_path / "t")
    ds.delete("id = 1")
    branch = ds.create_branch("b", 1)
    branch.insert({"id": [9]}, mode="append")
    branch.undo()
    assert branch.to_table()["id"].to_pylist() == [1, 2]
    assert lk.dataset(ds.uri).to_table()["id"].to_pylist() == [2]


def test_what_is_not_the_newest_is_refused(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t")
    other = lk.dataset(ds.uri)
    ds.insert({"id": [2]}, mode="append")
    other.checkout_latest()
    other.insert({"id": [3]}, mode="append")
    with pytest.raises(RetryableConflictError, match="up to version 3") as caught:
        ds.undo()
    assert "ds.changes(2)" in str(caught.value)
    assert lk.dataset(ds.uri).version == 3
    with pytest.raises(ReadOnlyError):
        ds.at(2).undo()


def test_what_lands_while_it_is_undone_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t")
    ds.insert({"id": [2]}, mode="append")
    attempt = protocol._attempt

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(protocol, "_attempt", attempt)
        lk.dataset(ds.uri).insert({"id": [3]}, mode="append")
        return attempt(*arguments)

    monkeypatch.setattr(protocol, "_attempt", late)
    with pytest.raises(RetryableConflictError, match="no longer the newest"):
        ds.undo()
    assert sorted(lk.dataset(ds.uri).to_table()["id"].to_pylist()) == [1, 2, 3]
    assert ds.version == 2


def test_where_nothing_is_before(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t")
    with pytest.raises(InvalidArgumentError, match="is the first"):
        ds.undo()
    ds.insert({"id": [2]}, mode="append")
    ds.cleanup_old_versions(older_than=timedelta(0))
    with pytest.raises(VersionNotFoundError, match=r"Version 2 .* version 1 was cleaned up"):
        ds.undo()
    assert ds.count_rows() == 2


def _compacted(ds: lk.LanceDataset) -> None:
    ds.insert({"id": [9]}, mode="append")
    ds.optimize.compact_files()


def _updated(ds: lk.LanceDataset) -> None:
    ds.update({"id": "7"}, where="id = 8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_compacted, r"version 4 \(Rewrite\): a compaction"),
        (_updated, r"2 \(Update\): it changed no"),
    ],
)
def test_an_undo_of_no_rows_warns(tmp_path: Path, change: Any, said: str) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t")
    change(ds)
    with pytest.warns(UserWarning, match=said):
        ds.undo()


def test_a_version_by_its_number(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t")
    ds.delete("true")
    assert "same as version 1" in str(ds.explain.restore(1))
    ds.restore(1)
    assert (ds.version, ds.count_rows()) == (3, 1)
    with pytest.raises(VersionNotFoundError):
        ds.restore(9)


def test_a_version_by_its_tag_or_a_time(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t")
    ds.tags.create("first")
    ds.delete("true")
    ds.restore("first")
    assert (ds.version, ds.count_rows()) == (3, 1)
    ds.delete("true")
    ds.restore(ds.versions()[0].timestamp.astimezone())
    assert (ds.version, ds.count_rows()) == (5, 1)


def test_a_version_of_another_branch_is_not_restored(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t")
    branch = ds.create_branch("b")
    branch.insert({"id": [2]})
    branch.tags.create("two")
    with pytest.raises(
        InvalidArgumentError, match=r"of b, not of main.*branches\['b'\].restore\(2\)"
    ):
        ds.restore("two")
    assert ds.latest_version == 1
