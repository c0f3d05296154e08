"""Merges that change no row: the commit records them, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit._operations.lineage import apply_changes
from lancekit._versions.merge_edges import MERGE_KEYS


def table(folder: Path, *, stable: bool = False) -> lk.LanceDataset:
    return lk.write_dataset(
        {"id": [1, 2], "n": [1, 2]},
        folder / "t",
        primary_key="id",
        enable_stable_row_ids=stable,
        max_rows_per_file=1,
    )


def values(ds: Any) -> dict[int, int]:
    found = lance.dataset(ds.uri).checkout_version((ds._location.branch or "main", None)).to_table()
    return dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


def there_and_back(branch: lk.LanceDataset) -> None:
    """Change a value and take the change back."""
    branch.update({"n": "6"}, where="id = 1")
    branch.update({"n": "1"}, where="id = 1")


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_versions_without_net_change_are_recorded(tmp_path: Path, stable: bool) -> None:
    ds = table(tmp_path, stable=stable)
    exp = ds.create_branch("exp")
    there_and_back(exp)
    ds.update({"n": "20"}, where="id = 2")
    fragments = ds._snapshot.manifest.fragments
    plan = ds.branches.merge("exp", dry_run=True)
    result = ds.branches.merge("exp")
    assert (plan.how, result.how) == ("three-way", "three-way")
    assert dict(plan) == dict(result) | {"num_conflicts": 0}
    assert (result.version, ds.version) == (3, 3)
    assert lance.dataset(ds.uri).read_transaction(3).operation.__class__.__name__ == "UpdateConfig"
    assert ds._snapshot.manifest.fragments.ids.tolist() == fragments.ids.tolist()
    assert ds.branches.compare("exp").base == ("exp", 3)
    again = ds.branches.merge("exp", dry_run=True), ds.branches.merge("exp")
    assert [one.how for one in again] == ["nothing to do"] * 2
    assert (ds.version, values(ds)) == (3, {1: 1, 2: 20})
    ds.undo()
    assert not [key for key in ds.config() if key.startswith(MERGE_KEYS)]
    assert ds.branches.merge("exp").how == "three-way"


@pytest.mark.parametrize("newer", [None, 8])
def test_a_value_that_was_taken_back_does_not_come_by_way_of_another_branch(
    tmp_path: Path, newer: int | None
) -> None:
    ds = table(tmp_path)
    one, exp = ds.create_branch("one"), ds.create_branch("exp")
    exp.update({"n": "6"}, where="id = 1")
    one.branches.merge("exp", into="one")
    exp.update({"n": "1"}, where="id = 1")
    ds.update({"n": "20"}, where="id = 2")
    ds.branches.merge("exp")
    if newer is not None:
        ds.update({"n": str(newer)}, where="id = 1")
    ds.branches.merge("one")
    assert values(ds) == {1: newer or 1, 2: 20}


def test_a_merge_without_change_keeps_the_fast_forward(tmp_path: Path) -> None:
    ds = table(tmp_path, stable=True)
    exp = ds.create_branch("exp")
    exp.create_scalar_index("n", "BTREE")
    plan = ds.branches.merge("exp", dry_run=True)
    assert (plan.how, ds.branches.merge("exp").how) == ("fast-forward", "fast-forward")
    assert ds.branches.merge("exp").how == "nothing to do"
    exp.update({"n": "6"}, where="id = 1")
    assert ds.branches.merge("exp").how == "fast-forward"
    assert values(ds) == {1: 6, 2: 2}


@pytest.mark.parametrize("both", [False, True], ids=["main rests", "main moves"])
def test_two_branches_that_merge_each_other_come_to_rest(tmp_path: Path, both: bool) -> None:
    """A merge into a branch without changes of its own is no news for the other one."""
    ds = table(tmp_path)
    exp = ds.create_branch("exp")
    exp.update({"n": "6"}, where="id = 1")
    if both:
        ds.update({"n": "20"}, where="id = 2")
    ds.branches.merge("exp")
    exp.branches.rebase("exp")
    exp.checkout_latest()
    versions = ds.version, exp.version
    for _ in range(2):
        plans = ds.branches.merge("exp", dry_run=True), exp.branches.merge("main", dry_run=True)
        assert [plan.how for plan in plans] == ["nothing to do"] * 2
        assert ds.branches.merge("exp").how == exp.branches.rebase("exp").how == "nothing to do"
    assert (ds.version, exp.version) == versions
    found = ds.branches.compare("exp")
    assert (found.ahead, found.behind) == (0, 0)
    assert values(ds) == values(exp) == {1: 6, 2: 20 if both else 2}


def test_a_branch_that_moved_on_is_merged_all_the_same(tmp_path: Path) -> None:
    ds = table(tmp_path)
    exp = ds.create_branch("exp")
    exp.update({"n": "6"}, where="id = 1")
    ds.branches.merge("exp")
    exp.branches.rebase("exp")
    exp.checkout_latest()
    exp.update({"n": "7"}, where="id = 1")
    assert ds.branches.merge("exp").how == "fast-forward"
    assert values(ds) == {1: 7, 2: 2}


def test_picks_reverts_and_diffs_without_change_make_no_commit(tmp_path: Path) -> None:
    """They record what they brought in their transaction alone, and no merge base moves."""
    ds = table(tmp_path)
    exp = ds.create_branch("exp")
    exp.update({"n": "6"}, where="id = 1")
    ds.update({"n": "6"}, where="id = 1")
    assert ds.branches.cherry_pick("exp", 2).how == "nothing to do"
    assert lk.diff(ds.checkout_version(1), exp).apply(ds).how == "nothing to do"
    ds.update({"n": "1"}, where="id = 1")
    assert ds.revert(2).how == "nothing to do"
    assert ds.version == 3


#: what another writer does, and the rows that are there then
WRITES: dict[str, tuple[Callable[[Any], Any], dict[int, int]]] = {
    "append": (
        lambda ds: lance.write_dataset(
            ds.to_table().slice(0, 1).set_column(0, ds.schema.field("id"), [[3]]), ds, mode="append"
        ),
        {1: 1, 2: 2, 3: 1},
    ),
    "update": (lambda ds: ds.update({"n": "9"}, where="id = 1"), {1: 9, 2: 2}),
    "delete": (lambda ds: ds.delete("id = 2"), {1: 1}),
    "new column": (lambda ds: ds.add_columns({"m": "n"}), {1: 1, 2: 2}),
    "compaction": (lambda ds: ds.optimize.compact_files(), {1: 1, 2: 2}),
    "restore": (lambda ds: lance.dataset(ds.uri, version=1).restore(), {1: 1, 2: 2}),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("first", ["merge", "other"])
def test_other_writers_beside_a_merge_without_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str, first: str
) -> None:
    """Neither is lost; a merge that was planned before another commit is planned again."""
    ds = table(tmp_path)
    exp = ds.create_branch("exp")
    there_and_back(exp)
    ds.update_config({"a": "b"})
    change, expected = WRITES[write]
    stale = lance.dataset(ds.uri)
    if first == "other":
        planned, others = apply_changes.planned, [stale]

        def after_another(*arguments: Any, **options: Any) -> Any:
            plan = planned(*arguments, **options)
            while others:
                change(others.pop())
            return plan

        monkeypatch.setattr(apply_changes, "planned", after_another)
    result = ds.branches.merge("exp")
    assert result.how == "three-way"
    if first == "merge":
        change(stale)
    else:
        assert result.attempts == 2
    assert values(ds) == expected
    keys = [key for key in lk.dataset(ds.uri).config() if key.startswith(MERGE_KEYS)]
    if write == "restore" and first == "merge":
        assert keys == []  # it takes the merge back
        return
    assert len(keys) == 1
    assert ds.branches.merge("exp").how == "nothing to do"


def test_pylance_4_beside_a_merge_without_change(
    tmp_path: Path, pylance4: Callable[..., Any]
) -> None:
    ds = table(tmp_path)
    exp = ds.create_branch("exp")
    there_and_back(exp)
    ds.update_config({"a": "b"})
    ds.branches.merge("exp")
    program = (
        "stale = lance.dataset(arguments['uri'], version=2)\n"
        "rows = pa.table({'id': [3], 'n': [3]}, schema=stale.schema)\n"
        "lance.write_dataset(rows, stale, mode='append')\n"
        "stale.update({'n': '9'}, where='id = 1')\n"
        "ds = lance.dataset(arguments['uri'])\n"
        "ds.optimize.compact_files()\n"
        "result = lance.dataset(arguments['uri']).to_table().to_pylist()"
    )
    found = pylance4(program, uri=ds.uri)
    assert {row["id"]: row["n"] for row in found} == {1: 9, 2: 2, 3: 3}
    assert ds.branches.merge("exp").how == "nothing to do"


@pytest.mark.parametrize("files", ["linked", "written"])
def test_a_branch_that_follows_main_is_no_news_for_main(tmp_path: Path, files: str) -> None:
    """Also where the rows are written, and where the versions between are gone."""
    ds = table(tmp_path)
    exp = ds.create_branch("exp")
    for number in (6, 7):
        ds.update({"n": str(number)}, where="id = 1")
        if files == "written":  # a restore gives fragments back, so that no file is linked
            ds.delete("id = 2")
            ds.undo()
        exp.branches.rebase("exp")
        exp.checkout_latest()
    lance.dataset(exp.uri).checkout_version(("exp", None)).cleanup_old_versions(
        timedelta(0), delete_unverified=True
    )
    assert ds.branches.merge("exp").how == "nothing to do"
    assert values(exp) == values(ds) == {1: 7, 2: 2}
