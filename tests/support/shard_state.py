"""What a table with shards has, read the plain way: one row after the other, the later ones win."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lancekit as lk
from lancekit._format.mem_wal.details import MemWalDetails, details_of
from lancekit._operations.mem_wal.generation import replayed
from lancekit._shards.log import positions, replayable
from lancekit._shards.manifests import latest
from lancekit._shards.schema import TOMBSTONE, Shard, shards_of, wal_schema

__all__ = ["newest_rows"]


def newest_rows(path: str | Path, key: str = "id") -> dict[Any, dict[str, Any]]:
    """Return the rows of a table and of all its shards by their keys, without any writer."""
    ds = lk.dataset(path)
    snapshot = ds._snapshot
    listed = ds.to_table().to_pylist()
    names = snapshot.manifest.schema.names
    found = {row[key]: row for row in listed}
    assert len(found) == len(listed), "a key is in the table twice"
    details = details_of(snapshot.indices) or MemWalDetails()
    schema = wal_schema(snapshot.manifest.schema)
    for shard in shards_of(snapshot.store):
        for row in _written(shard, details.merged.get(shard.id, 0), schema):
            found.pop(row[key], None)
            if not row.pop(TOMBSTONE):
                found[row[key]] = {name: row.get(name) for name in names}
    return found


def _written(shard: Shard, merged: int, schema: Any) -> Iterator[dict[str, Any]]:
    manifest = latest(shard)
    if manifest is None:  # who took it first was killed meanwhile
        assert not positions(shard)
        return
    numbers = [table.generation for table in manifest.sstables]
    assert numbers == sorted(set(numbers)), "a generation is listed twice, or out of order"
    for table in manifest.sstables:
        if table.generation > merged:
            yield from lk.dataset(f"{shard.store.uri}/{table.path}").to_table().to_pylist()
    for memtable in replayed(replayable(shard, manifest), manifest.current_generation, schema):
        yield from _rows(memtable.batches)


def _rows(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()
