"""What became of a column, and what its values were like."""

from __future__ import annotations

import pickle
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._pipeline.diff.statistics import ColumnStatistics, column_statistics
from lancekit.errors import ColumnNotFoundError
from tests.notebook.conftest import NOW
from tests.support.cards import show_html, show_text
from tests.support.faults import Faults, injected


def told(ds: lk.LanceDataset, column: str) -> list[tuple[Any, ...]]:
    return [
        (c.version, c.kind, c.old_name, c.name, c.old_type, c.type)
        for c in ds.column_history(column)
    ]


@pytest.fixture
def table(tmp_path: Path) -> lk.LanceDataset:
    ds = lk.write_dataset({"id": [1, 2, 3], "v": [5, 6, None]}, tmp_path / "t")
    ds.update({"v": "7"}, where="id = 2")  # 2: rows, not the column
    ds.alter_columns({"path": "v", "name": "w"})  # 3
    ds.alter_columns({"path": "w", "data_type": pa.int32()})  # 4
    ds.replace_columns({"w": "w + 10"})  # 5
    ds.optimize.compact_files()
    return ds


LIFE = [
    (1, "added", None, "v", None, pa.int64()),
    (3, "renamed", "v", "w", pa.int64(), pa.int64()),
    (4, "cast", "w", "w", pa.int64(), pa.int32()),
    (5, "rewritten", "w", "w", pa.int32(), pa.int32()),
]


def test_one_that_went_through_everything(table: lk.LanceDataset) -> None:
    assert told(table, "w") == LIFE
    table.drop_columns(["w"])
    gone = (table.version, "dropped", "w", None, pa.int32(), None)
    assert told(table, "w") == [*LIFE, gone]
    table.add_columns({"w": "'again'"})
    again = (table.version, "added", None, "w", None, pa.string())
    assert told(table, "w") == [*LIFE, gone, again]
    assert told(table, "id") == [(1, "added", None, "id", None, pa.int64())]
    with pytest.raises(ColumnNotFoundError, match="nope"):
        table.column_history("nope")


def test_what_its_values_were_like(table: lk.LanceDataset) -> None:
    with injected(Faults()) as faults:
        history = lk.dataset(table.uri).column_history("w")
        assert not [call for call in faults.calls if call.name.startswith("data/")]
        assert "lowest" not in show_text(history, NOW)
    added, renamed, _, rewritten = history
    assert added.statistics == ColumnStatistics(3, 1, 5, 6, 2)
    assert added.old_statistics is None
    assert renamed.statistics == ColumnStatistics(3, 1, 5, 7, 2)
    assert rewritten.old_statistics == renamed.statistics
    assert rewritten.statistics == ColumnStatistics(3, 1, 15, 17, 2)
    table.drop_columns(["w"])
    dropped = table.column_history("w")[-1]
    assert dropped.statistics is None
    assert dropped.old_statistics == rewritten.statistics
    text = show_text(history, NOW)
    assert text.startswith("w · 4 changes · main")
    assert ["rewritten", "w", "int32", "w", "int32", "3", "1", "15", "17", "2"] in [
        line.split()[-10:] for line in text.splitlines()
    ]
    assert "rewritten" in show_html(history, NOW)
    assert pickle.loads(pickle.dumps(history)) == history
    assert history[1:] != history


def test_overwrites_restores_and_what_is_gone(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "v": [5]}, tmp_path / "t")
    ds = lk.write_dataset({"id": [2], "v": [6]}, ds, mode="overwrite")
    ds.drop_columns(["v"])
    ds.checkout_version(2).restore()
    ds.checkout_latest()
    assert [c[:2] for c in told(ds, "v")] == [
        (1, "added"),
        (2, "rewritten"),
        (3, "dropped"),
        (4, "added"),
    ]
    ds.cleanup_old_versions(older_than=timedelta(0))
    assert [c[:2] for c in told(ds, "v")] == [(4, "found")]
    branch = ds.create_branch("b")
    branch.add_columns({"x": "v + 1"})
    assert [c[:2] for c in told(branch, "v")] == [(4, "found")]
    assert [c[:2] for c in told(branch, "x")] == [(5, "added")]


