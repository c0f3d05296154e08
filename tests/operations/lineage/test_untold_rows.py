"""Tables without a key: a row that a merge inserted has an id of the target's own there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit._versions.commit_graph import CommitGraph
from lancekit.errors import InvalidArgumentError
from tests.support.faults import Call, Faults, injected


def as_read(ds: lk.LanceDataset, branch: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of a branch by their number, as the reference reads them."""
    found = lance.dataset(ds.uri.partition("/tree/")[0]).checkout_version((branch, None))
    return sorted(found.to_table().to_pylist(), key=lambda row: (row["k"], row["v"]))


@pytest.fixture
def sides(tmp_path: Path) -> tuple[lk.LanceDataset, lk.LanceDataset]:
    """Main and a branch with equal rows, of which two came to the branch by a merge."""
    main = lk.write_dataset({"k": [0, 1], "v": [0, 0]}, tmp_path / "t", enable_stable_row_ids=True)
    side = main.create_branch("side")
    main.insert({"k": [2, 3], "v": [7, 7]}, mode="append")
    side.insert({"k": [9], "v": [9]}, mode="append")
    side.update({"v": "1"}, where="k = 1")
    side.branches.merge("main")
    main.branches.merge("side")
    assert as_read(main) == as_read(main, "side")
    return main, side


def test_a_merge_back_changes_what_the_branch_changed(
    sides: tuple[lk.LanceDataset, lk.LanceDataset],
) -> None:
    main, _ = sides
    rows = main.to_table(with_row_id=True).to_pydict()
    ids = dict(zip(rows["k"], rows["_rowid"], strict=True))
    assert (ids[2], ids[3]) == (2, 3)  # they did not go and come again


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("into", ["main", "side"])
def test_values_of_a_new_column_follow_equal_rows(
    sides: tuple[lk.LanceDataset, lk.LanceDataset], into: str, moved: bool
) -> None:
    target, source = sides if into == "main" else sides[::-1]
    source.add_columns({"d": "k * 10"})
    if moved:
        target.insert({"k": [5], "v": [5]}, mode="append")
    result = target.branches.merge("side" if into == "main" else "main")
    assert (result.num_inserted_rows, result.num_deleted_rows) == (0, 0)
    found = as_read(target, None if into == "main" else "side")
    assert {row["k"]: row["d"] for row in found if row["k"] != 5} == {
        k: k * 10 for k in (0, 1, 2, 3, 9)
    }
    assert [row["d"] for row in found if row["k"] == 5] == ([None] if moved else [])


def test_a_new_column_is_refused_where_a_row_may_be_another(
    sides: tuple[lk.LanceDataset, lk.LanceDataset],
) -> None:
    main, side = sides
    side.add_columns({"d": "k * 10"})
    main.update({"v": "8"}, where="k = 9")
    before = as_read(main)
    with pytest.raises(InvalidArgumentError, match=r"one side has new columns \('d'\)"):
        main.branches.merge("side")
    assert as_read(main) == before
    main.branches.merge("side", on="k")
    assert as_read(main) == [{**row, "d": row["k"] * 10} for row in before]


def test_rows_that_only_came_or_only_went_are_told(
    sides: tuple[lk.LanceDataset, lk.LanceDataset],
) -> None:
    main, side = sides
    side.update({"v": "v + 1"}, where="k < 4")
    main.delete("k = 9")
    main.branches.merge("side")
    assert {row["k"]: row["v"] for row in as_read(main)} == {0: 1, 1: 2, 2: 8, 3: 8}


def test_equal_rows_are_as_many_as_before(tmp_path: Path) -> None:
    main = lk.write_dataset({"k": [0], "v": [0]}, tmp_path / "t", enable_stable_row_ids=True)
    side = main.create_branch("side")
    main.insert({"k": [1, 1, 1], "v": [1, 1, 1]}, mode="append")
    side.update({"v": "5"}, where="k = 0")
    side.branches.merge("main")
    main.delete("k = 1 AND _rowid = 2")
    side.insert({"k": [2], "v": [2]}, mode="append")
    main.branches.merge("side")
    assert [(row["k"], row["v"]) for row in as_read(main)] == [(0, 5), (1, 1), (1, 1), (2, 2)]


