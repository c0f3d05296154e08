"""Writing blobs: values on their own in the file, descriptors in the column.

See docs/format/data-files.md, 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit._file.encodings import packed_struct
from lancekit._file.encodings.choose import EncodedValues
from lancekit._file.encodings.chunk_buffers import Part, chunk_counts, interleave
from lancekit._file.kernels.arrow_buffers import Encoded, null_flags, string_buffers
from lancekit._file.kernels.memory import Bytes, Ints, starts_of
from lancekit._file.layouts.blob_descriptors import DESCRIPTOR_V2
from lancekit._file.layouts.choose import encode_page_of
from lancekit._file.layouts.miniblock_encode import mini_block
from lancekit._file.layouts.v20_encode import encode_page
from lancekit._file.structure.repdef_build import Shredded, shred
from lancekit._format.arrow_parts import child_of
from lancekit._format.extensions import BLOB_INPUT
from lancekit._format.pb import encodings_v21_pb2 as pb

__all__ = [
    "encode_blobs",
    "encode_blobs_20",
    "encode_blobs_v2",
    "unified",
]

#: Where blobs start.
_ALIGNMENT = 64

_ROWS_PER_CHUNK = 512

#: Kinds of descriptors: the bytes are in this file, or at a place outside of the dataset.
_INLINE, _EXTERNAL = 0, 3

#: Writes bytes to an aligned place of the file, and returns it.
Place = Callable[[Bytes], int]


def unified(array: pa.Array) -> pa.Array:
    """Return blobs as structs of data, uri, position and size; without data and uri they are null.

    They come as large binary values, or as structs that may lack the last two.
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
    """Encode large binary values of version 2.0."""
    positions, sizes = _placed(array, place)
    null = null_flags(array)
    if null is not None:
        positions[null] = 1
    parts = [pa.array(positions, pa.uint64()), pa.array(sizes, pa.uint64())]
    yield encode_page(pa.StructArray.from_arrays(parts, ["position", "size"]))


def encode_blobs(array: pa.Array, depth: int, *, large: bool, place: Place) -> Iterator[Encoded]:
    """Encode large binary values, below structs perhaps, of versions 2.1 and 2.2."""
    page = shred(array, depth)
    positions, sizes = _placed(page.values, place)
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
    inner = mini_block(plain, values, large=large)
    message = pb.PageLayout(blob=pb.BlobLayout(inner_layout=inner.message, layers=page.layers))
    yield Encoded(page.rows, message, inner.buffers)


def encode_blobs_v2(array: pa.Array, depth: int, *, place: Place) -> Iterator[Encoded]:
    """Encode blobs that `unified` made, of version 2.2."""
    page = shred(array, depth)
    if page.values.null_count < len(page.values):
        page = replace(page, values=_descriptors(page.values, place))
    encoded = encode_page_of(page, large=True, options={})
    if encoded is not None:
        yield encoded


def _descriptors(values: pa.Array, place: Place) -> pa.StructArray:
    data, uri, first, length = (child_of(values, i) for i in range(4))
    null = null_flags(values)
    outside = data.is_null().to_numpy(zero_copy_only=False)
    positions, sizes = _placed(data, place)
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


def _numbers(values: pa.Array) -> Any:
    return values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _placed(values: pa.Array, place: Place) -> tuple[Ints, Ints]:
    """Write values; return where each starts, and its size: both 0 for nulls and empty ones."""
    offsets, data = string_buffers(values)
    sizes = np.diff(offsets).astype(np.int64)
    if len(data) == 0:
        return np.zeros(len(sizes), np.int64), sizes
    padding = -sizes % _ALIGNMENT
    zeros = np.zeros(int(padding.sum()), np.uint8)
    start = place(interleave([Part(data, sizes), Part(zeros, padding)]))
    positions = start + starts_of(sizes + padding)[:-1]
    return np.where(sizes > 0, positions, 0), sizes
