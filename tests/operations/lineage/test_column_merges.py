"""Columns that a branch added, dropped, renamed or cast, brought into its target by one commit."""

from __future__ import annotations

import tempfile
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
from lancekit._format.operations import Merge
from lancekit.errors import MergeConflictError, SchemaMismatchError
from tests.operations.lineage.test_branch_merge import files_below, told
from tests.operations.lineage.test_three_way import as_read, row
from tests.operations.lineage.three_way_model import Row
from tests.system.test_equivalence import runs

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
        lambda exp: lance.dataset(exp._location.uri).add_columns({"twice": "id * 2"}),
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


@pytest.mark.cover
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
    "merge_insert": lambda other: (
        other.merge_insert("id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(
            pa.table({"id": [3, 9], "name": ["late", "n"], "age": [3, 9]}, schema=other.schema)
        )
    ),
    "rename": lambda other: other.alter_columns({"path": "name", "name": "late"}),
    "add": lambda other: other.add_columns({"late": "id"}),
}


@pytest.mark.cover
@pytest.mark.parametrize("change", ["added", "cast", "dropped"])
@pytest.mark.parametrize("late", [late for late in LATE if late != "merge_insert"])
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
    assert "added columns" in repr(result)
    ds.undo()
    assert ds.schema.names == ["id", "v"]


# ---- both sides moved


class Side:
    """A branch as a plain model: what columns are called, and rows with values by column."""

    numbers = iter(range(10, 1 << 30))

    def __init__(
        self, ds: lk.LanceDataset, columns: dict[int, str], rows: dict[int, dict[int, Any]]
    ) -> None:
        self.ds, self.columns = ds, dict(columns)
        self.rows = {key: dict(values) for key, values in rows.items()}

    def step(self, draw: Any) -> None:
        what = draw(st.sampled_from(STEPS))
        library = draw(st.sampled_from(["lancekit", "pylance"]))
        handle: Any = self.ds if library == "lancekit" else lance.dataset(self.ds._location.uri)
        known = sorted(self.columns)
        one = draw(st.sampled_from(known)) if known else None
        keys = draw(st.sets(st.integers(0, 9), min_size=1, max_size=3))
        where = f"id IN ({', '.join(map(str, sorted(keys)))})"
        number = next(self.numbers)
        if what == "add":
            handle.add_columns({f"c{number}": f"CAST(id * {number} AS BIGINT)"})
            self.columns[number] = f"c{number}"
            for key, values in self.rows.items():
                values[number] = key * number
        elif what == "rename" and one is not None:
            handle.alter_columns({"path": self.columns[one], "name": f"r{number}"})
            self.columns[one] = f"r{number}"
        elif what == "drop" and one is not None:
            handle.drop_columns([self.columns.pop(one)])
            for values in self.rows.values():
                del values[one]
        elif what == "update" and one is not None:
            value = draw(st.integers(0, 2))
            handle.update({self.columns[one]: f"CAST({value} AS BIGINT)"}, where=where)
            for key in keys & self.rows.keys():
                self.rows[key][one] = value
        elif what == "delete":
            handle.delete(where)
            self.rows = {key: row for key, row in self.rows.items() if key not in keys}
        elif what == "insert":
            new = sorted(keys - self.rows.keys())
            rows = [{"id": key, **{self.columns[c]: key for c in known}} for key in new]
            if rows:
                self.ds.insert(pa.Table.from_pylist(rows, schema=self.ds.schema), mode="append")
            self.rows |= {key: dict.fromkeys(known, key) for key in new}
        elif what == "compact":
            handle.optimize.compact_files()
        self.ds.checkout_latest()

    def expected_rows(self) -> list[Row]:
        return [
            {"id": key, **{name: self.rows[key][one] for one, name in self.columns.items()}}
            for key in sorted(self.rows)
        ]


STEPS = ("add", "rename", "drop", "update", "update", "update", "insert", "delete", "compact")


