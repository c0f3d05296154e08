"""Tables that get shards: as by the reference, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.details import details_of
from lancekit._format.mem_wal.names import mem_wal_entry
from lancekit.errors import (
    ColumnNotFoundError,
    IndexExistsError,
    IndexNotFoundError,
    InvalidArgumentError,
    UnsupportedTypeError,
)
from tests.support.shards import SHARD, keyed, rows

TABLE = pa.table(
    {
        "id": pa.array(range(300), pa.int32()),
        "t": ["a b"] * 300,
        "f": [0.5] * 300,
        "b": [True] * 300,
        "v": pa.array([[1.0, 2.0]] * 300, pa.list_(pa.float32(), 2)),
        "l": [[1]] * 300,
        "s": [{"a": 1}] * 300,
    }
)


def both(path: Path, table: pa.Table, **initial: Any) -> list[Any]:
    """Return handles of lancekit on two tables: one that pylance initialized, and ours."""
    lance.write_dataset(table, str(path / "theirs")).initialize_mem_wal(**initial)
    lance.write_dataset(table, str(path / "ours"))
    ours = lk.dataset(path / "ours")
    ours.initialize_mem_wal(**initial)
    return [lk.dataset(path / "theirs"), ours]


@pytest.mark.parametrize(
    "initial",
    [
        {},
        {"maintained_indexes": []},
        {"unsharded": True},
        {"bucket_column": "f", "num_buckets": 1024},
        {"identity_column": "t"},
        {"identity_column": "b"},
        {"identity_column": "id", "durable_write": False, "hnsw_params": {"x": {}}},
    ],
)
def test_entries_are_those_of_the_reference(tmp_path: Path, initial: dict[str, Any]) -> None:
    theirs, ours = both(tmp_path, TABLE, **initial)
    entries = [mem_wal_entry(one._snapshot.indices) for one in (theirs, ours)]
    assert entries[0] is not None
    assert entries[1] is not None
    details = [details_of(one._snapshot.indices) for one in (theirs, ours)]
    assert details[0] == details[1]
    if "hnsw_params" not in initial:  # maps have no order
        assert entries[0].index_details == entries[1].index_details
    same = {"uuid": entries[0].uuid, "created_at": entries[0].created_at}
    same["index_details"] = entries[0].index_details
    assert replace(entries[1], **same) == entries[0]
    assert theirs.mem_wal_index_details() == ours.mem_wal_index_details()
    told = lance.dataset(ours.uri).mem_wal_index_details()
    assert told == ours.mem_wal_index_details()
    assert ours.version == 2


def test_the_reference_writes_to_ours(tmp_path: Path, pylance4: Callable[..., Any]) -> None:
    ours = lk.write_dataset(rows(1, 2), tmp_path)
    ours.initialize_mem_wal(bucket_column="id", num_buckets=4)
    with lance.dataset(str(tmp_path)).mem_wal_writer(SHARD) as writer:
        writer.put(rows(2, 3))
    (found,) = ours.mem_wal_shards()
    assert (found.shard_id, found.spec_id, found.current_generation) == (SHARD, 1, 2)
    pylance4("lance.dataset(arguments['uri']).delete('id = 1'); result = 1", uri=str(tmp_path))
    ours = lk.dataset(tmp_path)
    assert ours.mem_wal_shards() == [found]
    assert ours.to_table() == rows(2)


def test_indices_that_generations_have(tmp_path: Path) -> None:
    ds = lance.write_dataset(TABLE, str(tmp_path))
    for column, kind in (("id", "BTREE"), ("id", "BITMAP"), ("t", "INVERTED"), ("t", "NGRAM")):
        ds.create_scalar_index(column, kind, name=kind)
    ds.create_index("v", "IVF_FLAT", name="VECTOR", num_partitions=1)
    ds.create_scalar_index("s.a", "BTREE", name="NESTED")
    ours = lk.dataset(tmp_path)
    for name in ("BITMAP", "NGRAM", "NESTED"):
        with pytest.raises(OSError, match=name):
            ds.initialize_mem_wal(maintained_indexes=[name])
        with pytest.raises(InvalidArgumentError, match=name):
            ours.initialize_mem_wal(maintained_indexes=[name])
    with pytest.raises(IndexNotFoundError, match="'zz'"):
        ours.initialize_mem_wal(maintained_indexes=["BTREE", "zz"])
    ours.initialize_mem_wal(maintained_indexes=["BTREE", "INVERTED", "VECTOR"])
    told = lance.dataset(str(tmp_path)).mem_wal_index_details()
    assert told["maintained_indexes"] == ["BTREE", "INVERTED", "VECTOR"]
    assert not told["maintain_all_indexes"]


def test_once_and_by_one_of_many(tmp_path: Path) -> None:
    first = lk.write_dataset(rows(1), tmp_path)
    second = lk.dataset(tmp_path)
    first.initialize_mem_wal()
    for handle in (first, second):
        with pytest.raises(IndexExistsError, match="already"):
            handle.initialize_mem_wal(unsharded=True)
    with pytest.raises(OSError, match="already initialized"):
        lance.dataset(str(tmp_path)).initialize_mem_wal()
    assert lk.dataset(tmp_path).version == 2


@pytest.mark.parametrize(
    ("initial", "kind", "says"),
    [
        ({"bucket_column": "id"}, InvalidArgumentError, "num_buckets"),
        ({"num_buckets": 4}, InvalidArgumentError, "num_buckets"),
        ({"identity_column": "id", "unsharded": True}, InvalidArgumentError, "one sharding rule"),
        (
            {"bucket_column": "id", "num_buckets": 0},
            InvalidArgumentError,
            "num_buckets must be .* got 0",
        ),
        ({"bucket_column": "id", "num_buckets": 1025}, InvalidArgumentError, "1025"),
        ({"bucket_column": "zz", "num_buckets": 4}, ColumnNotFoundError, "zz"),
        ({"bucket_column": "l", "num_buckets": 4}, UnsupportedTypeError, "list"),
        ({"identity_column": "f"}, UnsupportedTypeError, "double"),
        ({"max_memtable_rows": 0}, InvalidArgumentError, "max_memtable_rows"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, initial: dict[str, Any], kind: type[Exception], says: str
) -> None:
    ds = lk.write_dataset(TABLE, tmp_path)
    with pytest.raises(kind, match=says):
        ds.initialize_mem_wal(**initial)
    assert ds.mem_wal_index_details() is None
    assert lk.dataset(tmp_path).version == 1


def test_tables_that_cannot_have_shards(tmp_path: Path) -> None:
    schemas = [
        pa.schema({"_tombstone": pa.bool_()}),
        pa.schema([lk.blob_field("b")]),
        keyed(pa.schema({"k": pa.float64()}), "k"),
    ]
    for number, schema in enumerate(schemas):
        ds = lk.write_dataset(schema.empty_table(), tmp_path / str(number))
        with pytest.raises(InvalidArgumentError):
            ds.initialize_mem_wal()


def test_a_column_outside_of_the_key_is_warned_of(tmp_path: Path) -> None:
    ds = lk.write_dataset(TABLE, tmp_path, primary_key="id")
    with pytest.warns(UserWarning, match="not in the primary key"):
        ds.initialize_mem_wal(identity_column="t")
