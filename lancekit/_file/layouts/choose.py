"""Choice of a page's layout in versions 2.1 and 2.2, and pages with only nulls or one value.

Layouts: all null; constant (2.2); mini-block; full-zip, for values of 256 bytes and more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_kernels as ak
from lancekit._file.encodings.choose import long_values, mini_values
from lancekit._file.encodings.request import CHUNK, EncodedValues, EncodingRequest
from lancekit._file.kernels.arrow_buffers import (
    Encoded,
    byte_width,
    fixed_bytes,
    is_variable,
    string_buffers,
)
from lancekit._file.kernels.bounds import is_readable
from lancekit._file.kernels.memory import Bytes
from lancekit._file.layouts.fullzip_encode import full_zip, may_be_zipped
from lancekit._file.layouts.miniblock_encode import ChunkOverflow, mini_block
from lancekit._file.layouts.repdef_build import Shredded, pack_levels, shred, values_that_fit
from lancekit._format.field_marks import option
from lancekit._format.pb import encodings_v21_pb2 as pb
from lancekit.errors import UnsupportedTypeError
from lancekit.options import DEFAULT_PAGE_MEMORY

if TYPE_CHECKING:
    from collections.abc import Buffer

#: Values with at least this many bytes go to full-zip pages.
_FULL_ZIP_BYTES = 256

_NO_FIELDS = pa.struct([])


def encode_pages(
    array: pa.Array, depth: int, *, request: EncodingRequest, most: int = DEFAULT_PAGE_MEMORY
) -> Iterator[Encoded]:
    """Encode at least one row of a column, as one page if possible.

    array, depth: the column, in the form that `shred` takes.
    most: bytes that the strings of any page may expand to; up to 64 times the page's own bytes are
        allowed, too.
    """
    page = shred(array, depth)
    encoded = encode_page_of(page, request)
    if encoded is not None and not _is_readable(page, encoded, most):
        encoded = None
    if encoded is None and len(array) == 1 and not may_be_zipped(page.values):
        encoded = _crowded_page(page, request)
    elif encoded is None and len(array) == 1:
        encoded = full_zip(page, request)
        if not _is_readable(page, encoded, most):
            encoded = full_zip(page, replace(request, options=_PLAIN))
    if encoded is not None:
        yield encoded
        return
    half = len(array) // 2
    for part in (array.slice(0, half), array.slice(half)):
        yield from encode_pages(part, depth, request=request, most=most)


def _crowded_page(page: Shredded, request: EncodingRequest) -> Encoded:
    """Encode one row with very many null or empty lists, whose values full-zip cannot store."""
    most = values_that_fit(page, large_chunks=request.large_chunks, crowded=True)
    try:
        if most is not None:
            values = mini_values(page.values, page.valid, replace(request, max_values=most))
            return mini_block(page, values, large_chunks=request.large_chunks)
    except ChunkOverflow:
        pass
    kind = page.values.type
    raise UnsupportedTypeError(
        f"A row of {kind} has too many consecutive null or empty lists to be written.",
        hint="Use the dictionary's value type."
        if pa.types.is_dictionary(kind)
        else "Use lists of int8, data_storage_version 2.0, or several rows.",
        type=str(kind),
    )


#: column metadata without compression, for a row that readers would refuse as a zip bomb
_PLAIN = {"lance-encoding:compression": "none"}


def _is_readable(page: Shredded, encoded: Encoded, most: int) -> bool:
    """Return True if readers accept the page's expansion; only strings can expand too far."""
    if not is_variable(page.values.type):
        return True
    stored = sum(memoryview(buffer).nbytes for buffer in encoded.buffers)
    return is_readable(page.values.nbytes, stored, most)


def encode_page_of(page: Shredded, request: EncodingRequest) -> Encoded | None:
    """Encode a page; return ``None`` if it must be split."""
    values, valid, large_chunks = page.values, page.valid, request.large_chunks
    kind = values.type
    if values.null_count == len(values) or kind == _NO_FIELDS:
        return _all_null_page(page, large_chunks=large_chunks)
    if pa.types.is_struct(kind) and not all(byte_width(field.type) for field in kind):
        return full_zip(page, request)  # packed, with strings or vectors
    if large_chunks:
        equal = _equal_page(page)
        if equal is not None:
            return equal
    most = values_that_fit(page, large_chunks=large_chunks)
    mini: EncodedValues | None = None
    requested = option(request.options, "lance-encoding:structural-encoding")
    longest = _longest(values)
    if requested == "fullzip" and may_be_zipped(values):
        return full_zip(page, request)
    fits_chunks = requested == "miniblock" and longest * 8 <= CHUNK[large_chunks] and most
    if longest < _FULL_ZIP_BYTES or fits_chunks:
        if most is None:
            return None
        mini = mini_values(values, valid, replace(request, max_values=most))
    elif is_variable(values.type) and most is not None:
        mini = long_values(values, valid, replace(request, max_values=most))
    if mini is None:
        return full_zip(page, request)
    try:
        return mini_block(page, mini, large_chunks=large_chunks)
    except ChunkOverflow:
        return None


