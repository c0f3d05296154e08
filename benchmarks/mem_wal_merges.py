"""Generations that pylance wrote, merged into a table: ``python -m benchmarks.mem_wal_merges``.

A million rows, of which nine in ten replace others, and some deletes, come into five million;
beside what a user of the reference does: of each generation a delete, and a merge-insert with its
mark.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.mem_wal import CompactedSsTable

import lancekit as lk

__all__ = ["compare_merges"]

_SHARD = str(uuid.UUID(int=1))
_KEY = {b"lance-schema:unenforced-primary-key": b"true"}
_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=_KEY),
        pa.field("v", pa.float64()),
        pa.field("s", pa.string()),
    ]
)
_PUT = 50_000


def _rows(ids: Any) -> pa.Table:
    numbers = pa.array(ids)
    values = np.random.default_rng(1).random(len(ids))
    return pa.table([numbers, values, numbers.cast(pa.string())], schema=_SCHEMA)


def _prepare(path: Path, base: int, rows: int) -> None:
    ds = lance.write_dataset(_rows(np.arange(base)), str(path))
    ds.initialize_mem_wal(unsharded=True)
    keys = np.random.default_rng(0).permutation(base * 11 // 10)[:rows]
    with ds.mem_wal_writer(_SHARD, max_wal_flush_interval_ms=1) as writer:
        for start in range(0, rows, _PUT):
            writer.put(_rows(keys[start : start + _PUT]))
        gone = pa.table({"id": keys[: rows // 20]}, schema=pa.schema([_SCHEMA.field("id")]))
        writer.delete(gone)


def _by_lancekit(path: Path) -> None:
    lk.dataset(path).merge_mem_wal()


def _by_pylance(path: Path) -> None:
    (shard,) = lk.dataset(path).mem_wal_shards()
    for generation in shard.generations:
        rows = lance.dataset(f"{path}/_mem_wal/{_SHARD}/{generation.path}").to_table()
        marks = rows["_tombstone"]
        rows = rows.drop_columns(["_tombstone"])
        gone = rows.filter(marks).select(["id"])
        if gone.num_rows:
            lance.dataset(path).merge_insert("id").when_matched_delete().execute(gone)
        merge = lance.dataset(path).merge_insert("id")
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        merge = merge.mark_sstables_as_compacted([CompactedSsTable(_SHARD, generation.number)])
        merge.execute(rows.filter(pc.invert(marks)).cast(_SCHEMA))


def compare_merges(folder: Path, base: int, rows: int) -> dict[str, float]:
    """Return how many seconds each way takes; both have to give the same rows."""
    template = folder / "template"
    _prepare(template, base, rows)
    took: dict[str, float] = {}
    seen: list[pa.Table] = []
    ways: dict[str, Callable[[Path], None]] = {"lancekit": _by_lancekit, "pylance": _by_pylance}
    for name, way in ways.items():
        path = folder / name
        shutil.copytree(template, path)
        started = time.perf_counter()
        way(path)
        took[name] = time.perf_counter() - started
        seen.append(lance.dataset(path).to_table().sort_by("id"))
    assert seen[0].equals(seen[1])
    return took


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        compare_merges(Path(place), 100, 50)  # what is loaded once is no part of it
    with tempfile.TemporaryDirectory() as place:
        ours, theirs = compare_merges(Path(place), 5_000_000, 1_000_000).values()
    print(f"lancekit {ours:.2f} s, pylance by hand {theirs:.2f} s: {ours / theirs:.2f}")
