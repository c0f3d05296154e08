"""Tables of a legacy file (0.1), in the form of the tables of later versions.

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

#: version of legacy files in manifests
LEGACY = (0, 2)
#: position of the metadata; major and minor version, 0.1 or 0.2; magic bytes
LEGACY_FOOTER = struct.Struct("<Q2H4s")

_LENGTH = struct.Struct("<I")
_PAGE_BYTES = 16


class LegacyTables(NamedTuple):
    """Schema with the number of rows, the schema's place, and the places of the fields' pages."""

    descriptor: schema_pb2.FileDescriptor
    schema: tuple[int, int]
    columns: tuple[tuple[int, int], ...]


def legacy_tables(read: Callable[[int, int], Buffer], size: int, name: str) -> LegacyTables:
    """Read the tables of a legacy file.

    A field's part of the page table takes the place of column metadata.  Fields are numbered from
    the file's lowest id on.

    read: returns `length` bytes from `position` on.
    size: the file's size in bytes.
    name: the file's name in errors.

    Raises Damaged, Unsupported: call it within `located`.
    """
    metadata = legacy_metadata(read, size, name)
    offsets = metadata.batch_offsets
    if not metadata.manifest_position:
        raise Unsupported("a file of 0.1 without a schema")
    place = _message(read, metadata.manifest_position)
    manifest = parse(table_pb2.Manifest, read(*place), f"Schema of {name}")
    schema = schema_pb2.Schema(fields=manifest.fields, metadata=manifest.schema_metadata)
    ids = [field.id for field in manifest.fields]
    require(ids and min(ids) >= 0, "there is no schema")
    first, length = metadata.page_table_position, _PAGE_BYTES * (len(offsets) - 1)
    count = max(ids) - min(ids) + 1
    require(first + count * length <= size, "the page table is truncated")
    # the first releases began the table at field id 0, even if the file does not have that field
    leaf = min((f.id for f in manifest.fields if f.logical_type != "struct"), default=min(ids))
    of_leaf = memoryview(read(first + length * (leaf - min(ids)), length))
    if offsets[-1] and not any(of_leaf):
        first += length * min(ids)
        require(first + count * length <= size, "the page table is truncated")
    return LegacyTables(
        schema_pb2.FileDescriptor(schema=schema, length=offsets[-1]),
        place,
        tuple((first + number * length, length) for number in range(count)),
    )


def legacy_metadata(
    read: Callable[[int, int], Buffer], size: int, name: str
) -> schema_pb2.Metadata:
    """Read the message with the other positions and the number of rows of each batch."""
    (at, *_) = LEGACY_FOOTER.unpack(read(size - LEGACY_FOOTER.size, LEGACY_FOOTER.size))
    metadata = parse(schema_pb2.Metadata, read(*_message(read, at)), f"Metadata of {name}")
    offsets = metadata.batch_offsets
    require(len(offsets) > 1 and offsets[0] == 0, "there are no batches")
    require(all(map(int.__le__, offsets, offsets[1:])), "the batches are out of order")
    return metadata


def _message(read: Callable[[int, int], Buffer], at: int) -> tuple[int, int]:
    """Return position and size of a message that follows its length."""
    (length,) = _LENGTH.unpack(read(at, _LENGTH.size))
    return at + _LENGTH.size, length
