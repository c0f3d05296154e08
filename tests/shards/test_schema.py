"""Schemas of logs and generations, and keys."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import LOGS, entry_name
from lancekit._format.schema import LanceSchema
from lancekit._shards.schema import generation_schema, primary_key, wal_schema
from lancekit.errors import InvalidArgumentError, UnsupportedTypeError
from tests.support.shards import SHARD, keyed, newest, with_shards

WIDE = keyed(
    pa.schema(
        [
            pa.field("k", pa.int64()),
            pa.field("gone", pa.int8()),
            pa.field("name", pa.string()),
            pa.field("s", pa.struct([pa.field("l", pa.list_(pa.int8()), False)]), False),
            pa.field("m", pa.map_(pa.string(), pa.int32())),
            pa.field("f", pa.list_(pa.float32(), 2), False, {"own": "yes"}),
        ],
        {"about": "it"},
    ),
    "name",
    "k",
)


def test_schemas_are_those_of_the_reference(tmp_path: Path) -> None:
    ds = lance.write_dataset(pa.table({f.name: [] for f in WIDE}, WIDE), str(tmp_path))
    ds.drop_columns(["gone"])  # a hole in the ids
    ds.initialize_mem_wal()
    row = {"k": [1], "name": ["a"], "s": [{"l": [1]}], "m": [[("a", 1)]], "f": [[1.0, 2.0]]}
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(pa.table(row, ds.schema))
    shard = tmp_path / LOGS / SHARD
    schema = lk.dataset(tmp_path)._snapshot.manifest.schema
    entry = pa.ipc.open_stream((shard / entry_name(1)).read_bytes()).schema
    added = {b"writer_epoch": b"1", b"generation": b"1"}
    mine = wal_schema(schema)
    assert mine.equals(entry.with_metadata({b"about": b"it"}), check_metadata=True)
    assert entry.metadata == {**(mine.metadata or {}), **added}
    generation = lk.dataset(shard / newest(tmp_path).sstables[0].path)._snapshot.manifest.schema
    assert generation_schema(schema) == generation


def test_a_column_of_their_own_name_is_refused() -> None:
    schema = LanceSchema.from_arrow(pa.schema({"_tombstone": pa.bool_()}))
    with pytest.raises(InvalidArgumentError, match="_tombstone"):
        wal_schema(schema)


def test_keys(tmp_path: Path) -> None:
    schema = LanceSchema.from_arrow(WIDE)
    assert [one.name for one in primary_key(schema)] == ["name", "k"]
    assert primary_key(LanceSchema.from_arrow(pa.schema({"x": pa.float64()}))) == ()
    for number, kind in enumerate([pa.float64(), pa.date32(), pa.binary(3), pa.timestamp("s")]):
        arrow = keyed(pa.schema({"x": kind}), "x")
        with pytest.raises(UnsupportedTypeError, match="key of shards"):
            primary_key(LanceSchema.from_arrow(arrow))
        with pytest.raises(OSError, match="unsupported type"):
            with_shards(tmp_path / str(number), pa.table({"x": pa.array([], kind)}, arrow))
