"""Changes that would orphan rows of shards are refused, with what to do first."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format import operations as ops
from lancekit.errors import InvalidArgumentError
from tests.support.mem_wal_model import SCHEMA, table_of

SHARD = str(uuid.UUID(int=1))
Change = Callable[[Any, str], object]

#: while a shard has rows that no version has
WHILE_WAITING: dict[str, Change] = {
    "restore": lambda m, uri: m.dataset(uri, version=1).restore(),
    "overwrite": lambda m, uri: m.write_dataset(table_of({}), uri, mode="overwrite"),
    "drop the key": lambda m, uri: m.dataset(uri).drop_columns(["id"]),
    "drop the entry": lambda m, uri: m.dataset(uri).drop_index("__lance_mem_wal"),
}
#: as long as there may be shards; so does pylance
ALWAYS: dict[str, Change] = {
    "computed": lambda m, uri: m.dataset(uri).add_columns({"c": "v + 1"}),
    "cast": lambda m, uri: m.dataset(uri).alter_columns({"path": "v", "data_type": pa.float32()}),
    "rename the key": lambda m, uri: m.dataset(uri).alter_columns({"path": "id", "name": "id2"}),
    "not null": lambda m, uri: m.dataset(uri).alter_columns({"path": "v", "nullable": False}),
}
ALLOWED: dict[str, Change] = {
    "column of nulls": lambda m, uri: m.dataset(uri).add_columns(pa.field("d", pa.int32())),
    "rename": lambda m, uri: m.dataset(uri).alter_columns({"path": "v", "name": "w"}),
    "drop": lambda m, uri: m.dataset(uri).drop_columns(["s"]),
    "append": lambda m, uri: m.write_dataset(table_of({90: (1.0, "")}), uri, mode="append"),
    "delete": lambda m, uri: m.dataset(uri).delete("id = 1"),
    "update": lambda m, uri: m.dataset(uri).update({"v": "v + 1"}),
    "compact": lambda m, uri: m.dataset(uri).optimize.compact_files(),
    "index": lambda m, uri: m.dataset(uri).create_scalar_index("id", "BTREE"),
    "config": lambda m, uri: m.dataset(uri).update_config({"a": "b"}),
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Return a table with a row in a log, and whose versions could be gone back to."""
    table = table_of({key: (float(key), str(key)) for key in range(10)})
    ds = lance.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=4)
    ds.initialize_mem_wal(unsharded=True)
    writer = ds.mem_wal_writer(SHARD)
    writer.put(table_of({1: (100.0, "a")}))
    OPEN.append(writer)  # or it would be closed, and flush
    return str(ds.uri)


OPEN: list[Any] = []


@pytest.mark.parametrize("what", WHILE_WAITING)
def test_refused_while_rows_wait(uri: str, what: str) -> None:
    change, before = WHILE_WAITING[what], lk.dataset(uri).version
    files = sorted(str(f) for f in Path(uri, "data").iterdir())
    with pytest.raises(InvalidArgumentError, match=r"rows in its log.*flush=True"):
        change(lk, uri)
    lance.dataset(uri).mem_wal_writer(SHARD).close()
    with pytest.raises(OSError, match=r"generations 1\. Merge them first: ds\.merge_mem_wal\(\)"):
        change(lk, uri)
    assert lk.dataset(uri).version == before
    assert sorted(str(f) for f in Path(uri, "data").iterdir()) == files


def test_refused_before_values_are_computed(uri: str) -> None:
    ds = lk.dataset(uri)
    ds.update({"v": "1e300"})
    called: list[int] = []

    def made(batch: pa.RecordBatch) -> Any:
        called.append(batch.num_rows)
        return {"c": batch["id"]}

    with pytest.raises(InvalidArgumentError, match="with shards cannot be given column 'c'"):
        ds.add_columns(lk.batch_udf(pa.schema({"c": pa.int64()}))(made))
    with pytest.raises(InvalidArgumentError, match="with shards cannot be given column 'c'"):
        ds.merge(pa.table({"id": [1], "c": [1]}), "id")
    with pytest.raises(InvalidArgumentError, match="with shards cannot cast 'v'"):
        ds.alter_columns({"path": "v", "data_type": pa.float32()})  # which 1e300 does not become
    assert not called


def test_an_overwrite_is_refused_before_a_row_is_read(uri: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        raise AssertionError
        yield

    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    with pytest.raises(InvalidArgumentError, match="Overwriting the table would lose rows"):
        lk.write_dataset(reader, uri, mode="overwrite")


def test_undo_and_revert_are_refused(uri: str) -> None:
    with pytest.raises(InvalidArgumentError, match="rows in its log"):
        lk.dataset(uri).undo()
    lk.dataset(uri).delete("id = 3")
    with pytest.raises(InvalidArgumentError, match="Reverting version 3 would lose"):
        lk.dataset(uri).revert(3)


@pytest.mark.parametrize("what", ALWAYS)
def test_refused_as_by_pylance(uri: str, what: str) -> None:
    for library in (lance, lk):
        with pytest.raises(OSError, match=r"MemWAL|shards"):
            ALWAYS[what](library, uri)
    with pytest.raises(InvalidArgumentError, match="drop_index"):
        ALWAYS[what](lk, uri)


def test_allowed_as_by_pylance(tmp_path: Path) -> None:
    table = table_of({key: (float(key), str(key)) for key in range(10)})
    for library in (lance, lk):
        at = str(tmp_path / library.__name__)
        ds = lance.write_dataset(table, at, max_rows_per_file=4)
        ds.initialize_mem_wal(unsharded=True)
        with ds.mem_wal_writer(SHARD) as writer:
            writer.put(table_of({1: (100.0, "a")}))
        for change in reversed(ALLOWED.values()):
            change(library, at)
        assert lance.dataset(at).schema.names == ["id", "w", "d"]


def test_a_commit_by_hand_is_looked_at_too(uri: str) -> None:
    fields = lk.dataset(uri)._snapshot.manifest.schema
    operation = ops.Overwrite(new_schema=fields, fragments=())
    with pytest.raises(InvalidArgumentError, match="Overwriting the table"):
        lk.LanceDataset.commit(uri, operation)
    assert lk.dataset(uri).schema == SCHEMA
