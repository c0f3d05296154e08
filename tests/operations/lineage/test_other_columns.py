"""Columns that stand where another one stood: in its place, with its id, or under its name."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import MergeConflictError, SchemaMismatchError
from tests.operations.lineage.test_column_merges import rows_of
from tests.operations.lineage.test_three_way import row
from tests.support.faults import Faults, injected

#: merges that change no row are undone, too
pytestmark = pytest.mark.filterwarnings("ignore:undo")

Change = Callable[[lk.LanceDataset], Any]
AGO = dt.timedelta(0)


def in_place(exp: lk.LanceDataset) -> None:
    exp.drop_columns(["age"])
    exp.add_columns({"size": "id * 100"})


def with_its_id(exp: lk.LanceDataset) -> None:
    """Both libraries give the id of a column that no file holds to the next one."""
    before = {field.name(): field.id() for field in exp.lance_schema.fields()}
    exp.drop_columns(["age"])
    exp.optimize.compact_files()
    exp.update({"name": "name"})
    exp.add_columns({"size": "id * 100"})
    after = {field.name(): field.id() for field in exp.lance_schema.fields()}
    assert after["size"] == before["age"]


@pytest.mark.parametrize("moved", [False, True], ids=["fast-forward", "three-way"])
@pytest.mark.parametrize("change", [in_place, with_its_id])
def test_a_column_that_a_merge_put_in_the_place_of_another(
    ds: lk.LanceDataset, change: Change, moved: bool
) -> None:
    exp, other = ds.create_branch("exp"), ds.create_branch("other")
    change(exp)
    other.insert([row(5, "e", 50)], mode="append")
    if moved:
        ds.update({"name": "'A'"}, where="id = 1")
    ds.branches.merge("exp")
    ds.branches.merge("other")
    assert rows_of(ds)[3:] == [
        {"id": 4, "name": "d", "size": 400},
        {"id": 5, "name": "e", "size": None},
    ]


@pytest.mark.parametrize("moved", [False, True], ids=["fast-forward", "three-way"])
def test_a_cast_that_a_merge_brought_is_followed(ds: lk.LanceDataset, moved: bool) -> None:
    exp, other = ds.create_branch("exp"), ds.create_branch("other")
    exp.alter_columns({"path": "age", "name": "years", "data_type": pa.int32()})
    other.insert([row(5, "e", 50)], mode="append")
    if moved:
        ds.update({"name": "'A'"}, where="id = 1")
    ds.branches.merge("exp")
    ds.branches.merge("other")
    assert rows_of(ds)[4] == {"id": 5, "name": "e", "years": 50}
    assert ds.schema.field("years").type == pa.int32()


# ---- dropped, and added again


def as_text(ds: lk.LanceDataset) -> None:
    ds.drop_columns(["age"])
    ds.add_columns({"age": "concat('no ', CAST(id AS STRING))"})


def one_age(ds: lk.LanceDataset) -> None:
    ds.update({"age": "7"}, where="id = 1")


def one_name(ds: lk.LanceDataset) -> None:
    ds.update({"name": "'A'"}, where="id = 1")


@pytest.mark.parametrize("conflicts", ["fail", "ours", "theirs"])
@pytest.mark.parametrize("here", [True, False], ids=["ours", "theirs"])
def test_one_of_another_type_is_another_column(
    ds: lk.LanceDataset, conflicts: Any, here: bool
) -> None:
    exp = ds.create_branch("exp")
    for side, change in zip((ds, exp), (as_text, one_name)[:: 1 if here else -1], strict=True):
        change(side)
    ds.branches.merge("exp", conflicts=conflicts)
    assert rows_of(ds)[0] == {"id": 1, "name": "A", "age": "no 1"}


@pytest.mark.parametrize("here", [True, False], ids=["ours", "theirs"])
def test_a_value_of_a_column_that_gave_way_to_another_type(ds: lk.LanceDataset, here: bool) -> None:
    exp = ds.create_branch("exp")
    for side, change in zip((ds, exp), (as_text, one_age)[:: 1 if here else -1], strict=True):
        change(side)
    said = (
        "'age' was dropped here and changed in 1 value there"
        if here
        else "'age' was changed in 1 value here and dropped there"
    )
    with pytest.raises(SchemaMismatchError, match=said):
        ds.branches.merge("exp")
    assert ds.branches.merge("exp", dry_run=True).num_unsettled
    before = ds.version
    for conflicts, is_text in (("ours", here), ("theirs", not here)):
        ds.branches.merge("exp", conflicts=conflicts)
        assert [one["age"] for one in rows_of(ds)] == (
            [f"no {at}" for at in range(1, 5)] if is_text else [7, 2, 3, 4]
        )
        if ds.version > before:
            ds.undo()


def test_a_column_of_another_type_of_which_both_dropped_the_first(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    as_text(ds)
    exp.drop_columns(["age"])
    exp.delete("id = 4")
    result = ds.branches.merge("exp")
    assert (result.columns_dropped, result.num_deleted_rows) == ((), 1)
    assert [one["age"] for one in rows_of(ds)] == ["no 1", "no 2", "no 3"]


def test_a_drop_that_was_reverted_is_done_again(ds: lk.LanceDataset) -> None:
    """The column that a revert brings back is the one that was dropped: name and type tell."""
    before = ds.version
    ds.drop_columns(["age"])
    drop = ds.diff(before, ds.version)
    ds.revert(ds.version)
    assert rows_of(ds)[0] == {"id": 1, "name": "a", "age": 1}
    assert drop.apply(ds).columns_dropped == ("age",)
    ds.revert(ds.version)
    ds.update({"age": "7"}, where="id = 1")
    with pytest.raises(SchemaMismatchError, match="changed in 1 value here and dropped there"):
        drop.apply(ds)


def test_a_diff_has_two_columns_where_types_differ(ds: lk.LanceDataset) -> None:
    before = ds.version
    as_text(ds)
    found = ds.diff(before)
    assert (found.schema.added, found.schema.dropped) == (("age",), ("age",))
    assert found.columns == {"id": 0, "name": 0, "age": 4}


def test_an_overwrite_with_values_that_cannot_be_compared_is_a_conflict(
    ds: lk.LanceDataset,
) -> None:
    exp = ds.create_branch("exp")
    one_name(exp)
    rows = {"id": [1, 2], "name": [1.5, 2.5], "age": [1, 2]}
    lk.write_dataset(rows, ds, mode="overwrite", primary_key="id")
    ds.checkout_latest()
    with pytest.raises(SchemaMismatchError, match="'name' changed from string to double") as raised:
        ds.branches.merge("exp")
    assert all(f"version 2 of {name}" in str(raised.value) for name in ("main", "exp"))


# ---- one name for two


NAMES: dict[str, tuple[Change, Change, dict[str, Any], dict[str, Any]]] = {
    "added, renamed": (
        lambda ds: ds.add_columns({"x": "id"}),
        lambda exp: exp.alter_columns({"path": "age", "name": "x"}),
        {"id": 1, "name": "a", "age": 1, "x": 1},
        {"id": 1, "name": "a", "x": 1},
    ),
    "renamed, added": (
        lambda ds: ds.alter_columns({"path": "age", "name": "x"}),
        lambda exp: exp.add_columns({"x": "name"}),
        {"id": 1, "name": "a", "x": 1},
        {"id": 1, "name": "a", "age": 1, "x": "a"},
    ),
    "both renamed": (
        lambda ds: ds.alter_columns({"path": "age", "name": "x"}),
        lambda exp: exp.alter_columns({"path": "name", "name": "x"}),
        {"id": 1, "name": "a", "x": 1},
        {"id": 1, "x": "a", "age": 1},
    ),
    "a chain": (
        lambda ds: ds.add_columns({"x": "id"}),
        lambda exp: exp.alter_columns(
            {"path": "age", "name": "x"}, {"path": "name", "name": "age"}
        ),
        {"id": 1, "name": "a", "age": 1, "x": 1},
        {"id": 1, "age": "a", "x": 1},
    ),
}


@pytest.mark.parametrize("case", NAMES)
def test_two_columns_of_one_name(ds: lk.LanceDataset, case: str) -> None:
    exp = ds.create_branch("exp")
    here, there, ours, theirs = NAMES[case]
    here(ds)
    there(exp)
    before = ds.version
    with pytest.raises(SchemaMismatchError, match=r"column 'x' was .* here and .* there"):
        ds.branches.merge("exp")
    for side, expected in (("ours", ours), ("theirs", theirs)):
        ds.branches.merge("exp", conflicts=side)
        assert rows_of(ds)[0] == expected
        if ds.version > before:
            ds.undo()


# ---- versions that a cleanup removed


@pytest.mark.parametrize("library", ["lancekit", "pylance"])
def test_a_rename_whose_version_is_gone(ds: lk.LanceDataset, library: str) -> None:
    exp = ds.create_branch("exp")
    exp.insert([row(5, "e", 5)], mode="append")
    ds.alter_columns({"path": "name", "name": "called"})
    ds.update({"called": "called"})
    (ds if library == "lancekit" else lance.dataset(ds.uri)).cleanup_old_versions(AGO)
    ds.branches.merge("exp")
    assert rows_of(ds)[4] == {"id": 5, "called": "e", "age": 5}


@pytest.mark.parametrize("swap", [False, True])
def test_what_nothing_tells_of_an_id_is_not_guessed(ds: lk.LanceDataset, swap: bool) -> None:
    """A column with the highest id may have been renamed, or its id given to another one."""
    ds.drop_columns(["name"])
    ds.add_columns({"other": "age + 1"})
    exp = ds.create_branch("exp")
    exp.insert([{"id": 5, "age": 5, "other": 6}], mode="append")
    names = [("other", "years"), ("age", "other")][: 1 + swap]
    ds.alter_columns(*({"path": old, "name": new} for old, new in names))
    ds.update({names[-1][1]: names[-1][1]})
    lance.dataset(ds.uri).cleanup_old_versions(AGO)  # lancekit's keeps what shows the names
    with pytest.raises(SchemaMismatchError, match="may or may not be column"):
        ds.branches.merge("exp")
    for old, new in names[::-1]:
        ds.alter_columns({"path": new, "name": old})
    ds.branches.merge("exp")
    assert rows_of(ds)[4] == {"id": 5, "age": 5, "other": 6}


def test_both_inserted_a_row_and_one_added_a_column(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    for side in (ds, exp):
        side.insert([row(5, "e", 5)], mode="append")
    exp.add_columns({"size": "id * 100"})
    ds.branches.merge("exp")
    assert rows_of(ds)[4] == {"id": 5, "name": "e", "age": 5, "size": 500}


# ---- columns that came by a merge


def with_two_more(ds: lk.LanceDataset) -> lk.LanceDataset:
    """Return a branch that merged two columns, which have other ids there."""
    exp = ds.create_branch("exp")
    exp.add_columns({"own": "id"})
    ds.add_columns({"x": "id * 10", "y": "id * 100"})
    exp.branches.rebase("exp")
    return exp


def test_columns_that_were_swapped_after_a_merge(ds: lk.LanceDataset) -> None:
    exp = with_two_more(ds)
    exp.alter_columns({"path": "x", "name": "y"}, {"path": "y", "name": "x"})
    ds.update({"x": "7"}, where="id = 1")
    exp.branches.rebase("exp")
    assert [(one["x"], one["y"]) for one in rows_of(exp)][:2] == [(100, 7), (200, 20)]


def test_a_rename_after_a_merge_that_is_gone(ds: lk.LanceDataset) -> None:
    """The merge's config key tells it, unless each column was renamed since."""
    exp = with_two_more(ds)
    exp.alter_columns({"path": "x", "name": "z"})
    ds.update({"x": "7"}, where="id = 1")
    lance.dataset(ds.uri).checkout_version(("exp", None)).cleanup_old_versions(AGO)
    exp.branches.rebase("exp")
    assert [one["z"] for one in rows_of(exp)] == [7, 20, 30, 40]
    exp.alter_columns(*({"path": name, "name": f"{name}_2"} for name in exp.schema.names[1:]))
    ds.update({"x": "8"}, where="id = 1")
    lance.dataset(ds.uri).checkout_version(("exp", None)).cleanup_old_versions(AGO)
    with pytest.raises(SchemaMismatchError, match="may or may not be column"):
        exp.branches.rebase("exp")
    others = [name for name in exp.schema.names[1:] if name != "z_2"]
    exp.alter_columns(*({"path": name, "name": name.removesuffix("_2")} for name in others))
    exp.branches.rebase("exp")
    assert [one["z_2"] for one in rows_of(exp)] == [8, 20, 30, 40]


