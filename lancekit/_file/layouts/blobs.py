"""Blobs: values outside of pages, whose column has descriptors with their positions.

See docs/format/data-files.md, 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import numpy as np
import pyarrow as pa

from lancekit._arrow_values import numbers_of
from lancekit._file.container.footer import Page
from lancekit._file.encodings import packed_struct
from lancekit._file.encodings.request import (
    EncodedValues,
    EncodingRequest,
    Part,
    chunk_counts,
    interleave,
)
from lancekit._file.kernels import bits
from lancekit._file.kernels.arrow_buffers import Encoded, null_flags, string_buffers
from lancekit._file.kernels.faults import Unsupported, require
from lancekit._file.kernels.memory import Bytes, Ints, starts_of
from lancekit._file.kernels.row_selection import Rows
from lancekit._file.kernels.values import with_validity
from lancekit._file.layouts.blob_descriptors import DESCRIPTOR, DESCRIPTOR_V2
from lancekit._file.layouts.choose import encode_page_of
from lancekit._file.layouts.field_tree import Leaf, PageDecoder
from lancekit._file.layouts.miniblock_encode import mini_block
from lancekit._file.layouts.repdef import Layers, Levels
from lancekit._file.layouts.repdef_build import Shredded, shred
from lancekit._file.layouts.v20_encode import encode_page
from lancekit._format.arrow_parts import child_of, strings_of
from lancekit._format.extensions import BLOB_INPUT
from lancekit._format.pb import encodings_v21_pb2 as pb
from lancekit._storage.base import RandomAccess

#: Alignment of the start of each blob, in bytes.
_ALIGNMENT = 64

_ROWS_PER_CHUNK = 512

#: Kinds of descriptors: the bytes are in this file, or outside of the dataset.
_INLINE, _EXTERNAL = 0, 3

#: Function that writes bytes at an aligned position of the file and returns the position.
Place = Callable[[Bytes], int]


def unified(array: pa.Array) -> pa.Array:
    """Convert blobs to structs of data, uri, position and size, null without data and uri.

    The input is large binary values, or structs that may lack position and size.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    given = {"data": array}
    if isinstance(array, pa.StructArray):
        given = {field.name: array.field(i) for i, field in enumerate(array.type)}
    count = len(array)
    parts = [
        given.get(field.name, pa.nulls(count, field.type)).cast(field.type) for field in BLOB_INPUT
    ]
    gone = array.is_null().to_numpy(zero_copy_only=False)
    lacking = (parts[0].is_null().to_numpy(zero_copy_only=False)) & (
        parts[1].is_null().to_numpy(zero_copy_only=False)
    )
    return pa.StructArray.from_arrays(parts, fields=list(BLOB_INPUT), mask=pa.array(gone | lacking))


def encode_blobs_20(array: pa.Array, *, place: Place) -> Iterator[Encoded]:
    """Encode blobs of version 2.0, which are large binary values."""
    positions, sizes = _write_values(array, place)
    null = null_flags(array)
    if null is not None:
        positions[null] = 1
    parts = [pa.array(positions, pa.uint64()), pa.array(sizes, pa.uint64())]
    yield encode_page(pa.StructArray.from_arrays(parts, ["position", "size"]))


def encode_blobs(
    array: pa.Array, depth: int, *, large_chunks: bool, place: Place
) -> Iterator[Encoded]:
    """Encode large binary values, possibly nested in structs, of versions 2.1 and 2.2."""
    page = shred(array, depth)
    positions, sizes = _write_values(page.values, place)
    if page.definition is not None:
        positions |= page.definition.astype(np.int64) << 16
    rows = np.stack((positions, sizes), axis=1)
    counts = chunk_counts(len(rows), _ROWS_PER_CHUNK)
    values = EncodedValues(
        encoding=packed_struct.message([8, 8]),
        counts=counts,
        buffers=[[Part(rows.view(np.uint8).reshape(-1), counts * 16)]],
    )
    plain = Shredded(rows=page.rows, layers=(pb.ALL_VALID_ITEM,), values=page.values)
    inner = mini_block(plain, values, large_chunks=large_chunks)
    message = pb.PageLayout(
        blob=pb.BlobLayout(inner_layout=cast("pb.PageLayout", inner.message), layers=page.layers)
    )
    yield Encoded(page.rows, message, inner.buffers)


def encode_blobs_v2(array: pa.Array, depth: int, *, place: Place) -> Iterator[Encoded]:
    """Encode blobs of version 2.2, converted by `unified`."""
    page = shred(array, depth)
    if page.values.null_count < len(page.values):
        page = replace(page, values=_descriptors(page.values, place))
    encoded = encode_page_of(page, EncodingRequest(large_chunks=True, options={}))
    if encoded is not None:
        yield encoded


