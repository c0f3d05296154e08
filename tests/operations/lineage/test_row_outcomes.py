"""The table of the page: what becomes of a row that each side changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import MergeConflictError

#: a change by a handle of either library
Change = Callable[[Any], Any]
Row = dict[str, Any] | None
Case = tuple[Change, Change, int, Row | str]

START = {"id": [1, 2, 3], "name": ["a", "b", "c"], "age": [1, 2, 3]}


def nothing(_: Any) -> None:
    pass


def updating(column: str, value: str) -> Change:
    return lambda ds: ds.update({column: value}, where="id = 1")


def deleting(ds: Any) -> None:
    ds.delete("id = 1")


def inserting(name: str, id_: int = 9) -> Change:
    rows = {"id": [id_], "name": [name], "age": [9]}
    return lambda ds: ds.insert(pa.table(rows, schema=ds.schema), mode="append")


def replacing(ds: Any) -> None:
    """Delete the row, and insert another one of its key."""
    deleting(ds)
    inserting("new", 1)(ds)


def row(id_: int, name: str, age: int | None) -> Row:
    return {"id": id_, "name": name, "age": age}


#: rows that one side changed beside
OTHERS = row(2, "there", 2), row(3, "here", 3)
#: stands for a conflict
CONFLICT = "conflict"
#: what theirs does and ours does to which row, and what the row is after a merge
OUTCOMES: dict[tuple[str, str], list[Case]] = {
    ("changed, deleted or inserted it", "did nothing"): [
        (updating("age", "11"), nothing, 1, row(1, "a", 11)),
        (deleting, nothing, 1, None),
        (inserting("new"), nothing, 9, row(9, "new", 9)),
        (replacing, nothing, 1, row(1, "new", 9)),
    ],
    ("did nothing", "did anything"): [
        (nothing, updating("age", "11"), 1, row(1, "a", 11)),
        (nothing, deleting, 1, None),
        (nothing, inserting("new"), 9, row(9, "new", 9)),
    ],
    ("did the same as ours", ""): [
        (updating("age", "11"), updating("age", "11"), 1, row(1, "a", 11)),
        (updating("age", "NULL"), updating("age", "NULL"), 1, row(1, "a", None)),
        (deleting, deleting, 1, None),
        (inserting("new"), inserting("new"), 9, row(9, "new", 9)),
    ],
    ("changed some columns", "changed others"): [
        (updating("age", "11"), updating("name", "'x'"), 1, row(1, "x", 11)),
    ],
    ("changed a value", "changed it to another"): [
        (updating("age", "11"), updating("age", "12"), 1, CONFLICT),
        (updating("age", "NULL"), updating("age", "12"), 1, CONFLICT),
    ],
    ("deleted it", "changed it, or the other way round"): [
        (deleting, updating("age", "12"), 1, CONFLICT),
        (updating("age", "12"), deleting, 1, CONFLICT),
    ],
    ("inserted it", "inserted another of the same key"): [
        (inserting("new"), inserting("other"), 9, CONFLICT),
    ],
}


def rows_of_the_page() -> list[tuple[str, ...]]:
    page = (Path(__file__).parents[3] / "docs/reference/branches-details.md").read_text()
    _, table = page.split("| theirs | ours | result for the row | in Dolt |\n|---|---|---|---|\n")
    lines = table.split("\n\n")[0].splitlines()
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def test_the_page_has_each_outcome() -> None:
    page = rows_of_the_page()
    assert [one[:2] for one in page] == list(OUTCOMES)
    for _, _, said, dolt in page:
        assert said
        assert dolt
    for one in page:
        conflicts = {wanted == CONFLICT for *_, wanted in OUTCOMES[one[0], one[1]]}
        assert conflicts == {one[2] == "a conflict"}


def found(ds: Any, id_: int) -> Row:
    """Return a row as pylance reads it from the newest version of a branch."""
    there: Any = lance.dataset(ds.uri).checkout_version((ds.branch, None))
    table = there.to_table()
    assert table.num_rows == len(set(table["id"].to_pylist()))
    assert ds.to_table().sort_by("id") == table.sort_by("id")
    return next((one for one in table.to_pylist() if one["id"] == id_), None)


@pytest.mark.cover
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("library", [lk, lance], ids=["lancekit", "pylance"])
@pytest.mark.parametrize("key", OUTCOMES, ids="; ".join)
def test_outcomes_of_the_page(
    tmp_path: Path, key: tuple[str, str], library: Any, stable: bool
) -> None:
    ds = lk.write_dataset(
        START, tmp_path / "t", primary_key="id", enable_stable_row_ids=stable, max_rows_per_file=2
    )
    for number, (theirs, ours, id_, wanted) in enumerate(OUTCOMES[key]):
        names = f"theirs-{number}", f"ours-{number}"
        for name, change in zip(names, (theirs, ours), strict=True):
            ds.create_branch(name, 1)
            change(library.dataset(ds.uri).checkout_version((name, None)))
        here = ds.checkout_version((names[1], None))
        # no fast-forward, and something to do
        ds.checkout_version((names[0], None)).update({"name": "'there'"}, where="id = 2")
        here.update({"name": "'here'"}, where="id = 3")
        plan = here.branches.merge(names[0], dry_run=True)
        if wanted == CONFLICT:
            assert (plan.num_conflicts, plan.num_unsettled) == (1, 1)
            version = here.version
            with pytest.raises(MergeConflictError):
                here.branches.merge(names[0])
            assert here.latest_version == version
            sides = {side: found(ds.checkout_version((name, None)), id_)
                     for side, name in zip(("theirs", "ours"), names, strict=True)}  # fmt: skip
            for side, kept in sides.items():
                trial = here.create_branch(f"{side}-of-{number}")
                trial.branches.merge(names[0], conflicts=side)  # type: ignore[arg-type]
                assert found(trial, id_) == kept
                assert (found(trial, 2), found(trial, 3)) == OTHERS
            continue
        result = here.branches.merge(names[0])
        assert (result.how, result.num_conflicts) == ("three-way", 0)
        assert dict(result) == {name: plan[name] for name in result}
        assert found(here, id_) == wanted
        assert (found(here, 2), found(here, 3)) == OTHERS


def test_values_of_one_row_are_a_conflict_by_row(tmp_path: Path) -> None:
    ds = lk.write_dataset(START, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.update({"age": "11"}, where="id = 1")
    ds.update({"name": "'x'"}, where="id = 1")
    with pytest.raises(MergeConflictError):
        ds.branches.merge("exp", by="row")
    assert found(ds, 1) == row(1, "x", 1)
    ds.branches.merge("exp", by="row", conflicts="theirs")
    assert found(ds, 1) == row(1, "a", 11)
