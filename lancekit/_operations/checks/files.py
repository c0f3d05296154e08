"""Checks of the data files and index segments that a user's operation names.

One read of a file's end gives its size, rows, columns and types.  Values are not read: a null in a
column that is not nullable is only found by a later read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from lancekit._file.columns.physical import column_owners
from lancekit._file.reader import FileReader
from lancekit._format import names
from lancekit._format.field_marks import is_blob
from lancekit._format.fragment import DataFile
from lancekit._format.index import FRAGMENT_REUSE, IndexMetadata
from lancekit._format.mem_wal.names import MEM_WAL
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._versions.snapshot import FileLocation, Snapshot
from lancekit.errors import CorruptFileError, FormatError, InvalidArgumentError

#: bytes at a file's end; they cover footer, tables, metadata and schema of most files
_TAIL = 1 << 16

#: logical types, and the type with the same storage
_STORED = {
    "list.struct": "list", "large_list": "list", "large_list.struct": "list",
    "large_string": "string", "large_binary": "binary", "json": "binary",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """A data file to check: its location, the schema to read it with, and its number of rows."""

    file: DataFile
    location: FileLocation
    schema: LanceSchema
    rows: int


class _TailBuffered:
    """A readable file whose end is buffered in memory."""

    gap = sys.maxsize
    identity = None

    def __init__(self, location: FileLocation, tail: pa.Buffer, size: int) -> None:
        self._location = location
        self._tail = tail
        self._size = size

    @property
    def name(self) -> str:
        return str(self._location)

    def size(self) -> int:
        return self._size

    def read(self, start: int, length: int) -> pa.Buffer:
        first = self._size - self._tail.size
        if start >= first:
            return self._tail.slice(start - first, length)
        return self._location.store.open(self._location.name, self._size).read(start, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        return [self.read(start, length) for start, length in ranges]


def open_data_file(location: FileLocation, size: int | None = None) -> tuple[FileReader, int]:
    """Open a data file; return its reader and its size.

    size: the expected size in bytes, if known.

    Raises InvalidArgumentError: the file is missing, has another size, or is no data file.
    """
    try:
        tail, found = location.store.tail(location.name, _TAIL)
    except FileNotFoundError:
        raise InvalidArgumentError(
            f"Data file {location} does not exist.",
            hint="Write it into the dataset's folder before the commit.",
            file=str(location),
        ) from None
    if size is not None and found != size:
        raise InvalidArgumentError(
            f"Data file {location} has {found} bytes, not {size}.", file=str(location)
        )
    try:
        reader = FileReader.open(_TailBuffered(location, pa.py_buffer(tail), found))
        _ = reader.lance_schema  # parse it here, to catch its errors
    except FormatError as error:
        raise InvalidArgumentError(
            f"Data file {location} cannot be read: {error.message}", file=str(location)
        ) from error
    return reader, found


def check_file(expected: ExpectedFile) -> None:
    """Raise ``InvalidArgumentError`` if a data file does not match its description."""
    file, location = expected.file, expected.location
    # releases write wrong sizes for legacy files
    reader, _ = open_data_file(location, None if file.is_legacy else file.file_size_bytes)
    if reader.num_rows != expected.rows:
        raise InvalidArgumentError(
            f"Data file {location} has {reader.num_rows} rows, but its fragment has "
            f"{expected.rows}.",
            hint="A data file must also have values for the deleted rows of its fragment.",
            file=str(location),
        )
    if reader.storage_version != file.storage_version:
        raise InvalidArgumentError(
            f"Data file {location} has format {reader.storage_version}, not "
            f"{file.storage_version}.",
            file=str(location),
        )
    count = reader.num_columns
    given = zip(file.fields, file.column_indices, strict=not file.is_legacy)
    pairs = file.columns.items() if file.is_legacy else given
    places = {id_: at for id_, at in pairs if id_ >= 0}
    if outside := [at for at in places.values() if not -1 <= at < count]:
        raise InvalidArgumentError(
            f"Data file {location} has {count} columns and no column {outside[0]}.",
            file=str(location),
        )
    _check_types(expected, reader, places)


@dataclass(frozen=True, slots=True)
class _Column:
    path: tuple[str, ...]
    kinds: tuple[str, ...]
    is_blob: bool


def _columns(schema: LanceSchema) -> Iterator[tuple[LanceField, _Column]]:
    def walk(
        field: LanceField, path: tuple[str, ...], kinds: tuple[str, ...]
    ) -> Iterator[tuple[LanceField, _Column]]:
        path, kinds = (*path, field.name), (*kinds, _stored_as(field.logical_type))
        yield field, _Column(path, kinds, is_blob(field.metadata) or field.id < 0)
        for child in field.children:
            yield from walk(child, path, kinds)

    for top in schema.fields:
        yield from walk(top, (), ())


def _stored_as(logical: str) -> str:
    """Return the storage type of a logical type: equal for types with the same storage."""
    head, _, rest = logical.partition(":")
    if head == "timestamp":
        return f"{head}:{rest.partition(':')[0]}"  # the time zone only affects display
    return _STORED.get(logical, logical)


def _check_types(expected: ExpectedFile, reader: FileReader, places: dict[int, int]) -> None:
    own = reader.stored_schema
    stored = {field.id: column for field, column in _columns(own)}
    owners = dict(column_owners(own, reader.version))
    if len(owners) != reader.num_columns:  # an encoding with its own columns, as of blobs
        return
    read_as = {field.id: column for field, column in _columns(expected.schema)}
    swapped: dict[tuple[str, ...], tuple[str, ...]] = {}
    for id_, at in places.items():
        if at < 0:
            continue
        wanted, found = read_as[id_], stored[owners[at].id]
        if wanted.is_blob or found.is_blob:
            continue
        if wanted.kinds != found.kinds:
            raise InvalidArgumentError(
                f"Data file {expected.location} stores {' of '.join(found.kinds)} in column {at}, "
                f"but field {'.'.join(wanted.path)!r} has type {' of '.join(wanted.kinds)}.",
                hint="Cast the values, and write the file again.",
                file=str(expected.location),
                column=".".join(wanted.path),
            )
        if wanted.path != found.path:
            swapped[wanted.path] = found.path
    if swapped and swapped.keys() == set(swapped.values()):
        name, other = next(iter(swapped.items()))
        raise InvalidArgumentError(
            f"The column list of data file {expected.location} has the wrong order: it assigns the "
            f"values of {'.'.join(other)!r} to {'.'.join(name)!r}.",
            file=str(expected.location),
            column=".".join(name),
        )


# ---- index segments that a user's operation names

#: reserved index names, and how the type URLs of their entries end
_SYSTEM: Mapping[str, str] = {
    FRAGMENT_REUSE: ".FragmentReuseIndexDetails",
    MEM_WAL: ".MemWalIndexDetails",
}


def check_indices(indices: Iterable[IndexMetadata], read: Snapshot) -> None:
    """Raise if new index segments cannot be used.

    Raises InvalidArgumentError: a segment has no files, indexes a field that does not exist, or
        has a name that the format reserves.
    """
    known = {index.uuid for index in read.indices}
    fields = {field.id for field in read.manifest.schema.walk()}
    new = []
    for index in indices:
        if index.name in _SYSTEM:
            if not index.type_url.endswith(_SYSTEM[index.name]):
                raise InvalidArgumentError(
                    f"The name {index.name!r} is reserved for the table format; an index of type "
                    f"{index.type_url or 'unknown'!r} cannot have it.",
                    hint="Give the index another name.",
                    index=index.name,
                )
            continue
        if lost := [id_ for id_ in index.fields if id_ not in fields]:
            raise InvalidArgumentError(
                f"Index {index.name!r} is on field {lost[0]}, which is not in the schema.",
                hint=f"The field ids of the schema are {sorted(fields)}.",
                index=index.name,
            )
        if index.uuid not in known:
            new.append((index.uuid, index.base_id))
    check_index_folders(new, read)


def check_index_folders(segments: Iterable[tuple[UUID, int | None]], read: Snapshot) -> None:
    """Raise ``InvalidArgumentError`` if a segment, given by UUID and base id, has no files."""
    for uuid, base_id in segments:
        try:
            store = read.base_store(base_id)
        except CorruptFileError as error:
            raise InvalidArgumentError(f"Index {uuid}: {error.message}") from error
        if not store.first_names(f"{names.INDICES}/{uuid}").names:
            raise InvalidArgumentError(
                f"Index {uuid} has no files in {store.uri}/{names.INDICES}.",
                hint="Write the index files before the commit.",
                uuid=str(uuid),
            )