def merge_both_ways(tmp_path: Path) -> tuple[lk.LanceDataset, lk.LanceDataset]:
    """Merge main and a branch at the same moment: each gets two rows of the other, and new ids."""
    main = lk.write_dataset({"k": [0, 1], "v": [0, 0]}, tmp_path / "t", enable_stable_row_ids=True)
    side = main.create_branch("side")
    main.insert({"k": [2, 3], "v": [7, 7]}, mode="append")
    side.insert({"k": [8, 9], "v": [7, 7]}, mode="append")
    faults = Faults()

    def merge_first(call: Call) -> None:
        if call.kind in ("put", "put_if_absent", "create"):
            faults.before = None
            lk.dataset(main.uri).branches.merge("main", into="side")

    with injected(faults):
        ds = lk.dataset(main.uri)
        faults.before = merge_first
        ds.branches.merge("side")
    for one in (main, side):
        one.checkout_latest()
    assert len(CommitGraph(main._location).merge_bases(side._snapshot, main._snapshot)) == 2
    return main, side


@pytest.mark.parametrize("conflicts", ["fail", "theirs"])
@pytest.mark.parametrize("into", ["main", "side"])
def test_two_merge_bases_tell_which_rows_came(tmp_path: Path, into: str, conflicts: str) -> None:
    """A row that one base lacks stands in the other base: it is no row of both sides' own."""
    main, side = merge_both_ways(tmp_path)
    target, source = (main, side) if into == "main" else (side, main)
    source.update({"v": "1"}, where="k = 0")
    source.add_columns({"d": "k * 10"})
    source.insert({"k": [5], "v": [5], "d": [50]}, mode="append")
    target.delete("k = 1")
    target.insert({"k": [6], "v": [6]}, mode="append")
    branch = "side" if into == "main" else "main"
    plan = target.branches.merge(branch, dry_run=True)
    assert len(plan.conflicts) == 0
    result = target.branches.merge(branch, conflicts=conflicts)
    for found in (plan, result):
        assert (found.num_inserted_rows, found.num_updated_rows, found.num_deleted_rows) == (
            1,
            1,
            0,
        )
    values = {0: 1, 2: 7, 3: 7, 5: 5, 6: 6, 8: 7, 9: 7}
    expected = [
        {"k": k, "v": v, "d": None if k == 6 else k * 10} for k, v in sorted(values.items())
    ]
    assert as_read(main, None if into == "main" else "side") == expected


def test_a_pick_does_not_insert_rows_of_a_merge_again(tmp_path: Path) -> None:
    main = lk.write_dataset({"k": [0], "v": [0]}, tmp_path / "t", enable_stable_row_ids=True)
    side = main.create_branch("side")
    side.insert({"k": [1], "v": [1]}, mode="append")
    main.insert({"k": [9], "v": [9]}, mode="append")
    main.branches.merge("side")
    before = as_read(main)
    with pytest.raises(InvalidArgumentError, match="both sides inserted rows since version 1"):
        main.branches.cherry_pick("side", 2)
    with pytest.raises(InvalidArgumentError, match="a merge or a pick copied"):
        lk.diff(main.checkout_version(1), side).apply(main)
    assert as_read(main) == before
    side.insert({"k": [2], "v": [2]}, mode="append")
    main.branches.cherry_pick("side", 3)  # main has not merged this one
    assert [row["k"] for row in as_read(main)] == [0, 1, 2, 9]


