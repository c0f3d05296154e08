"""Decoded values without an Arrow type, and their conversion to Arrow arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_kernels as ak
from lancekit._compiled.kernel import Values, kernel
from lancekit._file.kernels import bits
from lancekit._file.kernels.bounds import nulls
from lancekit._file.kernels.faults import Damaged, require
from lancekit._file.kernels.memory import Bytes, Ints, Offsets, as_bytes
from lancekit._format.arrow_parts import strings_of, viewed


@dataclass(frozen=True, slots=True)
class Fixed:
    """Values of ``width`` bytes each."""

    width: int
    data: Bytes
    count: int

    def __post_init__(self) -> None:
        require(self.data.size >= self.width * self.count, "a value buffer is too short")


@dataclass(frozen=True, slots=True)
class Bits:
    """Values of one bit each."""

    data: Bytes
    count: int

    def __post_init__(self) -> None:
        require(self.data.size * 8 >= self.count, "a bit buffer is too short")


@dataclass(frozen=True, slots=True)
class Variable:
    """Byte strings delimited by ``offsets`` (int32 or int64, one more than values)."""

    offsets: Offsets
    data: Bytes

    def __post_init__(self) -> None:
        require(
            self.offsets[0] >= 0
            and self.offsets[-1] <= self.data.size
            and (self.offsets[1:] >= self.offsets[:-1]).all(),
            "string offsets are out of order",
        )

    @property
    def count(self) -> int:
        """Number of values."""
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class Lists:
    """Fixed-size lists of ``dimension`` items; ``validity`` is the bitmap of the items."""

    dimension: int
    validity: Bytes | None
    items: DecodedValues
    count: int

    def __post_init__(self) -> None:
        require(
            self.items.count >= self.dimension * self.count, "a fixed-size list has too few items"
        )


@dataclass(frozen=True, slots=True)
class Nulls:
    """Only nulls; for types of fixed-size lists, lists that contain only null items."""

    count: int


DecodedValues = Fixed | Bits | Variable | Lists | Nulls


def select(raw: DecodedValues, rows: slice | Ints) -> DecodedValues:
    """Select values by a contiguous slice or by ascending positions."""
    if isinstance(rows, slice):
        return _slice(raw, rows.start, rows.stop - rows.start)
    return _take(raw, rows)


def _slice(raw: DecodedValues, start: int, count: int) -> DecodedValues:
    match raw:
        case Nulls():
            return Nulls(count)
        case Fixed(width=width, data=data):
            return Fixed(width, data[start * width : (start + count) * width], count)
        case Bits(data=data):
            return Bits(bits.slice_bits(data, start, count), count)
        case Variable(offsets=offsets, data=data):
            part = offsets[start : start + count + 1]
            return Variable(part - part[0], data[int(part[0]) : int(part[-1])])
        case Lists(dimension=size, validity=validity, items=items):
            if validity is not None:
                validity = bits.slice_bits(validity, start * size, count * size)
            return Lists(size, validity, _slice(items, start * size, count * size), count)


def _take(raw: DecodedValues, rows: Ints) -> DecodedValues:
    count = len(rows)
    match raw:
        case Nulls():
            return Nulls(count)
        case Fixed(width=width, data=data):
            return Fixed(width, _take_fixed(width, data, raw.count, rows), count)
        case Bits(data=data):
            return Bits(bits.pack(bits.unpack(data, raw.count)[rows]), count)
        case Variable(offsets=offsets, data=data):
            wide = offsets.dtype.itemsize == 8
            kind = pa.large_binary() if wide else pa.binary()
            return _variable_of(ak.take(strings_of(offsets, data, kind), rows))
        case Lists(dimension=size, validity=validity, items=items):
            inner = (rows[:, None] * size + np.arange(size)).ravel()
            if validity is not None:
                validity = bits.pack(bits.unpack(validity, raw.count * size)[inner])
            if isinstance(items, Fixed):  # whole rows at once
                data = _take_fixed(items.width * size, items.data, raw.count, rows)
                return Lists(size, validity, Fixed(items.width, data, count * size), count)
            return Lists(size, validity, _take(items, inner), count)


def _take_fixed(width: int, data: Bytes, count: int, rows: Ints) -> Bytes:
    whole = data[: count * width]
    if width in {1, 2, 4, 8}:
        return whole.view(f"u{width}")[rows].view(np.uint8)
    return whole.reshape(count, width)[rows].reshape(-1)


def _variable_of(array: pa.Array) -> Variable:
    _, offsets, data = array.buffers()
    dtype = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    start = viewed(offsets, dtype)[array.offset : array.offset + len(array) + 1]
    return Variable(start, np.empty(0, np.uint8) if data is None else as_bytes(data))


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the stored buffers: extension types resolve to their storage type."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def with_validity(array: pa.Array, validity: Bytes | None) -> pa.Array:
    """Return an array that has no nulls with a validity bitmap added."""
    if validity is None or pa.types.is_null(array.type):
        return array
    require(validity.size * 8 >= len(array), "a validity bitmap is too short")
    buffers = [pa.py_buffer(validity), *array.buffers()[1 : array.type.num_buffers]]
    if isinstance(array, pa.DictionaryArray):
        plain = pa.Array.from_buffers(array.type.index_type, len(array), buffers)
        return pa.DictionaryArray.from_arrays(plain, array.dictionary, safe=False)
    children = []
    if isinstance(array, pa.FixedSizeListArray):
        children = [array.values]
    elif isinstance(array, pa.StructArray):
        children = [array.field(place) for place in range(array.type.num_fields)]
    return pa.Array.from_buffers(array.type, len(array), buffers, children=children or None)


def to_arrow(raw: DecodedValues, kind: pa.DataType, validity: Bytes | None = None) -> pa.Array:
    """Convert values to an array of exactly type ``kind``; raise `Damaged` if they do not fit."""
    buffer = None if validity is None else pa.py_buffer(validity)
    if validity is not None:
        require(validity.size * 8 >= raw.count, "a validity bitmap is too short")
    if isinstance(raw, Nulls):
        array = nulls(raw.count, kind)
        if pa.types.is_fixed_size_list(kind):
            # only the items are null here; `validity` says which lists are null
            items = nulls(raw.count * kind.list_size, kind.value_type)
            array = pa.Array.from_buffers(kind, raw.count, [buffer], children=[items])
        return array
    if isinstance(raw, Lists) and pa.types.is_fixed_size_list(kind):
        require(raw.dimension == kind.list_size, f"lists of {raw.dimension} in a column of {kind}")
        items = to_arrow(raw.items, kind.value_type, raw.validity)
        items = items.slice(0, raw.count * raw.dimension)
        return pa.Array.from_buffers(kind, raw.count, [buffer], children=[items])
    if isinstance(raw, Variable):
        return _variable_to_arrow(raw, kind, buffer)
    if pa.types.is_boolean(kind):
        if isinstance(raw, Bits):
            return pa.Array.from_buffers(kind, raw.count, [buffer, pa.py_buffer(raw.data)])
        if isinstance(raw, Fixed) and raw.width == 1:
            flags = pa.py_buffer(bits.pack(raw.data[: raw.count]))
            return pa.Array.from_buffers(kind, raw.count, [buffer, flags])
    elif isinstance(raw, Fixed) and byte_width(kind) == raw.width:
        return pa.Array.from_buffers(kind, raw.count, [buffer, pa.py_buffer(raw.data)])
    raise Damaged(f"{_describe(raw)} in a column of {kind}")


def _variable_to_arrow(raw: Variable, kind: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        offsets = raw.offsets.astype(np.int64, copy=False)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        require(raw.offsets[-1] < 2**31, f"more than 2 GiB of strings in a page of {kind}")
        offsets = raw.offsets.astype(np.int32, copy=False)
    else:
        raise Damaged(f"strings in a column of {kind}")
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(raw.data)]
    array = pa.Array.from_buffers(kind, raw.count, buffers)
    require(is_text(array, offsets, raw.data), "text is not UTF-8")
    return array


def words_of(raw: DecodedValues, *widths: int) -> NDArray[np.unsignedinteger]:
    """Return values as unsigned integers; raise `Damaged` if their width is not in ``widths``."""
    if not isinstance(raw, Fixed) or raw.width not in widths:
        raise Damaged(f"{_describe(raw)} instead of integers")
    return raw.data[: raw.count * raw.width].view(f"<u{raw.width}")


def byte_width(kind: pa.DataType) -> int:
    """Return the bytes of one value, 0 for types below a byte, -1 for types without fixed width."""
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        return int(kind.byte_width)
    if pa.types.is_primitive(kind):
        return int(kind.bit_width) // 8
    return -1


def _describe(raw: DecodedValues) -> str:
    match raw:
        case Fixed(width=width):
            return f"{width}-byte values"
        case Bits():
            return "single bits"
        case Variable():
            return "strings"
        case Lists(dimension=size):
            return f"lists of {size}"
        case Nulls():
            return "nulls"


# ---- UTF-8 validation


@kernel("u1 T", over="i4 i8", saves=1.1)
def are_characters(data: Values, offsets: Values) -> int:
    """Return 0 if strings are UTF-8 as one text, and no string begins within a character.

    Each byte is checked against the three before it, so the loop vectorises.
    """
    begin, end = offsets[np.uint64(0)], offsets[np.uint64(offsets.size - 1)]
    if begin < 0 or end < begin or end > data.size:
        return -1
    bad = False
    first = min(begin + 3, end)
    for at in range(begin, first):
        one = data[np.uint64(at)]
        before, second = 0, 0
        if at > begin:
            before = int(data[np.uint64(at - 1)])
        if at > begin + 1:
            second = int(data[np.uint64(at - 2)])
        bad |= ((one & 0xC0) == 0x80) != ((before >= 0xC0) | (second >= 0xE0))
        bad |= (one == 0xC0) | (one == 0xC1) | (one >= 0xF5)
        bad |= ((before == 0xE0) & (one < 0xA0)) | ((before == 0xED) & (one > 0x9F))
        bad |= ((before == 0xF0) & (one < 0x90)) | ((before == 0xF4) & (one > 0x8F))
    for at in range(first, end):
        one = data[np.uint64(at)]
        last, second, third = (
            data[np.uint64(at - 1)],
            data[np.uint64(at - 2)],
            data[np.uint64(at - 3)],
        )
        # a continuation byte must follow a lead byte, and only then
        bad |= ((one & 0xC0) == 0x80) != ((last >= 0xC0) | (second >= 0xE0) | (third >= 0xF0))
        bad |= (one == 0xC0) | (one == 0xC1) | (one >= 0xF5)
        # overlong encodings, surrogates, and code points above U+10FFFF
        bad |= ((last == 0xE0) & (one < 0xA0)) | ((last == 0xED) & (one > 0x9F))
        bad |= ((last == 0xF0) & (one < 0x90)) | ((last == 0xF4) & (one > 0x8F))
    for back in range(1, 4):  # the last lead byte announces more bytes than follow
        if end - back >= begin:
            bad |= data[np.uint64(end - back)] >= 256 - (128 >> back)
    for value in range(offsets.size - 1):
        at = offsets[np.uint64(value)]
        if at < begin or at > end:
            return -1
        if at < end:
            bad |= (data[np.uint64(at)] & 0xC0) == 0x80
    return -1 if bad else 0


def is_text(array: pa.Array, offsets: Offsets, data: Bytes) -> bool:
    """Return True if the strings between ``offsets`` of ``data`` are UTF-8; always True for binary.

    Most text is ASCII, which a scan finds ten times as fast.  Other text is validated as one
    string, in which no string may begin within a character.  Validation of each string by Arrow
    takes three times as long.  It runs only if the rest fails, e.g. for bytes under nulls.
    """
    kind = array.type
    begin, end = int(offsets[0]), int(offsets[-1])
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or begin == end:
        return True
    if data[begin:end].max() < 128:
        return True
    if (call := are_characters.ready(end - begin)) is not None and call(data, offsets) == 0:
        return True
    whole = strings_of(offsets[[0, -1]], data, kind)
    firsts = data.take(offsets[: np.searchsorted(offsets, end)])
    if _is_valid(whole) and not (firsts & 0xC0 == 0x80).any():
        return True
    return _is_valid(array)


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
