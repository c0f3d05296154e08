"""Sides chosen by row and by column: as the plain model does it, and as the reference reads it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest

import lancekit as lk
from lancekit.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    MergeConflictError,
    SchemaMismatchError,
)
from tests.operations.lineage.three_way_model import Row, merged

WORDS = ("ours", "theirs")


def changed(rng: Any, rows: dict[int, Row]) -> dict[int, Row]:
    """Return rows of which one side changed, deleted or inserted some."""
    out = {key: dict(row) for key, row in rows.items()}
    for key in rng.choice(12, 6, replace=False).tolist():
        if key not in out:
            out[key] = {"id": key, "v": int(rng.integers(3)), "w": int(rng.integers(3))}
        elif rng.random() < 0.3:
            del out[key]
        else:
            out[key][str(rng.choice(["v", "w"]))] = int(rng.integers(1, 3))
            out[key][str(rng.choice(["v", "w"]))] = int(rng.integers(1, 3))
    return out


def write(ds: lk.LanceDataset, rows: dict[int, Row]) -> None:
    merge = ds.merge_insert("id").when_matched_update_all(
        "source.v != target.v or source.w != target.w"
    )
    merge.when_not_matched_insert_all().when_not_matched_by_source_delete().execute(
        [*rows.values()]
    )


@pytest.mark.torture
def test_random_sides(tmp_path: Path, whole: bool) -> None:
    settled = 0
    for seed in range(300 if whole else 6):
        rng = np.random.default_rng(seed)
        start = {i: {"id": i, "v": 0, "w": 0} for i in range(8)}
        stable = bool(rng.random() < 0.5)
        ds = lk.write_dataset(
            [*start.values()], tmp_path / str(seed), primary_key="id", enable_stable_row_ids=stable
        )
        exp = ds.create_branch("exp")
        theirs, ours = changed(rng, start), changed(rng, start)
        write(exp, theirs)
        write(ds, ours)
        by = str(rng.choice(["cell", "row"]))
        every = str(rng.choice(["fail", *WORDS]))
        columns = {name: str(rng.choice(WORDS)) for name in "vw" if rng.random() < 0.6}
        clashes = merged(start, theirs, ours, by, "ours").clashes
        rows = {key: str(rng.choice(WORDS)) for key in sorted(clashes) if rng.random() < 0.5}
        left = set()

        def side(key: Any, name: str | None) -> str:
            chosen = rows.get(key, columns.get(name or "", every))  # noqa: B023
            if chosen == "fail":
                left.add(key)  # noqa: B023
            return chosen

        expected = merged(start, theirs, ours, by, side)
        sides = lk.Sides(every, columns=columns, rows=rows)  # type: ignore[arg-type]
        plan = ds.branches.merge("exp", dry_run=True, by=by)  # type: ignore[call-overload]
        assert plan.num_unsettled == plan.num_conflicts == len(clashes)
        plan = plan.resolved(sides)
        assert (plan.num_conflicts, plan.num_unsettled) == (len(clashes), len(left))
        if left:
            with pytest.raises(MergeConflictError, match=f"changed {len(left)} row"):
                plan.apply()
            assert ds.latest_version == ds.version
            continue
        settled += bool(clashes)
        result = plan.apply()
        assert dict(result) == {key: plan[key] for key in result}
        found = lance.dataset(ds.uri).to_table().to_pylist()
        assert sorted(found, key=str) == sorted(expected.rows.values(), key=str)
    assert settled


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    """Both sides changed all rows, told by two columns."""
    keys = {"day": [datetime(2020, 1, d, tzinfo=UTC) for d in (1, 2, 3)], "of": ["a", "b", "c"]}
    ds = lk.write_dataset({**keys, "x": [1, 2, 3]}, tmp_path / "t", primary_key=["day", "of"])
    ds.create_branch("exp").update({"x": "x + 10"})
    ds.update({"x": "x + 20"})
    return ds


def test_rows_are_told_by_all_of_their_key(ds: lk.LanceDataset) -> None:
    sides = lk.Sides("ours", rows={(datetime(2020, 1, 2, tzinfo=UTC), "b"): "theirs"})
    plan = ds.branches.merge("exp", dry_run=True, conflicts=sides)
    assert plan.conflicts.keys()["of"].to_pylist() == ["a", "b", "c"]
    assert [row.key["of"] for row in plan.conflicts.sample(2, offset=1)] == ["b", "c"]
    plan.apply()
    assert sorted(ds.to_table()["x"].to_pylist()) == [12, 21, 23]


def test_rows_are_told_by_their_ids_where_there_is_no_key(tmp_path: Path) -> None:
    rows = {"v": [1, 2, 3]}
    ds = lk.write_dataset(rows, tmp_path / "t", enable_stable_row_ids=True)
    ds.create_branch("exp").update({"v": "v + 10"})
    ds.update({"v": "v + 20"})
    ds.branches.cherry_pick("exp", 2, conflicts=lk.Sides("theirs", rows={1: "ours"}))
    assert sorted(ds.to_table()["v"].to_pylist()) == [11, 13, 22]


def test_keys_may_change_where_rows_have_ids(tmp_path: Path) -> None:
    ds = lk.write_dataset(
        {"id": [1, 2]}, tmp_path / "t", primary_key="id", enable_stable_row_ids=True
    )
    ds.create_branch("exp").update({"id": "id + 10"})
    ds.update({"id": "id + 20"})
    ds.branches.merge("exp", conflicts=lk.Sides("ours", rows={22: "theirs"}))
    assert sorted(ds.to_table()["id"].to_pylist()) == [12, 21]


def test_what_is_not_settled_is_named(ds: lk.LanceDataset) -> None:
    day = datetime(2020, 1, 2, tzinfo=UTC)
    with pytest.raises(MergeConflictError) as caught:
        ds.branches.merge("exp", conflicts=lk.Sides(rows={(day, "b"): "ours"}))
    text = str(caught.value)
    assert "changed 2 rows" in text
    assert "3 conflicts in all, the others are resolved" in text
    assert "'a'" in text
    assert "'b'" not in text


@pytest.mark.parametrize(
    ("arguments", "kind", "match"),
    [
        ({"default": "mine"}, InvalidArgumentError, "default must be .* got 'mine'"),
        ({"columns": {"x": "fail"}}, InvalidArgumentError, "columns"),
        ({"columns": "x"}, InvalidArgumentError, "columns of Sides must be a dict .* got 'x'"),
        ({"rows": {1: None}}, InvalidArgumentError, "rows"),
        ({"columns": {"y": "ours"}}, ColumnNotFoundError, "'y'"),
        ({"rows": {1: "ours"}}, SchemaMismatchError, "1 is not a value of the key"),
        ({"rows": {(1, 2, 3): "ours"}}, SchemaMismatchError, "is not a value of the key"),
        ({"rows": {("x", "a"): "ours"}}, InvalidArgumentError, "day"),
        (
            {"default": "ours", "rows": {(datetime(2021, 1, 1, tzinfo=UTC), "a"): "ours"}},
            InvalidArgumentError,
            "matches no conflict",
        ),
    ],
)
def test_wrong_sides(ds: lk.LanceDataset, arguments: Any, kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        ds.branches.merge("exp", conflicts=lk.Sides(**arguments))
    assert ds.latest_version == 2


def test_a_dropped_column_is_left_as_ours_has_it(tmp_path: Path) -> None:
    rows = {"id": [1, 2], "x": [1, 2], "y": [1, 2]}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id")
    ds.create_branch("exp").update({"x": "7", "y": "7"})
    ds.drop_columns(["x"])
    ds.update({"y": "8"}, where="id = 1")
    with pytest.raises(SchemaMismatchError):
        ds.branches.merge("exp", conflicts=lk.Sides(rows={1: "ours"}))
    trial = ds.create_branch("trial")
    back = lk.Sides("theirs", rows={1: "ours"})
    ds.branches.merge("exp", into="trial", conflicts=back)
    trial.checkout_latest()
    found = trial.to_table(["id", "x", "y"]).sort_by("id").to_pydict()
    assert found == {"id": [1, 2], "x": [7, 7], "y": [8, 7]}
    ds.branches.merge("exp", conflicts=lk.Sides("ours", rows={1: "theirs"}))
    assert ds.to_table().sort_by("id").to_pydict() == {"id": [1, 2], "y": [7, 7]}


@pytest.mark.parametrize("name", ["price", "p", "cost"])
@pytest.mark.parametrize("side", WORDS)
def test_a_renamed_column_has_all_its_names(tmp_path: Path, name: str, side: Any) -> None:
    rows = {"id": [1, 2], "price": [1, 2]}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.alter_columns({"path": "price", "name": "p"})
    exp.update({"p": "p + 10"})
    ds.alter_columns({"path": "price", "name": "cost"})
    ds.update({"cost": "cost + 20"})
    sides = lk.Sides(columns={name: side})
    plan = ds.branches.merge("exp", dry_run=True, conflicts=sides)
    assert (plan.num_unsettled, plan.num_conflicts) == (0, 2)
    plan.apply()
    kept, added = ("cost", 20) if side == "ours" else ("p", 10)
    assert lance.dataset(ds.uri).to_table().sort_by("id").to_pydict() == {
        "id": [1, 2],
        kept: [1 + added, 2 + added],
    }


@pytest.fixture
def swapped(tmp_path: Path) -> lk.LanceDataset:
    """The branch gave one column the name that another one had; both sides changed both."""
    rows = {"id": [1, 2], "p": [1, 2], "q": [3, 4]}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.drop_columns(["p"])
    exp.alter_columns({"path": "q", "name": "p"})
    exp.update({"p": "p + 10"})
    ds.alter_columns({"path": "q", "name": "r"})
    ds.update({"p": "p + 20", "r": "r + 20"})
    return ds


def test_a_name_of_two_columns_is_refused_with_both(swapped: lk.LanceDataset) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        swapped.branches.merge("exp", conflicts=lk.Sides(columns={"p": "theirs"}))
    text = str(caught.value)
    assert "column 'p' of version 1 of main" in text
    assert "column 'q' of version 1 of main, which version 4 of exp calls 'p'" in text
    assert "'q'" in caught.value.hint
    assert swapped.latest_version == 3
    named: Any = {"p": "theirs", "q": "theirs"}
    swapped.branches.merge("exp", conflicts=lk.Sides(columns=named))
    found = swapped.to_table().sort_by("id").to_pydict()
    assert found == {"id": [1, 2], "p": [13, 14]}


def test_two_names_of_a_column_have_one_side(swapped: lk.LanceDataset) -> None:
    named: Any = {"p": "theirs", "q": "theirs", "r": "ours"}
    with pytest.raises(InvalidArgumentError, match=r"'theirs' for its name 'q'.* 'r'"):
        swapped.branches.merge("exp", conflicts=lk.Sides(columns=named))


def test_names_without_a_conflict(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "v": [1], "s": [{"a": 1}]}, tmp_path / "t", primary_key="id")
    ds.create_branch("exp").update({"v": "7"})
    for columns, match in (({"w": "ours"}, "Column 'w' does not exist"), ({"s.a": "ours"}, "'s'")):
        sides = lk.Sides(columns=columns)  # type: ignore[arg-type]
        for dry_run in (True, False):  # a fast-forward, too
            with pytest.raises(ColumnNotFoundError, match=match):
                ds.branches.merge("exp", conflicts=sides, dry_run=dry_run)  # type: ignore[call-overload]
    sides = lk.Sides(columns={"v": "ours", "the schema": "ours", "the primary key": "ours"})  # type: ignore[dict-item]
    ds.branches.merge("exp", conflicts=sides)
    assert ds.to_table()["v"].to_pylist() == [7]
    with pytest.raises(ColumnNotFoundError):  # nothing to do
        ds.branches.merge("exp", conflicts=lk.Sides(columns={"w": "ours"}))