def merged_for_ours(base: Side, theirs: Side, ours: Side) -> tuple[dict[int, str], Any]:
    """Merge columns and rows by the rules; ours counts where both sides did something else."""
    columns: dict[int, str] = {}
    for one, name in ours.columns.items():
        if one not in base.columns:
            columns[one] = name
        elif one in theirs.columns:
            is_mine = name != base.columns[one]
            columns[one] = name if is_mine else theirs.columns[one]
        else:
            changed = any(
                ours.rows[key][one] != base.rows[key][one] for key in ours.rows.keys() & base.rows
            )
            if changed or name != base.columns[one]:
                columns[one] = name
    columns |= {one: name for one, name in theirs.columns.items() if one not in base.columns}
    rows = {}
    for key in {*base.rows, *theirs.rows, *ours.rows}:
        was, left, right = (side.rows.get(key) for side in (base, theirs, ours))
        ours_changed = right is None or was is None or _differ(was, right)
        if was is not None and (left is None or right is None):
            # deleted there, unless changed here; deleted here
            if right is None or not ours_changed:
                continue
        elif left is None and right is None:
            continue
        rows[key] = {one: _cell(one, was, left, right) for one in columns}
    return columns, rows


def _differ(was: dict[int, Any], now: dict[int, Any]) -> bool:
    return any(was[one] != now[one] for one in was.keys() & now.keys())


def _cell(one: int, was: Any, left: Any, right: Any) -> Any:
    if right is None:
        return left.get(one)
    if left is None or one not in left:
        return right.get(one)
    if one not in right:
        return left[one]
    if was is None:
        return right[one]
    return right[one] if right[one] != was[one] else left[one]


@pytest.mark.torture
def test_random_histories_of_columns(whole: bool) -> None:
    @runs(300 if whole else 8)
    @given(st.data())
    def check_one(data: st.DataObject) -> None:
        draw = data.draw
        with tempfile.TemporaryDirectory() as folder:
            columns = {0: "a", 1: "b", 2: "c"}
            rows = {key: dict.fromkeys(columns, 0) for key in range(6)}
            table = pa.table({"id": list(rows), **dict.fromkeys(columns.values(), [0] * 6)})
            ds = lk.write_dataset(
                table,
                Path(folder) / "t",
                primary_key="id",
                enable_stable_row_ids=draw(st.booleans()),
                max_rows_per_file=draw(st.sampled_from([2, 100])),
            )
            base = Side(ds, columns, rows)
            theirs, ours = Side(ds.create_branch("exp"), columns, rows), Side(ds, columns, rows)
            for side in (ours, theirs):
                for _ in range(draw(st.integers(0, 5))):
                    side.step(draw)
            before, version = rows_of(ds), ds.version
            wanted, found = merged_for_ours(base, theirs, ours)
            plan = ds.branches.merge("exp", conflicts="ours", dry_run=True)
            result = ds.branches.merge("exp", conflicts="ours")
            assert ds.version - version in (0, 1)
            assert dict(result) == {key: plan[key] for key in result}
            names = ("added", "dropped", "renamed", "cast", "altered")
            assert all(
                getattr(result, f"columns_{name}") == getattr(plan, f"columns_{name}")
                for name in names
            )
            assert set(ds.schema.names) == {"id", *wanted.values()}
            assert rows_of(ds) == [
                {
                    name: {"id": key, **{wanted[c]: v for c, v in found[key].items()}}[name]
                    for name in ds.schema.names
                }
                for key in sorted(found)
            ]
            ds.validate(deep=True)
            if ds.version > version:
                again = ds.version
                assert ds.branches.merge("exp", conflicts="ours").how == "nothing to do"
                assert ds.version == again
                ds.undo()
                assert rows_of(ds) == before

    check_one()


def both_moved(ds: lk.LanceDataset, change: Change) -> lk.LanceDataset:
    exp = ds.create_branch("exp")
    change(exp)
    exp.checkout_latest()
    ds.update({"name": "'main'"}, where="id = 4")
    return exp