def test_a_pick_of_a_version_after_the_last_merge(ds: lk.LanceDataset) -> None:
    exp = with_two_more(ds)
    ds.alter_columns({"path": "x", "name": "z"})
    ds.update({"z": "7"}, where="id = 1")
    exp.update({"x": "8"}, where="id = 1")
    with pytest.raises(MergeConflictError, match="x 10 / 8 / 7"):
        exp.branches.cherry_pick("main", ds.version)
    ds.update({"z": "9"}, where="id = 2")
    exp.branches.cherry_pick("main", ds.version)
    assert [one["x"] for one in rows_of(exp)] == [8, 9, 30, 40]


def test_a_cast_that_lands_before_the_merge_of_its_column(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    ds.add_columns({"x": "id * 10"})
    exp.branches.rebase("exp")
    exp.update({"name": "'A'"}, where="id = 1")
    ds.alter_columns({"path": "x", "data_type": pa.int32()})
    ds.branches.merge("exp")
    exp.update({"x": "7"}, where="id = 1")
    ds.branches.merge("exp")
    assert [one["x"] for one in rows_of(ds)] == [7, 20, 30, 40]
    assert ds.schema.field("x").type == pa.int32()
    exp.branches.rebase("exp")
    assert exp.schema.field("x").type == pa.int32()


def test_an_overwrite_with_columns_of_other_names(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    one_name(exp)
    rows = {"id": [1, 2], "other": ["x", "y"], "age": [1, 2]}
    lk.write_dataset(rows, ds, mode="overwrite", primary_key="id")
    ds.checkout_latest()
    with pytest.raises(SchemaMismatchError, match="'name' was dropped here and changed in 1 value"):
        ds.branches.merge("exp")


def test_a_restore_of_a_column_that_was_dropped_before(ds: lk.LanceDataset) -> None:
    as_text(ds)
    before = ds.version
    ds.checkout_version(1).restore()
    ds.checkout_latest()
    found = ds.diff(before).schema
    assert (found.added, found.dropped) == (("age",), ("age",))


# ---- columns that were dropped, and that a merge brought again


def with_age_again(
    ds: lk.LanceDataset, *, moved: bool, by_way_of_main: bool
) -> tuple[lk.LanceDataset, lk.LanceDataset]:
    """Return a branch to which `age` came back as `years`, and another one that has `age`.

    The first contains the other one's first change: it took that over, if it had not `moved`.
    """
    exp, other = ds.create_branch("exp"), ds.create_branch("other")
    one_name(other)
    if by_way_of_main:
        ds.branches.merge("other")
    ds.alter_columns({"path": "age", "name": "years"})
    if moved:
        exp.update({"name": "'B'"}, where="id = 2")
    exp.branches.merge("other")
    exp.drop_columns(["age"])
    exp.branches.rebase("exp", conflicts="theirs")
    assert exp.schema.names == ["id", "name", "years"]
    other.insert([row(5, "e", 5)], mode="append")
    return exp, other


@pytest.mark.parametrize("by_way_of_main", [False, True])
@pytest.mark.parametrize("moved", [False, True])
def test_a_column_that_came_back_is_the_same_for_a_third_branch(
    ds: lk.LanceDataset, moved: bool, by_way_of_main: bool
) -> None:
    exp, other = with_age_again(ds, moved=moved, by_way_of_main=by_way_of_main)
    other.update({"age": "7"}, where="id = 1")
    result = exp.branches.merge("other")
    assert result.columns_added == result.columns_dropped == ()
    assert [one["years"] for one in rows_of(exp)] == [7, 2, 3, 4, 5]


@pytest.mark.parametrize("moved", [False, True])
def test_a_column_that_came_back_beside_a_new_one_of_its_first_name(
    ds: lk.LanceDataset, moved: bool
) -> None:
    exp, _ = with_age_again(ds, moved=moved, by_way_of_main=True)
    exp.add_columns({"age": "id * 100"})
    exp.branches.merge("other")
    assert rows_of(exp)[3:] == [
        {"id": 4, "name": "d", "years": 4, "age": 400},
        {"id": 5, "name": "e", "years": 5, "age": None},
    ]


def test_a_column_that_came_back_goes_on_to_further_branches(ds: lk.LanceDataset) -> None:
    exp, other = with_age_again(ds, moved=True, by_way_of_main=True)
    third = exp.create_branch("third")
    third.alter_columns({"path": "years", "name": "a"})
    third.branches.merge("other")
    assert [one["a"] for one in rows_of(third)] == [1, 2, 3, 4, 5]
    other.branches.merge("exp")
    assert [one["years"] for one in rows_of(other)] == [1, 2, 3, 4, 5]
    ds.branches.merge("other")
    assert [one["years"] for one in rows_of(ds)] == [1, 2, 3, 4, 5]


def test_a_revert_of_the_merge_that_brought_a_column_again(ds: lk.LanceDataset) -> None:
    exp, _ = with_age_again(ds, moved=True, by_way_of_main=True)
    exp.update({"years": "7"}, where="id = 1")
    with pytest.raises(
        SchemaMismatchError, match="'years' was changed in 1 value here and dropped"
    ):
        exp.revert(exp.version - 1)
    exp.branches.merge("other")
    assert [one["years"] for one in rows_of(exp)] == [7, 2, 3, 4, 5]


@pytest.mark.parametrize("deleted", [False, True], ids=["cleaned up", "deleted"])
def test_a_column_that_came_back_by_a_merge_of_a_version_that_is_gone(
    ds: lk.LanceDataset, deleted: bool
) -> None:
    other, source = ds.create_branch("other"), ds
    if deleted:
        source = ds.create_branch("short")
    exp = ds.create_branch("exp")
    source.alter_columns({"path": "age", "name": "years"})
    exp.drop_columns(["age"])
    exp.branches.merge(source.branch or "main", conflicts="theirs")
    other.insert([row(5, "e", 5)], mode="append")
    if deleted:
        ds.branches.delete("short")
    else:
        source.update({"years": "years"})
        lance.dataset(ds.uri).cleanup_old_versions(AGO)
    with pytest.raises(SchemaMismatchError, match=r"'years' .* may or may not be column 'age'"):
        exp.branches.merge("other")
    exp.alter_columns({"path": "years", "name": "age"})
    exp.branches.merge("other")
    assert rows_of(exp)[4] == row(5, "e", 5)


def test_a_new_column_by_a_merge_of_a_version_that_is_gone(ds: lk.LanceDataset) -> None:
    """The branch had the old column until that merge, which told the two from each other."""
    exp, other = ds.create_branch("exp"), ds.create_branch("other")
    other.insert([row(5, "e", 5)], mode="append")
    exp.update({"name": "'B'"}, where="id = 2")
    with_its_id(ds)
    exp.branches.rebase("exp")
    ds.update({"size": "7"}, where="id = 1")
    lance.dataset(ds.uri).cleanup_old_versions(AGO)
    exp.branches.merge("other")
    assert rows_of(exp)[4] == {"id": 5, "name": "e", "size": None}


def manifests_read(ds: lk.LanceDataset) -> int:
    faults = Faults()
    lk.clear_cache()
    with injected(faults):
        lk.dataset(ds.uri).branches.merge("exp", dry_run=True)
    # one that is young is not cached, and may be read more than once
    return len({call.name for call in faults.calls if ".manifest" in call.name})


def test_merges_without_other_columns_read_no_versions_between(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    found = []
    for count in (2, 8):
        for number in range(count):
            exp.branches.rebase("exp")
            exp.update({"name": f"'{number}'"}, where="id = 1")
            ds.update({"age": f"{number}"}, where="id = 2")
        found.append(manifests_read(ds))
    assert found == [4, 4]
