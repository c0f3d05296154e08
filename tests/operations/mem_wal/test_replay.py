"""Entries of a log as the memtables that their writers had."""

from __future__ import annotations

import pyarrow as pa

from lancekit._format.schema import LanceSchema
from lancekit._operations.mem_wal.generation import replayed
from lancekit._shards.entry import Entry
from lancekit._shards.schema import wal_schema

SCHEMA = wal_schema(LanceSchema.from_arrow(pa.schema({"id": pa.int64()})))


def entry(position: int, generation: int | None, *ids: int) -> Entry:
    rows = pa.RecordBatch.from_arrays([pa.array(ids), pa.array([False] * len(ids))], schema=SCHEMA)
    return Entry(position, 1, generation, [rows])


def test_each_generation_has_its_entries() -> None:
    entries = [
        Entry(7, 2, sentinel=True),
        entry(8, None, 1),
        entry(9, 4, 2, 3),
        entry(10, 6, 4),
        Entry(11, 3, sentinel=True),
        entry(12, None, 5),
    ]
    tables = replayed(entries, 4, SCHEMA)
    assert [(t.generation, t.rows, t.entries, t.last_position) for t in tables] == [
        (4, 3, 2, 9),
        (6, 2, 2, 12),
    ]
    assert [row for batch in tables[0].batches for row in batch["id"].to_pylist()] == [1, 2, 3]


def test_an_empty_memtable_takes_the_number_of_the_first_rows() -> None:
    (table,) = replayed([entry(8, 9, 1)], 4, SCHEMA)
    assert (table.generation, table.rows) == (9, 1)


def test_without_rows_there_is_one_to_write_to() -> None:
    (table,) = replayed([Entry(7, 2, sentinel=True), Entry(8, 2, 4, [])], 4, SCHEMA)
    assert (table.generation, table.rows, table.bytes) == (4, 0, 0)
