"""Tables with shards that pylance made."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from lancekit._format.mem_wal.shard_manifest import ShardManifest
from lancekit._format.schema import PRIMARY_KEY
from lancekit._shards.manifests import latest
from lancekit._shards.schema import Shard, shard_of
from lancekit._storage.local import LocalStore

SHARD = str(uuid.UUID(int=7))
#: how often a writer of pylance that a test leaves open looks for rows to flush: it does so until
#: the process ends, and ten that did each millisecond took a third of a processor from all tests
LEFT_OPEN_MS = 50


def keyed(schema: pa.Schema, *keys: str) -> pa.Schema:
    """Return a schema with a primary key of some columns, in this order."""
    for place, name in enumerate(keys, start=1):
        at = schema.get_field_index(name)
        marks = {PRIMARY_KEY: "true"}
        if len(keys) > 1:
            marks[f"{PRIMARY_KEY}:position"] = str(place)
        schema = schema.set(at, schema.field(at).with_nullable(False).with_metadata(marks))
    return schema


ROWS_SCHEMA = keyed(
    pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field(
                "s", pa.struct([pa.field("a", pa.int32(), False), pa.field("b", pa.string())])
            ),
            pa.field("x", pa.list_(pa.float64()), False),
        ],
        {"m": "1"},
    ),
    "id",
)


def rows(*ids: int, schema: pa.Schema = ROWS_SCHEMA) -> pa.Table:
    """Return rows of the keys, whose other values tell them."""
    structs = [{"a": number, "b": f"b{number}"} for number in ids]
    values = {"id": list(ids), "s": structs, "x": [[float(number)] for number in ids]}
    return pa.table(values, schema=schema)


def with_shards(path: Path, table: pa.Table | None = None, **initial: Any) -> Any:
    """Make a table by pylance that may have shards."""
    ds = lance.write_dataset(rows(1, 2, 3) if table is None else table, str(path))
    ds.initialize_mem_wal(**initial)
    return ds


def opened(path: Path, shard: str = SHARD) -> Shard:
    """Return a shard of a table."""
    return shard_of(LocalStore(path), uuid.UUID(shard))


def newest(path: Path, shard: str = SHARD) -> ShardManifest:
    """Return the newest manifest of a shard, which has one."""
    found = latest(opened(path, shard))
    assert found is not None
    return found