@pytest.mark.parametrize("change", CHANGES)
def test_both_sides_moved_and_one_commit_brings_columns(ds: lk.LanceDataset, change: str) -> None:
    exp = both_moved(ds, CHANGES[change][0])
    before, files = rows_of(ds), set(files_below(ds))
    plan = ds.branches.merge("exp", dry_run=True)
    result = ds.branches.merge("exp")
    assert (result.how, result.version) == ("three-way", result.read_version + 1)
    assert dict(result) == {key: plan[key] for key in result}
    said = CHANGES[change][1]
    assert said == {name: getattr(result, name) for name in said}
    assert said == {name: getattr(plan, name) for name in said}
    wanted = rows_of(exp)
    for one in wanted:
        if one["id"] == 4:
            one[{"swapped": "age", "all": "called"}.get(change, "name")] = "main"
    assert rows_of(ds) == wanted
    if change == "added":  # the file of the fragment that main left alone got a second name
        counts = [n for name, n in files_below(ds).items() if name not in files]
        assert 1 in counts
    ds.undo()
    assert rows_of(ds) == before


def test_a_column_of_unmoved_rows_is_linked(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.add_columns({"twice": "age * 2"})
    ds.insert([row(5, "e", 5)], mode="append")
    before = set(files_below(ds))
    result = ds.branches.merge("exp")
    assert dict(result) == dict.fromkeys(result, 0)
    new = {name: count for name, count in files_below(ds).items() if name not in before}
    assert sorted(new.values()) == [2, 2]  # not one byte is written
    assert [one["twice"] for one in rows_of(ds)] == [2, 4, 6, 8, None]
    # equal values on both sides are no change
    one, two = ds.create_branch("one"), ds.create_branch("two")
    for line in (one, two):
        line.add_columns({"same": "id"})
    ds.branches.merge("one")
    before = set(files_below(ds))
    assert dict(ds.branches.merge("two")) == dict.fromkeys(result, 0)
    assert set(files_below(ds)) == before


@pytest.mark.parametrize("library", [lk, lance])
def test_a_clone_keeps_a_column_that_its_source_lost(tmp_path: Path, library: Any) -> None:
    """A cleanup of the source does not know what a clone reads beyond the version it tagged."""
    main = lk.write_dataset({"k": [0, 1], "v": [5, 6]}, tmp_path / "t", primary_key="k")
    main.tags.create("cloned", 1)
    clone = main.shallow_clone(tmp_path / "clone", "cloned")
    main.add_columns({"c": "k * 2"})
    before = set(files_below(clone))
    lk.diff(main.checkout_version(1), main).apply(clone)
    linked = {name: n for name, n in files_below(clone).items() if name not in before}
    assert [n for name, n in linked.items() if name.endswith(".lance")] == [2]
    main.undo()
    library.dataset(main.uri).cleanup_old_versions(
        timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )
    found = {"k": [0, 1], "v": [5, 6], "c": [0, 2]}
    assert lk.dataset(clone.uri).to_table().to_pydict() == found
    assert lance.dataset(clone.uri).to_table().to_pydict() == found


@pytest.mark.cover
@pytest.mark.parametrize("change", ["added", "dropped", "cast"])
@pytest.mark.parametrize("race", ["append", "update", "compact", "delete", "merge_insert"])
def test_a_writer_of_the_reference_lands_first(
    ds: lk.LanceDataset, change: str, race: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_moved(ds, CHANGES[change][0])
    from lancekit._operations.lineage import carry_columns as module

    done = list[str]()
    commit = module.commit_next  # type: ignore[attr-defined]  # what the module uses

    def late(*arguments: Any, **keywords: Any) -> Any:
        if not done:
            done.append(race)
            LATE[race](lance.dataset(ds.uri))
        return commit(*arguments, **keywords)

    monkeypatch.setattr(module, "commit_next", late)
    result = ds.branches.merge("exp")
    assert result.attempts == 2
    found = {one["id"]: one for one in rows_of(ds)}
    new = [9] if race in ("append", "merge_insert") else []
    assert sorted(found) == [1, 2, *([] if race == "delete" else [3]), 4, *new]
    assert found[4]["name"] == "main"
    if race != "delete":
        assert found[3]["name"] == ("late" if race in ("update", "merge_insert") else "c")
        assert (change != "added") or found[3]["twice"] == 6
    ds.validate(deep=True)


#: what each side does to a column, and what comes of it with "fail", "ours" and "theirs"
CONFLICTS: dict[str, tuple[Change, Change, str | None, list[str], list[str]]] = {
    "both renamed it": (
        lambda ds: ds.alter_columns({"path": "age", "name": "x"}),
        lambda ds: ds.alter_columns({"path": "age", "name": "y"}),
        "renamed to x here and renamed to y there",
        ["id", "name", "x"],
        ["id", "name", "y"],
    ),
    "dropped, renamed": (
        lambda ds: ds.drop_columns(["age"]),
        lambda ds: ds.alter_columns({"path": "age", "name": "y"}),
        "dropped here and renamed to y there",
        ["id", "name"],
        ["id", "name", "y"],
    ),
    "renamed, dropped": (
        lambda ds: ds.alter_columns({"path": "age", "name": "x"}),
        lambda ds: ds.drop_columns(["age"]),
        "renamed to x here and dropped there",
        ["id", "name", "x"],
        ["id", "name"],
    ),
    "both cast it": (
        lambda ds: ds.alter_columns({"path": "age", "data_type": pa.int32()}),
        lambda ds: ds.alter_columns({"path": "age", "data_type": pa.int16()}),
        "cast to int32 here and cast to int16 there",
        ["id", "name", "age"],
        ["id", "name", "age"],
    ),
    "both added one of a name": (
        lambda ds: ds.add_columns({"x": "1"}),
        lambda ds: ds.add_columns({"x": "'a'"}),
        "added as int64 here and added as string there",
        ["id", "name", "age", "x"],
        ["id", "name", "age", "x"],
    ),
    "both dropped it": (
        lambda ds: ds.drop_columns(["age"]),
        lambda ds: ds.drop_columns(["age"]),
        None,
        ["id", "name"],
        ["id", "name"],
    ),
    "metadata": (
        lambda ds: ds.update_field_metadata({"age": {"unit": "days"}}),
        lambda ds: ds.update_field_metadata({"age": {"unit": "years"}}),
        "given metadata unit = days here and given metadata unit = years there",
        ["id", "name", "age"],
        ["id", "name", "age"],
    ),
    "metadata of an added column": (
        lambda ds: (ds.add_columns({"x": "id"}), ds.update_field_metadata({"x": {"unit": "m"}})),
        lambda ds: (ds.add_columns({"x": "id"}), ds.update_field_metadata({"x": {"unit": "km"}})),
        "column 'x' was given metadata unit = m here and given metadata unit = km there",
        ["id", "name", "age", "x"],
        ["id", "name", "age", "x"],
    ),
    "metadata of the schema": (
        lambda ds: ds.update_schema_metadata({"owner": "a"}),
        lambda ds: ds.update_schema_metadata({"owner": "b"}),
        "the schema was given metadata owner = a here and given metadata owner = b there",
        ["id", "name", "age"],
        ["id", "name", "age"],
    ),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_conflicts_of_columns_and_their_sides(ds: lk.LanceDataset, case: str) -> None:
    mine, other, said, with_ours, with_theirs = CONFLICTS[case]
    exp = ds.create_branch("exp")
    other(exp)
    mine(ds)
    version = ds.version
    plan = ds.branches.merge("exp", dry_run=True)
    assert plan.num_unsettled == (said is not None)
    if said is not None:
        with pytest.raises(SchemaMismatchError, match=said):
            ds.branches.merge("exp")
        assert ds.latest_version == version
    for side, names in (("ours", with_ours), ("theirs", with_theirs)):
        trial = ds.create_branch(side)
        sides: Any = side if side == "ours" else lk.Sides("theirs")
        assert ds.branches.merge("exp", into=side, conflicts=sides).num_conflicts in (0, 4)
        trial.checkout_latest()
        assert sorted(trial.schema.names) == sorted(names)
        kept = rows_of(ds if side == "ours" else exp)
        if set(names) <= set(kept[0]):
            shown = [{name: one[name] for name in trial.schema.names} for one in kept]
            assert rows_of(trial) == shown
        trial.validate(deep=True)


def test_the_type_of_a_chosen_cast_has_to_hold_the_values(ds: lk.LanceDataset) -> None:
    exp = ds.create_branch("exp")
    exp.update({"age": "70000"}, where="id = 1")
    exp.alter_columns({"path": "age", "data_type": pa.int32()})
    ds.alter_columns({"path": "age", "data_type": pa.int16()})
    said = "cast to int16, which cannot hold 1 value here and cast to int32 there"
    with pytest.raises(SchemaMismatchError, match=said) as raised:
        ds.branches.merge("exp", conflicts="ours")
    assert [one.sides for one in raised.value.context["conflicts"]] == [("theirs",)]
    ds.branches.merge("exp", conflicts="theirs")
    assert (rows_of(ds)[0]["age"], ds.schema.field("age").type) == (70000, pa.int32())


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_column_that_stays_takes_nulls_of_rows_without_it(tmp_path: Path, side: str) -> None:
    fields = [pa.field("id", pa.int64(), False), pa.field("c", pa.int64(), False)]
    rows = pa.table({"id": [1, 2], "c": [1, 2]}, schema=pa.schema(fields))
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    keeps, drops = (ds, exp) if side == "ours" else (exp, ds)
    drops.drop_columns(["c"])
    drops.insert({"id": [9]}, mode="append")
    keeps.update({"c": "7"}, where="id = 1")
    ds.branches.merge("exp", conflicts=side)  # type: ignore[arg-type]
    assert [row["c"] for row in rows_of(ds)] == [7, 2, None]
    ds.validate(deep=True)


def test_a_refused_merge_changes_nothing(ds: lk.LanceDataset) -> None:
    exp = both_moved(ds, with_embedding)
    exp.update({"name": "'exp'"}, where="id = 4")
    before, version = files_below(ds), ds.version
    with pytest.raises(MergeConflictError):
        ds.branches.merge("exp")
    assert (ds.latest_version, files_below(ds)) == (version, before)


@pytest.mark.parametrize("library", ["lancekit", "pylance"])
def test_a_column_that_a_merge_brought_is_followed_when_it_is_renamed(
    ds: lk.LanceDataset, library: str
) -> None:
    exp = both_moved(ds, lambda line: line.add_columns({"x": "age * 2"}))
    ds.branches.merge("exp")
    handle: Any = ds if library == "lancekit" else lance.dataset(ds.uri)
    handle.alter_columns({"path": "x", "name": "w"})
    handle.optimize.compact_files()
    ds.checkout_latest()
    exp.update({"x": "77"}, where="id = 1")
    exp.insert([{**row(5, "e", 5), "x": 55}], mode="append")
    ds.branches.merge("exp")
    assert [(one["id"], one["w"]) for one in rows_of(ds)] == [
        (1, 77),
        (2, 4),
        (3, 6),
        (4, 8),
        (5, 55),
    ]
    # the other way round: a rebase brings main's column, which the branch renames
    ds.add_columns({"y": "id"})
    exp.branches.rebase("exp")
    exp.checkout_latest()
    exp.alter_columns({"path": "y", "name": "z"})
    ds.update({"y": "99"}, where="id = 2")
    exp.branches.rebase("exp")
    exp.checkout_latest()
    assert {one["id"]: one["z"] for one in rows_of(exp)}[2] == 99
    assert "y" not in exp.schema.names


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_column_that_one_side_cast_and_renamed(
    ds: lk.LanceDataset, side: str, at_once: bool
) -> None:
    exp = ds.create_branch("exp")
    one, other = (ds, exp) if side == "ours" else (exp, ds)
    if at_once:
        one.alter_columns({"path": "age", "name": "years", "data_type": pa.int16()})
    else:
        one.alter_columns({"path": "age", "data_type": pa.int16()})
        one.alter_columns({"path": "age", "name": "years"})
    other.update({"age": "9"}, where="id = 1")
    result = ds.branches.merge("exp")
    assert ds.schema.field("years").type == pa.int16()
    assert [one["years"] for one in rows_of(ds)] == [9, 2, 3, 4]
    if side == "theirs":
        assert (result.columns_renamed, result.columns_cast) == ((("age", "years"),), ("years",))


# ---- the table of the page


def nothing(_: lk.LanceDataset) -> None:
    pass


def with_type(kind: pa.DataType) -> Change:
    return lambda ds: ds.alter_columns({"path": "age", "data_type": kind})


def with_name(name: str) -> Change:
    return lambda ds: ds.alter_columns({"path": "age", "name": name})


def with_unit(unit: str) -> Change:
    return lambda ds: ds.update_field_metadata({"age": {"unit": unit}})


def adding(values: str) -> Change:
    return lambda ds: ds.add_columns({"x": values})


def dropping(ds: lk.LanceDataset) -> None:
    ds.drop_columns(["age"])


def not_nullable(ds: lk.LanceDataset) -> None:
    ds.alter_columns({"path": "age", "nullable": False})


def making_a_key(ds: lk.LanceDataset) -> None:
    not_nullable(ds)
    ds.update_field_metadata({"age": {"lance-schema:unenforced-primary-key": "true"}})


def updating(ds: lk.LanceDataset) -> None:
    ds.update({"age": "age + 10"}, where="id = 1")


#: what theirs does, and ours; columns and their values in the row of id 1, none for a conflict
OUTCOMES: dict[tuple[str, str], list[tuple[Change, Change, dict[str, Any] | None]]] = {
    ("added it", "did nothing"): [(adding("id * 7"), nothing, {"age": 1, "x": 7})],
    ("did nothing", "added it"): [(nothing, adding("id * 7"), {"age": 1, "x": 7})],
    ("added it", "added it with the same type"): [
        (adding("id * 7"), adding("id * 7"), {"age": 1, "x": 7}),
        (adding("CAST(NULL AS BIGINT)"), adding("id * 7"), {"age": 1, "x": 7}),
        (adding("id * 7"), adding("id * 8"), None),
    ],
    ("added it", "added it with another type"): [(adding("id * 7"), adding("'a'"), None)],
    ("dropped it", "did nothing"): [(dropping, nothing, {})],
    ("dropped it", "dropped it"): [(dropping, dropping, {})],
    ("dropped it", "changed its values, renamed or cast it, or made it a key column"): [
        (dropping, updating, None),
        (dropping, with_name("x"), None),
        (dropping, with_type(pa.int32()), None),
        (dropping, making_a_key, None),
    ],
    ("dropped it", "changed its nullability or metadata"): [
        (dropping, with_unit("years"), {}),
        (dropping, not_nullable, {}),
    ],
    ("renamed it", "changed its values"): [(with_name("x"), updating, {"x": 11})],
    ("renamed it", "renamed it otherwise"): [(with_name("x"), with_name("y"), None)],
    ("gave it a name", "gave another column that name"): [(with_name("x"), adding("id"), None)],
    ("cast it", "changed its values"): [
        (with_type(pa.int8()), updating, {"age": 11}),
        (with_type(pa.int8()), lambda ds: ds.update({"age": "1000"}), None),
    ],
    ("cast it", "cast it otherwise"): [(with_type(pa.int8()), with_type(pa.int16()), None)],
    ("dropped it, and added one of its name with another type", "changed its values"): [
        (lambda ds: (dropping(ds), ds.add_columns({"age": "'a'"})), updating, None)
    ],
    ("changed its nullability or metadata", "did nothing"): [
        (with_unit("years"), nothing, {"age": 1}),
        (not_nullable, nothing, {"age": 1}),
    ],
    ("made it not nullable", "wrote nulls"): [
        (not_nullable, lambda ds: ds.update({"age": "nullif(1, 1)"}, where="id = 1"), None)
    ],
    ("changed metadata", "changed them otherwise"): [(with_unit("years"), with_unit("days"), None)],
}


def rows_of_the_page() -> list[tuple[str, ...]]:
    page = (Path(__file__).parents[3] / "docs/reference/branches-details.md").read_text()
    _, table = page.split(
        "| theirs | ours | result for the column | in Dolt |\n|---|---|---|---|\n"
    )
    lines = table.split("\n\n")[0].splitlines()
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def test_the_page_has_each_outcome() -> None:
    assert [row[:2] for row in rows_of_the_page()] == list(OUTCOMES)
    assert all(len(row) == 4 and all(row) for row in rows_of_the_page())
    said = {row[:2]: row[2] for row in rows_of_the_page()}
    for key, cases in OUTCOMES.items():
        assert ("conflict" in said[key] or "merge" in said[key]) == any(
            wanted is None for *_, wanted in cases
        )


@pytest.mark.parametrize("key", OUTCOMES, ids="; ".join)
def test_outcomes_of_the_page(ds: lk.LanceDataset, key: tuple[str, str]) -> None:
    for number, (theirs, ours, wanted) in enumerate(OUTCOMES[key]):
        for turned in (False, True):
            names = f"theirs-{number}-{turned}", f"ours-{number}-{turned}"
            there, here = (ds.create_branch(name, 1) for name in names)
            (ours if turned else theirs)(there)
            (theirs if turned else ours)(here)
            here.update({"name": "'here'"}, where="id = 4")  # no fast-forward
            if wanted is None:
                with pytest.raises((SchemaMismatchError, MergeConflictError)):
                    here.branches.merge(names[0], into=names[1])
                continue
            here.branches.merge(names[0], into=names[1])
            here.checkout_latest()
            found = rows_of(here)[0]
            assert found == {"id": 1, "name": "a", **wanted}


@pytest.mark.parametrize("stable", [False, True])
def test_a_cast_beside_rows_that_moved_without_a_change(tmp_path: Path, stable: bool) -> None:
    rows = {"id": [0, 1, 2], "n": [2, None, 3]}
    ds = lk.write_dataset(
        rows, tmp_path / "t", primary_key="id", enable_stable_row_ids=stable, max_rows_per_file=3
    )
    exp = ds.create_branch("exp")
    ds.update({"n": "nullif(1, 1)"}, where="id = 1")
    ds.alter_columns({"path": "n", "data_type": pa.int32()})
    exp.update({"n": "7"}, where="id = 2")
    exp.branches.rebase("exp")
    wanted = [{"id": 0, "n": 2}, {"id": 1, "n": None}, {"id": 2, "n": 7}]
    for side in (lk, lance):
        found = side.dataset(ds.uri).checkout_version(("exp", None)).to_table()
        assert found.sort_by("id").to_pylist() == wanted


def test_a_picked_cast_of_rows_that_had_moved_before(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [0, 1, 2], "n": [2, 0, 3]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    ds.update({"n": "5"}, where="id = 1")
    ds.alter_columns({"path": "n", "data_type": pa.int32()})
    exp.branches.cherry_pick("main", ds.version)
    wanted = [{"id": 0, "n": 2}, {"id": 1, "n": 0}, {"id": 2, "n": 3}]
    for side in (lk, lance):
        found = side.dataset(ds.uri).checkout_version(("exp", None)).to_table()
        assert found.sort_by("id").to_pylist() == wanted


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_side_deletes_a_row_that_got_a_value_of_a_column_both_added(
    ds: lk.LanceDataset, side: str
) -> None:
    exp = ds.create_branch("exp")
    for line in (ds, exp):
        line.add_columns({"x": "id * 7"})
    (ds if side == "ours" else exp).delete("id = 2")
    ds.update({"name": "'main'"}, where="id = 4")
    result = ds.branches.merge("exp")
    assert (result.num_conflicts, result.num_deleted_rows) == (0, int(side == "theirs"))
    assert [(one["id"], one["x"]) for one in rows_of(ds)] == [(1, 7), (3, 21), (4, 28)]


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_cast_after_values_that_did_not_fit_were_changed(
    tmp_path: Path, side: str, compacted: bool
) -> None:
    rows = {"id": [0, 1, 2], "n": [2**40, 1, 2], "m": [0, 0, 0]}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id", max_rows_per_file=2)
    exp = ds.create_branch("exp")
    one, other = (ds, exp) if side == "ours" else (exp, ds)
    one.update({"n": "7"}, where="id = 0")
    one.alter_columns({"path": "n", "data_type": pa.int32()})
    # other columns of the same row, and a value that fits
    other.update({"m": "5"}, where="id = 0")
    other.update({"n": "9"}, where="id = 1")
    if compacted:
        other.optimize.compact_files()
    ds.branches.merge("exp")
    wanted = [{"id": 0, "n": 7, "m": 5}, {"id": 1, "n": 9, "m": 0}, {"id": 2, "n": 2, "m": 0}]
    for library in (lk, lance):
        assert library.dataset(ds.uri).to_table().sort_by("id").to_pylist() == wanted
    ds.validate(deep=True)


def test_a_written_column_takes_no_nulls_beside_rows_that_the_merge_deletes(
    tmp_path: Path,
) -> None:
    ds = lk.write_dataset({"id": [0, 1, 2, 3]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    lance.dataset(exp._location.uri).add_columns({"x": "id * 2"})
    exp.checkout_latest()
    exp.delete("id < 2")
    ds.insert({"id": [4]}, mode="append")
    ds.delete("id = 4")
    ds.optimize.compact_files()
    ds.branches.merge("exp")
    assert ds.to_table().to_pylist() == [{"id": 2, "x": 4}, {"id": 3, "x": 6}]
    ds.validate(deep=True)


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_nulls_that_a_side_replaced_before_its_column_took_none(tmp_path: Path, side: str) -> None:
    """The other side only kept the null in a row of which it changed another column."""
    rows = {"id": [1, 2], "a": [None, 2], "b": [1, 2]}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    one, other = (ds, exp) if side == "ours" else (exp, ds)
    one.update({"a": "5"}, where="id = 1")
    one.alter_columns({"path": "a", "nullable": False})
    other.update({"b": "9"}, where="id = 1")
    ds.branches.merge("exp")
    assert not ds.schema.field("a").nullable
    wanted = [{"id": 1, "a": 5, "b": 9}, {"id": 2, "a": 2, "b": 2}]
    for library in (lk, lance):
        assert library.dataset(ds.uri).to_table().sort_by("id").to_pylist() == wanted


@pytest.mark.parametrize("into", ["main", "branch"])
@pytest.mark.parametrize("wrote", ["update", "insert"])
def test_a_side_that_takes_nulls_again_may_write_them(
    tmp_path: Path, into: str, wrote: str
) -> None:
    """The other side only kept the column as it was: no conflict."""
    ds = lk.write_dataset({"id": [1, 2], "a": [1, 2], "b": ["x", "y"]}, tmp_path, primary_key="id")
    ds.alter_columns({"path": "a", "nullable": False})
    exp = ds.create_branch("exp")
    exp.alter_columns({"path": "a", "nullable": True})
    if wrote == "update":
        exp.update({"a": "NULL"}, where="id = 2")
    else:
        exp.insert([{"id": 3, "a": None, "b": "z"}])
    ds.update({"b": "'m'"}, where="id = 1")
    target, source = (ds, "exp") if into == "main" else (exp, "main")
    target.branches.merge(source)
    assert target.schema.field("a").nullable
    found = {row["id"]: (row["a"], row["b"]) for row in target.to_table().to_pylist()}
    new = {2: (None, "y")} if wrote == "update" else {2: (2, "y"), 3: (None, "z")}
    assert found == {1: (1, "m"), **new}
    there = lance.dataset(str(tmp_path))
    if into == "main":
        assert there.to_table().num_rows == len(found)
