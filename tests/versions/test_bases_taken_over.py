"""Merge bases that are gone, and that fast-forwards took over: other versions stand in for them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit._format.names import MAIN
from lancekit._versions.ancestor import unique_name
from lancekit._versions.commit_graph import CommitGraph


def taken_back(folder: Path, change: Callable[[lk.LanceDataset], Any]) -> list[lk.LanceDataset]:
    """Return main, which took a change over, and a branch that contained main and undid it."""
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, folder / "t", primary_key="id")
    exp = ds.create_branch("exp")
    ds.update({"n": "20"}, where="id = 2")
    ways = [exp.branches.rebase("exp").how]
    exp.checkout_latest()
    change(exp)
    ways.append(ds.branches.merge("exp").how)
    assert ways == ["fast-forward", "fast-forward"]
    exp.undo()
    return [ds, exp]


@pytest.mark.parametrize(("id_", "conflicts"), [(1, 1), (2, 0)])
@pytest.mark.parametrize("gone", [False, True], ids=["there", "gone"])
def test_a_base_that_is_gone_contains_what_it_had_merged(
    tmp_path: Path, gone: bool, id_: int, conflicts: int
) -> None:
    """The version of main before the base is no further base: a value taken back is new."""
    ds, exp = taken_back(tmp_path, lambda exp: exp.update({"n": "6"}, where="id = 1"))
    ds.update({"n": "8"}, where=f"id = {id_}")
    if gone:
        lance.dataset(exp._location.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    plan = ds.branches.merge("exp", dry_run=True)
    assert plan.base == (("main", 3) if gone else ("exp", 3))
    assert plan.num_conflicts == conflicts
    ds.branches.merge("exp", conflicts="theirs")
    rows = lance.dataset(ds.uri).to_table().to_pylist()
    assert {row["id"]: row["n"] for row in rows} == {1: 1, 2: 8 if id_ == 2 else 20}


@pytest.mark.parametrize("gone", [False, True], ids=["there", "gone"])
def test_a_rename_that_was_taken_back_from_a_base_that_is_gone(tmp_path: Path, gone: bool) -> None:
    ds, exp = taken_back(tmp_path, lambda exp: exp.alter_columns({"path": "n", "name": "m"}))
    ds.alter_columns({"path": "m", "name": "k"})
    if gone:
        lance.dataset(exp._location.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    (found,) = ds.branches.merge("exp", dry_run=True).conflicts.by_column
    assert (found.column, found.ours, found.theirs) == ("m", "renamed to k", "renamed to n")
    ds.branches.merge("exp", conflicts="theirs")
    assert lance.dataset(ds.uri).schema.names == ["id", "n"]


@pytest.mark.parametrize("into", ["main", "fork"])
def test_a_base_that_is_gone_contains_no_copy_of_itself(tmp_path: Path, into: str) -> None:
    """A fast-forward to the base started at a copy, which the other side has, too."""
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.update({"n": "6"}, where="id = 1")
    assert ds.branches.merge("exp").how == "fast-forward"
    other = ds.create_branch("other")
    ds.create_branch("fork")
    exp.update({"n": "7"}, where="id = 1")
    assert ds.branches.merge("exp", into=into).how == "fast-forward"
    other.update({"n": "20"}, where="id = 2")
    other.branches.merge("exp", into="other")
    sides = [
        lk.dataset(ds.uri).checkout_version((name, None))._snapshot for name in (into, "other")
    ]

    def bases() -> set[tuple[str, int]]:
        found = CommitGraph(ds._location).merge_bases(*sides)
        return {(base.name, base.version) for base in found}

    expected = {(unique_name(exp._location), 3), (MAIN, 2)}
    assert bases() == expected
    (Path(exp._location.uri) / "_versions" / exp._snapshot.manifest_name).unlink()
    assert bases() == expected
