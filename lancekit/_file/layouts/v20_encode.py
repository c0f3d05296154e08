"""Encoder of pages in version 2.0."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._file.kernels import bits
from lancekit._file.kernels.arrow_buffers import (
    Encoded,
    byte_width,
    fixed_bytes,
    is_variable,
    null_flags,
    string_buffers,
    validity_bits,
)
from lancekit._file.kernels.bounds import is_readable
from lancekit._file.kernels.memory import starts_of
from lancekit._format.arrow_parts import fixed_items
from lancekit._format.pb import encodings_v20_pb2 as pb
from lancekit.errors import UnsupportedTypeError
from lancekit.options import DEFAULT_PAGE_MEMORY

#: Strings get a dictionary with at least this many rows and fewer than this many distinct values.
_DICTIONARY_ROWS = 100
_DICTIONARY_ITEMS = 100


def encode_page(array: pa.Array, most: int = DEFAULT_PAGE_MEMORY) -> Encoded:
    """Encode rows of a leaf without extension types.

    ``most`` is the number of bytes that strings may expand to, even if it is more than 64 times the
    bytes of the page.
    """
    buffers: list[NDArray[np.generic]] = []
    return Encoded(len(array), _any(array, buffers, most), tuple(buffers))


def encode_structs(array: pa.Array) -> Encoded:
    """Encode structs of a non-packed column: only their number is stored."""
    return Encoded(len(array), pb.ArrayEncoding(struct=pb.SimpleStruct()))


def encode_lists(lengths: pa.Array) -> Encoded:
    """Encode lists from their lengths (0 for null lists); the next column has their items."""
    buffers: list[NDArray[np.generic]] = []
    null = null_flags(lengths)
    ends = starts_of(fixed_bytes(lengths).view(np.int64))[1:].view(np.uint64)
    items = int(ends[-1]) if len(ends) else 0
    if null is not None:
        ends[null] += np.uint64(items + 1)
    offsets = _no_nulls(_flat(64, ends, buffers))
    lists = pb.List(offsets=offsets, null_offset_adjustment=items + 1, num_items=items)
    return Encoded(len(lengths), pb.ArrayEncoding(list=lists), tuple(buffers))


def _any(array: pa.Array, buffers: list[NDArray[np.generic]], most: int) -> pb.ArrayEncoding:
    if isinstance(array, pa.DictionaryArray):
        return _user_dictionary(array, buffers)
    if isinstance(array, pa.StructArray):
        return _packed(array, buffers)
    if not is_variable(array.type):
        return _nullable(array, buffers)
    return _few_strings(array, buffers, most) or _strings(array, buffers)


def _flat(
    bits_per_value: int, data: NDArray[np.generic], buffers: list[NDArray[np.generic]]
) -> pb.ArrayEncoding:
    buffers.append(data)
    place = pb.Buffer(buffer_index=len(buffers) - 1)
    return pb.ArrayEncoding(flat=pb.Flat(bits_per_value=bits_per_value, buffer=place))


def _no_nulls(values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNulls(values=values)))


def _nullable(array: pa.Array, buffers: list[NDArray[np.generic]]) -> pb.ArrayEncoding:
    if array.null_count == len(array):
        return pb.ArrayEncoding(nullable=pb.Nullable(all_nulls=pb.Nullable.AllNulls()))
    validity = validity_bits(array)
    if validity is None:
        return _no_nulls(_values(array, buffers))
    flags = _flat(1, validity, buffers)
    some = pb.Nullable.SomeNulls(validity=flags, values=_values(array, buffers))
    return pb.ArrayEncoding(nullable=pb.Nullable(some_nulls=some))


def _values(array: pa.Array, buffers: list[NDArray[np.generic]]) -> pb.ArrayEncoding:
    if isinstance(array, pa.FixedSizeListArray):
        items = _nullable(fixed_items(array), buffers)
        lists = pb.FixedSizeList(dimension=array.type.list_size, items=items)
        return pb.ArrayEncoding(fixed_size_list=lists)
    width = byte_width(array.type)
    return _flat(1 if width is None else width * 8, fixed_bytes(array), buffers)


def _packed(array: pa.StructArray, buffers: list[NDArray[np.generic]]) -> pb.ArrayEncoding:
    """Encode the rows of a packed struct; its fields have no nulls.

    All fields share one buffer, so each encoding names the page's first buffer.
    """
    place = pb.Buffer(buffer_index=len(buffers))
    inner, columns = [], []
    for index in range(array.type.num_fields):
        parts: list[NDArray[np.generic]] = []
        encoding = _no_nulls(_values(array.field(index), parts))
        inner.append(encoding)
        columns.append(parts[0].reshape(len(array), -1))
    buffers.append(np.hstack(columns))
    return pb.ArrayEncoding(packed_struct=pb.PackedStruct(inner=inner, buffer=place))


def _few_strings(
    array: pa.Array, buffers: list[NDArray[np.generic]], most: int
) -> pb.ArrayEncoding | None:
    """Encode strings with few distinct values as codes from 1 on; code 0 is null."""
    if not pa.types.is_string(array.type) or len(array) < _DICTIONARY_ROWS:
        return None
    if pc.count_distinct(array.slice(0, 1024)).as_py() >= _DICTIONARY_ITEMS:
        return None
    coded = array.dictionary_encode()
    items = coded.dictionary
    if not 0 < len(items) < _DICTIONARY_ITEMS:
        return None
    if not is_readable(array.nbytes, items.nbytes + len(array), most):
        return None
    codes = fixed_bytes(coded.indices.fill_null(-1)).view(np.int32) + 1
    return _dictionary(codes.astype(np.uint8), items, buffers)


def _user_dictionary(
    array: pa.DictionaryArray, buffers: list[NDArray[np.generic]]
) -> pb.ArrayEncoding:
    """Encode an Arrow dictionary; nulls become an additional item."""
    indices, items = array.indices, array.dictionary
    dtype = np.dtype(array.type.index_type.to_pandas_dtype())
    null = null_flags(indices)
    codes = fixed_bytes(indices).view(dtype)
    if null is not None:
        if len(items) > np.iinfo(dtype).max:
            raise UnsupportedTypeError(
                f"A dictionary of {len(items)} items leaves no {array.type.index_type} for nulls, "
                "which files of version 2.0 need.",
                hint="Use wider indices, or data_storage_version 2.1 or later.",
                type=str(array.type),
            )
        codes = np.where(null, dtype.type(len(items)), codes)
        items = ak.concat_arrays([items, pa.nulls(1, items.type)])
    return _dictionary(codes, items, buffers)


def _dictionary(
    codes: NDArray[np.generic], items: pa.Array, buffers: list[NDArray[np.generic]]
) -> pb.ArrayEncoding:
    indices = _no_nulls(_flat(codes.itemsize * 8, codes, buffers))
    encoding = _strings(items, buffers) if is_variable(items.type) else _nullable(items, buffers)
    return pb.ArrayEncoding(
        dictionary=pb.Dictionary(indices=indices, items=encoding, num_dictionary_items=len(items))
    )


def _strings(array: pa.Array, buffers: list[NDArray[np.generic]]) -> pb.ArrayEncoding:
    offsets, data = string_buffers(array)
    ends = offsets[1:].astype(np.uint64)
    adjustment = int(offsets[-1]) + 1
    validity = validity_bits(array)
    if validity is not None:
        ends[bits.unpack(validity, len(array)) == 0] += np.uint64(adjustment)
    indices = _no_nulls(_flat(64, ends, buffers))
    content = _flat(8, data, buffers)
    return pb.ArrayEncoding(
        binary=pb.Binary(indices=indices, bytes=content, null_adjustment=adjustment)
    )