@pytest.mark.parametrize("way", ["merge", "rebase", "other branch", "pick again", "diff"])
def test_rows_of_a_pick_are_not_inserted_again(tmp_path: Path, way: str) -> None:
    main = lk.write_dataset({"k": [0], "v": [0]}, tmp_path / "t", enable_stable_row_ids=True)
    side, other = main.create_branch("side"), main.create_branch("other")
    side.insert({"k": [1], "v": [1]}, mode="append")
    main.insert({"k": [9], "v": [9]}, mode="append")
    main.branches.cherry_pick("side", 2)
    merges: dict[str, Callable[..., Any]] = {
        "merge": lambda **how: main.branches.merge("side", **how),
        "rebase": lambda **how: side.branches.rebase("side", **how),
        "pick again": lambda **how: main.branches.cherry_pick("side", 2, **how),
        "diff": lambda **how: lk.diff(side.checkout_version(1), side, **how).apply(main),
        "other branch": lambda **how: other.branches.merge("side", into="other", **how),
    }
    if way == "other branch":
        other.insert({"k": [8], "v": [8]}, mode="append")
        other.branches.merge("main", into="other")
    for library in (lk, lance):  # the reference keeps the key of the pick
        library.dataset(main.uri).optimize.compact_files()
        library.dataset(main.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    main.checkout_latest()
    line = {"rebase": "side", "other branch": "other"}.get(way)
    before = as_read(main, line)
    with pytest.raises(InvalidArgumentError, match="both sides inserted rows since") as told:
        merges[way]()
    assert told.value.hint == 'Pass columns that identify each row: on=["id"].'
    assert as_read(main, line) == before
    merges[way](on="k")
    numbers = [row["k"] for row in as_read(main, line)]
    assert numbers == ([0, 1, 8, 9] if way == "other branch" else [0, 1, 9])


def test_a_row_of_a_conflict_is_not_inserted_again(tmp_path: Path) -> None:
    """A pick of a changed value brings the row where the target lacks it."""
    main = lk.write_dataset({"k": [0], "v": [0]}, tmp_path / "t", enable_stable_row_ids=True)
    side = main.create_branch("side")
    side.insert({"k": [9], "v": [9]}, mode="append")
    side.update({"v": "10"}, where="k = 9")
    main.branches.cherry_pick("side", 3, conflicts="theirs")
    main.update({"v": "11"}, where="k = 9")
    assert as_read(main)[1:] == [{"k": 9, "v": 11}]
    with pytest.raises(InvalidArgumentError, match="a merge or a pick copied"):
        main.diff(1, main.version).apply(side, conflicts="theirs")
    main.diff(1, main.version, on="k").apply(side, conflicts="theirs")
    assert as_read(side, "side")[1:] == [{"k": 9, "v": 11}]


@pytest.mark.parametrize("passes", [False, True])
def test_undone_rows_that_a_pick_kept_come_back_once(tmp_path: Path, passes: bool) -> None:
    """A branch took back what main had picked, and got the rows back by a merge, not as they were.

    A merge of the undone version makes main contain the version of the pick.
    """
    main = lk.write_dataset({"k": [0], "v": [0]}, tmp_path / "t", enable_stable_row_ids=True)
    side, other = main.create_branch("side"), main.create_branch("other")
    main.insert({"k": [9], "v": [9]}, mode="append")
    side.insert({"k": [1], "v": [1]}, mode="append")
    main.branches.cherry_pick("side", 2)
    side.undo()
    main.branches.merge("side")
    if passes:  # by way of a branch that has merged the undone version, too
        other.branches.merge("side", into="other")
        other.branches.merge("main", into="other")
    side.branches.merge("other" if passes else "main", into="side")
    before = as_read(main, "side")
    assert [row["k"] for row in before] == [0, 1, 9]
    with pytest.raises(InvalidArgumentError, match="both sides inserted rows since version 3"):
        side.revert(3)
    assert as_read(main, "side") == before
    side.revert(3, on="k")
    assert as_read(main, "side") == before


@pytest.mark.parametrize("forks", [False, True])
def test_rows_of_a_merge_that_was_undone_and_done_again(tmp_path: Path, forks: bool) -> None:
    """They have other row ids the second time: what the undo did does not fit them."""
    main = lk.write_dataset({"k": [0], "v": [0]}, tmp_path / "t", enable_stable_row_ids=True)
    side = main.create_branch("side")
    main.insert({"k": [9], "v": [9]}, mode="append")
    side.insert({"k": [1], "v": [1]}, mode="append")
    for _ in range(2):
        side.branches.rebase("side")
        side.undo()
    assert dict(side.config()) == {
        key: "2" for key in side.config() if key.startswith("lancekit.undone.main.")
    }
    undone = side.version
    main.insert({"k": [8], "v": [8]}, mode="append")
    side.branches.rebase("side")
    name = "fork" if forks else "side"
    there = side.create_branch("fork") if forks else side
    before = as_read(main, name)
    assert [row["k"] for row in before] == [0, 1, 8, 9]
    with pytest.raises(InvalidArgumentError, match="a merge or a pick restored rows"):
        there.branches.cherry_pick("side", undone)
    with pytest.raises(InvalidArgumentError, match="both sides inserted rows since"):
        lk.diff(side.checkout_version(undone), side.checkout_version(undone - 1)).apply(there)
    assert as_read(main, name) == before
    # once more, and the key is the merge's
    there.insert({"k": [7], "v": [7]}, mode="append")
    main.insert({"k": [6], "v": [6]}, mode="append")
    there.branches.merge("main", into=name)
    returned = [value for key, value in there.config().items() if ".return." in key]
    assert returned == [str(undone + 1)]
    there.branches.cherry_pick("side", undone, on="k")
    assert [row["k"] for row in as_read(main, name)] == [0, 1, 6, 7, 8]


def test_a_pick_of_changed_values_leaves_no_key(tmp_path: Path) -> None:
    main = lk.write_dataset({"k": [0], "v": [0]}, tmp_path / "t", enable_stable_row_ids=True)
    side = main.create_branch("side")
    side.update({"v": "1"})
    side.insert({"k": [1], "v": [1]}, mode="append")
    main.insert({"k": [9], "v": [9]}, mode="append")
    main.branches.cherry_pick("side", 2)
    assert not [key for key in main.config() if key.startswith("lancekit.pick")]
    main.branches.merge("side")
    assert [(row["k"], row["v"]) for row in as_read(main)] == [(0, 1), (1, 1), (9, 9)]


@pytest.fixture
def deleted(tmp_path: Path) -> tuple[lk.LanceDataset, lk.LanceDataset, lk.LanceDataset]:
    """Main deleted row 9, which it has from a branch, and another branch has the row from main."""
    main = lk.write_dataset({"k": [0, 1], "v": [0, 0]}, tmp_path / "t", enable_stable_row_ids=True)
    side = main.create_branch("side")
    side.insert({"k": [9], "v": [9]}, mode="append")
    main.update({"v": "1"}, where="k = 1")
    main.branches.merge("side")
    exp = main.create_branch("exp")
    main.delete("k = 9")
    side.update({"v": "8"}, where="k = 9")
    return main, side, exp


def rows_of_theirs(conflicts: Any) -> list[dict[str, Any]]:
    rows = conflicts.to_table().to_pylist()
    return [{"_rowid": row["_rowid"], **row["theirs"]} for row in rows]


RETURNS: dict[str, Callable[[lk.LanceDataset], Any]] = {
    "merge": lambda main: main.branches.merge("side", conflicts="theirs"),
    "function": lambda main: main.branches.merge("side", conflicts=rows_of_theirs),
    "named base": lambda main: main.branches.merge("side", base=1),
    "pick": lambda main: main.branches.cherry_pick("side", 3, conflicts="theirs"),
}
CHANGES: dict[str, Callable[[lk.LanceDataset], Any]] = {
    "delete": lambda exp: exp.delete("k = 9"),
    "update": lambda exp: exp.update({"v": "7"}, where="k = 9"),
    "new column": lambda exp: exp.add_columns({"d": "k * 10"}),
}


@pytest.mark.cover(2)
@pytest.mark.parametrize("into", ["main", "exp"])
@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("way", RETURNS)
def test_a_change_of_a_row_that_came_back_is_not_lost(
    deleted: tuple[lk.LanceDataset, ...], way: str, changed: str, into: str
) -> None:
    """The row that came back has an id of its own, so that a deletion did not reach it."""
    main, _, exp = deleted
    RETURNS[way](main)
    assert as_read(main) == [{"k": 0, "v": 0}, {"k": 1, "v": 1}, {"k": 9, "v": 8}]
    CHANGES[changed](exp)
    target, source, line = (main, "exp", None) if into == "main" else (exp, "main", "exp")
    before = as_read(main, line)
    for conflicts in ("fail", "theirs"):
        with pytest.raises(InvalidArgumentError, match="restored rows that") as told:
            target.branches.merge(source, into=line, conflicts=conflicts)
    assert told.value.hint == 'Pass columns that identify each row: on=["id"].'
    assert as_read(main, line) == before
    target.branches.merge(source, into=line, on="k", conflicts="theirs")
    rows = {row["k"]: row for row in as_read(main, line)}
    assert len(rows) == (2 if (changed, into) == ("delete", "main") else 3)
    if changed == "new column":
        assert rows[9] == {"k": 9, "v": 8, "d": 90}


def test_a_merge_passes_on_that_rows_came_back(deleted: tuple[lk.LanceDataset, ...]) -> None:
    main, _, exp = deleted
    other = main.create_branch("other", ("exp", None))
    RETURNS["merge"](main)
    other.insert({"k": [5], "v": [5]}, mode="append")
    other.branches.merge("main", into="other")
    for library in (lk, lance):  # the reference keeps the key
        library.dataset(main.uri).optimize.compact_files()
        library.dataset(main.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    exp.delete("k = 9")
    before = as_read(main, "other")
    with pytest.raises(InvalidArgumentError, match="restored rows that"):
        other.branches.merge("exp", into="other")
    assert as_read(main, "other") == before


def test_rows_that_never_came_back_are_merged(deleted: tuple[lk.LanceDataset, ...]) -> None:
    main, side, exp = deleted
    side.insert({"k": [5], "v": [5]}, mode="append")
    main.branches.merge("side", conflicts="ours")
    assert not [key for key in main.config() if key.startswith("lancekit.return")]
    exp.delete("k IN (0, 9)")
    main.branches.merge("exp")
    assert as_read(main) == [{"k": 1, "v": 1}, {"k": 5, "v": 5}]


def test_other_rows_than_those_that_came_back_are_merged(
    deleted: tuple[lk.LanceDataset, ...],
) -> None:
    main, _, exp = deleted
    RETURNS["merge"](main)
    exp.update({"v": "6"}, where="k = 0")
    main.branches.merge("exp")
    assert as_read(main) == [{"k": 0, "v": 6}, {"k": 1, "v": 1}, {"k": 9, "v": 8}]


def test_two_picks_at_once_bring_a_row_back_once(deleted: tuple[lk.LanceDataset, ...]) -> None:
    main, _, _ = deleted
    faults = Faults()

    def pick_first(call: Call) -> None:
        if call.kind in ("put", "put_if_absent", "create"):
            faults.before = None
            RETURNS["pick"](lk.dataset(main.uri))

    with injected(faults):
        ds = lk.dataset(main.uri)
        faults.before = pick_first
        with pytest.raises(InvalidArgumentError, match="cannot be matched"):
            RETURNS["pick"](ds)
    assert as_read(main) == [{"k": 0, "v": 0}, {"k": 1, "v": 1}, {"k": 9, "v": 8}]
