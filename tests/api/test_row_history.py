"""What became of a row: the ways to name it, what is refused, and what a person sees."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    InvalidTypeError,
    PredicateError,
    RowOutOfRangeError,
    UnsupportedFeatureError,
)
from tests.notebook.conftest import NOW
from tests.support.cards import show_html, show_text
from tests.support.faults import Faults, injected


def people(path: Path, *, stable: bool = False, key: str | None = None) -> lk.LanceDataset:
    """Version 2 updates row 2, 3 deletes it, 4 inserts it again."""
    rows = {"id": [1, 2, 3], "v": ["a", "b", "c"]}
    ds = lk.write_dataset(
        rows, path, primary_key=key, enable_stable_row_ids=stable, max_rows_per_file=2
    )
    ds.update({"v": "'B'"}, where="id = 2")
    ds.delete("id = 2")
    ds.insert({"id": [2], "v": ["again"]}, commit_message="two is back")
    return ds


def told(history: lk.dataset.RowHistory) -> list[tuple[Any, ...]]:  # type: ignore[name-defined]
    return [(c.version, c.kind, c.cells) for c in history]


LIVES = [
    (1, "born", {"v": (None, "b")}),
    (2, "updated", {"v": ("b", "B")}),
    (3, "died", {"v": ("B", None)}),
    (4, "born", {"v": (None, "again")}),
]


@pytest.mark.parametrize("key", [None, "id"])
@pytest.mark.parametrize("stable", [False, True])
def test_all_lives_of_a_key(tmp_path: Path, stable: bool, key: str | None) -> None:
    ds = people(tmp_path / "t", stable=stable, key=key)
    found = ds.row_history({"id": 2})
    assert told(found) == LIVES
    assert found[1].operation == "Update"
    assert found[3].message == "two is back"
    assert found[1].timestamp == ds.versions()[1].timestamp
    assert [c.before for c in found] == [None, 1, 2, 3]
    assert [c.key for c in found] == [{"id": 2}] * 4
    assert told(ds.at(3).row_history({"id": 2})) == LIVES[:3]
    assert told(ds.row_history({"id": 3})) == [(1, "born", {"v": (None, "c")})]
    assert pickle.loads(pickle.dumps(found)) == found
    assert found[:2] != found
    assert len(found[:2]) == 2


def test_a_row_id(tmp_path: Path) -> None:
    ds = people(tmp_path / "t", stable=True)
    first = ds.at(1).to_table(with_row_id=True, filter="id = 2")["_rowid"][0].as_py()
    found = ds.row_history(first)
    assert [(c.version, c.kind) for c in found] == [(1, "born"), (2, "updated"), (3, "died")]
    assert found[0].cells == {"id": (None, 2), "v": (None, "b")}
    assert found.keys == [{"_rowid": first}]
    with pytest.raises(RowOutOfRangeError, match="has a row with id 999"):
        ds.row_history(999)
    assert ds.row_history(np.int64(first)) == found
    for wrong in (-1, 1 << 64):
        with pytest.raises(RowOutOfRangeError, match=r"Row id .* is out of range"):
            ds.row_history(wrong)
    for no_rows in (True, None, 1.5, b"x"):
        with pytest.raises(InvalidTypeError):
            ds.row_history(no_rows)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedFeatureError, match="are row addresses"):
        people(tmp_path / "u").row_history(1)


def test_a_row_id_that_a_restore_brought_back(tmp_path: Path) -> None:
    ds = people(tmp_path / "t", stable=True)
    first = ds.at(1).to_table(with_row_id=True, filter="id = 2")["_rowid"][0].as_py()
    ds.checkout_version(2).restore()
    ds.checkout_latest()
    ds.update({"v": "'c'"}, where="id = 2")
    assert [(c.version, c.kind) for c in ds.row_history(first)] == [
        (1, "born"),
        (2, "updated"),
        (3, "died"),
        (5, "born"),
        (6, "updated"),
    ]


def test_fragments_that_were_given_other_ids(tmp_path: Path) -> None:
    ds = lk.write_dataset(
        {"id": [1, 2, 3, 4], "v": [1, 2, 3, 4]}, tmp_path / "t", max_rows_per_file=2
    )
    ds.update({"v": "v + 5"}, where="id > 2")
    ds.delete("id < 3")
    kept = [fragment.metadata for fragment in ds.get_fragments()]
    overwrite = lk.LanceOperation.Overwrite(ds.schema, kept)
    ds = lk.LanceDataset.commit(ds, overwrite, read_version=ds.version)
    assert [f.fragment_id for f in ds.get_fragments()] != [f.id for f in kept]
    ds.update({"v": "6"}, where="id = 4")
    assert told(ds.row_history({"id": 3})) == [
        (1, "born", {"v": (None, 3)}),
        (2, "updated", {"v": (3, 8)}),
    ]
    assert told(ds.row_history({"id": 4}))[2:] == [(5, "updated", {"v": (9, 6)})]
    assert ds.blame().to_pydict()["_changed_in"] == [2, 5]


@pytest.mark.parametrize(("stable", "key"), [(True, None), (False, "id"), (True, "id")])
def test_a_filter(tmp_path: Path, stable: bool, key: str | None) -> None:
    ds = people(tmp_path / "t", stable=stable, key=key)
    found = ds.row_history("v IN ('a', 'c')")
    assert [(c.version, c.kind) for c in found] == [(1, "born")] * 2
    assert {c.cells["v"] for c in found} == {(None, "a"), (None, "c")}
    assert len(found.keys) == 2
    with pytest.raises(InvalidArgumentError, match="selects no row of version 4"):
        ds.row_history("id = 99")
    ds.insert({"id": list(range(100, 300)), "v": ["x"] * 200})
    with pytest.raises(InvalidArgumentError, match="selects more than 100 rows"):
        ds.row_history("id > 50")
    with pytest.raises(PredicateError):
        ds.row_history("nope = 1")


def test_what_cannot_be_told(tmp_path: Path) -> None:
    ds = people(tmp_path / "t")
    with pytest.raises(InvalidArgumentError, match="neither stable row ids nor a primary key"):
        ds.row_history("id = 1")
    with pytest.raises(InvalidArgumentError, match="The key is empty"):
        ds.row_history({})
    with pytest.raises(ColumnNotFoundError):
        ds.row_history({"nope": 1})
    with pytest.raises(InvalidTypeError, match="columns must be strings, got 7"):
        ds.row_history({7: 1})  # type: ignore[dict-item]
    with pytest.raises(InvalidArgumentError, match=r"No readable version has .* id = 99"):
        ds.row_history({"id": 99})
    for value in ("seven", 1 << 70, [1]):
        with pytest.raises(InvalidArgumentError, match="is not a value of column 'id'"):
            ds.row_history({"id": value})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.string(), "é"),
        (pa.large_binary(), b"\0x"),
        (pa.float64(), float("nan")),
        (pa.float32(), -0.0),
        (pa.bool_(), True),
        (pa.date32(), date(2026, 1, 2)),
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, tzinfo=UTC)),
        (pa.decimal128(10, 2), Decimal("1.50")),
        (pa.list_(pa.int8()), [1, None]),
        (pa.struct({"a": pa.int8()}), {"a": 5}),
        (pa.dictionary(pa.int8(), pa.string()), "d"),
        (pa.uint64(), (1 << 64) - 1),
        (pa.int64(), None),
    ],
    ids=str,
)
def test_keys_of_every_type(tmp_path: Path, kind: pa.DataType, value: Any) -> None:
    others = pa.nulls(1, kind) if value is not None else pa.array([1], kind)
    key = pa.concat_arrays([others, pa.array([value], kind)])
    ds = lk.write_dataset(pa.table({"k": key, "v": [0, 5]}), tmp_path / "t")
    ds.update({"v": "6"}, where="v = 5")
    ds.delete("v = 6")
    assert told(ds.row_history({"k": value})) == [
        (1, "born", {"v": (None, 5)}),
        (2, "updated", {"v": (5, 6)}),
        (3, "died", {"v": (6, None)}),
    ]


def test_a_key_that_is_all_there_is(tmp_path: Path) -> None:
    ds = lk.write_dataset({"k": [1, None]}, tmp_path / "t")
    ds.delete("k = 1")
    assert told(ds.row_history({"k": 1})) == [(1, "born", {}), (2, "died", {})]
    assert told(ds.row_history({"k": None})) == [(1, "born", {})]


def test_a_key_that_stands_twice(tmp_path: Path) -> None:
    ds = lk.write_dataset({"k": [1, 1, 2], "v": [5, 6, 7]}, tmp_path / "t")
    ds.delete("v = 5")
    ds.update({"v": "8"}, where="k = 1")
    assert [(c.version, c.kind, c.cells) for c in ds.row_history({"k": 1})][1:] == [
        (1, "born", {"v": (None, 5)}),
        (2, "died", {"v": (5, None)}),
        (3, "updated", {"v": (6, 8)}),
    ]


@pytest.mark.parametrize("stable", [False, True])
def test_columns_that_changed(tmp_path: Path, stable: bool) -> None:
    ds = lk.write_dataset({"id": [1, 2], "v": [5, 6]}, tmp_path / "t", enable_stable_row_ids=stable)
    ds.add_columns({"w": "v * 2"})
    ds.alter_columns({"path": "v", "data_type": pa.int32()})
    ds.alter_columns({"path": "id", "name": "key"})
    ds.update({"v": "7"}, where="key = 1")
    ds.drop_columns(["w"])
    found = ds.row_history({"key": 1})
    assert told(found) == [
        (1, "born", {"v": (None, 5)}),
        (2, "updated", {"w": (None, 10)}),
        (5, "updated", {"v": (5, 7)}),
    ]
    assert found.keys == [{"key": 1}]


@pytest.mark.parametrize("stable", [False, True])
def test_branches_clones_and_what_was_cleaned_up(tmp_path: Path, stable: bool) -> None:
    ds = people(tmp_path / "t", stable=stable)
    branch = ds.create_branch("b", 2)
    branch.update({"v": "'branch'"}, where="id = 2")
    clone = ds.shallow_clone(tmp_path / "c", 2)
    clone.delete("id = 2")
    sub = branch.create_branch("b/sub")
    sub.optimize.compact_files()
    sub.delete("id = 2")
    assert told(sub.row_history({"id": 2}))[:-1] == told(branch.row_history({"id": 2}))
    assert [(c.branch, *told([c])[0]) for c in sub.row_history({"id": 2})] == [
        ("main", *LIVES[0]),
        ("main", *LIVES[1]),
        ("b", 3, "updated", {"v": ("B", "branch")}),
        ("b/sub", sub.version, "died", {"v": ("branch", None)}),
    ]
    assert told(ds.create_branch("bare", 2).row_history({"id": 2})) == LIVES[:2]
    # a clone goes on in its source, as long as it is there
    assert told(clone.row_history({"id": 2})) == [
        *LIVES[:2],
        (3, "died", {"v": ("B", None)}),
    ]
    deep = ds.deep_clone(tmp_path / "d", 2)
    assert [(c.version, c.kind) for c in deep.row_history({"id": 2})] == [(2, "found")]
    clone.insert([{"id": 9, "v": "own"}], mode="append")
    clone.deepen()
    clone.cleanup_old_versions(timedelta(0))
    (tmp_path / "t").rename(tmp_path / "gone")
    found = clone.row_history({"id": 9})
    assert [(c.version, c.kind) for c in found] == [(clone.version, "found")]
    (tmp_path / "gone").rename(tmp_path / "t")
    ds.branches.delete("bare")
    ds.update({"v": "'last'"}, where="id = 2")
    ds.tags.create("third", 3)
    ds.cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    kept = [v.version for v in ds.versions()]
    assert kept == [2, 3, 5]  # a branch needs the first
    found = ds.row_history({"id": 2})
    assert [(c.version, c.kind, c.before) for c in found] == [
        (2, "found", None),
        (3, "died", 2),
        (5, "born", 3),
    ]
    assert "4 (cleaned up) instead of 5" in show_text(found, NOW)


def test_versions_of_pylance(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": [1, 2], "v": [5, 6]}), path, enable_stable_row_ids=True)
    ds = lance.dataset(path)
    ds.update({"v": "7"}, where="id = 2")
    ds.optimize.compact_files()
    ds.add_columns({"w": "v"})
    ds.delete("id = 2")
    found = lk.dataset(path).row_history({"id": 2})
    assert [(c.kind, c.cells) for c in found] == [
        ("born", {"v": (None, 6)}),
        ("updated", {"v": (6, 7)}),
        ("updated", {"w": (None, 7)}),
        ("died", {"v": (7, None), "w": (7, None)}),
    ]


@pytest.mark.parametrize("stable", [False, True])
def test_fragments_that_cannot_hold_it_are_not_read(tmp_path: Path, stable: bool) -> None:
    ds = lk.write_dataset(
        {"id": [0, 1], "v": [0, 0]}, tmp_path / "t", primary_key="id", enable_stable_row_ids=stable
    )
    for number in range(2, 12):
        ds.insert({"id": [number], "v": [0]})
    for number in range(2, 12):
        ds.update({"v": f"{number}"}, where=f"id = {number}")
    with injected(Faults()) as faults:
        opened = lk.dataset(ds.uri)
        assert len(opened.row_history({"id": 0})) == 1
    read = {call.name for call in faults.calls if call.name.startswith("data/")}
    assert 1 <= len(read) <= 11  # the files of the newest version, to find it: no older ones


def test_what_a_person_sees(tmp_path: Path) -> None:
    found = people(tmp_path / "t").row_history({"id": 2})
    text = show_text(found, NOW)
    assert text.startswith("id 2 · 4 changes · main")
    lines = [line.split() for line in text.splitlines()]
    row = next(line for line in lines if line[:1] == ["2"])
    assert row[-4:] == ["updated", "v", "b", "B"]
    assert "two is back" in text
    assert "two is back" in show_html(found, NOW)
    assert repr(found) == show_text(found)
    with lk.options(display_rows=2):
        assert "2 older" in show_text(found, NOW)
