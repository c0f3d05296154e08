"""Descriptors of blobs: the position and size of each blob, as stored in its column.

See docs/format/data-files.md, 10.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lancekit._format import field_marks as marks
from lancekit._format.schema import LanceField

#: Position and size of a blob in its file, in bytes, in versions before 2.2.
DESCRIPTOR = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])

_PARTS = (
    ("kind", "uint8", pa.uint8()),
    ("position", "uint64", pa.uint64()),
    ("size", "uint64", pa.uint64()),
    ("blob_id", "uint32", pa.uint32()),
    ("blob_uri", "string", pa.string()),
)

#: Blob descriptor of 2.2.
DESCRIPTOR_V2 = pa.struct([pa.field(name, kind, nullable=False) for name, _, kind in _PARTS])


def descriptor_field(field: LanceField) -> LanceField:
    """Return the field that a file of 2.2 stores for a blob field."""
    parts = tuple(
        LanceField(id=-1, name=name, logical_type=logical, nullable=False)
        for name, logical, _ in _PARTS
    )
    metadata = {marks.BLOB: "true", marks.PACKED[0]: "true"}
    return replace(field, metadata=metadata, children=parts)
