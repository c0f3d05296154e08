"""Pages that go from one file into another as they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lancekit._file.reader import FileReader
from lancekit._file.writer import FileWriter
from lancekit._pipeline.compact_rows import encoded, pages_of
from lancekit._storage.local import LocalStore
from lancekit.options import options


def put(store: LocalStore, name: str, rows: pa.RecordBatch, version: str = "2.1") -> FileReader:
    writer = FileWriter(store.create(name), rows.schema, version=version)
    writer.write(rows)
    writer.finish()
    return FileReader.open(store.open(name))


def test_one_file_of_the_pages_of_two_and_rows(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    parts = [
        pa.record_batch({"text": [f"{name}{i}" for i in range(300)], "n": list(range(300))})
        for name in "ab"
    ]
    readers = [put(store, f"{at}.lance", part) for at, part in enumerate(parts)]
    found = [pages_of(reader, [0]) for reader in readers]
    copies = [encoded(page) for each in found for page in (each or [[]])[0]]
    assert [copy.rows for copy in copies] == [300, 300]
    writer = FileWriter(store.create("c.lance"), parts[0].schema, version="2.1", encoded=["text"])
    writer.add_pages("text", [copies], 600)
    for part in parts:
        writer.write(part.select(["n"]))
    assert writer.finish().num_rows == 600
    joined = FileReader.open(store.open("c.lance"))
    assert joined.read(joined.columns).equals(pa.Table.from_batches(parts))
    assert len(joined.container.pages(0)) == 2
    assert len(joined.container.pages(1)) == 1


@pytest.mark.parametrize("why", ["2.0", "items", "checksums"])
def test_what_is_to_be_read_as_rows(tmp_path: Path, why: str) -> None:
    kind = pa.list_(pa.struct({"a": pa.int64()}), 2) if why == "items" else pa.int64()
    values = [[{"a": 1}, {"a": 2}]] * 3 if why == "items" else [1, 2, 3]
    rows = pa.record_batch([pa.array(values, kind)], ["x"])
    version = {"2.0": "2.0", "items": "2.2"}.get(why, "2.1")
    with options(verify_checksums=why == "checksums"):
        store = LocalStore(tmp_path)
        writer = FileWriter(
            store.create("a.lance"), rows.schema, version=version, checksums=why == "checksums"
        )
        writer.write(rows)
        writer.finish()
        assert pages_of(FileReader.open(store.open("a.lance")), [0]) is None
