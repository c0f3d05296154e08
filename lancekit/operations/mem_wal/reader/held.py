"""Rows of logs and of writers' memory, as fragments: a data file each, in memory.

So all that reads fragments reads them: columns are found by their ids, and filters and searches see
no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from lancekit.errors import CorruptFileError
from lancekit.file.writer import FileWriter
from lancekit.format.fragment import DataFile, Fragment
from lancekit.format.schema import LanceSchema
from lancekit.format.storage_version import DEFAULT_VERSION
from lancekit.pipeline.rows.write import data_file
from lancekit.scan.fragments.source import FragmentSource
from lancekit.shards.schema import generation_schema
from lancekit.storage.base import Bytes, Store
from lancekit.versions.snapshot import FileLocation, Snapshot

__all__ = ["held_file", "held_fragment"]

_NAME = "rows"


class _HeldFile:
    """A `RandomAccess` over bytes in memory."""

    gap = 0
    identity = None

    def __init__(self, data: pa.Buffer, name: str) -> None:
        self._data = data
        self.name = name

    def size(self) -> int:
        return self._data.size

    def read(self, start: int, length: int) -> pa.Buffer:
        if not 0 <= start <= start + length <= self._data.size:
            raise CorruptFileError(f"{self.name} ends before byte {start + length}.")
        return self._data.slice(start, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        return [self.read(start, length) for start, length in ranges]


@dataclass(frozen=True)
class _HeldStore:
    """As much of a store as it takes to read the one file; it can be sent to a worker."""

    data: pa.Buffer
    uri: str

    def open(self, name: str, _size: int | None = None) -> _HeldFile:
        return _HeldFile(self.data, f"{self.uri}/{name}")


class _Memory:
    """A `Sink` that keeps what is written."""

    def __init__(self) -> None:
        self._stream = pa.BufferOutputStream()
        self.data = pa.py_buffer(b"")

    def write(self, data: Bytes) -> None:
        self._stream.write(data)

    def tell(self) -> int:
        return self._stream.tell()

    def close(self) -> None:
        self.data = self._stream.getvalue()

    def abort(self) -> None:
        self._stream.close()


def held_file(
    batches: Sequence[pa.RecordBatch], schema: LanceSchema, base: Snapshot, where: str
) -> tuple[DataFile, FileLocation]:
    """Write rows of a schema to a data file in memory; `base` and `where` as of `held_fragment`."""
    sink = _Memory()
    version = base.manifest.new_file_version
    writer = FileWriter(sink, schema, version=DEFAULT_VERSION if version == "0.1" else version)
    plain = schema.to_arrow()
    for batch in batches:
        writer.write(pa.RecordBatch.from_arrays(batch.columns, schema=plain))
    summary = writer.finish()
    store = cast("Store", _HeldStore(sink.data, where))
    return data_file(_NAME, summary), FileLocation(store, _NAME, summary.size_bytes)


def held_fragment(batches: Sequence[pa.RecordBatch], base: Snapshot, where: str) -> FragmentSource:
    """Return rows in the form that a log has today as a fragment.

    Parameters
    ----------
    batches
        The rows.
    base
        The table.
    where
        What to call them in messages.
    """
    own = generation_schema(base.manifest.schema)
    file, location = held_file(batches, own, base, where)
    return FragmentSource(
        fragment=Fragment(0, (file,), sum(batch.num_rows for batch in batches)),
        files=(location,),
        deletion=None,
        schema=own,
        stable_row_ids=False,
        first_row=0,
        version=base.version,
        line=base.line,
        base_paths=(),
    )
