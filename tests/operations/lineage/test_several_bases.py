"""Merges of versions with several merge bases, beside a model of plain rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._versions.commit_graph import CommitGraph
from lancekit.errors import MergeConflictError
from tests.support.forked import at_once

Rows = dict[int, dict[str, int]]


def rows_of(ds: lk.LanceDataset) -> Rows:
    return {row["id"]: row for row in ds.to_table().to_pylist()}


def judged(left: Any, right: Any, bases: Sequence[Any]) -> str:
    """Return whose value counts: a value is new if it differs from that of each base."""
    new = [all(side != base for base in bases) for side in (left, right)]
    return "ours" if left == right else {(1, 0): "theirs", (0, 1): "ours"}.get(tuple(new), "both")


def merged(theirs: Rows, ours: Rows, bases: Sequence[Rows], by: str, whose: str) -> Rows:
    out: Rows = {}
    for key in theirs.keys() | ours.keys():
        left, right, olds = theirs.get(key), ours.get(key), [base.get(key) for base in bases]
        if left is None or right is None or by == "row":
            side = judged(left, right, olds)
            found = left if (whose if side == "both" else side) == "theirs" else right
        else:
            found = {}
            for name in right:
                side = judged(left[name], right[name], [(old or {}).get(name) for old in olds])
                found[name] = (left if (whose if side == "both" else side) == "theirs" else right)[
                    name
                ]
        if found is not None:
            out[key] = found
    return out


def change(ds: lk.LanceDataset, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 3)):
        ids = chance.sample(range(8), 2)
        rows = [{"id": i, "v": chance.randint(0, 2), "w": chance.randint(0, 2)} for i in ids]
        if chance.random() < 0.3:
            ds.delete(f"id in ({ids[0]}, {ids[1]})")
        elif chance.random() < 0.5:
            ds.update({chance.choice("vw"): str(chance.randint(0, 2))}, where=f"id = {ids[0]}")
        else:
            ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
                rows
            )


@pytest.mark.torture
def test_random_merges_with_several_bases(whole: bool) -> None:
    several = 0
    for seed in range(400 if whole else 12):
        chance = random.Random(seed)
        whose, by = chance.choice(["ours", "theirs"]), chance.choice(["cell", "row"])
        ds = lk.write_dataset(
            [{"id": i, "v": 0, "w": 0} for i in range(6)],
            f"memory://several-bases-{seed}",
            primary_key="id",
            enable_stable_row_ids=chance.random() < 0.5,
            max_rows_per_file=chance.choice([2, 100]),
        )
        names = ("x", "y", "exp")
        x, y, exp = (ds.create_branch(name) for name in names)
        for line in (x, y):
            change(line, chance)
        for source, target in (("x", "main"), ("y", "main"), ("y", "exp"), ("x", "exp")):
            ds.branches.merge(source, into=target, conflicts=chance.choice(["ours", "theirs"]))
        for line in (ds, exp):
            line.checkout_latest()
            change(line, chance)
        bases = CommitGraph(ds._location).merge_bases(exp._snapshot, ds._snapshot)
        several += len(bases) > 1
        olds = [
            rows_of(ds.checkout_version((b.location.name, b.version))) for b in bases if b.location
        ]
        expected = merged(rows_of(exp), rows_of(ds), olds, by, whose)
        plan = ds.branches.merge("exp", dry_run=True, by=by, conflicts=whose)
        assert len(plan.conflicts.sample(99)) == len(plan.conflicts)
        result = ds.branches.merge("exp", by=by, conflicts=whose)
        assert dict(result) == {key: plan[key] for key in result}
        assert rows_of(ds) == expected, seed
    assert several > 4


def test_neither_side_has_a_new_value() -> None:
    """Each side has the value of another base: nobody but the user can tell which is meant."""
    ds = lk.write_dataset({"id": [1], "v": [0]}, "memory://neither-new", primary_key="id")
    x, y, exp = (ds.create_branch(name) for name in ("x", "y", "exp"))
    x.update({"v": "1"})
    y.update({"v": "2"})
    for source, target, whose in (
        ("x", "main", "fail"),
        ("y", "main", "ours"),
        ("y", "exp", "fail"),
        ("x", "exp", "ours"),
    ):
        ds.branches.merge(source, into=target, conflicts=whose)
    ds.checkout_latest()
    exp.checkout_latest()
    assert (ds.to_table()["v"][0].as_py(), exp.to_table()["v"][0].as_py()) == (1, 2)
    with pytest.raises(MergeConflictError) as told:
        ds.branches.merge("exp")
    (row,) = told.value.context["conflicts"].to_table().to_pylist()
    assert (row["_conflict"], row["_columns"]) == ("update/update", ["v"])
    assert [row[side]["v"] for side in ("base", "ours", "theirs")] in ([1, 1, 2], [2, 1, 2])
    exp.update({"v": "3"})
    ds.branches.merge("exp")
    assert ds.to_table()["v"].to_pylist() == [3]


CALL = """
import sys
import lancekit as lk
place, call = sys.argv[1:]
getattr(lk.dataset(place).branches, call)("exp")
"""


def test_a_merge_and_a_rebase_at_the_same_moment(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2], "v": [0, 0]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    for number in range(1, 4):
        exp.update({"v": str(number)}, where="id = 1")
        ds.update({"v": str(number)}, where="id = 2")
        errors = [error for _, error in at_once([(CALL, ds.uri, c) for c in ("merge", "rebase")])]
        assert errors == ["", ""]
        for line in (ds, exp):
            line.checkout_latest()
            assert rows_of(line) == {i: {"id": i, "v": number} for i in (1, 2)}
            assert lance.dataset(line._location.uri).to_table()["v"].to_pylist() == [number] * 2


def test_a_cast_that_is_new_with_regard_to_each_base(tmp_path: Path) -> None:
    """Each base has other field ids, so that each plan gives the cast column an id of its own."""
    ds = lk.write_dataset({"id": [1], "v": [0]}, tmp_path / "t", primary_key="id")
    x, y, exp = (ds.create_branch(name) for name in ("x", "y", "exp"))
    x.insert({"id": [2], "v": [2]}, mode="append")
    y.add_columns({"w": "v", "u": "v"})
    y.insert({"id": [3], "v": [3], "w": [3], "u": [3]}, mode="append")
    for source, target in (("x", "main"), ("y", "main"), ("y", "exp"), ("x", "exp")):
        ds.branches.merge(source, into=target)
    ds.checkout_latest()
    exp.checkout_latest()
    for line in (ds, exp):
        line.drop_columns(["w", "u"])
        line.optimize.compact_files()
    exp.alter_columns({"path": "v", "data_type": pa.int32()})
    ds.update({"v": "7"}, where="id = 1")
    ds.branches.merge("exp")
    assert lance.dataset(ds.uri).to_table().to_pydict().keys() == {"id", "v"}
    assert {row["id"]: row["v"] for row in ds.to_table().to_pylist()} == {1: 7, 2: 2, 3: 3}
    assert ds.schema.field("v").type == pa.int32()


@pytest.mark.parametrize("restored", [False, True], ids=["fast-forward", "three-way"])
def test_a_target_that_repeats_a_base_changed_nothing(tmp_path: Path, restored: bool) -> None:
    rows = {"id": [1, 2, 3, 4], "v": [1, 2, 3, 4]}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id", max_rows_per_file=2)
    x = ds.create_branch("x")
    x.update({"v": "10"}, where="id = 1")
    ds.update({"v": "40"}, where="id = 4")
    ds.branches.merge("x")
    exp = ds.create_branch("exp")
    ds.undo()
    ds.delete("id > 2")
    assert exp.branches.rebase("exp").how == "fast-forward"
    if restored:
        ds.undo()  # a fragment that came back is no fast-forward
    ds.branches.merge("x")
    # exp has the version of main without x, and the version of x by its fork
    plan = ds.branches.merge("main", into="exp", dry_run=True)
    assert plan.how == ("three-way" if restored else "fast-forward")
    assert plan.num_conflicts == 0
    exp.branches.rebase("exp")
    assert rows_of(exp) == rows_of(ds)
    assert rows_of(exp)[1]["v"] == 10
