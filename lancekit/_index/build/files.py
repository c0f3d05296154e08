"""The files of a segment, written to a folder of its own (docs/format/indices.md, 5)."""

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

#: what both releases of the reference read
_VERSION = "2.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file of a segment that is to be written.

    `buffers` are bytes of its own, by the keys of the metadata that tell their numbers.
    """

    name: str
    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    metadata: Mapping[str, str] = field(default_factory=dict)
    buffers: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFile:
    """A file of a segment that another one has, too, as it is."""

    name: str
    file: IndexFileReader


#: what a segment is made of
SegmentFile: TypeAlias = NewFile | SharedFile


def segment_folder(uuid: UUID) -> str:
    """Return where the files of a segment are, in the folder of the dataset."""
    return f"{INDICES}/{uuid}"


def write_files(store: Store, uuid: UUID, files: Iterable[SegmentFile]) -> tuple[IndexFile, ...]:
    """Write the files of a segment; if that fails, those that were written are removed."""
    try:
        return tuple(add_files(store, uuid, files))
    except BaseException:
        delete_segment(store, uuid)
        raise


def add_files(
    store: Store, uuid: UUID, files: Iterable[SegmentFile], *, over: bool = False
) -> Iterator[IndexFile]:
    """Write files of a segment that others may write, too; yield what was written.

    With `over` new ones may take the place of what an attempt left that failed.
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
    """Write a file, whose columns may be named as hidden ones are; return its size."""
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
    """Return a schema whose columns may be called as no column of a dataset is, such as _rowid."""
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