@pytest.mark.parametrize("library", ["lancekit", "pylance"])
def test_branches_and_clones_go_on_where_they_come_from(tmp_path: Path, library: str) -> None:
    ds = lk.write_dataset({"id": [1, 2], "v": [5, 6]}, tmp_path / "t")
    ds.alter_columns({"path": "v", "name": "value"})
    place = str(tmp_path / "c")
    if library == "lancekit":
        ds.create_branch("b")
        clone = ds.shallow_clone(place, ds.version)
    else:
        lance.dataset(ds.uri).create_branch("b")
        lance.dataset(ds.uri).shallow_clone(place, ds.version)
        clone = lk.dataset(place)
    branch = ds.checkout_version(("b", None))
    ds.replace_columns({"value": "value + 1"})  # which the others have nothing of
    for line, name in ((branch, "b"), (clone, "main")):
        line.alter_columns({"path": "value", "data_type": pa.int32()})
        assert [(c.branch, c.version, c.kind) for c in line.column_history("value")] == [
            ("main", 1, "added"),
            ("main", 2, "renamed"),
            (name, 3, "cast"),
        ]
    # of a clone whose source is another table by now
    shutil.rmtree(ds.uri)
    lk.write_dataset({"id": [1, 2], "v": [5, 6]}, ds.uri)
    lk.dataset(ds.uri).alter_columns({"path": "v", "name": "value"})
    found = clone.column_history("value")
    assert [(c.version, c.kind) for c in found] == [(2, "found"), (3, "cast")]


def test_versions_of_pylance(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    ds = lance.write_dataset(pa.table({"id": [1, 2]}), path)
    ds.add_columns({"v": "id * 2"})
    ds.alter_columns({"path": "v", "name": "w"})
    ds.alter_columns({"path": "w", "data_type": pa.int32()})
    ds.drop_columns(["w"])
    assert [c[:4] for c in told(lk.dataset(path), "w")] == [
        (2, "added", None, "v"),
        (3, "renamed", "v", "w"),
        (4, "cast", "w", "w"),
        (5, "dropped", "w", None),
    ]


def test_a_column_is_followed_by_a_name_that_it_had(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t")
    ds.add_columns({"v": "id * 2"})
    ds.alter_columns({"path": "v", "name": "w"})
    ds.alter_columns({"path": "w", "name": "x"})
    followed = [
        (2, "added", None, "v"),
        (3, "renamed", "v", "w"),
        (4, "renamed", "w", "x"),
    ]
    for name in ("v", "w", "x"):
        assert [c[:4] for c in told(ds, name)] == followed
    ds.add_columns({"v": "id"})  # another one
    assert [c[:4] for c in told(ds, "v")] == [*followed[:2], (5, "added", None, "v")]
    ds.drop_columns(["x"])
    assert [c[:4] for c in told(ds, "w")] == [*followed, (6, "dropped", "x", None)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array(["b", None, "a"]), (3, 1, "a", "b", 2)),
        (pa.array([float("nan"), float("nan"), -0.0, 0.0]), (4, 0, -0.0, 0.0, 2)),
        (pa.array([[1], [1], None]), (3, 1, None, None, 1)),
        (pa.array([{"a": 1}, {"a": 2}]), (2, 0, None, None, 2)),
        (pa.array([True, False, True]), (3, 0, False, True, 2)),
        (pa.array(["x", "y", "x"]).dictionary_encode(), (3, 0, "x", "y", 2)),
        (pa.nulls(3), (3, 3, None, None, 0)),
        (pa.array([], pa.int8()), (0, 0, None, None, 0)),
    ],
    ids=str,
)
def test_values_of_every_kind(values: pa.Array, expected: tuple[Any, ...]) -> None:
    parts = [values[:1], values[1:]]
    assert column_statistics(parts) == ColumnStatistics(*expected)


def test_how_many_different_ones_there_are_is_estimated() -> None:
    numbers = np.arange(300_000) % 200_000
    found = column_statistics(pa.array(part) for part in np.split(numbers, 10))
    assert found.distinct == pytest.approx(200_000, rel=0.05)
    few = column_statistics(pa.array(part % 9_000) for part in np.split(numbers, 10))
    assert few.distinct == 9_000
