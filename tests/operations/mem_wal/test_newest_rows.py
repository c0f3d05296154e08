"""Which rows of generations count, and in which columns they are read."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lancekit._format.schema import LanceSchema
from lancekit._operations.mem_wal.generation import open_generation
from lancekit._operations.mem_wal.newest_rows import GenerationRows, NewestRows, seen_in
from lancekit._shards.manifests import latest
from lancekit._shards.schema import generation_schema, shard_of
from lancekit._storage.local import LocalStore
from lancekit._versions.branch_location import open_location
from lancekit._versions.snapshot import load_snapshot
from tests.support.mem_wal_model import SCHEMA, table_of, write_with_pylance

ONE = uuid.UUID(int=1)


def newest(path: Path, table: Any) -> NewestRows:
    """Return the newest rows of all generations of a shard, in the order of their numbers."""
    shard = shard_of(LocalStore(path), ONE)
    manifest = latest(shard)
    schema = LanceSchema.from_arrow(table.schema)
    listed = manifest.sstables if manifest else ()
    generations = [open_generation(shard, one, schema) for one in listed]
    return GenerationRows.read(generations, schema).newest()


def test_the_last_row_of_each_key(tmp_path: Path) -> None:
    ds = lance.write_dataset(table_of({}), str(tmp_path / "t"), schema=SCHEMA)
    ds.initialize_mem_wal(unsharded=True)
    write_with_pylance(ds, str(ONE), {1: (1.0, "a"), 2: (2.0, "b"), 3: (3.0, None)}, [2])
    write_with_pylance(ds, str(ONE), {2: (20.0, "c"), 4: (4.0, "")}, [1, 9])
    write_with_pylance(ds, str(ONE), {4: (40.0, "d"), 5: (None, "e")}, [5])
    found = newest(tmp_path / "t", ds)
    rows = {3: (3.0, None), 2: (20.0, "c"), 4: (40.0, "d")}
    assert found.reader().read_all().equals(table_of(rows))
    assert found.reader().read_all().num_rows == found.num_rows == 3
    assert sorted(found.deleted["id"].to_pylist()) == [1, 5, 9]


def test_rows_without_a_key_all_count(tmp_path: Path) -> None:
    ds = lance.write_dataset(pa.table({"x": [1]}), str(tmp_path / "t"))
    ds.initialize_mem_wal(unsharded=True)
    for _ in range(2):
        with ds.mem_wal_writer(str(ONE)) as writer:
            writer.put(pa.table({"x": [7, 7]}))
    found = newest(tmp_path / "t", ds)
    assert found.reader().read_all()["x"].to_pylist() == [7, 7, 7, 7]
    assert found.deleted.num_columns == 0


def test_no_generations(tmp_path: Path) -> None:
    ds = lance.write_dataset(table_of({1: (1.0, "")}), str(tmp_path / "t"))
    found = newest(tmp_path / "t", ds)
    assert (found.num_rows, found.deleted.num_rows) == (0, 0)
    assert found.reader().read_all().schema == SCHEMA


@pytest.mark.parametrize("rows", [1, 40_000])
def test_a_generation_without_marks(tmp_path: Path, rows: int) -> None:
    """What is not said to be deleted lives."""
    table = table_of({key: (float(key), None) for key in range(rows)})
    ds = lance.write_dataset(table, str(tmp_path / "t"))
    snapshot = load_snapshot(open_location(ds.uri), 1)
    found = GenerationRows.read([snapshot], snapshot.manifest.schema).newest()
    assert found.reader().read_all().equals(table)


def test_columns_go_by_the_ids_of_fields() -> None:
    table = LanceSchema.from_arrow(pa.schema({"a": pa.int64(), "b": pa.int32()}))
    generation = generation_schema(table)
    assert [f.id for f in generation.fields] == [0, 1, 2]
    later = LanceSchema.from_arrow(
        pa.schema(
            {
                "renamed": pa.int64(),
                "b": pa.float32(),  # of another type: another column under the id
                "new": pa.bool_(),  # has the id of the mark
                "nested": pa.struct({"x": pa.int64(), "y": pa.int64()}),
            }
        )
    )
    seen = seen_in(later, generation)
    ids = {f.name: f.id for f in seen.walk()}
    assert ids["renamed"] == 0
    assert ids["_tombstone"] == 2
    others = {ids[name] for name in ("b", "new", "nested", "x", "y")}
    assert len(others) == 5
    assert others.isdisjoint({0, 1, 2})
    nested = seen.field("nested")
    assert {child.parent_id for child in nested.children} == {nested.id}
