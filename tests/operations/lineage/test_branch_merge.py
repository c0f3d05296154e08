"""Branches that are merged and brought up to date: as a model does it, and the reference reads."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._format.operations import Update
from lancekit._operations.lineage.branch_merge import changes_of
from lancekit._storage.local import LocalStore
from lancekit.errors import (
    BranchNotFoundError,
    CorruptFileError,
    InvalidArgumentError,
    MergeConflictError,
    ReadOnlyError,
    RefConflictError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from tests.operations.lineage.test_three_way import (
    Written,
    as_read,
    by_id,
    row,
    sorted_rows,
    upsert,
)
from tests.operations.lineage.three_way_model import Row, merged
from tests.support.s3 import S3Server
from tests.system.test_equivalence import runs


def test_a_branch_comes_home_again_and_again(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.delete("id = 1")
    upsert(exp, row(9, "nine", 9))
    ds.update({"age": "20"}, where="id = 2")
    plan = ds.branches.merge("exp", dry_run=True)
    assert (plan.how, dict(plan)["num_conflicts"], plan.base) == ("three-way", 0, ("main", 1))
    before = ds.version
    result = ds.branches.merge("exp")
    assert dict(result) == {key: plan[key] for key in result}
    assert by_id(ds) == {2: ("b", 20), 3: ("c", 3), 4: ("d", 4), 9: ("nine", 9)}
    assert (result.version, ds.version) == (before + 1, before + 1)
    assert ds.branches.merge("exp").how == "nothing to do"
    assert ds.version == ds.latest_version == before + 1
    # what main makes of the branch's rows is no conflict with what was merged already
    ds.update({"name": "'NINE'"}, where="id = 9")
    ds.delete("id = 3")
    exp.update({"age": "90"}, where="id = 9")
    assert ds.branches.merge("exp").base == ("exp", 3)
    assert by_id(ds) == {2: ("b", 20), 4: ("d", 4), 9: ("NINE", 90)}
    said = ds.read_transaction(ds.version).transaction_properties
    assert said["lancekit.apply.theirs"] == f"exp@{exp.version}"
    assert (
        said["lancekit.apply.branch"]
        in next(iter(ds.branches.list().values()))["branch_identifier"][-1]
    )
    lance.dataset(ds.uri).delete("id = 2")  # the reference goes on
    lance.write_dataset(
        lance.dataset(exp._location.uri).to_table().slice(0, 0), exp._location.uri, mode="append"
    )
    assert ds.branches.merge("exp").how == "three-way"  # which changed no row
    assert ds.branches.merge("exp").how == "nothing to do"


def test_rebase_and_merge(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    upsert(exp, row(5, "exp's", 5))
    upsert(ds, row(6, "main's", 6))
    ds.update({"name": "'A'"}, where="id = 1")
    result = ds.branches.rebase("exp")
    assert (result.branch, result.theirs) == ("exp", ("main", ds.version))
    exp.checkout_latest()
    assert by_id(exp)[6] == ("main's", 6)
    assert exp.branches.rebase("exp").how == "nothing to do"
    exp.update({"age": "60"}, where="id = 6")
    exp.delete("id = 1")
    ds.update({"name": "'B'"}, where="id = 2")
    plan = ds.branches.merge("exp", dry_run=True)
    assert plan.base[0] == "main"  # what the branch has of main is not counted again
    ds.branches.merge("exp")
    assert by_id(ds) == {
        2: ("B", 2),
        3: ("c", 3),
        4: ("d", 4),
        5: ("exp's", 5),
        6: ("main's", 60),
    }
    exp.branches.rebase("exp")
    assert by_id(exp) == by_id(ds)
    assert ds.branches.merge("exp").how in ("nothing to do", "three-way")
    assert by_id(exp) == by_id(ds)


def branch_of(ds: lk.LanceDataset, name: str) -> lk.LanceDataset:
    ds.create_branch(name, (ds.branch, ds.version))
    return ds.checkout_version((name, None))


def test_a_branch_of_one_that_was_rebased_goes_home(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    upsert(exp, row(5, "exp's", 5))
    upsert(ds, row(6, "main's", 6))
    exp.branches.rebase("exp")
    sub = branch_of(exp, "sub")
    upsert(sub, row(7, "sub's", 7))
    ds.update({"age": "60"}, where="id = 6")  # it came from here: there is nothing to clash with
    found = ds.branches.compare("sub")
    assert (found.base, found.behind, found.ahead) == (("main", 2), 1, 3)
    ds.branches.merge("sub")
    assert {key: by_id(ds)[key] for key in (5, 6, 7)} == {
        5: ("exp's", 5),
        6: ("main's", 60),
        7: ("sub's", 7),
    }
    # all of exp came along
    ds.update({"age": "50"}, where="id = 5")
    assert ds.branches.compare("exp").ahead == 0
    assert ds.branches.merge("exp").how == "nothing to do"
    exp.delete("id = 5")
    with pytest.raises(MergeConflictError):
        ds.branches.merge("exp")


def test_rows_without_a_key_come_once_by_any_way(tmp_path: Path) -> None:
    ds = lk.write_dataset({"v": [1]}, tmp_path / "t", enable_stable_row_ids=True)
    one, two = ds.create_branch("one"), ds.create_branch("two")
    one.insert({"v": [2]}, mode="append")
    sub = branch_of(one, "sub")
    assert ds.branches.merge("one").how == "fast-forward"
    ds.insert({"v": [3]}, mode="append")
    sub.branches.merge("main", into="sub")
    sub.checkout_latest()
    assert sorted(one["v"] for one in as_read(sub)) == [1, 2, 3]
    sub.insert({"v": [4]}, mode="append")
    two.insert({"v": [5]}, mode="append")
    two.branches.merge("sub", into="two")
    two.branches.rebase("two")
    two.checkout_latest()
    assert sorted(one["v"] for one in as_read(two)) == [1, 2, 3, 4, 5]
    for source in ("two", "sub", "one"):
        ds.branches.merge(source)
    assert sorted(one["v"] for one in as_read(ds)) == [1, 2, 3, 4, 5]


def test_each_merged_into_the_other_at_once(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    upsert(exp, row(5, "e", 5))
    upsert(ds, row(6, "m", 6))
    shutil.copytree(ds.uri, ds.uri + "-2")
    ds.branches.merge("exp")
    other = lk.dataset(ds.uri + "-2")
    other.branches.rebase("exp")
    # as if both had read what was there before
    shutil.rmtree(exp._location.uri)
    shutil.copytree(ds.uri + "-2/tree/exp", exp._location.uri)
    assert ds.branches.merge("exp").num_conflicts == 0
    ds.update({"age": "50"}, where="id = 5")
    exp = lk.dataset(ds.uri).checkout_version(("exp", None))
    exp.update({"age": "60"}, where="id = 6")
    ds.branches.merge("exp")
    ds.branches.rebase("exp")
    exp.checkout_latest()
    assert by_id(ds) == by_id(exp)
    assert (by_id(ds)[5], by_id(ds)[6]) == (("e", 50), ("m", 60))


def test_conflicts_and_a_plan(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.update({"age": "age + 10"}, where="id < 3")
    ds.update({"age": "age + 20"}, where="id = 1")
    plan = ds.branches.merge("exp", dry_run=True)
    assert dict(plan)["num_conflicts"] == len(plan.conflicts) == 1
    assert dict(plan)["num_updated_rows"] == 1
    assert "1 to update" in repr(plan)
    with pytest.raises(MergeConflictError):
        plan.apply()
    with pytest.raises(MergeConflictError):
        ds.branches.merge("exp", by="row")
    plan = ds.branches.merge("exp", dry_run=True, conflicts="theirs")
    assert dict(plan)["num_updated_rows"] == 2
    exp.update({"age": "age + 10"}, where="id = 4")  # the branch moves on
    assert dict(plan.apply())["num_updated_rows"] == 3
    assert by_id(ds) == {1: ("a", 11), 2: ("b", 12), 3: ("c", 3), 4: ("d", 14)}


def test_into_another_branch(ds: lk.LanceDataset) -> None:
    one, other = ds.create_branch("one"), ds.create_branch("other")
    one.delete("id = 1")
    other.delete("id = 2")
    result = ds.branches.merge("one", into="other")
    assert (result.branch, ds.branch, ds.version) == ("other", "main", 1)
    other.checkout_latest()
    assert by_id(other) == {3: ("c", 3), 4: ("d", 4)}
    with pytest.raises(InvalidArgumentError, match=r"Cannot merge branch .* into itself"):
        ds.branches.merge("one", into="one")
    with pytest.raises(BranchNotFoundError):
        ds.branches.merge("nowhere")
    with pytest.raises(InvalidArgumentError, match="has no parent"):
        ds.branches.rebase("main")
    with pytest.raises(ReadOnlyError):
        ds.at(1).branches.merge("one")
    with pytest.raises(ReadOnlyError):
        ds.at(1).branches.merge("one", into="other")
    # of a branch that was made anew under the name
    ds.branches.merge("one")
    ds.branches.delete("one")
    again = ds.create_branch("one", 1)
    again.delete("id = 3")
    ds.branches.merge("one")
    assert by_id(ds) == {2: ("b", 2), 4: ("d", 4)}


def test_what_was_merged_last_is_gone(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.delete("id = 1")
    ds.delete("id = 2")
    ds.branches.merge("exp")
    exp.delete("id = 3")
    lance.dataset(exp._location.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    with pytest.raises(VersionNotFoundError, match="up to which it was merged"):
        ds.branches.merge("exp")


def test_two_processes_merge_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = lk.write_dataset({"id": [1, 2]}, tmp_path / "t", enable_stable_row_ids=True)
    exp = ds.create_branch("exp")
    exp.insert({"id": [3]}, mode="append")
    ds.delete("id = 1")
    from lancekit._operations.lineage import apply_changes as module

    planned, done = module.planned, []

    def late(*arguments: Any, **keywords: Any) -> Any:
        plan = planned(*arguments, **keywords)
        if not done:
            done.append(lk.dataset(ds.uri))
            done[0].branches.merge("exp")
        return plan

    monkeypatch.setattr(module, "planned", late)
    assert ds.branches.merge("exp").how == "nothing to do"
    assert ds.version == done[0].version
    assert sorted(one["id"] for one in as_read(ds)) == [2, 3]
    exp.delete("id = 3")
    ds.branches.merge("exp")
    assert [one["id"] for one in as_read(ds)] == [2]


def test_the_last_changes_are_not_looked_for_elsewhere(ds: lk.LanceDataset) -> None:
    """A clone has the config of its source, and lines of its own."""
    exp = ds.create_branch("exp")
    ds.delete("id = 1")
    exp.delete("id = 2")
    ds.branches.rebase("exp")
    clone = ds.shallow_clone(ds.uri + "-clone", ("exp", None))
    side = clone.create_branch("side")
    clone.delete("id = 3")
    side.delete("id = 4")
    assert changes_of(clone._location, side._snapshot).base.location == clone._location
    clone.branches.merge("side")
    assert by_id(clone) == {}


def test_how_far_branches_are(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")

    def far(found: lk.BranchComparison) -> tuple[int, int, tuple[str, int], bool]:
        return found.ahead, found.behind, found.base, found.is_fast_forward

    exp.delete("id = 1")
    exp.update({"age": "20"}, where="id = 2")
    assert far(ds.branches.compare("exp")) == (2, 0, ("main", 1), True)
    assert far(exp.branches.compare("main")) == (0, 2, ("main", 1), False)
    ds.update({"age": "21"}, where="id = 2")
    found = ds.branches.compare("exp")
    assert far(found) == (2, 1, ("main", 1), False)
    assert (found.theirs, found.ours) == (("exp", 3), ("main", 2))
    assert dict(found.theirs_diff.counts)["deleted"] == 1
    assert dict(found.ours_diff.counts)["updated"] == 1
    assert not found.is_compared
    assert "2 ahead" in repr(found)
    assert [one.key for one in found.conflicts.sample()] == [{"id": 2}]
    ds.branches.merge("exp", conflicts="ours")
    ds.delete("id = 3")
    exp.delete("id = 4")
    assert far(ds.branches.compare("exp")) == (1, 3, ("exp", 3), False)
    ds.branches.rebase("exp")
    assert far(ds.branches.compare("exp")) == (2, 0, ("main", 4), False)
    assert far(exp.branches.compare("main")) == (0, 2, ("main", 4), False)
    assert not len(ds.branches.compare("exp").conflicts)
    with pytest.raises(BranchNotFoundError):
        ds.branches.compare("nowhere")


def test_columns_of_the_branch_come_along(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.add_columns({"twice": "age * 2"})
    exp.add_columns(pa.schema([("note", pa.string())]))
    exp.update({"note": "'x'"}, where="id = 1")
    ds.add_columns({"mine": "age + 100"})
    ds.update({"age": "30"}, where="id = 3")
    upsert(exp, {**row(5, "e", 5), "twice": 10, "note": None})
    ds.delete("id = 4")  # which got a value of a new column there, and no other
    plan = ds.branches.merge("exp", dry_run=True)
    assert plan.columns_added == ("twice", "note")
    assert ds.latest_version == 4
    result = ds.branches.merge("exp")
    assert result.columns_added == ("twice", "note")
    assert [list(one.values()) for one in sorted(as_read(ds), key=lambda one: one["id"])] == [
        [1, "a", 1, 101, 2, "x"],
        [2, "b", 2, 102, 4, None],
        [3, "c", 30, 103, 6, None],
        [5, "e", 5, None, 10, None],
    ]
    assert ds.branches.merge("exp").how == "nothing to do"
    exp.update({"twice": "0"}, where="id = 2")
    ds.update({"note": "'y'"}, where="id = 2")
    assert ds.branches.merge("exp").columns_added == ()
    assert {one["id"]: (one["twice"], one["note"]) for one in as_read(ds)}[2] == (0, "y")


def test_columns_that_are_there_already(ds: lk.LanceDataset) -> None:
    """As after a process that died between the columns and the rows."""
    exp = ds.create_branch("exp")
    exp.add_columns({"twice": "age * 2"})
    ds.update({"age": "30"}, where="id = 3")
    ds.add_columns(pa.schema([("twice", pa.int64())]))
    result = ds.branches.merge("exp")
    assert result.columns_added == ()
    assert sorted(one["twice"] for one in as_read(ds)) == [2, 4, 6, 8]
    other = ds.create_branch("other")
    other.add_columns({"kind": "'a'"})
    other.update({"age": "0"}, where="id = 1")
    ds.update({"age": "7"}, where="id = 1")
    before = ds.version
    with pytest.raises(MergeConflictError):
        ds.branches.merge("other")
    assert ds.latest_version == before  # no column either
    ds.add_columns({"kind": "1"})
    with pytest.raises(SchemaMismatchError, match="added as int64 here and added as string there"):
        ds.branches.merge("other")
    assert ds.latest_version == before + 1
    ds.branches.merge("other", conflicts="ours")
    assert {one["kind"] for one in as_read(ds)} == {1}


@pytest.mark.parametrize("library", ["lancekit", "pylance"])
def test_a_column_that_both_sides_added(ds: lk.LanceDataset, library: str) -> None:
    exp = ds.create_branch("exp")
    ds.add_columns({"x": "id * 100"})
    ds.add_columns({"mine": "id"})
    if library == "lancekit":
        exp.add_columns([pa.field("x", pa.int64())])
        exp.update({"name": "'A'", "x": "7"}, where="id = 1")
    else:
        other = lance.dataset(exp._location.uri)
        other.add_columns(pa.schema([pa.field("x", pa.int64())]))
        other.update({"name": "'A'", "x": "7"}, where="id = 1")
    exp.checkout_latest()
    exp.update({"name": "'B'"}, where="id = 2")  # whose null is no change of x
    exp.update({"x": "id * 100"}, where="id = 3")  # as it is here
    assert [one.key for one in ds.branches.compare("exp").conflicts.sample()] == [{"id": 1}]
    before = ds.version
    with pytest.raises(MergeConflictError, match="id = 1: x null / 100 / 7"):
        ds.branches.merge("exp")
    assert ds.latest_version == before
    trial = ds.create_branch("trial")
    assert dict(trial.branches.merge("exp", into="trial", conflicts="theirs"))
    trial.checkout_latest()
    assert {one["id"]: one["x"] for one in as_read(trial)} == {1: 7, 2: 200, 3: 300, 4: 400}
    assert dict(ds.branches.merge("exp", conflicts="ours"))["num_updated_rows"] == 2
    assert [list(one.values()) for one in sorted(as_read(ds), key=lambda one: one["id"])] == [
        [1, "A", 1, 100, 1],
        [2, "B", 2, 200, 2],
        [3, "c", 3, 300, 3],
        [4, "d", 4, 400, 4],
    ]
    # by way of a rebase, and of the diff of a clone
    one, two = ds.create_branch("one"), ds.create_branch("two")
    clone = ds.shallow_clone(ds.uri + "-clone", ds.version)
    for number, line in enumerate((one, two, clone)):
        line.add_columns({"score": f"id * {number + 1}"})
    since = ds.version
    ds.branches.merge("one")
    with pytest.raises(MergeConflictError, match="score null / 2 / 1"):
        two.branches.rebase("two")
    with pytest.raises(MergeConflictError, match="score null / 1 / 3"):
        ds.diff(since, clone).apply(ds)


def test_a_column_that_gets_the_id_of_one_that_both_dropped(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.drop_columns(["age"])
    exp.add_columns({"x": "id * 10"})
    ds.drop_columns(["age"])
    ds.update({"name": "concat(name, '!')"})  # no file has the column any more
    ds.branches.merge("exp")
    assert [list(one.values()) for one in sorted(as_read(ds), key=lambda one: one["id"])] == [
        [1, "a!", 10],
        [2, "b!", 20],
        [3, "c!", 30],
        [4, "d!", 40],
    ]


def test_columns_that_one_side_dropped_and_the_other_changed(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.update({"age": "age + 10"}, where="id < 3")
    exp.update({"name": "'C'"}, where="id = 3")
    upsert(exp, row(5, "e", 5))
    ds.drop_columns(["age"])
    plan = ds.branches.merge("exp", dry_run=True)
    assert [(c.column, c.ours, c.theirs) for c in plan.conflicts.by_column] == [
        ("age", "dropped", "changed 2 values")
    ]
    assert plan.num_unsettled == 1
    with pytest.raises(SchemaMismatchError, match="'age' was dropped here") as caught:
        plan.apply()
    assert [c.column for c in caught.value.context["conflicts"]] == ["age"]
    assert 'conflicts="ours"' in str(caught.value)
    trial = ds.create_branch("trial")
    trial.branches.merge("exp", into="trial", conflicts=lk.Sides(columns={"age": "theirs"}))
    trial.checkout_latest()
    assert by_id(trial) == by_id(exp)
    result = ds.branches.merge("exp", conflicts="ours")
    assert dict(result)["num_updated_rows"] == 1
    expected = [(1, "a"), (2, "b"), (3, "C"), (4, "d"), (5, "e")]
    assert sorted(tuple(one.values()) for one in as_read(ds)) == expected
    assert ds.branches.merge("exp").how == "nothing to do"
    # the other way round: the branch dropped what main changed
    other = ds.create_branch("other")
    other.drop_columns(["name"])
    other.delete("id = 4")
    ds.update({"name": "'A'"}, where="id = 1")
    plan = ds.branches.merge("other", dry_run=True)
    assert [(c.column, c.ours, c.theirs) for c in plan.conflicts.by_column] == [
        ("name", "changed 1 value", "dropped")
    ]
    assert ds.branches.compare("other").conflicts.by_column == plan.conflicts.by_column
    ds.branches.merge("other", conflicts="ours")
    expected = [(1, "A"), (2, "b"), (3, "C"), (5, "e")]
    assert sorted(tuple(one.values()) for one in as_read(ds)) == expected


def test_columns_that_one_side_cast_and_the_other_changed(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.alter_columns({"path": "age", "data_type": pa.int32()})
    exp.update({"name": "'B'"}, where="id = 2")
    ds.update({"age": "5000000000"}, where="id = 1")  # which is none of the other type
    for how in ("fail", "ours"):
        plan = ds.branches.merge("exp", dry_run=True, conflicts=how)  # type: ignore[call-overload]
        assert [(c.column, c.ours, c.theirs) for c in plan.conflicts.by_column] == [
            ("age", "changed 1 value that int32 cannot hold", "cast to int32")
        ]
        if how == "fail":
            with pytest.raises(SchemaMismatchError, match="cast to int32 there"):
                plan.apply()
    plan = exp.branches.merge("main", into="exp", dry_run=True)
    assert [(c.ours, c.theirs) for c in plan.conflicts.by_column] == [
        ("cast to int32", "changed 1 value that int32 cannot hold")
    ]
    with pytest.raises(SchemaMismatchError, match="cast to int32 here"):
        plan.apply()
    ds.branches.merge("exp", conflicts="ours")
    assert by_id(ds)[1] == ("a", 5_000_000_000)
    assert by_id(ds)[2] == ("B", 2)


def test_rows_that_are_in_a_log_alone(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t", primary_key="id")
    exp = lance.dataset(ds.uri).create_branch("exp")
    exp.initialize_mem_wal()
    ds.branches.merge("exp")  # there are none yet
    shard = uuid.uuid4()
    writer = exp.mem_wal_writer(str(shard))
    writer.put(pa.table({"id": [2]}, schema=ds.schema))
    with pytest.raises(InvalidArgumentError, match="would lose rows that are in no version"):
        ds.branches.merge("exp")
    writer.close()  # now it is a generation
    with pytest.raises(InvalidArgumentError, match="would lose rows that are in no version"):
        ds.branches.merge("exp")
    merged = CompactedSsTable(shard, 1)
    mine = ds.checkout_version(("exp", None))
    operation = Update(compacted_sstables=(merged,))
    lk.LanceDataset.commit(mine._location.uri, operation, read_version=mine.version)
    ds.branches.merge("exp")
    assert ds.branches.merge("exp").how == "nothing to do"


# ---- fast forward


def files_below(ds: lk.LanceDataset) -> dict[str, int]:
    """Return the data and deletion files of a line, with how many names each has on the disk."""
    at = Path(ds._location.uri)
    return {
        str(path.relative_to(at)): path.stat().st_nlink
        for folder in ("data", "_deletions")
        for path in at.glob(f"{folder}/**/*")
        if path.is_file()
    }


def told(ds: lk.LanceDataset) -> dict[int, tuple[int, int, int]]:
    """Return the row id, and by which versions it was created and changed, of each row."""
    names = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = lance.dataset(ds._location.uri, version=ds.version).to_table(columns=names).to_pylist()
    return {one["id"]: tuple(one[name] for name in names[1:]) for one in rows}


def change_all_ways(exp: lk.LanceDataset) -> None:
    exp.delete("id = 1")
    upsert(exp, row(2, "B", 2), row(5, "e", 5))
    exp.delete("id = 4")
    exp.insert([row(6, "f", 6), row(7, "g", 7)], mode="append")
    exp.delete("id = 7")


def test_a_target_that_did_not_move(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    change_all_ways(exp)
    wanted, ids = by_id(exp), told(exp)
    before = set(files_below(ds))
    plan = ds.branches.merge("exp", dry_run=True)
    assert (plan.how, len(plan.conflicts), plan.theirs) == ("fast-forward", 0, ("exp", 6))
    result = ds.branches.merge("exp")
    assert (result.how, result.version) == ("fast-forward", 2)
    assert ds.get_version().message == f"merge of exp:{exp.version}"
    assert {key: plan[key] for key in result} == dict(result)
    assert by_id(ds) == wanted
    linked = {name: count for name, count in files_below(ds).items() if name not in before}
    assert linked
    assert set(linked.values()) == {2}  # one file, two names
    if ds.has_stable_row_ids:
        assert dict(result) == {
            "num_inserted_rows": 2,
            "num_updated_rows": 1,
            "num_deleted_rows": 2,
        }
        assert {id_: one[0] for id_, one in told(ds).items()} == {
            id_: one[0] for id_, one in ids.items()
        }
        assert {id_: one[1:] for id_, one in told(ds).items()} == {
            2: (1, 2),
            3: (1, 1),
            5: (2, 2),
            6: (2, 2),
        }
        delta = lance.dataset(ds.uri).delta(compared_against=1)
        inserted = delta.get_inserted_rows().read_all()["id"].to_pylist()
        assert sorted(inserted) == [5, 6]
        updated = delta.get_updated_rows().read_all()["id"].to_pylist()
        assert updated == [2]
    # it needs nothing of the branch
    ds.branches.delete("exp")
    assert by_id(ds) == wanted
    lance.dataset(ds.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    ds.checkout_latest()
    assert by_id(ds) == wanted
    ds.validate(deep=True)
    other = lance.dataset(ds.uri)
    other.insert(lance.dataset(ds.uri).to_table().slice(0, 0), mode="append")
    other.optimize.compact_files()
    ds.checkout_latest()
    assert by_id(ds) == wanted


@pytest.mark.parametrize("clean", ["lancekit", "pylance"])
def test_files_that_stay_with_the_branch(ds: lk.LanceDataset, clean: str) -> None:
    exp = ds.create_branch("exp")

    def same(wanted: dict[int, Any]) -> None:
        """Nothing is lost by a cleanup, and both libraries read every version."""
        for line in (ds, exp):
            line.checkout_latest()
            for past in lance.dataset(line._location.uri).versions()[1:]:
                rows = lance.dataset(line._location.uri, version=past["version"]).to_table()
                assert rows.num_rows == line.at(past["version"]).to_table().num_rows
        for line in (ds, exp):
            if clean == "lancekit":
                line.cleanup_old_versions(timedelta(0), delete_unverified=True)
            else:
                lance.dataset(line._location.uri).cleanup_old_versions(
                    timedelta(0), delete_unverified=True
                )
            line.checkout_latest()
        rows = lance.dataset(ds.uri).to_table().to_pylist()
        assert sorted_rows(rows) == sorted_rows(as_read(ds))
        assert by_id(ds) == wanted

    change_all_ways(exp)
    wanted, ids, before = by_id(exp), told(exp), set(files_below(ds))
    result = ds.branches.merge("exp", files="reference")
    assert (result.how, result.version) == ("fast-forward", 2)
    assert set(files_below(ds)) == before  # not one name
    same(wanted)
    if ds.has_stable_row_ids:
        assert {id_: one[0] for id_, one in told(ds).items()} == {
            id_: one[0] for id_, one in ids.items()
        }
        assert told(ds)[2] == (ids[2][0], 1, 2)
    # deletions of a fragment that is here, and of one that is there
    exp.delete("id = 3 or id = 5")
    assert ds.branches.merge("exp", files="reference").how == "fast-forward"
    wanted = {id_: one for id_, one in wanted.items() if id_ not in (3, 5)}
    same(wanted)
    upsert(exp, row(8, "h", 8))
    assert ds.branches.merge("exp").how == "fast-forward"  # one more, with a name of its own
    assert any(count > 1 for name, count in files_below(ds).items() if name not in before)
    wanted[8] = ("h", 8)
    same(wanted)
    lance.dataset(ds.uri).delete("id = 2")
    del wanted[2]
    same(wanted)
    ds.validate(deep=True, sources=True)
    ds.create_branch("other")
    with pytest.raises(RefConflictError, match=r"main \(version.*other \(version") as refused:
        ds.branches.delete("exp")
    assert "deepen" in str(refused.value)
    assert set(refused.value.context["users"]) == {"main", "other"}
    ds.branches.delete("other")
    ds.deepen()
    with pytest.raises(RefConflictError, match="main"):
        ds.branches.delete("exp")  # the version before reads them
    same(wanted)
    ds.branches.delete("exp")
    ds.checkout_latest()
    assert by_id(ds) == wanted
    ds.validate(deep=True, sources=True)


def test_a_cleanup_of_the_branch_keeps_what_others_read(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    change_all_ways(exp)
    ds.branches.merge("exp", files="reference")
    wanted = by_id(ds)
    exp.insert([row(9, "i", 9)], mode="append")
    exp.optimize.compact_files()
    exp.cleanup_old_versions(timedelta(0), delete_unverified=True)
    ds.checkout_latest()
    assert by_id(ds) == wanted
    assert sorted_rows(lance.dataset(ds.uri).to_table().to_pylist()) == sorted_rows(as_read(ds))
    with pytest.raises(RefConflictError, match="deepen"):
        ds.branches.delete("exp")
    # the other library does not look
    lance.dataset(ds.uri).branches.delete("exp")
    with pytest.raises(CorruptFileError):
        lk.dataset(ds.uri).to_table()


@pytest.mark.cover(2)
@pytest.mark.parametrize("side", [lk, lance])
@pytest.mark.parametrize("files", ["link", "reference"])
def test_a_cleanup_of_main_keeps_what_a_rebased_branch_reads(
    ds: lk.LanceDataset, files: Any, side: Any
) -> None:
    exp = ds.create_branch("exp")
    change_all_ways(ds)
    assert exp.branches.merge("main", files=files).how == "fast-forward"
    sub, wanted = exp.create_branch("sub"), by_id(exp)
    ds.update({"id": "id"})
    ds.optimize.compact_files()
    side.dataset(ds.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    for branch in (exp, sub):
        branch.checkout_latest()
        assert by_id(branch) == wanted


def test_a_branch_of_a_branch_whose_files_stay(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.insert([row(5, "e", 5)], mode="append")
    sub = exp.create_branch("exp/sub")
    sub.insert([row(6, "f", 6)], mode="append")
    sub.delete("id = 5 or id = 1")
    assert ds.branches.merge("exp/sub", files="reference").how == "fast-forward"
    wanted = by_id(sub)
    assert by_id(ds) == wanted
    # another that begins where main reads what is not its own, and comes home with copies
    other = ds.create_branch("other")
    other.delete("id = 6")
    assert ds.branches.merge("other").how == "fast-forward"
    del wanted[6]
    assert sorted_rows(lance.dataset(ds.uri).to_table().to_pylist()) == sorted_rows(as_read(ds))
    assert by_id(ds) == wanted
    with pytest.raises(RefConflictError, match="main"):
        ds.branches.delete("exp/sub")
    with pytest.raises(InvalidArgumentError, match="files must be"):
        ds.branches.merge("exp", files="copy")


def test_forward_again_and_then_not(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    change_all_ways(exp)
    ds.branches.merge("exp")
    first = told(ds)
    exp.delete("id = 3")
    upsert(exp, row(2, "BB", 2), row(8, "h", 8))
    exp.update({"age": "50"}, where="id = 5")
    exp.optimize.compact_files()
    ids = told(exp)
    assert ds.branches.merge("exp").how == "fast-forward"
    assert by_id(ds) == by_id(exp)
    if ds.has_stable_row_ids:
        assert {id_: one[0] for id_, one in told(ds).items()} == {
            id_: one[0] for id_, one in ids.items()
        }
        assert {id_: one[1:] for id_, one in told(ds).items()} == {
            2: (1, 3),
            5: (first[5][1], 3),
            6: first[6][1:],  # which a compaction moved
            8: (3, 3),
        }
    assert ds.branches.merge("exp").how == "nothing to do"
    # now both move: each is compared with its own of the two versions that are the same
    exp.update({"age": "60"}, where="id = 6")
    exp.delete("id = 8")
    upsert(exp, row(9, "i", 9))
    ds.update({"name": "'F'"}, where="id = 6")
    upsert(ds, row(10, "j", 10))
    result = ds.branches.merge("exp")
    assert (result.how, dict(result)["num_updated_rows"]) == ("three-way", 1)
    assert by_id(ds) == {
        2: ("BB", 2),
        5: ("e", 50),
        6: ("F", 60),
        9: ("i", 9),
        10: ("j", 10),
    }


def test_a_row_that_is_updated_again_and_moved(tmp_path: Path) -> None:
    rows = [{"id": id_, "v": 0} for id_ in range(20)]
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id", enable_stable_row_ids=True)
    ds.update({"v": "1"}, where="id > 0")  # their ids stand in two fragments, once deleted
    before = told(ds)
    exp = ds.create_branch("exp")
    exp.insert({"id": [20], "v": [0]}, mode="append")
    exp.optimize.compact_files()
    assert ds.branches.merge("exp").how == "fast-forward"
    assert told(ds) == {**before, 20: (20, 3, 3)}


def test_fragments_that_a_restore_brought_back(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.delete("id < 3")
    assert ds.branches.merge("exp").how == "fast-forward"
    exp.checkout_version(("exp", 1)).restore()
    exp.checkout_latest()
    # its first fragment is there again, and would have another id on main
    assert ds.branches.merge("exp").how == "three-way"
    assert by_id(ds) == by_id(exp)
    assert ds.branches.merge("exp").how == "nothing to do"
    upsert(exp, row(9, "i", 9))
    ds.branches.merge("exp")
    assert by_id(ds) == by_id(exp)


def test_row_ids_that_a_restore_hands_out_again(
    tmp_path: Path, pylance4: Callable[..., Any]
) -> None:
    ds = lk.write_dataset(
        {"id": [1], "v": [0]}, tmp_path / "t", primary_key="id", enable_stable_row_ids=True
    )
    exp = ds.create_branch("exp")
    exp.insert({"id": [2], "v": [0]}, mode="append")
    assert ds.branches.merge("exp").how == "fast-forward"
    pylance4(
        "lance.dataset(arguments['uri']).checkout_version(('exp', 1)).restore()\nresult = None",
        uri=ds.uri,
    )
    exp.checkout_latest()
    exp.insert({"id": [3], "v": [0]}, mode="append")
    assert told(exp)[3][0] == told(ds)[2][0]
    result = ds.branches.merge("exp")
    assert dict(result) == {
        "num_inserted_rows": 1,
        "num_updated_rows": 0,
        "num_deleted_rows": 1,
    }
    assert {key: one[1:] for key, one in told(ds).items()} == {1: (1, 1), 3: (3, 3)}


def test_rows_without_a_key_go_forward_and_meet(tmp_path: Path) -> None:
    rows = {"v": [1, 1, 2]}
    ds = lk.write_dataset(rows, tmp_path / "t", enable_stable_row_ids=True)
    exp = ds.create_branch("exp")
    exp.insert({"v": [3, 3]}, mode="append")
    assert ds.branches.merge("exp").how == "fast-forward"
    exp.update({"v": "30"}, where="v = 3")
    ds.delete("v = 1")
    ds.insert({"v": [4]}, mode="append")
    exp.insert({"v": [5]}, mode="append")
    assert ds.branches.merge("exp").how == "three-way"
    assert sorted(one["v"] for one in as_read(ds)) == [2, 4, 5, 30, 30]


def test_what_does_not_go_forward(ds: lk.LanceDataset) -> None:
    other = ds.create_branch("other")
    ds.update_config({"a": "b"})  # which moves it, too
    other.delete("id = 1")
    assert ds.branches.merge("other").how == "three-way"


def test_a_branch_of_a_branch_goes_home(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.delete("id = 1")
    sub = exp.create_branch("exp/sub")
    upsert(sub, row(5, "e", 5))
    assert ds.branches.merge("exp/sub").how == "fast-forward"
    assert by_id(ds) == by_id(sub)
    ds.branches.delete("exp/sub")
    ds.branches.delete("exp")
    assert sorted(by_id(ds)) == [2, 3, 4, 5]


def test_a_branch_that_merged_what_the_target_took_over_has_other_row_ids(tmp_path: Path) -> None:
    """Its rows come one by one: no row id of the target may get another row."""
    ds = lk.write_dataset(
        {"id": [1], "v": [1]}, tmp_path / "t", primary_key="id", enable_stable_row_ids=True
    )
    one, other = ds.create_branch("one"), ds.create_branch("other")
    one.insert({"id": [2], "v": [2]}, mode="append")
    other.insert({"id": [3], "v": [3]}, mode="append")
    other.branches.merge("one")
    assert ds.branches.merge("one").how == "fast-forward"
    before = ids_by_key(ds)
    other.checkout_latest()
    assert before[2] == ids_by_key(other)[3], "both branches gave out one id"
    plan = ds.branches.merge("other", dry_run=True)
    result = ds.branches.merge("other")
    for found in (plan, result):
        assert found.how == "three-way"
        assert (found.num_inserted_rows, found.num_changed_cells) == (1, 0)
        assert (found.num_updated_rows, found.num_deleted_rows) == (0, 0)
    after = ids_by_key(ds)
    assert {id_: after[id_] for id_ in before} == before
    assert ds.diff(2, 3).counts.inserted == 1


def ids_by_key(ds: lk.LanceDataset) -> dict[int, int]:
    rows = ds.to_table(columns=["id"], with_row_id=True).to_pylist()
    return {row["id"]: row["_rowid"] for row in rows}


def test_a_target_that_moves_meanwhile(
    ds: lk.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    exp = ds.create_branch("exp")
    change_all_ways(exp)
    from lancekit._operations.lineage import carry_columns as module

    bring, other = module._link_or_copy, lk.dataset(ds.uri)

    def late(*arguments: Any) -> None:
        bring(*arguments)
        if other.version == 1:
            other.update({"age": "33"}, where="id = 3")

    monkeypatch.setattr(module, "_link_or_copy", late)
    before = set(files_below(ds))
    result = ds.branches.merge("exp")
    assert (result.how, result.attempts) == ("three-way", 2)
    assert by_id(ds) == {2: ("B", 2), 3: ("c", 33), 5: ("e", 5), 6: ("f", 6)}
    left = {name for name, count in files_below(ds).items() if count > 1 and name not in before}
    assert not left  # what was linked is gone again


def test_files_that_a_cleanup_took_are_brought_again(
    ds: lk.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    exp = ds.create_branch("exp")
    change_all_ways(exp)
    from lancekit._operations.lineage import carry_columns as module

    commit = module.commit_next

    def cleaned(*arguments: Any, **keywords: Any) -> Any:
        landed = commit(*arguments, **keywords)
        for name, count in files_below(ds).items():
            if count > 1:
                Path(ds.uri, name).unlink()
        return landed

    monkeypatch.setattr(module, "commit_next", cleaned)
    ds.branches.merge("exp")
    assert by_id(ds) == by_id(exp)


def test_files_of_other_disks_and_stores_are_copied(
    ds: lk.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    exp = ds.create_branch("exp")
    change_all_ways(exp)
    monkeypatch.setattr(LocalStore, "adopt", lambda *_: False)
    assert ds.branches.merge("exp").how == "fast-forward"
    assert set(files_below(ds).values()) == {1}
    assert by_id(ds) == by_id(exp)


def test_forward_in_memory() -> None:
    ds = lk.write_dataset({"id": [1, 2]}, "memory://forward-in-memory", primary_key="id")
    exp = ds.create_branch("exp")
    exp.insert({"id": [3]}, mode="append")
    exp.delete("id = 1")
    assert ds.branches.merge("exp").how == "fast-forward"
    ds.branches.delete("exp")
    assert ds.to_table()["id"].to_pylist() == [2, 3]


def test_blobs_go_forward(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), lk.blob_field("b")])

    def blobs(ids: list[int], values: list[bytes]) -> pa.Table:
        return pa.table({"id": ids, "b": lk.blob_array(values)}, schema=schema)

    big = b"x" * (5 << 20)  # in a file of its own
    ds = lk.write_dataset(
        blobs([1], [big]), tmp_path / "t", primary_key="id", data_storage_version="2.2"
    )
    exp = ds.create_branch("exp")
    exp.insert(blobs([2, 3], [b"small", big[1:]]), mode="append")
    assert ds.branches.merge("exp").how == "fast-forward"
    ds.branches.delete("exp")
    found = ds.to_table(blob_handling="all_binary").sort_by("id")["b"].to_pylist()
    assert found == [big, b"small", big[1:]]


@pytest.mark.parametrize("forward", [True, False])
def test_an_index_of_the_reference_finds_what_came(ds: lk.LanceDataset, *, forward: bool) -> None:
    lance.dataset(ds.uri).create_scalar_index("age", "BTREE")
    ds.checkout_latest()
    exp = ds.create_branch("exp")
    upsert(exp, row(2, "B", 20), row(5, "e", 3))
    exp.delete("id = 4")
    if not forward:
        ds.update({"name": "'A'"}, where="id = 1")
    assert (ds.branches.merge("exp").how == "fast-forward") is forward
    other = lance.dataset(ds.uri)
    assert ds.has_index
    for age, ids in ((20, [2]), (2, []), (3, [3, 5]), (4, []), (1, [1])):
        found = other.to_table(filter=f"age = {age}")["id"].to_pylist()
        assert sorted(found) == ids


def test_indices_of_a_branch_stay_there(ds: lk.LanceDataset) -> None:
    ds.create_scalar_index("age", "BTREE")
    exp = ds.create_branch("exp")
    exp.create_scalar_index("name", "BTREE")
    exp.drop_index("age_idx")
    upsert(exp, row(9, "a", 9))
    assert ds.branches.merge("exp").how == "fast-forward"
    for side in (lk, lance):
        handle: Any = side.dataset(ds.uri)
        assert [index.name for index in handle.describe_indices()] == ["age_idx"]
        assert handle.to_table(["id"], filter="name = 'a'")["id"].to_pylist() == [1, 9]
        assert handle.to_table(["id"], filter="age = 9")["id"].to_pylist() == [9]
    ds.optimize.optimize_indices()
    assert lance.dataset(ds.uri).stats.index_stats("age_idx")["num_unindexed_rows"] == 0


def test_writers_of_the_target_go_on(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    stop = threading.Event()
    written: list[int] = []

    def write() -> None:
        mine = lk.dataset(ds.uri)
        for number in range(100, 200):
            began = time.monotonic()
            if stop.is_set():
                return
            upsert(mine, row(number, "main's", 0))
            written.append(number)
            if number % 3 == 0:
                lance.dataset(ds.uri).update({"age": "age + 1"}, where=f"id = {number}")
                mine.checkout_latest()
            # a merge that never finds a gap gives up after ten conflicts, as it is meant to
            stop.wait(time.monotonic() - began)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            upsert(exp, row(number, f"exp's {number}", 1000 + number), row(50 + number, "new", 0))
            if number == 3:
                exp.delete("id = 51")
            ds.branches.merge("exp")
    finally:
        stop.set()
        writer.join()
    ds.checkout_latest()
    found = by_id(ds)
    assert {id_ for id_ in found if id_ >= 100} == set(written)
    assert {id_: found[id_] for id_ in found if id_ < 100} == {
        **{number: (f"exp's {number}", 1000 + number) for number in range(5)},
        **{50 + number: ("new", 0) for number in (0, 2, 3, 4)},
    }


def test_forward_in_an_object_store(s3: S3Server) -> None:
    place = {"uri": "s3://lancekit-tests/forward", "storage_options": s3.storage_options}
    rows = {"id": [1, 2], "name": ["a", "b"]}
    ds = lk.write_dataset(rows, place["uri"], storage_options=s3.storage_options, primary_key="id")
    exp = ds.create_branch("exp")
    exp.insert({"id": [3], "name": ["c"]}, mode="append")
    exp.delete("id = 1")
    assert ds.branches.merge("exp").how == "fast-forward"
    ds.branches.delete("exp")
    other = lance.dataset(**place)
    assert sorted(other.to_table()["id"].to_pylist()) == [2, 3]


@pytest.mark.parametrize("keep", [True, False])
def test_cleanups_of_the_reference_between_all_steps(ds: lk.LanceDataset, *, keep: bool) -> None:
    exp = ds.create_branch("exp")

    def clean() -> None:
        before = by_id(ds), by_id(exp)
        for line in (ds, exp):
            line.checkout_latest()
            lance.dataset(line._location.uri).cleanup_old_versions(
                timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
            )
        assert (by_id(ds), by_id(exp)) == before

    for number in range(3):
        upsert(exp, row(10 + number, "e", number))
        clean()
        if number:
            upsert(ds, row(20 + number, "m", number))
            clean()
        try:
            ds.branches.merge("exp")
        except VersionNotFoundError:  # nothing is lost, and nothing done in part
            assert not keep
            assert number
            return
        if keep:
            ds.tags.create(f"merged-{number}", ("exp", exp.version))
            ds.tags.create(f"taken-{number}", ds.version)
        clean()
    assert keep
    assert {id_ for id_ in by_id(ds) if id_ > 4} == {10, 11, 12, 21, 22}


@pytest.mark.torture
def test_random_merges_and_rebases(whole: bool) -> None:
    @runs(250 if whole else 5)
    @given(st.data())
    def check_one(data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Story(data.draw, Path(folder) / "t").run(data.draw(st.integers(2, 9)))

    check_one()


class Story:
    """A main line and a branch, each with its rows, and the rows that both had last."""

    def __init__(self, draw: Callable[..., Any], path: Path) -> None:
        self.draw = draw
        rows = [{"id": i, "v": 0, "w": 0} for i in range(6)]
        stable = draw(st.booleans())
        ds = lk.write_dataset(
            rows,
            path,
            primary_key="id",
            enable_stable_row_ids=stable,
            max_rows_per_file=draw(st.sampled_from([2, 100])),
        )
        self.common: dict[Any, Row] = {row["id"]: row for row in rows}
        if draw(st.booleans()):
            lance.dataset(str(path)).create_branch("exp")
        else:
            ds.create_branch("exp")
        way = "both" if stable else "key"
        self.main = Written(ds, self.common, way, "main")
        self.exp = Written(ds.checkout_version(("exp", None)), self.common, way, "exp")

    def run(self, steps: int) -> None:
        for _ in range(steps):
            what = self.draw(st.sampled_from(["main", "exp", "main", "exp", "merge", "rebase"]))
            if what in ("main", "exp"):
                getattr(self, what).step(self.draw)
            elif what == "merge":
                self.meet(self.main, self.exp)
            else:
                self.meet(self.exp, self.main)

    def meet(self, ours: Written, theirs: Written) -> None:
        by, whose = (
            self.draw(st.sampled_from(["cell", "row"])),
            self.draw(st.sampled_from(["ours", "theirs"])),
        )
        expected = merged(self.common, theirs.rows, ours.rows, by, whose)
        branches = self.main.ds.branches
        ways = {"by": by, "conflicts": whose}
        if ours is self.main:
            result = branches.merge("exp", **ways)
        else:
            result = branches.rebase("exp", **ways)
            ours.ds.checkout_latest()
        assert result.num_conflicts == len(expected.clashes)
        assert sorted_rows(as_read(ours.ds)) == sorted_rows(expected.rows.values())
        ours.rows = {key: dict(row) for key, row in expected.rows.items()}
        self.common = {key: dict(row) for key, row in theirs.rows.items()}


def test_a_branch_file_that_names_no_version_leaves_no_merge_base(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2]}, tmp_path / "t", primary_key="id")
    ds.create_branch("exp").insert({"id": [3]}, mode="append")
    file = tmp_path / "t/_refs/branches/exp.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "parentVersion": -1}))
    ds = lk.dataset(ds.uri)
    for call in (ds.branches.compare, ds.branches.merge, ds.branches.rebase):
        with pytest.raises(lk.errors.VersionNotFoundError, match="no common version"):
            call("exp")
    assert ds.branches.compare("exp", base=0)
