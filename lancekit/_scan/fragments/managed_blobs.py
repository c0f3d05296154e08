"""Managed blobs: blobs in objects that no data file owns, as named by a fragment's data files.

See docs/format/data-files.md, 10.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancekit._format.arrow_parts import child_of, flattened
from lancekit._format.field_marks import is_blob
from lancekit._format.fragment import columns_of_files
from lancekit._format.schema import LanceField
from lancekit._scan.fragments.blobs import MANAGED_KINDS, OUTSIDE_KINDS, blob_view, is_stored_v2
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource

#: rows whose descriptors are in memory at once
_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class ManagedBlob:
    """The object of a managed blob: its path below a base.

    The base belongs to the data file `file_index` of the fragment, or has the id `base_id`.
    """

    path: str
    file_index: int
    base_id: int | None


def managed_blobs(source: FragmentSource) -> set[ManagedBlob]:
    """Return the objects that hold the managed blobs of a fragment's visible rows."""
    return {blob for _, descriptors, at in _columns(source) for blob in _managed(descriptors, at)}


def outside_blobs(source: FragmentSource) -> Iterator[str]:
    """Yield the places of blobs in no file of the dataset: external ones, and those in a base."""
    for _, descriptors, _ in _columns(source):
        paths = child_of(descriptors, "blob_uri")
        yield from (str(paths[row]) for row in _rows_of(descriptors, OUTSIDE_KINDS))


def _columns(source: FragmentSource) -> Iterator[tuple[LanceField, pa.Array, int]]:
    """Yield the blob v2 fields of visible rows, their descriptors, and the data file of each."""
    source = replace(source, schema=blob_view(source.schema))
    fields = [f for f in source.schema.fields if any(map(is_stored_v2, f.walk()))]
    reader = FragmentReader(source)
    files = columns_of_files(source.fragment)
    for start in range(0, reader.physical_rows if fields else 0, _ROWS):
        rows = reader.live_between(start, min(start + _ROWS, reader.physical_rows))
        table = reader.read([field.name for field in fields], rows)
        for field in fields:
            for chunk in table.column(field.name).chunks:
                for blob, descriptors in _descriptors(field, chunk):
                    places = [place for place, ids in enumerate(files) if blob.id in ids]
                    if places:
                        yield blob, descriptors, places[0]


def _managed(descriptors: pa.Array, file_index: int) -> Iterator[ManagedBlob]:
    kinds, rows = child_of(descriptors, "kind"), _rows_of(descriptors, MANAGED_KINDS)
    if not rows:
        return
    paths = child_of(descriptors, "blob_uri").to_pylist()
    ids = child_of(descriptors, "blob_id").to_pylist()
    for row in rows:
        elsewhere = kinds[row].as_py() == MANAGED_KINDS[1]
        yield ManagedBlob(paths[row], file_index, ids[row] if elsewhere else None)


def _rows_of(descriptors: pa.Array, wanted: tuple[int, ...]) -> list[int]:
    kinds = child_of(descriptors, "kind").to_numpy(zero_copy_only=False)
    valid = descriptors.is_valid().to_numpy(zero_copy_only=False)
    found: list[int] = np.flatnonzero(np.isin(kinds, wanted) & valid).tolist()
    return found


def _descriptors(field: LanceField, values: pa.Array) -> Iterator[tuple[LanceField, pa.Array]]:
    """Yield the blob v2 fields in a field, each with its descriptors."""
    if is_blob(field.metadata):
        if is_stored_v2(field):
            yield field, values
    elif isinstance(values, pa.StructArray):
        for child in field.children:
            yield from _descriptors(child, child_of(values, child.name))
    else:
        for child in field.children:
            yield from _descriptors(child, flattened(values))
