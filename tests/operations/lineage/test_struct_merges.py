"""Parts of structs that a side renamed, cast, added or dropped, in merges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import SchemaMismatchError
from tests.operations.lineage.test_column_merges import Change

#: merges that change no row are undone, too
pytestmark = pytest.mark.filterwarnings("ignore:undo")

STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
WITH_C = pa.struct([*STRUCT, ("c", pa.int32())])
#: what the side with other rows makes of the struct in row 3
CHANGED = {"a": 30, "b": "x"}

Struct = dict[str, Any] | None
Rows = dict[int, dict[str, Any]]


def table(rows: list[dict[str, Any]], kind: pa.DataType = STRUCT) -> pa.Table:
    fields = [pa.field("id", pa.int64(), False), ("n", pa.int64()), ("s", kind)]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def upsert(ds: lk.LanceDataset, rows: list[dict[str, Any]], kind: pa.DataType = STRUCT) -> None:
    changed = table(rows, kind)
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(changed)


def with_c(ds: lk.LanceDataset) -> None:
    ds.add_columns(pa.schema([pa.field("s", pa.struct([("c", pa.int32())]))]))


def with_values_of_c(ds: lk.LanceDataset) -> None:
    with_c(ds)
    rows = [{"id": k, "n": k, "s": {"a": k, "b": str(k), "c": 7}} for k in (2, 3)]
    upsert(ds, rows, WITH_C)


#: changes of a part, and what becomes of the struct of a row
PARTS: dict[str, tuple[Change, Callable[[int, dict[str, Any]], Struct]]] = {
    "renamed": (
        lambda ds: ds.alter_columns({"path": "s.a", "name": "z"}),
        lambda _, s: {"z": s["a"], "b": s["b"]},
    ),
    "cast": (
        lambda ds: ds.alter_columns({"path": "s.a", "data_type": pa.int32()}),
        lambda _, s: s,
    ),
    "dropped": (lambda ds: ds.drop_columns(["s.a"]), lambda _, s: {"b": s["b"]}),
    "added": (with_c, lambda _, s: {**s, "c": None}),
    "added with values": (
        with_values_of_c,
        lambda key, s: {**s, "c": 7 if key in (2, 3) else None},
    ),
    "not nullable": (
        lambda ds: ds.alter_columns({"path": "s.a", "nullable": False}),
        lambda _, s: s,
    ),
}


def compacted(ds: lk.LanceDataset) -> None:
    ds.delete("id = 5")
    ds.optimize.compact_files()


#: what the other side does, and the rows that it changes: None for a row that goes
OTHERS: dict[str, tuple[Change, dict[int, dict[str, Any] | None]]] = {
    "the struct": (
        lambda ds: upsert(ds, [{"id": 3, "n": 3, "s": CHANGED}]),
        {3: {"id": 3, "n": 3, "s": CHANGED}},
    ),
    "another column": (
        lambda ds: ds.update({"n": "90"}, where="id = 3"),
        {3: {"id": 3, "n": 90, "s": {"a": 3, "b": "3"}}},
    ),
    "new rows": (
        lambda ds: ds.insert(table([{"id": 9, "n": 9, "s": CHANGED}]), mode="append"),
        {9: {"id": 9, "n": 9, "s": CHANGED}},
    ),
    "fewer rows": (lambda ds: ds.delete("id = 3"), {3: None}),
    "compacted": (compacted, {5: None}),
}

#: combinations in which the two sides conflict: the side that changed parts wins
CONFLICTS = {("dropped", "the struct"), ("added with values", "fewer rows")}
#: the file version and the verb of each combination
KINDS = cycle(
    (version, verb)
    for version in ("2.0", "2.1", "2.2")
    for verb in ("merge", "rebase", "cherry_pick", "merge")
)


def cases() -> Iterator[Any]:
    for part in PARTS:
        for other in OTHERS:
            for side in ("ours", "theirs"):
                version, verb = next(KINDS)
                if part == "cast" and version == "2.0":  # a cast of a part is refused there
                    version = "2.1"
                picked = part if side == "theirs" else other
                if (part, other) in CONFLICTS or (
                    verb == "cherry_pick" and picked in ("added with values", "compacted")
                ):
                    verb = "merge"  # two versions
                yield pytest.param(part, other, side, version, verb)
    yield pytest.param("renamed", "the struct", "theirs", "2.2", "row ids")


@pytest.mark.cover(2)
@pytest.mark.parametrize(("part", "other", "side", "version", "verb"), [*cases()])
def test_a_changed_part_beside_changed_rows(
    tmp_path: Path, part: str, other: str, side: str, version: str, verb: str
) -> None:
    rows = [{"id": k, "n": k, "s": {"a": k, "b": str(k)}} for k in range(1, 7)]
    if version != "2.0" and part != "not nullable":  # 2.0 has no null structs
        rows[3]["s"] = None
    by_ids = verb == "row ids"
    kept: dict[str, Any] = {"enable_stable_row_ids": True} if by_ids else {"primary_key": "id"}
    ds = lk.write_dataset(
        table(rows),
        tmp_path / "t",
        data_storage_version=version,
        max_rows_per_file=3,
        **kept,
    )
    exp = ds.create_branch("exp")
    target = exp if verb == "rebase" else ds
    source = ds if verb == "rebase" else exp
    one, two = (target, source) if side == "ours" else (source, target)
    PARTS[part][0](one)
    OTHERS[other][0](two)
    how: dict[str, Any] = {}
    if (part, other) in CONFLICTS:
        how = {"conflicts": side}
    before = target.version
    if verb == "cherry_pick":
        result = ds.branches.cherry_pick("exp", exp.version, **how)
    else:
        merge = ds.branches.rebase if verb == "rebase" else ds.branches.merge
        plan = None if verb == "rebase" else ds.branches.merge("exp", dry_run=True, **how)
        result = merge("exp", **how)
        for name, value in result.items():
            if plan is not None and name.startswith(("num_", "columns_")):
                assert value == getattr(plan, name), name
    target.checkout_latest()
    assert target.version == before + 1
    wanted: Rows = {row["id"]: dict(row) for row in rows}
    for key, row in OTHERS[other][1].items():
        if row is None and (part, other) not in CONFLICTS:
            del wanted[key]
        elif row is not None:
            wanted[key] = dict(row)
    for key, row in wanted.items():
        row["s"] = None if row["s"] is None else PARTS[part][1](key, row["s"])
    check(target, wanted)
    assert target.schema.field("s").type == one.schema.field("s").type
    target.undo()
    assert target.to_table().schema == target.checkout_version(before).to_table().schema


def check(ds: lk.LanceDataset, wanted: Rows) -> None:
    """Check the rows, as lancekit and pylance read them, and a filter on each part."""
    rows = [wanted[key] for key in sorted(wanted)]
    for found in (ds, lance.dataset(ds._location.uri)):
        assert found.to_table().sort_by("id").to_pylist() == rows
        for path, value in paths(rows):
            literal = f"'{value}'" if isinstance(value, str) else value
            keys = found.to_table(columns=["id"], filter=f"{path} = {literal}")["id"].to_pylist()
            assert sorted(keys) == [
                row["id"] for row in rows if row["s"] and row["s"][path[2:]] == value
            ]
    ds.validate(deep=True)


def paths(rows: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    known = {name: row["s"][name] for row in rows if row["s"] for name in row["s"]}
    yield from ((f"s.{name}", value) for name, value in known.items() if value is not None)


def test_each_side_changes_other_parts(tmp_path: Path) -> None:
    rows = [{"id": k, "n": k, "s": {"a": k, "b": str(k)}} for k in range(1, 7)]
    ds = lk.write_dataset(table(rows), tmp_path / "t", primary_key="id", max_rows_per_file=3)
    exp = ds.create_branch("exp")
    exp.alter_columns({"path": "s.a", "name": "z"}, {"path": "s.a", "data_type": pa.int32()})
    exp.add_columns(pa.schema([pa.field("s", pa.struct([("d", pa.string())]))]))
    kind = pa.struct([("z", pa.int32()), ("b", pa.string()), ("d", pa.string())])
    upsert(exp, [{"id": k, "n": k, "s": {"z": k, "b": "e", "d": "d"}} for k in (2, 3)], kind)
    ds.alter_columns({"path": "s.b", "name": "y"})
    with_c(ds)
    kind = pa.struct([("a", pa.int64()), ("y", pa.string()), ("c", pa.int32())])
    upsert(
        ds,
        [
            {"id": 1, "n": 1, "s": {"a": 10, "y": "1", "c": 7}},
            {"id": 2, "n": 2, "s": {"a": 2, "y": "2", "c": 8}},
            {"id": 7, "n": 7, "s": {"a": 7, "y": "7", "c": 9}},
        ],
        kind,
    )
    result = ds.branches.merge("exp")
    assert result.columns_cast == ("s",)
    names = [field.name for field in ds.schema.field("s").type]
    assert names == ["z", "y", "c", "d"]
    structs = {
        1: (10, "1", 7, None),
        2: (2, "e", 8, "d"),
        3: (3, "e", None, "d"),
        4: (4, "4", None, None),
        5: (5, "5", None, None),
        6: (6, "6", None, None),
        7: (7, "7", 9, None),
    }
    check(
        ds,
        {
            k: {"id": k, "n": k, "s": dict(zip(names, values, strict=True))}
            for k, values in structs.items()
        },
    )
    # the next merge follows parts that were renamed, cast and added
    exp.alter_columns({"path": "s.z", "name": "x"})
    kind = pa.struct([("x", pa.int32()), ("b", pa.string()), ("d", pa.string())])
    upsert(exp, [{"id": 8, "n": 8, "s": {"x": 8, "b": "8", "d": "new"}}], kind)
    ds.alter_columns({"path": "s.d", "name": "w"})
    ds.branches.merge("exp")
    assert [field.name for field in ds.schema.field("s").type] == ["x", "y", "c", "w"]
    found = ds.to_table(filter="id = 2 OR id = 8").sort_by("id")["s"].to_pylist()
    assert found == [
        {"x": 2, "y": "e", "c": 8, "w": "d"},
        {"x": 8, "y": "8", "c": None, "w": "new"},
    ]


def renamed_to(name: str) -> Change:
    return lambda ds: ds.alter_columns({"path": "s.a", "name": name})


def cast_to(kind: pa.DataType) -> Change:
    return lambda ds: ds.alter_columns({"path": "s.a", "data_type": kind})


def added_as(kind: pa.DataType) -> Change:
    return lambda ds: ds.add_columns(pa.schema([pa.field("s", pa.struct([("c", kind)]))]))


def changed_to(value: int) -> Change:
    return lambda ds: upsert(ds, [{"id": 3, "n": 3, "s": {"a": value, "b": "3"}}])


#: what ours and theirs do, what the conflict says of them, and the sides that can settle it
BOTH: dict[str, tuple[Change, Change, str, str, tuple[str, ...]]] = {
    "renamed": (
        renamed_to("y"),
        renamed_to("z"),
        "renamed to y in field a",
        "renamed to z in field a",
        ("ours", "theirs"),
    ),
    "cast": (
        cast_to(pa.int32()),
        cast_to(pa.int16()),
        "cast to int32 in field a",
        "cast to int16 in field a",
        ("ours", "theirs"),
    ),
    "added": (
        added_as(pa.int32()),
        added_as(pa.string()),
        "added as int32 in field c",
        "added as string in field c",
        ("ours", "theirs"),
    ),
    "dropped": (
        changed_to(30),
        lambda ds: ds.drop_columns(["s.a"]),
        "changed 1 value in field a",
        "dropped in field a",
        ("ours", "theirs"),
    ),
    "dropped here": (
        lambda ds: ds.drop_columns(["s.a"]),
        changed_to(30),
        "dropped in field a",
        "changed 1 value in field a",
        ("ours", "theirs"),
    ),
    "misfits": (
        changed_to(1000),
        cast_to(pa.int8()),
        "changed 1 value that int8 cannot hold in field a",
        "cast to int8 in field a",
        ("ours",),
    ),
    "nulls": (
        lambda ds: upsert(ds, [{"id": 3, "n": 3, "s": {"a": None, "b": "3"}}]),
        lambda ds: ds.alter_columns({"path": "s.a", "nullable": False}),
        "given 1 null in field a",
        "made not nullable in field a",
        ("ours",),
    ),
    "no part left": (
        lambda ds: ds.drop_columns(["s.a"]),
        lambda ds: ds.drop_columns(["s.b"]),
        "given the type struct<b: string>",
        "given the type struct<a: int64>",
        (),
    ),
}


@pytest.mark.parametrize("what", BOTH)
def test_a_part_that_both_changed_is_a_conflict(tmp_path: Path, what: str) -> None:
    here, there, mine, theirs, sides = BOTH[what]
    rows = [{"id": k, "n": k, "s": {"a": k, "b": str(k)}} for k in range(1, 7)]
    ds = lk.write_dataset(table(rows), tmp_path / "t", primary_key="id", max_rows_per_file=3)
    exp = ds.create_branch("exp")
    here(ds)
    there(exp)
    version = ds.version
    with pytest.raises(SchemaMismatchError, match="column 's' was") as raised:
        ds.branches.merge("exp")
    (conflict,) = raised.value.context["conflicts"]
    assert (conflict.ours, conflict.theirs, conflict.sides) == (mine, theirs, sides)
    assert ds.latest_version == version
    for side in sides:
        for how in (side, lk.Sides(columns={"s": side})):
            ds.branches.merge("exp", conflicts=how)
            winner = ds if side == "ours" else exp
            kept = (ds.checkout_version(version) if side == "ours" else winner).schema
            # a part that is back is the last one
            assert {*ds.schema.field("s").type} == {*kept.field("s").type}
            assert ds.to_table()["s"].type == ds.schema.field("s").type
            ds.validate(deep=True)
            ds.undo()


NESTED: dict[str, tuple[pa.DataType, Callable[[int], Any], str]] = {
    "list": (pa.list_(STRUCT), lambda k: [{"a": k, "b": "b"}, None][: k % 3], "s.item"),
    "large list": (pa.large_list(STRUCT), lambda k: [{"a": k, "b": "b"}] * k, "s.item"),
    "list of lists": (
        pa.list_(pa.list_(STRUCT)),
        lambda k: [[{"a": k, "b": "b"}], []],
        "s.item.item",
    ),
    "struct": (
        pa.struct([("i", STRUCT), ("o", pa.int32())]),
        lambda k: {"i": {"a": k, "b": "b"}, "o": 1},
        "s.i",
    ),
    "struct of lists": (
        pa.struct([("i", pa.list_(STRUCT)), ("o", pa.int32())]),
        lambda k: {"i": [{"a": k, "b": "b"}], "o": 1},
        "s.i.item",
    ),
    "map": (
        pa.map_(pa.string(), STRUCT),
        lambda k: [("key", {"a": k, "b": "b"})],
        "s.entries.value",
    ),
}


def with_other_parts(value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return nested values with each struct of a and b changed."""
    if isinstance(value, dict):
        if "a" in value:
            return change(value)
        return {name: with_other_parts(one, change) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(with_other_parts(one, change) for one in value)
    return value


@pytest.mark.cover
@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("nesting", NESTED)
def test_parts_of_nested_structs(tmp_path: Path, nesting: str, side: str) -> None:
    kind, make, path = NESTED[nesting]
    rows = [{"id": k, "n": k, "s": make(k)} for k in range(1, 5)]
    rows[1]["s"] = None
    ds = lk.write_dataset(
        table(rows, kind), tmp_path / "t", primary_key="id", data_storage_version="2.2"
    )
    exp = ds.create_branch("exp")
    one, two = (ds, exp) if side == "ours" else (exp, ds)
    one.drop_columns([f"{path}.b"])
    one.alter_columns({"path": f"{path}.a", "name": "z"})
    upsert(two, [{"id": 3, "n": 3, "s": make(2)}, {"id": 5, "n": 5, "s": make(5)}], kind)
    ds.branches.merge("exp", conflicts="fail" if nesting == "map" else side)
    rows[2]["s"] = make(2)
    rows.append({"id": 5, "n": 5, "s": make(5)})
    wanted = [with_other_parts(row["s"], lambda s: {"z": s["a"]}) for row in rows]
    for library in (lk, lance):
        assert library.dataset(ds.uri).to_table().sort_by("id")["s"].to_pylist() == wanted
    ds.validate(deep=True)


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("nesting", ["list", "struct of lists", "map"])
def test_an_overwrite_casts_parts_of_nested_structs(
    tmp_path: Path, nesting: str, side: str
) -> None:
    kind, make, path = NESTED[nesting]
    cast = pa.struct([("a", pa.int32()), ("b", pa.string())])
    narrow = {
        "list": pa.list_(cast),
        "struct of lists": pa.struct([("i", pa.list_(cast)), ("o", pa.int32())]),
        "map": pa.map_(pa.string(), cast),
    }[nesting]
    rows = [{"id": k, "n": k, "s": make(k)} for k in range(1, 5)]
    kept: dict[str, Any] = {"primary_key": "id", "data_storage_version": "2.2"}
    ds = lk.write_dataset(table(rows, kind), tmp_path / "t", **kept)
    exp = ds.create_branch("exp")
    one, two = (ds, exp) if side == "ours" else (exp, ds)
    one.insert(table(rows, narrow), mode="overwrite")
    new = [{"id": 3, "n": 3, "s": make(2)}, {"id": 5, "n": 5, "s": make(5)}]
    upsert(two, new, kind)
    ds.branches.merge("exp")
    rows[2:3], rows[4:] = new[:1], new[1:]
    assert ds.schema.field("s").type == narrow
    for library in (lk, lance):
        found = library.dataset(ds.uri).to_table().sort_by("id")["s"].to_pylist()
        assert found == [row["s"] for row in rows]
    if side == "theirs":
        return
    upsert(two, [{"id": 5, "n": 5, "s": make(1 << 40)}], kind)
    with pytest.raises(SchemaMismatchError, match="cannot hold in field") as raised:
        ds.branches.merge("exp")
    (conflict,) = raised.value.context["conflicts"]
    assert conflict.theirs == f"changed 1 value that int32 cannot hold in field {path[2:]}.a"


def test_the_file_of_a_cast_part_gets_a_second_name(tmp_path: Path) -> None:
    rows = [{"id": k, "n": k, "s": {"a": k, "b": str(k)}} for k in range(6)]
    ds = lk.write_dataset(table(rows), tmp_path / "t", primary_key="id", max_rows_per_file=3)
    exp = ds.create_branch("exp")
    exp.alter_columns({"path": "s.a", "data_type": pa.int32()})
    ds.insert(table([{"id": 9, "n": 9, "s": CHANGED}]), mode="append")
    ds.branches.merge("exp")
    fragments = ds._snapshot.manifest.fragments
    cast = [ds._snapshot.data_file(fragment.files[-1]) for fragment in fragments]
    linked = [(tmp_path / "t" / file.name).stat() for file in cast]
    assert [stat.st_nlink for stat in linked] == [2, 2, 1]
    check(ds, {row["id"]: row for row in [*rows, {"id": 9, "n": 9, "s": CHANGED}]})


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_new_part_with_the_id_of_a_dropped_part(tmp_path: Path, side: str) -> None:
    kind = pa.struct([("a", pa.int64()), ("x", pa.int64()), ("b", pa.string())])
    rows = [{"id": k, "n": k, "s": {"a": k, "x": k, "b": str(k)}} for k in range(6)]
    ds = lk.write_dataset(table(rows, kind), tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    one, two = (ds, exp) if side == "ours" else (exp, ds)
    before = {part.id for part in one._snapshot.manifest.schema.walk() if part.name == "b"}
    one.drop_columns(["s.x", "s.b"])
    one.delete("id = 0")
    one.optimize.compact_files()  # no file has the parts
    one.add_columns(pa.schema([pa.field("s", pa.struct([("d", pa.string())]))]))
    after = {part.id for part in one._snapshot.manifest.schema.walk() if part.name == "d"}
    assert before == after
    new = {"id": 9, "n": 9, "s": {"a": 9, "x": 9, "b": "9"}}
    two.insert(table([new], kind), mode="append")
    ds.branches.merge("exp")
    wanted = [{**row, "s": {"a": row["id"], "d": None}} for row in [*rows, new] if row["id"]]
    check(ds, {row["id"]: row for row in wanted})


def test_conflicts_of_rows_have_the_parts_of_the_result(tmp_path: Path) -> None:
    rows = [{"id": k, "n": k, "s": {"a": k, "b": str(k)}} for k in range(3)]
    ds = lk.write_dataset(table(rows), tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.alter_columns({"path": "s.a", "name": "z"})
    exp.add_columns(pa.schema([pa.field("s", pa.struct([("c", pa.int32())]))]))
    kind = pa.struct([("z", pa.int64()), ("b", pa.string()), ("c", pa.int32())])
    upsert(exp, [{"id": 1, "n": 1, "s": {"z": 100, "b": "1", "c": 7}}], kind)
    ds.update({"n": "n"})
    upsert(ds, [{"id": 1, "n": 1, "s": {"a": 10, "b": "1"}}])
    plan = ds.branches.merge("exp", dry_run=True)
    (conflict,) = plan.conflicts.sample()
    assert conflict.columns == ("s",)
    assert [None if one is None else one["s"] for one in (conflict.base, conflict.ours)] == [
        {"z": 1, "b": "1", "c": None},
        {"z": 10, "b": "1", "c": None},
    ]
    theirs = {"z": 100, "b": "1", "c": 7}
    settled = [{"id": 1, "n": 1, "s": {"z": 5, "b": "5", "c": 5}}]
    for how, wanted in (("theirs", theirs), (lambda _: settled, settled[0]["s"])):
        ds.branches.merge("exp", conflicts=how)
        assert ds.to_table(filter="id = 1")["s"].to_pylist() == [wanted]
        ds.validate(deep=True)
        ds.undo()


@pytest.mark.parametrize("part", ["renamed", "cast", "dropped"])
def test_a_revert_takes_back_the_change_of_a_part(tmp_path: Path, part: str) -> None:
    rows = [{"id": k, "n": k, "s": {"a": k, "b": str(k)}} for k in range(3)]
    ds = lk.write_dataset(table(rows), tmp_path / "t", primary_key="id")
    PARTS[part][0](ds)
    version = ds.version
    ds.update({"n": "90"}, where="id = 1")
    ds.revert(version)
    rows[1]["n"] = 90
    assert {*ds.schema.field("s").type} == {*STRUCT}
    check(ds, {row["id"]: row for row in rows})


def test_a_diff_follows_a_renamed_part(tmp_path: Path) -> None:
    rows = [{"id": k, "n": k, "s": {"a": k, "b": str(k)}} for k in range(3)]
    ds = lk.write_dataset(table(rows), tmp_path / "t", primary_key="id")
    version = ds.version
    ds.alter_columns({"path": "s.a", "name": "z"})
    ds.delete("id = 0")
    ds.optimize.compact_files()
    found = ds.diff(version).to_table().to_pylist()
    assert found == [{"_change": "delete", "id": 0, "n": 0, "s": {"z": 0, "b": "0"}}]


@pytest.mark.parametrize("part", ["renamed", "cast", "dropped", "added with values"])
def test_a_value_changes_where_one_of_two_bases_has_another_struct(
    tmp_path: Path, part: str
) -> None:
    """The change is new with regard to both bases, and the parts are the same on both sides."""
    rows = [{"id": k, "n": k, "s": {"a": k, "b": str(k)}} for k in (1, 2, 3)]
    ds = lk.write_dataset(table(rows), tmp_path / "t", primary_key="id")
    x, y, exp = (ds.create_branch(name) for name in ("x", "y", "exp"))
    PARTS[part][0](x)
    y.update({"n": "20"}, where="id = 2")
    for source, target in (("x", "main"), ("y", "main"), ("y", "exp"), ("x", "exp")):
        ds.branches.merge(source, into=target)
    exp.checkout_latest()
    kind = exp.schema.field("s").type
    upsert(exp, [{"id": 1, "n": 1, "s": dict.fromkeys((f.name for f in kind), None)}], kind)
    plan = ds.branches.merge("exp", dry_run=True)
    assert len(plan.conflicts.by_column) == plan.num_conflicts == 0
    result = ds.branches.merge("exp")
    assert (result.num_updated_rows, result.num_changed_cells) == (1, 1)
    assert sorted(ds.to_table().to_pylist(), key=lambda row: row["id"]) == sorted(
        exp.to_table().to_pylist(), key=lambda row: row["id"]
    )
