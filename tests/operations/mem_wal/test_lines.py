"""Shards of branches and clones, and of tables that were overwritten or restored."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit._format.mem_wal.details import details_of
from tests.support.mem_wal_model import Rows, table_of, write_with_pylance

SHARD = uuid.UUID(int=1)


def values(ds: lk.LanceDataset) -> list[float]:
    """Return the values of a table by key, as both libraries read it."""
    found = ds.to_table().sort_by("id")["v"].to_pylist()
    theirs = lance.dataset(ds._location.uri).to_table().sort_by("id")["v"].to_pylist()
    assert found == theirs
    return found


def mark(ds: lk.LanceDataset) -> int:
    details = details_of(ds._snapshot.indices)
    return 0 if details is None else details.merged.get(SHARD, 0)


def write(ds: lk.LanceDataset, rows: Rows) -> None:
    with ds.mem_wal_writer(str(SHARD)) as writer:
        writer.put(table_of(rows))


def merged(ds: lk.LanceDataset) -> tuple[int, ...]:
    """Merge, and return which generations of the shard."""
    (found,) = ds.merge_mem_wal().shards
    return found.generations


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    """Return a table that has merged one generation."""
    rows: Rows = {key: (float(key), "") for key in range(5)}
    made = lance.write_dataset(table_of(rows), str(tmp_path / "t"))
    made.initialize_mem_wal(unsharded=True)
    write_with_pylance(made, str(SHARD), {0: (100.0, "")}, [])
    ds = lk.dataset(made.uri)
    assert merged(ds) == (1,)
    return ds


@pytest.mark.parametrize("how", ["fast-forward", "three-way"])
def test_marks_do_not_come_with_the_rows_of_a_branch(ds: lk.LanceDataset, how: str) -> None:
    branch = ds.create_branch("b")
    for number, expected in ((1, (2,)), (2, (3,))):
        write(branch, {number: (number * 11.0, "")})
        assert merged(branch) == expected  # above the mark that it started with
    if how == "three-way":
        ds.delete("id = 4")
    assert ds.branches.merge("b").how == how
    assert (mark(ds), mark(branch)) == (1, 3)
    # main has a shard of the same id, whose second generation is another one
    write_with_pylance(lance.dataset(ds.uri), str(SHARD), {3: (33.0, "")}, [])
    assert merged(ds) == (2,)
    assert values(ds)[:4] == [100.0, 11.0, 22.0, 33.0]


def test_a_clone_goes_on_above_its_mark(ds: lk.LanceDataset, tmp_path: Path) -> None:
    clone = ds.shallow_clone(tmp_path / "c", ds.version)
    write(clone, {4: (44.0, "")})
    assert merged(clone) == (2,)
    assert values(clone) == [100.0, 1.0, 2.0, 3.0, 44.0]
    assert (values(ds)[4], mark(ds)) == (4.0, 1)


def test_nothing_comes_back_after_an_overwrite_or_a_restore(ds: lk.LanceDataset) -> None:
    path = ds.uri
    lk.write_dataset(table_of({7: (7.0, "")}), path, mode="overwrite")
    ds = lk.dataset(path)
    ds.initialize_mem_wal(unsharded=True)
    assert ds.to_table(include_mem_wal=True)["v"].to_pylist() == [7.0]
    write(ds, {8: (8.0, "")})
    assert merged(ds) == (2,)
    assert values(ds) == [7.0, 8.0]
    ds.checkout_version(2).restore()  # before anything was merged
    ds = lk.dataset(path)
    assert mark(ds) == 0
    shown = ds.to_table(include_mem_wal=True).sort_by("id")["v"].to_pylist()
    assert shown == values(ds) == [0.0, 1.0, 2.0, 3.0, 4.0]
    write(ds, {9: (9.0, "")})
    assert merged(ds) == (3,)
    assert values(ds) == [0.0, 1.0, 2.0, 3.0, 4.0, 9.0]


def test_shards_go_on_when_the_log_was_dropped_and_made_anew(ds: lk.LanceDataset) -> None:
    ds.drop_index("__lance_mem_wal")
    ds.alter_columns({"path": "id", "name": "key"})
    ds.alter_columns({"path": "key", "name": "id"})
    ds.initialize_mem_wal(unsharded=True)
    write(ds, {1: (-1.0, "")})
    assert merged(ds) == (2,)
    assert values(ds)[:2] == [100.0, -1.0]


OLDEST = """
from datetime import timedelta
uri = arguments["uri"]
ds = lance.dataset(uri)
found = [ds.count_rows(), ds.to_table(filter="v = 100").num_rows]
lance.write_dataset(ds.to_table(filter="id = 1"), uri, mode="append")
ds = lance.dataset(uri)
ds.delete("id = 2")
ds.update({"v": "7.0"}, where="id = 3")
ds.add_columns(pa.field("n", pa.int32()))
ds.drop_columns(["n"])
ds.create_scalar_index("id", "BTREE")
ds.cleanup_old_versions(older_than=timedelta(0))
result = found
"""


def test_the_oldest_release_goes_on_from_merged_and_waiting_generations(
    ds: lk.LanceDataset, pylance4: Callable[..., Any]
) -> None:
    ds.create_scalar_index("v", "BTREE")
    write(ds, {4: (44.0, "")})  # a generation, with an index, that waits
    assert pylance4(OLDEST, uri=ds.uri) == [5, 1]
    ds = lk.dataset(ds.uri)
    assert mark(ds) == 1
    assert merged(ds) == (2,)
    assert values(ds) == [100.0, 1.0, 1.0, 7.0, 44.0]
    ds.drop_index("__lance_mem_wal")
    compact = """
ds = lance.dataset(arguments["uri"])
ds.optimize.compact_files()
result = ds.count_rows()
"""
    assert pylance4(compact, uri=ds.uri) == 5
    ds = lk.dataset(ds.uri)
    ds.initialize_mem_wal(unsharded=True)
    write(ds, {0: (1.0, "")})
    assert merged(ds) == (3,)
    assert values(ds) == [1.0, 1.0, 1.0, 7.0, 44.0]
