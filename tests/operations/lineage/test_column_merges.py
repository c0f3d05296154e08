"""Columns that a branch added, dropped, renamed or cast, brought into its target by one commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.format.operations import Merge
from tests.operations.lineage.test_branch_merge import files_below, told
from tests.operations.lineage.test_three_way import as_read, row
from tests.operations.lineage.three_way_model import Row

Change = Callable[[lk.LanceDataset], Any]


def rows_of(ds: lk.LanceDataset) -> list[Row]:
    return sorted(as_read(ds), key=lambda one: one["id"])


def with_embedding(exp: lk.LanceDataset) -> None:
    exp.add_columns({"twice": "age * 2"})
    exp.update({"twice": "0"}, where="id = 2")


def with_all_changes(exp: lk.LanceDataset) -> None:
    exp.add_columns({"twice": "age * 2"})
    exp.alter_columns({"path": "name", "name": "called"})
    exp.alter_columns({"path": "age", "data_type": pa.int32()})
    exp.insert([{"id": 5, "called": "e", "age": 5, "twice": 0}], mode="append")
    exp.delete("id < 3")


def without_age(exp: lk.LanceDataset) -> None:
    exp.drop_columns(["age"])
    exp.optimize.compact_files()


#: what a branch does, and what its merge says of columns
CHANGES: dict[str, tuple[Change, dict[str, Any]]] = {
    "added": (with_embedding, {"columns_added": ("twice",)}),
    "nulls": (
        lambda exp: exp.add_columns(pa.schema([("note", pa.string())])),
        {"columns_added": ("note",)},
    ),
    "not nullable": (
        lambda exp: lance.dataset(exp._line.uri).add_columns({"twice": "id * 2"}),
        {"columns_added": ("twice",)},
    ),
    "dropped": (lambda exp: exp.drop_columns(["age"]), {"columns_dropped": ("age",)}),
    "renamed": (
        lambda exp: exp.alter_columns({"path": "age", "name": "years"}),
        {"columns_renamed": (("age", "years"),)},
    ),
    "swapped": (
        lambda exp: exp.alter_columns(
            {"path": "age", "name": "name"}, {"path": "name", "name": "age"}
        ),
        {"columns_renamed": (("name", "age"), ("age", "name"))},
    ),
    "cast": (
        lambda exp: exp.alter_columns({"path": "age", "data_type": pa.int32()}),
        {"columns_cast": ("age",)},
    ),
    "no nulls": (
        lambda exp: exp.alter_columns({"path": "age", "nullable": False}),
        {"columns_altered": ("age",)},
    ),
    "metadata": (
        lambda exp: exp.update_field_metadata({"age": {"unit": "years"}}),
        {"columns_altered": ("age",)},
    ),
    "in place": (lambda exp: exp.replace_columns({"age": "age + 1"}), {}),
    "compacted": (
        without_age,
        {"columns_dropped": ("age",)},
    ),
    "all": (
        with_all_changes,
        {
            "columns_added": ("twice",),
            "columns_renamed": (("name", "called"),),
            "columns_cast": ("age",),
        },
    ),
}


@pytest.mark.parametrize("files", ["link", "reference"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_fast_forward_brings_columns(ds: lk.LanceDataset, change: str, files: Any) -> None:
    lance.dataset(ds.uri).create_scalar_index("age", "BTREE")
    ds.checkout_latest()
    if change in ("cast", "all"):  # no index is there that would not fit
        ds.drop_index("age_idx")
    start, before = rows_of(ds), set(files_below(ds))
    exp = ds.create_branch("exp")
    do, columns = CHANGES[change]
    do(exp)
    exp.checkout_latest()
    plan = ds.branches.merge("exp", dry_run=True, files=files)
    result = ds.branches.merge("exp", files=files)
    assert (result.how, result.version) == ("fast-forward", plan.ours[1] + 1)
    assert {key: plan[key] for key in result} == dict(result)
    names = ("added", "dropped", "renamed", "cast", "altered")
    said = {f"columns_{name}": getattr(result, f"columns_{name}") for name in names}
    assert said == {**dict.fromkeys(said, ()), **columns}
    assert said == {name: getattr(plan, name) for name in said}
    assert ds.schema == exp.schema
    assert rows_of(ds) == rows_of(exp)
    linked = {name: count for name, count in files_below(ds).items() if name not in before}
    assert set(linked.values()) <= {2}  # one file, two names: none is written
    assert (files == "link") or not linked
    if ds.has_stable_row_ids:
        assert {id_: one[0] for id_, one in told(ds).items()} == {
            id_: one[0] for id_, one in told(exp).items()
        }
        changed = {one[2] for one in told(ds).values()}
        assert changed <= {1, ds.version}
    if change in ("added", "nulls", "renamed", "no nulls", "metadata"):
        (index,) = lance.dataset(ds.uri).describe_indices()
        assert index.num_rows_indexed == (3 if change == "added" else 4)
        name = "years" if change == "renamed" else "age"
        found = lance.dataset(ds.uri).to_table(filter=f"{name} = 3")
        assert found["id"].to_pylist() == [3]
    merged, version = rows_of(ds), ds.version
    ds.undo()
    assert rows_of(ds) == start
    ds.checkout_version(version).restore()
    ds.checkout_latest()
    assert rows_of(ds) == merged
    # it needs nothing of the branch, and both libraries go on
    if files == "link":
        ds.branches.delete("exp")
    other: Any = lance.dataset(ds.uri)
    other.add_columns({"more": "id"})
    other.optimize.compact_files()
    other.update({"more": "more + 1"})
    ds.checkout_latest()
    ds.validate(deep=True)
    assert [one["more"] for one in rows_of(ds)] == [one["id"] + 1 for one in merged]


def test_a_branch_goes_forward_over_columns_again_and_again(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    for number in range(4):
        exp.add_columns({f"c{number}": f"age * {number}"})
        if number % 2:
            exp.optimize.compact_files()
            exp.insert([{**row(10 + number, "n", 0), "c0": 1}], mode="append")
        assert ds.branches.merge("exp").how == "fast-forward"
        assert rows_of(ds) == rows_of(exp)
    assert ds.branches.merge("exp").how == "nothing to do"
    # now both move
    exp.update({"c0": "5"}, where="id = 1")
    ds.update({"c1": "6"}, where="id = 1")
    ds.branches.merge("exp")
    found = rows_of(ds)[0]
    assert (found["c0"], found["c1"]) == (5, 6)


#: what a writer of the reference that read the version before does, and whether it may land
LATE: dict[str, Change] = {
    "append": lambda other: other.insert(
        pa.table({"id": [9], "name": ["n"], "age": [9]}, schema=other.schema), mode="append"
    ),
    "update": lambda other: other.update({"name": "'late'"}, where="id = 3"),
    "delete": lambda other: other.delete("id = 3"),
    "compact": lambda other: other.optimize.compact_files(),
    "rename": lambda other: other.alter_columns({"path": "name", "name": "late"}),
    "add": lambda other: other.add_columns({"late": "id"}),
}


@pytest.mark.parametrize("change", ["added", "cast", "dropped"])
@pytest.mark.parametrize("late", LATE)
def test_a_late_writer_of_the_reference_loses_nothing(
    ds: lk.LanceDataset, late: str, change: str
) -> None:
    other: Any = lance.dataset(ds.uri)
    exp = ds.create_branch("exp")
    CHANGES[change][0](exp)
    assert ds.branches.merge("exp").how == "fast-forward"
    done = ds.read_transaction(ds.version)
    assert done is not None
    assert isinstance(done.operation, Merge)
    wanted = {one["id"]: one for one in rows_of(ds)}
    if late in ("compact", "rename", "add") or (late, change) == ("append", "cast"):
        with pytest.raises(OSError, match=r"conflict|preempted"):
            LATE[late](other)
        ds.checkout_latest()
        assert {one["id"]: one for one in rows_of(ds)} == wanted
        return
    LATE[late](other)
    ds.checkout_latest()
    found = {one["id"]: one for one in rows_of(ds)}
    if late == "append":
        assert change != "cast"
        new = found.pop(9)
        assert new == {**dict.fromkeys(new), "id": 9, "name": "n"} | (
            {"age": 9} if "age" in new else {}
        )
    elif late == "delete":
        del wanted[3]
    else:
        wanted[3]["name"] = "late"
    assert found == wanted


def test_undo_says_what_it_takes_back(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2, 3], "v": [1, 2, 3]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.add_columns({"w": "v * 2"})
    result = ds.branches.merge("exp")
    assert (result.read_version, result.version, dict(result)["num_updated_rows"]) == (1, 2, 0)
    assert "columns added" in repr(result)
    ds.undo()
    assert ds.schema.names == ["id", "v"]