def _longest(values: pa.Array) -> int:
    """Return the bytes of the longest value; 0 for types that only mini-blocks can store."""
    if is_variable(values.type):
        return int(np.diff(string_buffers(values)[0]).max())
    kind = values.type
    count = 1
    while pa.types.is_fixed_size_list(kind):
        count *= kind.list_size
        kind = kind.value_type
    return count * (byte_width(kind) or 0)


# ---- pages with one value or only nulls (docs/format/data-files.md, 9)

_MAX_INLINE = 32


def _all_null_page(page: Shredded, *, large_chunks: bool) -> Encoded:
    """Encode rows without any value, or of structs without fields."""
    if len(page.layers) == 1 or page.values.type == _NO_FIELDS:
        layout = pb.ConstantLayout(layers=[pb.NULLABLE_ITEM])
        return Encoded(page.rows, pb.PageLayout(constant=layout))
    layout = pb.ConstantLayout(layers=page.layers)
    repetition, definition = page.repetition, page.definition
    if page.layers[0] == pb.ALL_VALID_ITEM and len(page.values) and definition is not None:
        # only structs are null, but readers expect a nullable value layer
        layout.layers[0] = pb.NULLABLE_ITEM
        definition = definition + 1
    stored = [_raw(repetition), _raw(definition)]
    if large_chunks and page.entries > _FEW:
        border = np.array([0, page.entries])
        for at, (name, levels) in enumerate((("rep", repetition), ("def", definition))):
            if levels is not None:
                encoding, parts = pack_levels(levels, border, large_chunks=True)
                getattr(layout, f"{name}_compression").CopyFrom(encoding)
                setattr(layout, f"num_{name}_values", page.entries)
                stored[at] = b"".join(part.data.tobytes() for part in parts)
    return Encoded(page.rows, pb.PageLayout(constant=layout), tuple(stored))


#: Up to this many levels, a page stores them uncompressed.
_FEW = 512


def _raw(levels: Bytes | None) -> bytes:
    return b"" if levels is None else levels.astype("<u2").tobytes()


def _equal_page(page: Shredded) -> Encoded | None:
    """Encode equal values as a constant page of version 2.2; return ``None`` if they differ.

    Such a page stores levels uncompressed.  If they outweigh the values, return ``None``, too.
    """
    if page.entries > len(page.values) or page.definition is not None:
        streams = (page.repetition is not None) + (page.definition is not None)
        if 2 * streams * page.entries >= page.values.nbytes:
            return None
    values = page.values if page.valid is None else ak.drop_null(page.values)
    scalar = _scalar_of(values)
    if scalar is None:
        return None
    buffers: tuple[Buffer, ...] = ()
    layout = pb.ConstantLayout(layers=page.layers)
    if len(scalar) == 1 and len(scalar[0]) <= _MAX_INLINE:
        layout.inline_value = scalar[0]
    else:
        sizes = np.array([len(scalar), *map(len, scalar)], "<u4").tobytes()
        buffers = (b"".join((sizes, *scalar)),)
    if page.repetition is not None or page.definition is not None:
        buffers = (*buffers, _raw(page.repetition), _raw(page.definition))
    return Encoded(page.rows, pb.PageLayout(constant=layout), buffers)


def _scalar_of(values: pa.Array) -> tuple[bytes, ...] | None:
    """Return the buffers of the only value; ``None`` if values differ or the type has no form."""
    if is_variable(values.type):
        offsets, data = string_buffers(values)
        length = int(offsets[1])
        if length != offsets[-1] - offsets[-2]:  # cheap check first
            return None
        if not _all_equal(np.diff(offsets)):
            return None
        if length and not _all_equal(data.reshape(-1, length)):
            return None
        return np.array([0, length], offsets.dtype).tobytes(), data[:length].tobytes()
    if pa.types.is_boolean(values.type):
        ones = int(np.bitwise_count(fixed_bytes(values)).sum())
        return (bytes([ones > 0]),) if ones in {0, len(values)} else None
    width = byte_width(values.type)
    if width is None:
        return None
    data = fixed_bytes(values)
    if data[:width].tobytes() != data[-width:].tobytes():
        return None
    rows = data.view(f"u{width}") if width in {1, 2, 4, 8} else data.reshape(-1, width)
    return (data[:width].tobytes(),) if _all_equal(rows) else None


def _all_equal(values: NDArray[np.generic]) -> bool:
    """Return True if all values are equal; compare one other value first."""
    first = values[0]
    return bool((values[len(values) // 2] == first).all() and (values == first).all())
