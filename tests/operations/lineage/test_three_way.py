"""Changes of two sides, put together: as the plain model does it, and as the reference reads it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._format.key_filter import is_empty
from lancekit.errors import (
    InvalidArgumentError,
    MergeConflictError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from tests.operations.lineage.test_diff import STEPS, text
from tests.operations.lineage.three_way_model import Row, merged
from tests.support.equivalence import begin, draw_step
from tests.system.test_equivalence import runs, told

#: what tells rows: a key, stable row ids, or both
WAYS = ("key", "ids", "both")


def as_read(ds: lk.LanceDataset) -> list[Row]:
    """Return the rows as the reference reads them."""
    other = lance.dataset(ds._location.uri, version=ds.version)
    names = ds.schema.names
    if ds.has_stable_row_ids:
        ids = other.to_table(with_row_id=True)["_rowid"].to_pylist()
        assert len(set(ids)) == len(ids)
        assert ids == ds.to_table(with_row_id=True)["_rowid"].to_pylist()
    rows: list[Row] = other.to_table(columns=names).to_pylist()
    assert rows == ds.to_table(columns=names).to_pylist()
    return rows


def sorted_rows(rows: Any) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


# ---- random histories on both sides


class Written:
    """A branch and what its rows are, by what tells them: their keys, or where they came from."""

    def __init__(self, ds: lk.LanceDataset, rows: dict[Any, Row], way: str, name: str) -> None:
        self.ds, self.rows, self.way, self.name = (
            ds,
            {k: dict(r) for k, r in rows.items()},
            way,
            name,
        )
        self.made = 0

    def step(self, draw: Callable[..., Any]) -> None:
        what = draw(st.sampled_from(["update", "update", "insert", "delete", "compact", "pylance"]))
        ids = draw(st.sets(st.integers(0, 9), min_size=1, max_size=3))
        listed = ", ".join(map(str, sorted(ids)))
        if what in ("update", "pylance"):
            column, value = draw(st.sampled_from("vw")), draw(st.integers(0, 2))
            if what == "pylance":
                lance.dataset(self.ds._location.uri).update(
                    {column: str(value)}, where=f"id IN ({listed})"
                )
                self.ds.checkout_latest()
            else:
                self.ds.update({column: str(value)}, where=f"id IN ({listed})")
            for row in self.rows.values():
                if row["id"] in ids:
                    row[column] = value
        elif what == "delete":
            self.ds.delete(f"id IN ({listed})")
            self.rows = {k: row for k, row in self.rows.items() if row["id"] not in ids}
        elif what == "compact":
            self.ds.optimize.compact_files()
        else:
            new = sorted(ids - {row["id"] for row in self.rows.values()})
            made = [{"id": i, "v": draw(st.integers(0, 1)), "w": 0} for i in new]
            if made:
                self.ds.insert(made, mode="append")
            for row in made:
                self.made += 1
                told = (self.name, self.made) if self.way == "ids" else row["id"]
                self.rows[told] = row


@pytest.mark.torture
def test_random_histories_of_two_sides(whole: bool) -> None:
    @runs(400 if whole else 6)
    @given(st.data())
    def check_one(data: st.DataObject) -> None:
        draw = data.draw
        way = draw(st.sampled_from(WAYS))
        by, whose = (
            draw(st.sampled_from(["cell", "row"])),
            draw(st.sampled_from(["ours", "theirs"])),
        )
        with tempfile.TemporaryDirectory() as folder:
            rows = [{"id": i, "v": 0, "w": 0} for i in range(6)]
            ds = lk.write_dataset(
                rows,
                Path(folder) / "t",
                primary_key=None if way == "ids" else "id",
                enable_stable_row_ids=way != "key",
                max_rows_per_file=draw(st.sampled_from([2, 100])),
            )
            start = {row["id"]: row for row in rows}
            ours = Written(ds, start, way, "ours")
            theirs = Written(ds.create_branch("exp"), start, way, "theirs")
            for side in (ours, theirs):
                for _ in range(draw(st.integers(0, 4))):
                    side.step(draw)
            check(ours, theirs, start, by, whose)

    check_one()


def check(ours: Written, theirs: Written, start: dict[Any, Row], by: Any, whose: Any) -> None:
    expected = merged(start, theirs.rows, ours.rows, by, whose)
    ds = ours.ds
    version = ds.version
    diff = ds.diff(1, theirs.ds)
    if expected.clashes:
        with pytest.raises(MergeConflictError) as caught:
            diff.apply(ds, by=by)
        conflicts = caught.value.context["conflicts"]
        assert len(conflicts) == len(expected.clashes) == len(conflicts.to_table())
        assert ds.version == ds.latest_version == version
        if ours.way != "ids":
            assert {row.key["id"] for row in conflicts.sample(99)} == expected.clashes
            for row in conflicts.sample(99):
                assert row.ours == ours.rows.get(row.key["id"])
                assert row.theirs == theirs.rows.get(row.key["id"])
                assert row.base == start.get(row.key["id"])
    before = {}
    if ds.has_stable_row_ids:
        before = {row["_rowid"]: row for row in told_rows(ds)}
    result = diff.apply(ds, by=by, conflicts=whose)
    assert sorted_rows(as_read(ds)) == sorted_rows(expected.rows.values())
    assert result.num_conflicts == len(expected.clashes)
    changed = sum(result.values())
    assert (result.how == "nothing to do") == (ds.version == version) == (changed == 0)
    if ds.has_stable_row_ids:
        for row in told_rows(ds):
            old = before.get(row["_rowid"])
            stamp = "_row_last_updated_at_version"
            if old is None:
                assert row["_row_created_at_version"] == row[stamp] == ds.version
            elif {**old, stamp: 0} != {**row, stamp: 0}:
                assert row["_row_created_at_version"] == old["_row_created_at_version"]
                assert row[stamp] == ds.version
            else:
                assert row[stamp] == old[stamp]
    # once more there is nothing left to do, unless ours won, or nothing tells what came already
    if ours.way != "ids" and (whose == "theirs" or not expected.clashes):
        assert sum(diff.apply(ds, by=by, conflicts=whose).values()) == 0


def told_rows(ds: lk.LanceDataset) -> list[Row]:
    names = ["id", "v", "w", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    found: list[Row] = lance.dataset(ds._location.uri).to_table(columns=names).to_pylist()
    return found


@pytest.mark.torture
def test_a_diff_makes_one_side_of_the_other(whole: bool) -> None:
    rows_only = [step for step in STEPS if step.split()[0] in ("append", "delete", "update")]

    @runs(300 if whole else 5)
    @given(st.data())
    def check_one(data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            side = begin(data.draw, Path(folder) / "t")
            for _ in range(data.draw(st.integers(1, 4))):
                name = data.draw(st.sampled_from([*rows_only, "compact"]))
                step = draw_step(data.draw, [name], side.state, side.past)
                if step is not None:
                    with told([step]):
                        side.do(step)
            ds = lk.dataset(side.path)
            old, new = (data.draw(st.sampled_from(sorted(side.past))) for _ in range(2))
            names = ds.schema.names
            branch = ds.create_branch("old", old)
            on = data.draw(st.sampled_from([None, names[:1]]))
            ds.diff(old, new, on=on).apply(branch)
            found, wanted = (
                sorted(text(row, names) for row in lance_rows(one))
                for one in (branch, ds.checkout_version(new))
            )
            assert found == wanted

    check_one()


def lance_rows(ds: lk.LanceDataset) -> list[Row]:
    found: list[Row] = lance.dataset(ds._location.uri, version=ds.version).to_table().to_pylist()
    return found


# ---- case by case


def upsert(ds: lk.LanceDataset, *rows: Row) -> None:
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(list(rows))


def row(id_: int, name: str, age: int) -> Row:
    return {"id": id_, "name": name, "age": age}


def by_id(ds: lk.LanceDataset) -> dict[int, tuple[str, int]]:
    return {found["id"]: (found["name"], found["age"]) for found in as_read(ds)}


def test_times_of_conflicts_are_read_as_times(tmp_path: Path) -> None:
    def at(*hours: int) -> pa.Table:
        times = [datetime(2013, 9, 2, hour, tzinfo=UTC) for hour in hours]
        return pa.table(
            {"day": [date(2013, 9, 2)], "at": pa.array(times, pa.timestamp("us", "UTC"))}
        )

    ds = lk.write_dataset(at(1), tmp_path / "d", primary_key="day")
    exp = ds.create_branch("exp")
    for handle, hour in ((ds, 2), (exp, 3)):
        handle.merge_insert("day").when_matched_update_all().execute(at(hour))
    with pytest.raises(MergeConflictError) as caught:
        ds.diff(1, exp).apply(ds)
    _, told, *_ = str(caught.value).split("\n")
    times = " / ".join(f"2013-09-02 0{hour}:00:00+00:00" for hour in (1, 2, 3))
    assert told.startswith(f"  day = 2013-09-02: at {times} (base / ours / theirs)")


def test_the_function_that_the_page_shows_settles_conflicts_of_each_kind(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/branches.md").read_text()
    (code,) = (part for part in page.split("```python\n") if part.startswith("def newest("))
    ds = lk.write_dataset({"id": [1, 2], "seen_at": [1, 1]}, tmp_path / "d", primary_key="id")
    exp = ds.create_branch("experiment")
    exp.merge_insert("id").when_matched_update_all().execute({"id": [1, 2], "seen_at": [5, 2]})
    exp.insert({"id": [3], "seen_at": [8]})
    ds.merge_insert("id").when_matched_update_all().execute({"id": [1], "seen_at": [3]})
    ds.delete("id = 2")
    ds.insert({"id": [3], "seen_at": [9]})
    names: dict[str, Any] = {}
    exec(code.split("```")[0].split("\n\n")[0], names)
    result = ds.branches.merge("experiment", conflicts=names["newest"])
    assert result.num_conflicts == 3
    rows = ds.to_table().sort_by("id").to_pylist()
    assert [row["seen_at"] for row in rows] == [5, 2, 9]


def test_what_conflicts_say(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.update({"name": "'x'"}, where="id <= 2")
    exp.delete("id = 3")
    upsert(exp, row(9, "nine", 9))
    ds.update({"name": "'y'", "age": "20"}, where="id = 2")
    ds.update({"age": "30"}, where="id = 3")
    ds.delete("id = 1")
    upsert(ds, row(9, "neun", 9))
    diff = ds.diff(1, exp)
    with pytest.raises(MergeConflictError, match="id = 2: name 'b' / 'y' / 'x'") as caught:
        diff.apply(ds)
    conflicts = caught.value.context["conflicts"]
    assert conflicts.counts == {
        "update/update": 1,
        "update/delete": 1,
        "delete/update": 1,
        "insert/insert": 1,
    }
    assert (conflicts.base, conflicts.ours, conflicts.theirs) == (
        ("main", 1),
        ("main", ds.version),
        ("exp", exp.version),
    )
    rows = {one.key["id"]: one for one in conflicts.sample()}
    assert rows[2].columns == ("name",)
    assert rows[2].ours == row(2, "y", 20)
    assert (rows[3].kind, rows[3].theirs) == ("update/delete", None)
    assert (rows[1].kind, rows[1].ours) == ("delete/update", None)
    assert (rows[9].kind, rows[9].base) == ("insert/insert", None)
    assert "1 update/update" in repr(conflicts)
    assert "ours/theirs" in str(caught.value)
    frame = conflicts.to_pandas()
    assert list(frame["id"]) == conflicts.to_table()["id"].to_pylist()
    sides = [side for name in ("base", "ours", "theirs") for side in frame[name] if side]
    assert all(isinstance(side["id"], int) for side in sides)
    with pytest.raises(MergeConflictError) as by_row:
        diff.apply(ds, by="row")
    assert ("name", "age") in [one.columns for one in by_row.value.context["conflicts"].sample()]

    def settle(found: Any) -> list[Row]:
        assert len(found) == 4
        return [row(1, "made", 1), row(2, "x+y", 21), row(9, "both", 9)]

    result = diff.apply(ds, conflicts=settle)
    assert by_id(ds) == {1: ("made", 1), 2: ("x+y", 21), 4: ("d", 4), 9: ("both", 9)}
    assert dict(result) == {
        "num_inserted_rows": 1,
        "num_updated_rows": 2,
        "num_deleted_rows": 1,
        "num_changed_cells": 3,
    }
    assert "applied to" in repr(result)


def test_rows_of_a_function_belong_to_conflicts(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.update({"age": "20"}, where="id = 2")
    ds.update({"age": "21"}, where="id = 2")
    diff = ds.diff(1, exp)
    for wrong in ([row(3, "c", 3)], [row(2, "b", 2), row(2, "b", 3)]):
        with pytest.raises(InvalidArgumentError, match="matches no conflict"):
            diff.apply(ds, conflicts=lambda _, rows=wrong: rows)
    with pytest.raises(SchemaMismatchError, match="lack the key column 'id'"):
        diff.apply(ds, conflicts=lambda _: [{"name": "b", "age": 2}])
    with pytest.raises(SchemaMismatchError, match="age: string in the rows"):
        diff.apply(ds, conflicts=lambda _: [row(2, "b", "old")])
    with pytest.raises(InvalidArgumentError, match=r"conflicts must be .* got 'mine'"):
        diff.apply(ds, conflicts="mine")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"by must be .* got 'table'"):
        diff.apply(ds, by="table")  # type: ignore[arg-type]
    diff.apply(ds, conflicts=lambda found: found.to_table()["theirs"].to_pylist())
    assert by_id(ds)[2] == ("b", 20)
    diff.apply(ds, conflicts=lambda _: pa.table({"id": [], "name": [], "age": []}))
    assert by_id(ds)[2] == ("b", 20)  # there was none


def test_conflicts_of_rows_without_a_key(tmp_path: Path) -> None:
    rows = {"v": [1, 2, 3], "w": [1, 2, 3]}
    ds = lk.write_dataset(rows, tmp_path / "t", enable_stable_row_ids=True)
    exp = ds.create_branch("exp")
    exp.update({"v": "v + 10"}, where="v < 3")
    ds.update({"v": "v + 20"}, where="v < 3")

    def added(found: Any) -> Any:
        rows = found.to_table().to_pylist()
        both = [one["ours"]["v"] + one["theirs"]["v"] for one in rows]
        made = {"_rowid": [one["_rowid"] for one in rows], "v": both, "w": [0, 0]}
        return (
            made
            if form == "dict"
            else pa.table(made)
            if form == "table"
            else [
                dict(zip(made, values, strict=True)) for values in zip(*made.values(), strict=True)
            ]
        )

    for form in ("dict", "table", "list"):
        branch = ds.create_branch(form)
        branch.branches.cherry_pick("exp", 2, conflicts=added)
        assert sorted(one["v"] for one in as_read(branch)) == [3, 32, 34]
        ids = branch.to_table(columns=["v", "_rowid"]).sort_by("v")["_rowid"].to_pylist()
        assert ids == [2, 0, 1]
    ds.branches.cherry_pick("exp", 2, conflicts=lambda _: [])
    assert as_read(ds) == [{"v": 3, "w": 3}]


def test_nothing_tells_the_rows(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 1, 2], "v": [1, 2, 3]}, tmp_path / "t")
    exp = ds.create_branch("exp")
    exp.delete("id = 2")
    same = ds.create_branch("same")
    ds.diff(1, exp).apply(same)  # which changed nothing itself
    assert len(as_read(same)) == 2
    ds.delete("v = 1")
    with pytest.raises(InvalidArgumentError, match="cannot be matched"):
        ds.diff(1, exp).apply(ds)
    both = ds.checkout_version(1).create_branch("both")
    both.update({"v": "v + 10"}, where="id = 1")
    with pytest.raises(InvalidArgumentError, match="share their key"):
        ds.diff(1, both, on="id").apply(ds)
    ds.diff(1, exp, on=["id", "v"]).apply(ds)
    assert as_read(ds) == [{"id": 1, "v": 2}]
    with pytest.raises(InvalidArgumentError, match="cannot be applied"):
        ds.diff(1, exp, filter="id = 1").apply(ds)


def test_rows_that_both_sides_gave_one_key(tmp_path: Path) -> None:
    ds = lk.write_dataset(
        {"id": [1, 2], "v": [1, 2]}, tmp_path / "t", primary_key="id", enable_stable_row_ids=True
    )
    exp = ds.create_branch("exp")
    ds.update({"id": "7"}, where="id = 1")
    exp.update({"id": "7"}, where="id = 2")
    with pytest.raises(MergeConflictError, match="id = 7"):
        ds.diff(1, exp).apply(ds)
    exp.update({"id": "8"}, where="id = 7")
    ds.diff(1, exp).apply(ds)
    assert sorted(one["id"] for one in as_read(ds)) == [7, 8]
    guard = ds.read_transaction(ds.version).operation.inserted_rows
    assert not is_empty(guard, [pa.int64()])  # a key that came by an update is guarded, too


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_a_second_row_of_a_key_that_the_other_side_updated(
    tmp_path: Path, stable: bool, side: str
) -> None:
    """pylance checks no keys: its append gave main or the branch a key for the second time."""
    ds = lk.write_dataset(
        {"id": [1, 2], "v": [1, 2]}, tmp_path / "t", primary_key="id", enable_stable_row_ids=stable
    )
    exp = ds.create_branch("exp")
    one, other = (ds, exp) if side == "ours" else (exp, ds)
    there: Any = lance.dataset(ds.uri).checkout_version((one.branch, None))
    there.insert(pa.table({"id": [1], "v": [50]}, schema=there.schema), mode="append")
    one.checkout_latest()
    other.update({"v": "7"}, where="id = 1")
    version = ds.version
    for conflicts in ("fail", "theirs"):
        with pytest.raises(MergeConflictError, match="id = 1, but these are different rows"):
            ds.branches.merge("exp", conflicts=conflicts)  # type: ignore[arg-type]
    assert ds.latest_version == version
    one.delete("v = 50")
    ds.branches.merge("exp")
    assert {one["id"]: one["v"] for one in as_read(ds)} == {1: 7, 2: 2}


def test_columns_of_both_sides(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.update({"age": "age + 10"}, where="id < 3")
    upsert(exp, row(5, "e", 5))
    ds.add_columns({"twice": "age * 2"})
    ds.alter_columns({"path": "name", "name": "called"})
    ds.diff(1, exp).apply(ds)
    assert [list(one.values()) for one in sorted(as_read(ds), key=lambda one: one["id"])] == [
        [1, "a", 11, 2],
        [2, "b", 12, 4],
        [3, "c", 3, 6],
        [4, "d", 4, 8],
        [5, "e", 5, None],
    ]
    ds.drop_columns(["age"])
    with pytest.raises(SchemaMismatchError, match="'age' was missing here and changed in 2"):
        ds.diff(1, exp).apply(ds)
    other = ds.create_branch("other", 1)
    other.alter_columns({"path": "age", "data_type": pa.int32()})
    ds.diff(1, exp).apply(other)  # its values fit the type
    assert other.schema.field("age").type == pa.int32()
    assert by_id(other)[1] == ("a", 11)
    ds.diff(1, other).apply(exp)
    assert exp.schema.field("age").type == pa.int32()
    exp.alter_columns({"path": "name", "name": "mine"})
    other.alter_columns({"path": "name", "name": "yours"})
    with pytest.raises(SchemaMismatchError, match="renamed to mine here and renamed to yours"):
        ds.diff(1, other).apply(exp)
    ds.diff(1, other).apply(exp, conflicts="theirs")
    assert "yours" in exp.schema.names


def test_values_of_a_cast_column_stay(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.update({"name": "'A'"}, where="id = 1")
    ds.alter_columns({"path": "age", "data_type": pa.int32()})
    ds.diff(1, exp).apply(ds)
    assert by_id(ds)[1] == ("A", 1)


def test_revert(ds: lk.LanceDataset) -> None:
    upsert(ds, row(2, "B", 2), row(5, "e", 5))
    ds.delete("id = 3")
    ds.update({"age": "20"}, where="id = 2")
    ds.optimize.compact_files()
    assert dict(ds.revert(3))["num_inserted_rows"] == 1
    ds.revert(2)
    assert by_id(ds) == {1: ("a", 1), 2: ("b", 20), 3: ("c", 3), 4: ("d", 4)}
    assert ds.revert(2).how == "nothing to do"
    ds.update({"age": "40"}, where="id = 4")
    changed = ds.version
    ds.update({"age": "41"}, where="id = 4")
    with pytest.raises(MergeConflictError, match="age 40 / 41 / 4"):
        ds.revert(changed)
    ds.revert(changed, conflicts="theirs")
    assert by_id(ds)[4] == ("d", 4)
    said = ds.read_transaction(ds.version).transaction_properties
    assert said["lancekit.apply.theirs"] == f"main@{changed - 1}"
    assert ds.get_version().message == f"revert of main:{changed}"
    with pytest.raises(InvalidArgumentError, match="is newer than"):
        ds.revert(99)
    with pytest.raises(VersionNotFoundError, match="changes of version 1 are unknown"):
        ds.revert(1)
    ds.drop_columns(["age"])
    ds.insert([{"id": 7, "name": "g"}], mode="append")
    result = ds.revert(ds.version - 1)  # the column is there again, with its values
    assert (result.columns_added, result.how) == (("age",), "three-way")
    assert ds.version == result.version == result.read_version + 1
    assert by_id(ds)[4] == ("d", 4)
    assert by_id(ds)[7] == ("g", None)


def test_cherry_pick(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.delete("id = 1")
    upsert(exp, row(2, "B", 2), row(7, "g", 7))
    exp.delete("id = 3")
    upsert(ds, row(8, "h", 8))
    result = ds.branches.cherry_pick("exp", 3)
    assert (result.theirs, result.base) == (("exp", 3), ("exp", 2))
    assert by_id(ds) == {
        1: ("a", 1),
        2: ("B", 2),
        3: ("c", 3),
        4: ("d", 4),
        7: ("g", 7),
        8: ("h", 8),
    }
    exp.branches.cherry_pick("main", 2)
    assert by_id(exp)[8] == ("h", 8)
    with pytest.raises(lk.errors.BranchNotFoundError):
        ds.branches.cherry_pick("nowhere", 3)
    with pytest.raises(VersionNotFoundError):
        ds.branches.cherry_pick("exp", 1)  # that is of main: what it did is there


def test_blobs_come_along(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), lk.blob_field("b"), ("v", pa.int64())])

    def blobs(*rows: tuple[int, bytes | None, int]) -> pa.Table:
        ids, values, v = zip(*rows, strict=True)
        return pa.table({"id": ids, "b": lk.blob_array(values), "v": v}, schema=schema)

    ds = lk.write_dataset(
        blobs((1, b"one", 1), (2, b"two", 2), (3, None, 3)), tmp_path / "t", primary_key="id"
    )
    exp = ds.create_branch("exp")
    merge = exp.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(blobs((1, b"ONE" * 1000, 1), (4, b"four", 4)))
    ds.update({"v": "v + 10"})
    ds.diff(1, exp).apply(ds)
    table = ds.to_table(blob_handling="all_binary").sort_by("id")
    assert table["b"].to_pylist() == [b"ONE" * 1000, b"two", None, b"four"]
    assert table["v"].to_pylist() == [11, 12, 13, 4]


@pytest.mark.filterwarnings("ignore:This handle is at")
def test_another_writer_lands_first(ds: lk.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    exp = ds.create_branch("exp")
    exp.update({"age": "age + 1"})
    upsert(exp, row(5, "e", 5))
    diff = ds.diff(1, exp)
    other = lk.dataset(ds.uri)
    upsert(other, row(5, "E", 5))  # the handle does not know
    with pytest.raises(MergeConflictError):
        diff.apply(ds)
    ds.checkout_version(1)
    other.delete("id = 5")
    old = ds.checkout_version(1)
    other.update({"name": "'z'"}, where="id = 1")
    result = diff.apply(old)
    assert result.attempts == 2
    assert by_id(old)[1] == ("z", 2)
    assert by_id(old)[5] == ("e", 5)