def _descriptors(values: pa.Array, place: Place) -> pa.StructArray:
    data, uri, first, length = (child_of(values, i) for i in range(4))
    null = null_flags(values)
    outside = data.is_null().to_numpy(zero_copy_only=False)
    positions, sizes = _write_values(data, place)
    positions = np.where(outside, _numbers(first), positions)
    sizes = np.where(outside, _numbers(length), sizes)
    columns = [
        np.where(outside, _EXTERNAL, _INLINE),
        positions,
        sizes,
        np.zeros(len(values), np.int64),
        uri.fill_null(""),
    ]
    fields = list(DESCRIPTOR_V2)
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column).cast(field.type)
        for column, field in zip(columns, fields, strict=True)
    ]
    mask = None if null is None else pa.array(null)
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def _numbers(values: pa.Array) -> Ints:
    return values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _write_values(values: pa.Array, place: Place) -> tuple[Ints, Ints]:
    """Write values; return position and size of each, both 0 for null and empty values."""
    offsets, data = string_buffers(values)
    sizes = np.diff(offsets).astype(np.int64)
    if len(data) == 0:
        return np.zeros(len(sizes), np.int64), sizes
    padding = -sizes % _ALIGNMENT
    zeros = np.zeros(int(padding.sum()), np.uint8)
    start = place(interleave([Part(data, sizes), Part(zeros, padding)]))
    positions = start + starts_of(sizes + padding)[:-1]
    return np.where(sizes > 0, positions, 0), sizes


# ---- reading of blobs
#
# See docs/format/data-files.md, 10.
#
# A blob column of the first kind (``large_binary`` with metadata) is read as the requested type:
# bytes, or descriptors if the field has type `DESCRIPTOR`.  A column of the second kind is a packed
# struct and needs no special code.


class BlobPage:
    """Decoder of one 2.1+ page of descriptors; nulls are descriptors of size 0."""

    def __init__(self, page: Page, inner: PageDecoder, layers: Layers, kind: pa.DataType) -> None:
        self._page = page
        self._inner = inner
        self._layers = layers
        self._kind = kind
        if layers.lists:
            raise Unsupported("a list of blobs")

    def leaf(self, rows: Rows) -> Leaf:
        """Return rows as descriptors or as bytes."""
        inner = self._inner.leaf(rows)
        require(inner.levels.definition is None, "descriptors with levels of their own")
        positions, sizes = _parts(inner.values)
        marks = np.where(sizes == 0, positions, 0)
        require((marks & 0xFFFF == 0).all() and (marks < 1 << 32).all(), "an impossible blob")
        definition = (marks >> 16).astype(np.uint16)
        levels = Levels(len(definition), None, definition if definition.any() else None)
        if self._kind == DESCRIPTOR:
            valid = bits.pack(definition == 0)
            parts = [with_validity(child_of(inner.values, place), valid) for place in range(2)]
            values = pa.StructArray.from_arrays(parts, fields=list(DESCRIPTOR))
            return Leaf(values, self._layers, levels)
        return Leaf(_bytes(self._page.source, positions, sizes), self._layers, levels)


def resolve(source: RandomAccess, descriptors: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a 2.0 page's blobs as type ``kind``; position 1 with size 0 is null."""
    positions, sizes = _parts(descriptors)
    valid = (sizes != 0) | (positions != 1)
    values = descriptors if kind == DESCRIPTOR else _bytes(source, positions, sizes)
    return values if valid.all() else with_validity(values, bits.pack(valid))


def _parts(descriptors: pa.Array) -> tuple[Ints, Ints]:
    parts = [numbers_of(child_of(descriptors, place)).astype(np.int64) for place in range(2)]
    require(all((part >= 0).all() for part in parts), "an impossible blob")
    return parts[0], parts[1]


def _bytes(source: RandomAccess, positions: Ints, sizes: Ints) -> pa.Array:
    """Read the bytes of blobs with one request."""
    wanted = np.flatnonzero(sizes)
    end = source.size()
    require(
        (positions[wanted] <= end - sizes[wanted]).all() and int(sizes.sum()) <= end,
        "a blob is outside of the file",
    )
    places = list(zip(positions[wanted].tolist(), sizes[wanted].tolist(), strict=True))
    parts = source.read_many(places) if places else []
    data = b"".join(memoryview(part) for part in parts)
    return strings_of(starts_of(sizes), data)
