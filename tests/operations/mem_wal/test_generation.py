"""Generations: ours are as those of the reference, which goes on from them."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.shard_manifest import ShardManifest, SsTable
from lancekit._format.schema import LanceSchema
from lancekit._operations.mem_wal.generation import KEYS, open_generation, write_generation
from lancekit._shards.manifests import change
from lancekit._shards.schema import Shard, shard_of, wal_schema
from lancekit._storage.local import LocalStore
from lancekit.errors import CorruptFileError, InvalidArgumentError, StorageError
from tests.support.faults import Faults, FaultyStore
from tests.support.shards import SHARD, keyed, newest, opened, rows, with_shards

KEYED = {
    "number": keyed(pa.schema({"k": pa.int64(), "v": pa.string()}), "k"),
    "text": keyed(pa.schema({"v": pa.string(), "k": pa.large_string()}), "k"),
    "two": keyed(pa.schema({"a": pa.uint8(), "v": pa.string(), "k": pa.binary()}), "k", "a"),
    "none": pa.schema({"k": pa.int64(), "v": pa.string()}),
}


def random_rows(schema: pa.Schema, count: int, seed: int) -> pa.Table:
    """Return rows whose keys come again and again."""
    drawn = np.random.default_rng(seed).integers(0, max(count // 3, 1), count)
    made: dict[str, Any] = {"k": drawn, "a": drawn % 7, "v": [f"v{n}" for n in range(count)]}
    if not pa.types.is_integer(schema.field("k").type):
        made["k"] = [str(number * 1_000_003) for number in drawn]
        made["k"] = pa.array(made["k"]).cast(schema.field("k").type)
    return pa.table({name: made[name] for name in schema.names}).cast(schema)


def schema_of(path: Path) -> LanceSchema:
    return lk.dataset(path)._snapshot.manifest.schema


def logged(table: pa.Table, schema: pa.Schema, dead: int = 0) -> list[pa.RecordBatch]:
    """Return rows as a log has them; the last ones are tombstones."""
    marks = pa.array([False] * (table.num_rows - dead) + [True] * dead)
    columns = [*table.columns, pa.chunked_array([marks])]
    return pa.Table.from_arrays(columns, schema=schema).to_batches(max_chunksize=999)


def read_keys(folder: str, name: str) -> pa.Table:
    return lance.file.LanceFileReader(f"{folder}/{KEYS}/{name}.lance").read_all().to_table()


@pytest.mark.cover
@pytest.mark.parametrize("kind", KEYED)
@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_ours_are_as_those_of_the_reference(tmp_path: Path, kind: str, version: str) -> None:
    table = random_rows(KEYED[kind], 20_000 if version == "2.2" else 50, 1)
    path = str(tmp_path)
    ds = lance.write_dataset(table.slice(0, 0), path, data_storage_version=version)
    ds.initialize_mem_wal()
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(table)
    shard, theirs = opened(tmp_path), newest(tmp_path).sstables[0]
    schema = schema_of(tmp_path)
    mine = write_generation(shard, schema, logged(table, wal_schema(schema)), 2, version)
    assert (mine.generation, mine.physical_rows) == (2, table.num_rows)
    folders = [f"{shard.store.uri}/{one.path}" for one in (mine, theirs)]
    ours, other = (lance.dataset(folder) for folder in folders)
    assert ours.to_table() == other.to_table()
    assert ours.schema.equals(other.schema, check_metadata=True)
    facts = [open_generation(shard, one, schema).manifest for one in (mine, theirs)]
    assert facts[0].schema == facts[1].schema
    assert [(one.version, one.storage_version) for one in facts] == [(1, version)] * 2
    (left,), (right,) = (one.fragments for one in facts)
    assert left.physical_rows == right.physical_rows
    assert left.files[0].fields == right.files[0].fields
    if kind == "none":
        assert not Path(folders[0], KEYS).exists()
        assert mine.primary_key_bytes is None
        return
    assert left.deletion_file is not None
    assert right.deletion_file is not None
    assert left.deletion_file.num_deleted_rows == right.deletion_file.num_deleted_rows
    for name in ("page_data", "page_lookup"):
        mine_keys, keys = (read_keys(folder, name) for folder in folders)
        assert mine_keys == keys
        metadata = dict(mine_keys.schema.metadata)
        assert metadata.pop(b"lancekit:checksums")
        assert metadata == (keys.schema.metadata or {})
        assert mine_keys.schema.equals(keys.schema)
    assert Path(folders[0], "bloom_filter.bin").stat().st_size == (
        Path(folders[1], "bloom_filter.bin").stat().st_size
    )


def test_the_reference_goes_on_from_ours(tmp_path: Path) -> None:
    ds = with_shards(tmp_path)
    with ds.mem_wal_writer(SHARD):
        pass
    shard, schema = opened(tmp_path), schema_of(tmp_path)
    batches = logged(rows(1, 7, 1, 2), wal_schema(schema), dead=1)
    written = write_generation(shard, schema, batches, 1, "2.2")

    def flushed(found: ShardManifest) -> ShardManifest:
        return replace(found, sstables=(*found.sstables, written), current_generation=2)

    change(shard, 1, flushed)
    writer = ds.mem_wal_writer(SHARD)
    writer.put(rows(9))
    found = writer.lsm_scanner().to_table().sort_by("id")
    assert found.cast(rows(1).schema) == rows(1, 3, 7, 9)
    writer.close()
    assert [one.generation for one in newest(tmp_path).sstables] == [1, 2]
    snap = lance.mem_wal.ShardSnapshot(SHARD).with_current_generation(2)
    snap.with_sstable(1, written.path)
    planner = lance.mem_wal.LsmPointLookupPlanner(ds, [snap])
    answers = [
        planner.plan_lookup(pa.array([key], pa.int64())).to_table()["id"].to_pylist()
        for key in (1, 2, 3, 7, 8)
    ]
    assert answers == [[1], [], [3], [7], []]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    schema = LanceSchema.from_arrow(KEYED["number"])
    batches = logged(random_rows(KEYED["number"], 9, 1), wal_schema(schema))
    shard = shard_of(LocalStore(tmp_path), uuid.UUID(SHARD))
    with pytest.raises(InvalidArgumentError, match="no rows"):
        write_generation(shard, schema, [batches[0].slice(0, 0)], 1, "2.2")
    assert shard.store.list_tree() == []
    calls = Faults()
    write_generation(failing(shard, calls), schema, batches, 1, "2.2")
    shard.store.delete_tree("")
    for number in range(1, len(calls.calls) + 1):
        try:
            written = write_generation(failing(shard, Faults(number)), schema, batches, 1, "2.2")
        except StorageError:
            assert shard.store.list_tree() == [], calls.calls[number - 1]
        else:
            assert calls.calls[number - 1].kind in {"list_names", "read", "put_hint"}
            assert open_generation(shard, written, schema).version == 1
            shard.store.delete_tree("")


def failing(shard: Shard, faults: Faults) -> Shard:
    return Shard(FaultyStore(shard.store, faults), shard.id)


def test_one_that_is_gone_is_named(tmp_path: Path) -> None:
    shard = shard_of(LocalStore(tmp_path), uuid.UUID(SHARD))
    schema = LanceSchema.from_arrow(pa.schema([("id", pa.int64())]))
    with pytest.raises(CorruptFileError, match=r"Generation 3 .*does not exist"):
        open_generation(shard, SsTable(3, "0a1b2c3d_gen_3"), schema)
    with pytest.raises(CorruptFileError, match="is not a folder of generation 3"):
        open_generation(shard, SsTable(3, "../../x"), schema)
