"""The files of a segment, written to a separate folder (docs/format/indices.md, 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from uuid import UUID

import pyarrow as pa

from lancekit._file.writer import FileWriter
from lancekit._format.index import IndexFile
from lancekit._format.names import INDICES
from lancekit._format.schema import LanceSchema
from lancekit._index.segment import IndexFileReader
from lancekit._storage.base import Sink, Store

#: the file version that both releases of the reference read
_VERSION = "2.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file of a segment that is to be written.

    `buffers` are global buffers, by the metadata keys that get their numbers.
    """

    name: str
    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    metadata: Mapping[str, str] = field(default_factory=dict)
    buffers: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFile:
    """A file that is copied or linked from another segment."""

    name: str
    file: IndexFileReader


#: a file of a segment
SegmentFile: TypeAlias = NewFile | SharedFile


def segment_folder(uuid: UUID) -> str:
    """Return the path of a segment's folder, relative to the dataset."""
    return f"{INDICES}/{uuid}"


def write_files(store: Store, uuid: UUID, files: Iterable[SegmentFile]) -> tuple[IndexFile, ...]:
    """Write the files of a segment; after a failure, those already written are removed."""
    try:
        return tuple(add_files(store, uuid, files))
    except BaseException:
        delete_segment(store, uuid)
        raise


def add_files(
    store: Store, uuid: UUID, files: Iterable[SegmentFile], *, over: bool = False
) -> Iterator[IndexFile]:
    """Write files into a segment's folder that other writers may add to; yield the written files.

    With `over`, they replace files that a failed attempt left.
    """
    create = store.create_over if over else store.create
    for file in files:
        path = f"{segment_folder(uuid)}/{file.name}"
        if isinstance(file, SharedFile):
            if over:
                store.delete(path)
            size = file.file.copy_to(store, path)
        else:
            size = write_file(create(path), file)
        yield IndexFile(file.name, size)


def write_file(sink: Sink, file: NewFile, *, checksums: bool = False) -> int:
    """Write a file, whose columns may have reserved names; return its size."""
    schema = _with_hidden_names(file.schema)
    try:
        writer = FileWriter(sink, schema, version=_VERSION, checksums=checksums)
        numbers = {key: str(writer.add_global_buffer(data)) for key, data in file.buffers.items()}
        for batch in file.batches:
            writer.write(batch)
        return writer.finish({**file.metadata, **numbers}).size_bytes
    except BaseException:
        sink.abort()
        raise


def _with_hidden_names(schema: pa.Schema) -> LanceSchema:
    """Return a schema whose columns may have names that datasets reserve, such as _rowid."""
    numbered = [field.with_name(str(number)) for number, field in enumerate(schema)]
    found = LanceSchema.from_arrow(pa.schema(numbered, schema.metadata))
    named = zip(found.fields, schema.names, strict=True)
    return replace(found, fields=tuple(replace(field, name=name) for field, name in named))


def delete_segment(store: Store, uuid: UUID) -> None:
    """Remove the files of a segment that nothing refers to; best effort, never raises."""
    try:
        store.delete_tree(segment_folder(uuid))
    except OSError:  # left over, until a cleanup removes it
        return
