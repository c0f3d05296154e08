"""Columns in a merge with two merge bases: a change counts if it is new with regard to each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError, MergeConflictError, SchemaMismatchError
from tests.operations.lineage.test_column_key import key_of, with_key
from tests.operations.lineage.test_column_merges import Change

#: merges that change no row are undone, too
pytestmark = pytest.mark.filterwarnings("ignore:undo")

Rows = dict[int, dict[str, Any]]


def crossed(path: Path, change: Change, other: Change | None = None) -> list[lk.LanceDataset]:
    """Return two branches that merged the same two branches, of which the first made a change.

    So the two bases are the branches, only one of which has the change.
    """
    fields = [pa.field(name, pa.int64(), name != "id") for name in ("id", "v", "n")]
    rows = pa.table({"id": [1, 2], "v": [10, 20], "n": [0, 0]}, schema=pa.schema(fields))
    ds = lk.write_dataset(rows, path, enable_stable_row_ids=True)
    x, y, exp = (ds.create_branch(name) for name in ("x", "y", "exp"))
    change(x)
    (other or (lambda line: line.update({"n": "3"}, where="id = 2")))(y)
    for source, target in (("x", "main"), ("y", "main"), ("y", "exp"), ("x", "exp")):
        ds.branches.merge(source, into=target)
    for line in (ds, exp):
        line.checkout_latest()
    assert ds.branches.compare("exp").base in (("x", x.latest_version), ("y", y.latest_version))
    return [ds, exp]


def read(library: Any, ds: lk.LanceDataset, **at: Any) -> tuple[dict[str, str], Rows]:
    """Return the types of columns and the rows of the newest version, as a library reads them."""
    found = library.dataset(ds._location.uri, **at).to_table()
    rows = {row["id"]: row for row in found.to_pylist()}
    return {field.name: str(field.type) for field in found.schema}, rows


def rows(**columns: list[Any]) -> Rows:
    """Return rows with ids from 1 on."""
    listed = zip(*columns.values(), strict=True)
    return {
        at: {"id": at, **dict(zip(columns, values, strict=True))}
        for at, values in enumerate(listed, start=1)
    }


class Case(NamedTuple):
    """What one base has more than the other, and what theirs and ours did since.

    `said` is the conflict; `ours` and `theirs` are what comes of it with each side.
    """

    before: Change
    there: Change
    here: Change
    said: str | None
    theirs: Any
    ours: Any = None


def nothing(ds: lk.LanceDataset) -> None:
    """Change nothing of columns, but a row."""
    ds.update({"n": "1"}, where="id = 1")


def adding(ds: lk.LanceDataset) -> None:
    ds.add_columns({"c": "id * 100"})


def dropping(name: str) -> Change:
    return lambda ds: ds.drop_columns([name])


def altering(path: str, **to: Any) -> Change:
    return lambda ds: ds.alter_columns({"path": path, **to})


def describing(unit: str) -> Change:
    return lambda ds: ds.update_field_metadata({"v": {"unit": unit}})


def both(*changes: Change) -> Change:
    return lambda ds: [change(ds) for change in changes]


V, N, C = [10, 20], [1, 3], [100, 200]
SAME = rows(v=V, n=N)
CASES: dict[str, Case] = {
    # one base lacks the column
    "dropped what one base lacks": Case(
        adding, dropping("c"), nothing,
        "column 'c' was added here and dropped there", SAME, rows(v=V, n=N, c=C),
    ),
    "changed what one base lacks, and the other side dropped it": Case(
        adding, lambda ds: ds.update({"c": "7"}, where="id = 2"), both(nothing, dropping("c")),
        None, rows(v=V, n=N, c=[100, 7]),
    ),
    "changed a value to null that one base lacks": Case(
        adding, lambda ds: ds.update({"c": "nullif(1, 1)"}, where="id = 2"), nothing,
        None, rows(v=V, n=N, c=[100, None]),
    ),
    "renamed what one base lacks": Case(
        adding, altering("c", name="d"),
        both(nothing, lambda ds: ds.update({"c": "7"}, where="id = 2")),
        None, rows(v=V, n=N, d=[100, 7]),
    ),
    "cast what one base lacks": Case(
        adding, altering("c", data_type=pa.int32()),
        both(nothing, lambda ds: ds.update({"c": "7"}, where="id = 2")),
        None, ("int32", rows(v=V, n=N, c=[100, 7])),
    ),
    # one base dropped the column
    "added again what one base dropped": Case(
        dropping("v"), lambda ds: ds.add_columns({"v": "id * 10"}), nothing,
        "column 'v' was dropped here and added there", rows(v=V, n=N), rows(n=N),
    ),
    "added again what one base dropped, with other values": Case(
        dropping("v"), lambda ds: ds.add_columns({"v": "id * 11"}), nothing,
        None, rows(v=[11, 22], n=N),
    ),
    # names
    "took a rename back": Case(
        altering("v", name="w"), altering("w", name="v"), nothing,
        "column '[vw]' was renamed to w here and renamed to v there", SAME, rows(w=V, n=N),
    ),
    "renamed it otherwise": Case(
        altering("v", name="w"), altering("w", name="u"),
        both(nothing, lambda ds: ds.update({"w": "7"}, where="id = 2")),
        None, rows(u=[10, 7], n=N),
    ),
    "renamed and dropped what one base renamed": Case(
        altering("v", name="w"), altering("w", name="u"), both(nothing, dropping("w")),
        "column '[vw]' was dropped here and renamed to u there", rows(u=V, n=N), rows(n=N),
    ),
    "dropped what one base renamed": Case(
        altering("v", name="w"), dropping("w"), nothing, None, rows(n=N),
    ),
    # types
    "took a cast back": Case(
        altering("v", data_type=pa.int32()), altering("v", data_type=pa.int64()), nothing,
        "column 'v' was cast to int32 here and cast to int64 there",
        ("int64", SAME), ("int32", SAME),
    ),
    "cast it otherwise": Case(
        altering("v", data_type=pa.int32()), altering("v", data_type=pa.int16()),
        both(nothing, lambda ds: ds.update({"v": "7"}, where="id = 2")),
        None, ("int16", rows(v=[10, 7], n=N)),
    ),
}  # fmt: skip


def seen(found: tuple[dict[str, str], Rows], wanted: Any) -> bool:
    """Return True if a library reads the rows that a case wants, and its type of the column."""
    types, read_rows = found
    kind, wanted = wanted if isinstance(wanted, tuple) else (None, wanted)
    names = [name for name in types if name not in ("id", "n")]
    return read_rows == wanted and (kind is None or types[names[-1]] == kind)


@pytest.mark.cover
@pytest.mark.parametrize("turned", [False, True], ids=["into-main", "into-branch"])
@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of_columns(tmp_path: Path, name: str, turned: bool) -> None:
    case = CASES[name]
    ours, theirs = crossed(tmp_path / "t", case.before)[:: -1 if turned else 1]
    source = "main" if turned else "exp"
    case.there(theirs)
    case.here(ours)
    version = ours.version
    plan = ours.branches.merge(source, dry_run=True)
    if case.said is None:
        assert plan.num_unsettled == 0, plan.conflicts.by_column
        wanted = {"fail": case.theirs}
    else:
        assert plan.num_unsettled == 1
        with pytest.raises(SchemaMismatchError, match=case.said) as raised:
            ours.branches.merge(source)
        assert "or pass the base to compare with: base=(" in str(raised.value)
        assert ours.latest_version == version
        wanted = {"ours": case.ours, "theirs": case.theirs}
    before = read(lk, ours)
    for side, rows_wanted in wanted.items():
        plan = ours.branches.merge(source, conflicts=side, dry_run=True)
        result = ours.branches.merge(source, conflicts=side)  # type: ignore[arg-type]
        assert {key: plan[key] for key in result} == dict(result)
        for library in (lk, lance):
            assert seen(read(library, ours), rows_wanted), (side, library)
        ours.validate(deep=True)
        assert ours.branches.merge(source).how == "nothing to do"
        ours.undo()
        assert read(lk, ours) == before


def test_a_changed_column_stays_if_theirs_changed_no_row_since_a_base(tmp_path: Path) -> None:
    ds, exp = crossed(tmp_path / "t", adding, describing("m"))
    exp.drop_columns(["c"])
    ds.update({"c": "7"}, where="id = 2")
    ds.branches.merge("exp")
    assert read(lance, ds)[1] == rows(v=V, n=[0, 0], c=[100, 7])


@pytest.mark.parametrize("turned", [False, True])
def test_a_deleted_row_with_a_new_value_in_a_column_that_one_base_lacks(
    tmp_path: Path, turned: bool
) -> None:
    ds, exp = crossed(tmp_path / "t", adding)
    one, other = (ds, exp) if turned else (exp, ds)
    one.delete("id < 3")
    other.update({"c": "7"}, where="id = 2")
    with pytest.raises(MergeConflictError) as raised:
        ds.branches.merge("exp")
    (conflict,) = raised.value.context["conflicts"].sample()
    assert conflict.kind == ("delete/update" if turned else "update/delete")
    ds.branches.merge("exp", conflicts="theirs" if turned else "ours")
    assert read(lance, ds)[1] == {2: {"id": 2, "v": 20, "n": 3, "c": 7}}


@pytest.mark.parametrize("turned", [False, True])
def test_a_new_value_in_a_row_and_a_column_that_one_base_lacks(
    tmp_path: Path, turned: bool
) -> None:
    """That the row is gone is not new to the base, so the changed row stays."""
    ds, exp = crossed(
        tmp_path / "t",
        both(adding, lambda x: x.insert({"id": [9], "v": [9], "n": [9], "c": [9]}, mode="append")),
    )
    one, other = (ds, exp) if turned else (exp, ds)
    one.delete("id = 9")
    other.update({"c": "7"}, where="id = 9")
    ds.branches.merge("exp", on="id")
    assert read(lance, ds)[1][9] == {"id": 9, "v": 9, "n": 9, "c": 7}


def test_a_cell_that_both_changed_in_a_column_that_one_base_lacks(tmp_path: Path) -> None:
    ds, exp = crossed(tmp_path / "t", adding)
    ds.update({"c": "7"}, where="id = 2")
    exp.update({"c": "8"}, where="id = 2")
    with pytest.raises(MergeConflictError) as raised:
        ds.branches.merge("exp")
    (conflict,) = raised.value.context["conflicts"].sample()
    assert (conflict.columns, conflict.ours["c"], conflict.theirs["c"]) == (("c",), 7, 8)
    ds.branches.merge("exp", conflicts="theirs", by="row")
    assert read(lance, ds)[1][2]["c"] == 8


#: a change of one base, what theirs makes of it, and the conflict, if it took the change back
DESCRIBED: dict[str, tuple[Change, Change, Callable[[lk.LanceDataset], Any], Any, Any, str]] = {
    "metadata": (
        describing("m"), describing("km"),
        lambda ds: ds.schema.field("v").metadata, {b"unit": b"m"}, {b"unit": b"km"}, "",
    ),
    "metadata, back": (
        describing("m"), lambda ds: ds.update_field_metadata({"v": {"unit": None}}),
        lambda ds: ds.schema.field("v").metadata, {b"unit": b"m"}, None,
        "column 'v' was given metadata unit = m here and given metadata unit = None there",
    ),
    "metadata of the schema": (
        lambda ds: ds.update_schema_metadata({"owner": "a"}),
        lambda ds: ds.update_schema_metadata({"owner": "b"}),
        lambda ds: ds.schema.metadata, {b"owner": b"a"}, {b"owner": b"b"}, "",
    ),
    "nullability, back": (
        altering("v", nullable=False), altering("v", nullable=True),
        lambda ds: ds.schema.field("v").nullable, False, True,
        "column 'v' was made not nullable here and made nullable there",
    ),
    "a key": (with_key("id"), nothing, key_of, ["id"], ["id"], ""),
}  # fmt: skip


@pytest.mark.cover
@pytest.mark.parametrize("turned", [False, True], ids=["into-main", "into-branch"])
@pytest.mark.parametrize("name", DESCRIBED)
def test_descriptions_of_columns(tmp_path: Path, name: str, turned: bool) -> None:
    before, there, look, kept, taken, said = DESCRIBED[name]
    ours, theirs = crossed(tmp_path / "t", before)[:: -1 if turned else 1]
    source = "main" if turned else "exp"
    there(theirs)
    ours.update({"n": "9"}, where="id = 1")
    assert look(ours) == kept
    whose = "ours" if said else "fail"
    if said:
        with pytest.raises(SchemaMismatchError, match=said):
            ours.branches.merge(source)
        ours.branches.merge(source, conflicts="ours")
        assert look(ours) == kept
        ours.undo()
        whose = "theirs"
    if name == "a key":
        theirs.update({"v": "7"}, where="id = 2")
        whose = "theirs"
    ours.branches.merge(source, conflicts=whose)  # type: ignore[arg-type]
    assert look(ours) == taken
    ours.validate(deep=True)


def test_bases_that_match_columns_differently(tmp_path: Path) -> None:
    """The target made one column of two that the source keeps apart: only the user can tell."""
    ds = lk.write_dataset({"id": [1], "v": [10]}, tmp_path / "t", primary_key="id")
    x, y, exp = (ds.create_branch(name) for name in ("x", "y", "exp"))
    for line, value in ((x, "1"), (y, "2")):
        line.add_columns({"c": value})
    for source in ("x", "y"):
        ds.branches.merge(source, conflicts="ours")
    exp.branches.merge("y")
    exp.checkout_latest()
    exp.alter_columns({"path": "c", "name": "d"})
    exp.branches.merge("x")
    version = ds.version
    with pytest.raises(InvalidArgumentError) as raised:
        ds.branches.merge("exp")
    assert str(raised.value) == (
        f"version {exp.latest_version} of exp and version {version} of main have several merge "
        "bases, which match columns differently: one makes c and d of version "
        f"{exp.latest_version} of exp the same column. Pass the base to compare with: base=('x', "
        "2) or base=('y', 2)."
    )
    assert ds.latest_version == version
    ds.branches.merge("exp", base=("x", 2))
    assert read(lance, ds) == ({"id": "int64", "v": "int64", "c": "int64", "d": "int64"},
                               {1: {"id": 1, "v": 10, "c": 1, "d": 2}})  # fmt: skip


STRUCTS: dict[str, tuple[Change, Change, Any]] = {
    "renamed": (nothing, altering("s.x", name="z"), [{"z": 1, "y": "a"}, {"z": 7, "y": "b"}]),
    "cast": (
        nothing, altering("s.x", data_type=pa.int32()), [{"x": 1, "y": "a"}, {"x": 7, "y": "b"}],
    ),
    "dropped": (nothing, dropping("s.y"), [{"x": 1}, {"x": 7}]),
    "added": (
        nothing,
        lambda ds: ds.add_columns(pa.schema([pa.field("s", pa.struct([("c", pa.int32())]))])),
        None,
    ),
    "renamed, as a base": (altering("s.x", name="z"), altering("s.z", name="u"), None),
}  # fmt: skip


@pytest.mark.parametrize("name", STRUCTS)
def test_parts_of_structs_merge_if_the_bases_have_the_same_parts(tmp_path: Path, name: str) -> None:
    before, there, wanted = STRUCTS[name]
    parts = pa.struct([("x", pa.int64()), ("y", pa.string())])
    fields = [pa.field("id", pa.int64(), False), ("s", parts), ("n", pa.int64())]
    rows = {"id": [1, 2], "s": [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}], "n": [0, 0]}
    table = pa.table(rows, schema=pa.schema(fields))
    ds = lk.write_dataset(table, tmp_path / "t", enable_stable_row_ids=True)
    x, y, exp = (ds.create_branch(name) for name in ("x", "y", "exp"))
    before(x)
    y.update({"n": "3"}, where="id = 2")
    for source, target in (("x", "main"), ("y", "main"), ("y", "exp"), ("x", "exp")):
        ds.branches.merge(source, into=target)
    ds.checkout_latest()
    exp.checkout_latest()
    there(exp)
    own = ds.schema.field("s").type.field(0).name
    changed = pa.table({"id": [2], "s": [{own: 7, "y": "b"}]}, schema=ds.schema.remove(2))
    ds.merge_insert("id").when_matched_update_all().execute(changed)
    version = ds.version
    if wanted is None:
        with pytest.raises(SchemaMismatchError, match=r"column 's' was .*given the type") as raised:
            ds.branches.merge("exp")
        assert "base=('x', 2) or base=('y', 2)" in str(raised.value)
        assert ds.latest_version == version
        return
    ds.branches.merge("exp")
    for library in (lk, lance):
        found = library.dataset(ds.uri).to_table(columns=["id", "s"]).sort_by("id")
        assert found["s"].to_pylist() == wanted
    ds.validate(deep=True)
