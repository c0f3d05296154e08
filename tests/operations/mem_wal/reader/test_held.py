"""Rows in memory, read as a fragment."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.mem_wal.reader.aside_rows import memory_fragment
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._shards.schema import wal_schema
from tests.support.shards import ROWS_SCHEMA, rows


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_rows_are_read_by_ids_as_they_are(tmp_path: Path, version: str) -> None:
    ds = lk.write_dataset(rows(1), tmp_path / "d", data_storage_version=version)
    base = ds._snapshot
    schema = wal_schema(base.manifest.schema)
    given = rows(*range(50)).append_column("_tombstone", pa.array([False] * 50))
    batches = [
        pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        for batch in given.to_batches(max_chunksize=20)
    ]
    source = pickle.loads(pickle.dumps(memory_fragment(batches, base, "the log")))
    reader = FragmentReader(source)
    assert reader.read(["id", "s", "x"], range(50)).to_pylist() == rows(*range(50)).to_pylist()
    assert reader.read(["s.b"], range(3, 5)).to_pydict() == {"s.b": ["b3", "b4"]}
    assert source.num_rows == 50
    assert ROWS_SCHEMA.names == source.schema.names[:-1]
