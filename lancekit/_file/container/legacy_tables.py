"""The tables of a legacy file, 0.1, in the form that those of later ones have.

See docs/format/legacy.md, 1.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from lancekit._file.kernels.faults import Unsupported, require
from lancekit._format.pb import schema_pb2, table_pb2
from lancekit._format.unknown_fields import parse

if TYPE_CHECKING:
    from collections.abc import Buffer

#: the version, as manifests name it
LEGACY = (0, 2)
#: the position of the metadata; major and minor version, which are 0, 1 or 0, 2; the magic bytes
LEGACY_FOOTER = struct.Struct("<Q2H4s")

_LENGTH = struct.Struct("<I")
_PAGE_BYTES = 16


class LegacyTables(NamedTuple):
    """The schema and the number of rows, where it lies, and where each field's pages are listed."""

    descriptor: schema_pb2.FileDescriptor
    schema: tuple[int, int]
    columns: tuple[tuple[int, int], ...]


def legacy_tables(read: Callable[[int, int], Buffer], size: int, name: str) -> LegacyTables:
    """Read what a legacy file says of itself.

    What takes the place of a column's metadata is the part of the page table that is about one
    field; fields are numbered from the file's lowest id on.

    read: returns bytes from a position on, as many as are asked for.
    size: of the file.
    name: for errors.

    Raises Damaged, Unsupported: to be called inside of `located`.
    """
    metadata = legacy_metadata(read, size, name)
    offsets = metadata.batch_offsets
    if not metadata.manifest_position:
        raise Unsupported("a file of 0.1 that does not hold its schema")
    place = _message(read, metadata.manifest_position)
    manifest = parse(table_pb2.Manifest, read(*place), f"Schema of {name}")
    schema = schema_pb2.Schema(fields=manifest.fields, metadata=manifest.schema_metadata)
    ids = [field.id for field in manifest.fields]
    require(ids and min(ids) >= 0, "there is no schema")
    first, length = metadata.page_table_position, _PAGE_BYTES * (len(offsets) - 1)
    count = max(ids) - min(ids) + 1
    require(first + count * length <= size, "the page table is cut off")
    # the first releases began the table with the field of id 0, whatever is in the file
    leaf = min((f.id for f in manifest.fields if f.logical_type != "struct"), default=min(ids))
    of_leaf = memoryview(read(first + length * (leaf - min(ids)), length))
    if offsets[-1] and not any(of_leaf):
        first += length * min(ids)
        require(first + count * length <= size, "the page table is cut off")
    return LegacyTables(
        schema_pb2.FileDescriptor(schema=schema, length=offsets[-1]),
        place,
        tuple((first + number * length, length) for number in range(count)),
    )


def legacy_metadata(
    read: Callable[[int, int], Buffer], size: int, name: str
) -> schema_pb2.Metadata:
    """Read the message that says where all else is, and how many rows each batch has."""
    (at, *_) = LEGACY_FOOTER.unpack(read(size - LEGACY_FOOTER.size, LEGACY_FOOTER.size))
    metadata = parse(schema_pb2.Metadata, read(*_message(read, at)), f"Metadata of {name}")
    offsets = metadata.batch_offsets
    require(len(offsets) > 1 and offsets[0] == 0, "there are no batches")
    require(all(map(int.__le__, offsets, offsets[1:])), "the batches are out of order")
    return metadata


def _message(read: Callable[[int, int], Buffer], at: int) -> tuple[int, int]:
    """Return where a message lies that has its length in front of it."""
    (length,) = _LENGTH.unpack(read(at, _LENGTH.size))
    return at + _LENGTH.size, length
