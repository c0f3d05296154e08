"""Comparing and merging versions takes steps in proportion to the columns, not to their square."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from tests.support.counted_steps import counted_steps

Work = Callable[[], object]


def wide(where: Path, columns: int, *, parts: int = 0) -> lk.LanceDataset:
    rows: dict[str, Any] = {"id": range(4), "v": [0] * 4, "w": [0] * 4}
    rows |= {f"c{at}": [at] * 4 for at in range(columns)}
    if parts:
        rows["s"] = pa.array([{f"p{at}": at for at in range(parts)}] * 4)
    return lk.write_dataset(pa.table(rows), where, primary_key="id")


def compared(where: Path, size: int) -> Work:
    ds = wide(where, size)
    ds.update({"v": "1"}, where="id = 1")
    return lambda: (ds.diff(1).to_table(), ds.changes(1).to_table())


def both_updated(ds: lk.LanceDataset, branch: lk.LanceDataset) -> Work:
    """Update a row on a branch and another one beside it; return the merge."""
    branch.update({"v": "1"}, where="id = 1")
    ds.update({"w": "1"}, where="id = 2")
    return lambda: ds.branches.merge("b")


def merged(where: Path, size: int) -> Work:
    ds = wide(where, size)
    return both_updated(ds, ds.create_branch("b"))


def merged_with_casts(where: Path, size: int) -> Work:
    ds = wide(where, size)
    branch = ds.create_branch("b")
    branch.alter_columns(
        *({"path": f"c{at}", "data_type": pa.int32()} for at in range(0, size, 4)),
        *({"path": f"c{at}", "name": f"d{at}"} for at in range(1, size, 4)),
    )
    branch.drop_columns([f"c{at}" for at in range(2, size, 4)])
    return both_updated(ds, branch)


def merged_with_parts(where: Path, size: int) -> Work:
    ds = wide(where, 0, parts=size)
    branch = ds.create_branch("b")
    branch.drop_columns([f"s.p{at}" for at in range(0, size, 2)])
    branch.alter_columns(
        *({"path": f"s.p{at}", "data_type": pa.int32()} for at in range(1, size, 4))
    )
    return both_updated(ds, branch)


WORK: dict[str, Callable[[Path, int], Work]] = {
    "diff and changes": compared,
    "merge": merged,
    "merge with casts": merged_with_casts,
    "merge with parts": merged_with_parts,
}


@pytest.mark.parametrize("kind", WORK)
def test_twice_the_columns_take_twice_the_steps(kind: str, tmp_path: Path) -> None:
    found = []
    for size in (20, 100, 200):  # the first one loads modules
        work = WORK[kind](tmp_path / str(size), size)
        with counted_steps() as steps:
            work()
        found.append(steps[0])
    assert found[2] < 2.2 * found[1]
