"""A table whose write-ahead logs are damaged by tests, and what has to work after a repair."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import lancekit as lk
from lancekit._format.mem_wal.names import LOGS
from tests.support.shards import SHARD

FOLDER = Path(LOGS) / SHARD
REPAIR = r"ds\.repair_mem_wal\(\)"


def rows(*ids: int) -> dict[str, list[Any]]:
    return {"id": list(ids), "v": [f"v{number}" for number in ids]}


def made(path: Path, *, collected: bool) -> Any:
    """Return a table with id 0 whose shard has ids 1 to 3 in a generation, and id 4 in its log."""
    ds = lk.write_dataset(rows(0), path, primary_key="id")
    ds.initialize_mem_wal()
    with ds.mem_wal_writer(SHARD) as first:
        first.put(rows(1, 2, 2))
        first.put(rows(3))
    if collected:
        ds.cleanup_mem_wal(grace=timedelta(0))
    ds.mem_wal_writer(SHARD).put(rows(4))
    return ds


def read(path: Path) -> list[int]:
    found = lk.dataset(path).to_table(columns=["id"], include_mem_wal=True)
    return sorted(found.column(0).to_pylist())


def works(path: Path, *ids: int) -> None:
    """Check that the table has some ids, takes rows, merges, and has no damage."""
    assert read(path) == list(ids)
    ds = lk.dataset(path)
    ds.mem_wal_writer(SHARD).put(rows(9))
    ds.merge_mem_wal(flush=True)
    assert sorted(ds.to_table()["id"].to_pylist()) == [*ids, 9]
    found = ds.to_table()
    assert found["v"].to_pylist() == rows(*found["id"].to_pylist())["v"]
    assert ds.repair_mem_wal() == []


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
