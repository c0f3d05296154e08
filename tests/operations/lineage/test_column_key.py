"""The primary key merges as one value: one side's key, or a conflict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import DuplicateKeysError, SchemaMismatchError
from tests.operations.lineage.test_column_merges import Change


def with_key(column: str) -> Change:
    return lambda ds: ds.update_field_metadata(
        {column: {"lance-schema:unenforced-primary-key": "true"}}
    )


def key_of(ds: lk.LanceDataset) -> list[str]:
    return [field.name for field in ds._snapshot.manifest.schema.primary_key]


def two_keys(path: Path) -> lk.LanceDataset:
    fields = [pa.field(name, pa.int64(), nullable=False) for name in ("id", "code")]
    rows = pa.table(
        {"id": [1, 2], "code": [7, 8], "n": [0, 0]}, schema=pa.schema([*fields, ("n", pa.int64())])
    )
    return lk.write_dataset(rows, path, enable_stable_row_ids=True)


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_key_comes_along_that_one_side_set(tmp_path: Path, side: str) -> None:
    ds = two_keys(tmp_path / "t")
    exp = ds.create_branch("exp")
    with_key("code")(ds if side == "ours" else exp)
    ds.update({"n": "1"}, where="id = 1")
    exp.update({"n": "2"}, where="id = 2")
    ds.branches.merge("exp")
    assert (key_of(ds), ds.count_rows("n = id")) == (["code"], 2)


def test_two_keys_are_a_conflict_and_no_key_of_both_columns(tmp_path: Path) -> None:
    ds = two_keys(tmp_path / "t")
    exp = ds.create_branch("exp")
    with_key("id")(ds)
    with_key("code")(exp)
    version = ds.version
    with pytest.raises(
        SchemaMismatchError, match=r"key was set to \(id\) here and set to \(code\) "
    ):
        ds.branches.merge("exp")
    assert ds.latest_version == version
    for side, wanted in (("ours", ["id"]), ("theirs", ["code"])):
        trial = ds.create_branch(side)
        ds.branches.merge("exp", into=side, conflicts=side)  # type: ignore[arg-type]
        trial.checkout_latest()
        assert key_of(trial) == wanted
        trial.validate(deep=True)


@pytest.mark.parametrize("turned", [False, True])
def test_a_key_of_a_new_column_needs_its_values_in_all_rows(tmp_path: Path, turned: bool) -> None:
    ds = two_keys(tmp_path / "t")
    exp = ds.create_branch("exp")
    one, other = (ds, exp) if turned else (exp, ds)
    one.add_columns({"x": "id"})
    one.alter_columns({"path": "x", "nullable": False})
    with_key("x")(one)
    other.insert({"id": [9], "code": [9], "n": [9]}, mode="append")
    version = ds.version
    with pytest.raises(SchemaMismatchError, match=r"the primary key was .*set to \(x\)") as raised:
        ds.branches.merge("exp")
    assert ds.latest_version == version
    (conflict,) = raised.value.context["conflicts"]
    assert conflict.sides == (("theirs",) if turned else ("ours",))
    ds.branches.merge("exp", conflicts=conflict.sides[0])
    assert (key_of(ds), ds.schema.field("x").nullable) == ([], True)
    ds.validate(deep=True)


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_sides_name_the_key_and_the_schema(tmp_path: Path, side: str) -> None:
    ds = two_keys(tmp_path / "t")
    exp = ds.create_branch("exp")
    for line, column in ((ds, "id"), (exp, "code")):
        with_key(column)(line)
        line.update_schema_metadata({"owner": column})
    named = {"the primary key": side, "the schema": "theirs" if side == "ours" else "ours"}
    plan = ds.branches.merge("exp", dry_run=True)
    assert {one.column for one in plan.conflicts.by_column} == named.keys()
    plan = plan.resolved(lk.Sides(columns={"the primary key": side}))  # type: ignore[dict-item]
    assert plan.num_unsettled == 1
    plan = plan.resolved(lk.Sides(columns=named))  # type: ignore[arg-type]
    assert plan.num_unsettled == 0
    plan.apply()
    columns = {"ours": "id", "theirs": "code"}
    assert key_of(ds) == [columns[side]]
    assert ds.schema.metadata == {b"owner": columns[named["the schema"]].encode()}


#: what the side without the key does, how many of the merged rows share a key, and an example
REPEATS: list[tuple[Change, int, int]] = [
    (lambda ds: ds.insert({"id": [5], "code": [8], "n": [0]}, mode="append"), 2, 8),
    (lambda ds: ds.insert({"id": [5, 6], "code": [9, 9], "n": [0, 0]}, mode="append"), 2, 9),
    (lambda ds: ds.update({"code": "8"}, where="id = 1"), 2, 8),
]


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize(("change", "rows", "code"), REPEATS)
@pytest.mark.parametrize("stable", [False, True])
def test_a_late_key_that_rows_of_the_other_side_repeat(
    tmp_path: Path, side: str, change: Change, rows: int, code: int, stable: bool
) -> None:
    start = two_keys(tmp_path / "start").to_table()
    ds = lk.write_dataset(start, tmp_path / "t", enable_stable_row_ids=stable)
    exp = ds.create_branch("Exp")
    one, other = (ds, exp) if side == "ours" else (exp, ds)
    with_key("code")(one)
    change(other)
    version = ds.version
    for dry_run in (True, False):
        with pytest.raises(DuplicateKeysError) as caught:
            ds.branches.merge("Exp", on="id", dry_run=dry_run)  # type: ignore[call-overload]
        text = str(caught.value)
        assert f"{rows} of {ds.count_rows() if side == 'theirs' else exp.count_rows()}" in text
        assert f"more than one row would have code = {code}" in text
        assert f". Version {one.version} of {'Exp' if one is exp else 'main'} set the key" in text
        assert caught.value.context["duplicates"] == rows
        assert ds.latest_version == version
    other.delete(f"code = {code} AND (id > 2 OR id = 1)")
    ds.branches.merge("Exp", on="id")
    assert (key_of(ds), ds.duplicates().rows) == (["code"], 0)


def test_rows_that_share_their_key_where_it_was_set_are_merged(tmp_path: Path) -> None:
    ds = two_keys(tmp_path / "t")
    ds.insert({"id": [3], "code": [8], "n": [0]}, mode="append")
    exp = ds.create_branch("exp")
    with_key("code")(ds)
    exp.insert({"id": [5], "code": [5], "n": [0]}, mode="append")
    ds.branches.merge("exp")
    assert (key_of(ds), ds.duplicates().rows, ds.count_rows()) == (["code"], 2, 4)
    # a fast-forward brings the branch as it is
    other = exp.create_branch("other")
    with_key("code")(other)
    exp.branches.merge("other", into="exp")
    assert exp.duplicates().rows == 2


#: how the side without the key gets nulls into the column
NULLS: dict[str, Change] = {
    "updated": lambda ds: ds.update({"code": "NULL"}, where="id = 1"),
    "inserted": lambda ds: ds.insert({"id": [9], "code": [None], "n": [9]}, mode="append"),
}


@pytest.mark.parametrize("library", [lk, lance], ids=["lancekit", "pylance"])
@pytest.mark.parametrize("wrote", NULLS)
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_key_of_a_column_in_which_the_other_side_wrote_nulls(
    tmp_path: Path, side: str, wrote: str, library: Any
) -> None:
    """The merged table had nulls in a column that takes none: pylance could not read it."""
    ds = two_keys(tmp_path / "t")
    exp = ds.create_branch("exp")
    one, other = (ds, exp) if side == "ours" else (exp, ds)
    with_key("code")(library.dataset(one._location.uri))
    other.alter_columns({"path": "code", "nullable": True})
    NULLS[wrote](other)
    for line in (ds, exp):
        line.checkout_latest()
        line.update({"n": "7"}, where="id = 2")
    version = ds.version
    with pytest.raises(SchemaMismatchError, match=r"the primary key was .* with 1 null") as raised:
        ds.branches.merge("exp")
    assert ds.latest_version == version
    (conflict,) = raised.value.context["conflicts"]
    assert conflict.sides == (("theirs",) if side == "ours" else ("ours",))
    ds.branches.merge("exp", conflicts=conflict.sides[0])
    assert (key_of(ds), ds.schema.field("code").nullable) == ([], True)
    ds.validate(deep=True)
    assert lance.dataset(ds.uri).to_table()["code"].null_count == 1


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_key_of_a_column_that_the_other_side_dropped(tmp_path: Path, side: str) -> None:
    ds = two_keys(tmp_path / "t")
    exp = ds.create_branch("exp")
    one, other = (ds, exp) if side == "ours" else (exp, ds)
    with_key("code")(one)
    other.drop_columns(["code"])
    said = "added to the primary key", "dropped"
    plan = ds.branches.merge("exp", dry_run=True)
    (conflict,) = plan.conflicts.by_column
    found = (conflict.ours, conflict.theirs)
    assert (conflict.column, found if side == "ours" else found[::-1]) == ("code", said)
    with pytest.raises(SchemaMismatchError, match="added to the primary key"):
        ds.branches.merge("exp")
    for chosen in ("ours", "theirs"):
        trial = ds.create_branch(chosen)
        ds.branches.merge("exp", into=chosen, conflicts=chosen)  # type: ignore[arg-type]
        trial.checkout_latest()
        assert key_of(trial) == (["code"] if chosen == side else [])
        assert ("code" in trial.schema.names) == (chosen == side)
        trial.validate(deep=True)


@pytest.mark.parametrize("another", [False, True], ids=["no key", "another key"])
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_key_column_that_stays_though_a_side_dropped_it(
    tmp_path: Path, side: str, another: bool
) -> None:
    ds = two_keys(tmp_path / "t")
    with_key("id")(ds)
    exp = ds.create_branch("exp")
    one, other = (ds, exp) if side == "ours" else (exp, ds)
    one.update({"id": "20"}, where="code = 8")
    other.drop_columns(["id"])
    if another:
        with_key("code")(other)
    ds.branches.merge("exp", conflicts=side)  # type: ignore[arg-type]
    assert sorted(ds.to_table()["id"].to_pylist()) == [1, 20]
    assert key_of(ds) == (["code"] if another else ["id"])
    ds.validate(deep=True)
