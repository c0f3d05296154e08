"""Blobs: values stored somewhere in the file, described by their place.

See docs/format/data-files.md, 10.

A blob column of the first kind (``large_binary`` with metadata) is read as what is asked for: as
bytes, or as descriptors if the field is of type `DESCRIPTOR`.  The second kind is a packed struct
and needs nothing special.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lancekit._arrow_values import numbers_of
from lancekit._file.container.footer import Page
from lancekit._file.kernels import bits
from lancekit._file.kernels.faults import Unsupported, require
from lancekit._file.kernels.memory import starts_of
from lancekit._file.kernels.row_selection import Rows
from lancekit._file.kernels.values import storage_type, with_validity
from lancekit._file.layouts.blob_descriptors import DESCRIPTOR
from lancekit._file.structure.field_tree import Leaf, PageDecoder
from lancekit._file.structure.repdef import Layers, Levels
from lancekit._format.arrow_parts import child_of
from lancekit._format.field_marks import is_blob, texts
from lancekit._storage.base import RandomAccess

__all__ = ["BlobPage", "as_descriptors", "resolve"]


def as_descriptors(field: pa.Field) -> pa.Field:
    """Return the field to ask for in order to get descriptors instead of bytes, at any depth."""
    kind = field.type
    if is_blob(texts(field.metadata)) and pa.types.is_large_binary(storage_type(kind)):
        return field.with_type(DESCRIPTOR)
    if pa.types.is_struct(kind):
        children = [kind.field(place) for place in range(kind.num_fields)]
        return field.with_type(pa.struct([as_descriptors(child) for child in children]))
    return field


class BlobPage:
    """Decoder of one 2.1+ page of descriptors; nulls are descriptors of size 0 somewhere."""

    def __init__(self, page: Page, inner: PageDecoder, layers: Layers, kind: pa.DataType) -> None:
        self._page = page
        self._inner = inner
        self._layers = layers
        self._kind = kind
        if layers.lists:
            raise Unsupported("a list of blobs")

    def leaf(self, rows: Rows) -> Leaf:
        """Return rows, as descriptors or as bytes."""
        inner = self._inner.leaf(rows)
        require(inner.levels.definition is None, "descriptors with levels of their own")
        positions, sizes = _parts(inner.values)
        marks = np.where(sizes == 0, positions, 0)
        require((marks & 0xFFFF == 0).all() and (marks < 1 << 32).all(), "an impossible blob")
        definition = (marks >> 16).astype(np.uint16)
        levels = Levels(len(definition), None, definition if definition.any() else None)
        if self._kind == DESCRIPTOR:
            return Leaf(inner.values, self._layers, levels)
        return Leaf(_bytes(self._page.source, positions, sizes), self._layers, levels)


def resolve(source: RandomAccess, descriptors: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a 2.0 page's descriptors as they were asked for: null where position is 1, size 0."""
    positions, sizes = _parts(descriptors)
    valid = (sizes != 0) | (positions != 1)
    values = descriptors if kind == DESCRIPTOR else _bytes(source, positions, sizes)
    return values if valid.all() else with_validity(values, bits.pack(valid))


def _parts(descriptors: pa.Array) -> tuple[Any, Any]:
    parts = [numbers_of(child_of(descriptors, place)).astype(np.int64) for place in range(2)]
    require(all((part >= 0).all() for part in parts), "an impossible blob")
    return parts[0], parts[1]


def _bytes(source: RandomAccess, positions: Any, sizes: Any) -> pa.Array:
    """Read the bytes of blobs."""
    wanted = np.flatnonzero(sizes)
    end = source.size()
    require(
        (positions[wanted] <= end - sizes[wanted]).all() and int(sizes.sum()) <= end,
        "a blob lies outside of the file",
    )
    places = list(zip(positions[wanted].tolist(), sizes[wanted].tolist(), strict=True))
    parts = source.read_many(places) if places else []
    data = b"".join(memoryview(part) for part in parts)
    offsets = starts_of(sizes)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)
