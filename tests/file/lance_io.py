"""Writing and reading data files with lancekit and with the reference, in memory and on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance.file
import pyarrow as pa

from lancekit._file.reader import FileReader
from lancekit._file.writer import FileWriter
from tests.support.memory_file import MemoryFile, MemorySink


def write_ours(table: pa.Table, version: str = "2.2", **options: Any) -> bytes:
    """Return the bytes of a file that lancekit wrote, one batch for each of the table's chunks."""
    sink = MemorySink()
    writer = FileWriter(sink, table.schema, version=version, **options)
    for batch in table.to_batches():
        writer.write(batch)
    summary = writer.finish()
    assert sink.data is not None
    assert (summary.num_rows, summary.size_bytes) == (table.num_rows, len(sink.data))
    return sink.data


def write_reference(table: pa.Table, path: Path, version: str) -> bytes:
    """Return the bytes of a file that the reference wrote."""
    with lance.file.LanceFileWriter(str(path), table.schema, version=version) as writer:
        writer.write_batch(table)
    return path.read_bytes()


def read_reference(data: bytes, path: Path) -> pa.Table:
    """Return what the reference reads from the bytes of a file."""
    path.write_bytes(data)
    reader = lance.file.LanceFileReader(str(path))
    return reader.read_all(batch_size=1 << 20).to_table()


def open_ours(data: bytes, name: str = "memory.lance") -> FileReader:
    """Open bytes with lancekit."""
    return FileReader.open(MemoryFile(data, name))
