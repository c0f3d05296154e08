"""Blobs that no data file owns: which objects the data files of a fragment name.

See docs/format/data-files.md, 10.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lancekit.format.arrow_parts import child_of, flattened
from lancekit.format.field_marks import is_blob
from lancekit.format.fragment import columns_of_files
from lancekit.format.schema import LanceField
from lancekit.scan.fragments.blobs import MANAGED_KINDS, blob_view, is_stored_v2
from lancekit.scan.fragments.reader import FragmentReader
from lancekit.scan.fragments.source import FragmentSource

__all__ = ["ManagedBlob", "managed_blobs"]

#: rows whose descriptors are in memory at once
_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class ManagedBlob:
    """The object of a blob: its path below a base.

    The base is that of a data file, by its place in the fragment, or one with an id of its own.
    """

    path: str
    file_index: int
    base_id: int | None


def managed_blobs(source: FragmentSource) -> set[ManagedBlob]:
    """Return the objects that the blobs of a fragment's live rows lie in."""
    source = replace(source, schema=blob_view(source.schema))
    fields = [f for f in source.schema.fields if any(map(is_stored_v2, f.walk()))]
    reader = FragmentReader(source)
    files = columns_of_files(source.fragment)
    found: set[ManagedBlob] = set()
    for start in range(0, reader.physical_rows, _ROWS):
        rows = reader.live_between(start, min(start + _ROWS, reader.physical_rows))
        table = reader.read([field.name for field in fields], rows)
        for field in fields:
            for chunk in table.column(field.name).chunks:
                for blob, descriptors in _descriptors(field, chunk):
                    places = [place for place, ids in enumerate(files) if blob.id in ids]
                    found.update(_managed(row, places[0]) for row in descriptors if places)
    return found


def _managed(row: dict[str, Any], file_index: int) -> ManagedBlob:
    base_id = row["blob_id"] if row["kind"] == MANAGED_KINDS[1] else None
    return ManagedBlob(row["blob_uri"], file_index, base_id)


def _descriptors(
    field: LanceField, values: pa.Array
) -> Iterator[tuple[LanceField, list[dict[str, Any]]]]:
    """Yield the blob fields in a field, each with the descriptors of its managed blobs."""
    if is_blob(field.metadata):
        rows = values.to_pylist() if is_stored_v2(field) else []
        yield field, [row for row in rows if row is not None and row["kind"] in MANAGED_KINDS]
    elif isinstance(values, pa.StructArray):
        for child in field.children:
            yield from _descriptors(child, child_of(values, child.name))
    else:
        for child in field.children:
            yield from _descriptors(child, flattened(values))
