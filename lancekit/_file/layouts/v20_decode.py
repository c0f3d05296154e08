"""Decoder of pages in 2.0 files (docs/format/data-files.md, 5)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import arrow_of, flags_of
from lancekit._file.container.footer import Page
from lancekit._file.encodings.packed_struct import values_to_arrow, width_of
from lancekit._file.kernels import bits
from lancekit._file.kernels import values as raw
from lancekit._file.kernels.bounds import claim, look_up, nulls
from lancekit._file.kernels.compression import decompress
from lancekit._file.kernels.faults import Damaged, Unsupported, require
from lancekit._file.kernels.fsst_decode import symbol_table
from lancekit._file.kernels.memory import Bytes, Ints, as_bytes, gather, starts_of
from lancekit._file.kernels.row_selection import Rows
from lancekit._file.layouts.blob_descriptors import DESCRIPTOR
from lancekit._file.layouts.blobs import resolve
from lancekit._format.pb import encodings_v20_pb2 as pb
from lancekit._lazy import cached_property

#: Bytes of padding that a compressed buffer may have in addition to its values.
_PADDING = 64


class ArrayPage:
    """Decoder of one 2.0 page: a tree of encodings over the page's buffers.

    Rows can be groups of items: all items of a row's fixed-size list are read as one group.
    """

    def __init__(self, page: Page, encoding: pb.ArrayEncoding, kind: pa.DataType) -> None:
        self._page = page
        self._encoding = encoding
        self._kind = kind

    def read(self, rows: Rows) -> pa.Array:
        """Decode rows to an array of the column's type."""
        encoding, validity = self._strip(self._encoding, rows, 1)
        if encoding is None:
            return nulls(len(rows), self._kind)
        if encoding.WhichOneof("array_encoding") == "dictionary":
            require(validity is None, "validity around a dictionary")
            return self._look_up(encoding.dictionary, rows)
        if encoding.WhichOneof("array_encoding") == "packed_struct":
            require(validity is None, "validity around a packed struct")
            return self._packed(encoding.packed_struct, rows)
        values, inner = self._values(encoding, rows, 1)
        return raw.to_arrow(values, self._kind, validity if inner is None else inner)

    def lists(self, rows: Rows) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        """Return the begin and end of each list's items in the page, and a null flag for each."""
        encoding, validity = self._strip(self._encoding, rows, 1)
        if encoding is None or encoding.WhichOneof("array_encoding") != "list":
            raise Unsupported("a list column that is not made of offsets")
        require(validity is None, "validity around a list")
        message = encoding.list
        begin, end, null = self._borders(message.offsets, int(message.null_offset_adjustment), rows)
        require(len(end) == 0 or end[-1] <= int(message.num_items), "lists longer than their items")
        return begin, end, null

    @property
    def is_list(self) -> bool:
        """True if the page has list offsets, whose items are in the next column."""
        return bool(self._encoding.WhichOneof("array_encoding") == "list")

    @property
    def num_items(self) -> int:
        """Total number of items in the page's lists."""
        encoding, _ = self._strip(self._encoding, range(0, 0), 1)
        return 0 if encoding is None else int(encoding.list.num_items)

    @property
    def is_struct(self) -> bool:
        """True if the page only states that its rows are structs."""
        return bool(self._encoding.WhichOneof("array_encoding") == "struct")

    def check_struct(self) -> None:
        """Raise `Unsupported` unless the page is a plain struct header."""
        if not self.is_struct:
            raise Unsupported("a struct column that is not a plain header")

    def _packed(self, message: pb.PackedStruct, rows: Rows) -> pa.Array:
        """Read packed structs; for a large binary column they are descriptors of blobs."""
        kind = DESCRIPTOR if pa.types.is_large_binary(self._kind) else self._kind
        require(
            pa.types.is_struct(kind) and kind.num_fields == len(message.inner),
            f"packed structs of {len(message.inner)} fields in a column of {self._kind}",
        )
        width = sum(width_of(kind.field(place).type) for place in range(kind.num_fields))
        flat = pb.Flat(bits_per_value=8 * width, buffer=message.buffer)
        structs = values_to_arrow(self._flat(flat, rows, 1), kind)
        return resolve(self._page.source, structs, self._kind) if kind == DESCRIPTOR else structs

    def _strip(
        self, encoding: pb.ArrayEncoding, rows: Rows, group: int
    ) -> tuple[pb.ArrayEncoding | None, Bytes | None]:
        """Unwrap ``nullable``; return the inner encoding (``None`` if all null) and validity."""
        if encoding.WhichOneof("array_encoding") != "nullable":
            return encoding, None
        match encoding.nullable.WhichOneof("nullability"):
            case "no_nulls":
                return self._strip(encoding.nullable.no_nulls.values, rows, group)
            case "some_nulls":
                some = encoding.nullable.some_nulls
                validity = self._flat(some.validity.flat, rows, group)
                if not isinstance(validity, raw.Bits):
                    raise Damaged("validity is not one bit for each row")
                return some.values, validity.data
            case "all_nulls":
                return None, None
            case _:
                raise Unsupported("an unknown kind of nullability")

    def _values(
        self, encoding: pb.ArrayEncoding, rows: Rows, group: int
    ) -> tuple[raw.DecodedValues, Bytes | None]:
        """Decode values, and the validity that their encoding contains."""
        match encoding.WhichOneof("array_encoding"):
            case "flat":
                return self._flat(encoding.flat, rows, group), None
            case "fixed_size_list":
                return self._lists(encoding.fixed_size_list, rows, group), None
            case "binary" if group == 1:
                return self._binary(encoding.binary, rows)
            case "fsst" if group == 1:
                codes, validity = self._binary(encoding.fsst.binary.binary, rows)
                return symbol_table(encoding.fsst.symbol_table).decode(codes), validity
            case None:
                raise Unsupported("an unknown 2.0 encoding")
            case name:
                raise Unsupported(f"2.0 encoding {name!r} of this column")

    def _buffer(self, buffer: pb.Buffer) -> int:
        if buffer.buffer_type != pb.Buffer.PAGE:
            raise Unsupported("a buffer outside of its page")
        return int(buffer.buffer_index)

    def _flat(self, flat: pb.Flat, rows: Rows, group: int) -> raw.DecodedValues:
        width = int(flat.bits_per_value) * group
        buffer = self._buffer(flat.buffer)
        one_bit = flat.bits_per_value == 1
        if not one_bit and flat.bits_per_value % 8:
            raise Unsupported(f"a flat encoding of {flat.bits_per_value} bits")
        count = len(rows) * group
        if flat.HasField("compression"):
            most = (width * self._page.length + 7) // 8 + _PADDING
            data = decompress(flat.compression.scheme, self._page.read(buffer), most)
            require(data.size * 8 >= width * self._page.length, "a buffer is too short")
            if one_bit:
                return _bits(data, rows, 0, group)
            table = data[: self._page.length * (width // 8)].reshape(self._page.length, -1)
            part = table[rows.start : rows.stop] if isinstance(rows, range) else table[rows]
            return raw.Fixed(width // group // 8, part.reshape(-1), count)
        if one_bit:
            first, last = (
                (rows.start, rows.stop) if isinstance(rows, range) else (rows[0], rows[-1] + 1)
            )
            begin = int(first) * group // 8
            data = self._range(buffer, begin, -(-int(last) * group // 8))
            return _bits(data, rows, begin * 8, group)
        size = width // 8
        if isinstance(rows, range):
            data = as_bytes(self._range(buffer, rows.start * size, rows.stop * size))
        else:
            data, places = self._page.fetch(buffer, rows * size, (rows + 1) * size)
            data = gather(data, places, np.full(len(rows), size))
        return raw.Fixed(width // group // 8, data, count)

    def _range(self, buffer: int, start: int, stop: int) -> Bytes:
        data, places = self._page.fetch(buffer, np.array([start]), np.array([stop]))
        return data[int(places[0]) : int(places[0]) + stop - start]

    def _lists(self, message: pb.FixedSizeList, rows: Rows, group: int) -> raw.Lists:
        if message.has_validity:
            raise Unsupported("validity inside of a 2.0 fixed-size list")
        size = int(message.dimension)
        require(size > 0, "a fixed-size list of 0 items")
        count = len(rows) * group
        encoding, validity = self._strip(message.items, rows, group * size)
        if encoding is None:
            return raw.Lists(size, None, raw.Nulls(count * size), count)
        items, inner = self._values(encoding, rows, group * size)
        require(inner is None, "strings in a fixed-size list")
        return raw.Lists(size, validity, items, count)

    # ---- strings

    def _entries(self, encoding: pb.ArrayEncoding, rows: Rows) -> NDArray[np.uint64]:
        inner, validity = self._strip(encoding, rows, 1)
        if inner is None or validity is not None:
            raise Damaged("nulls among offsets or indices")
        return raw.words_of(self._flat(inner.flat, rows, 1), 1, 2, 4, 8)

    def _borders(
        self, encoding: pb.ArrayEncoding, adjustment: int, rows: Rows
    ) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        """Return the begin and end of strings or lists, and a null flag for each."""
        if isinstance(rows, range):
            first = max(rows.start - 1, 0)
            stored = self._entries(encoding, range(first, rows.stop))
            ends, null = _unadjust(stored, adjustment)
            borders = ends if rows.start else np.concatenate(([0], ends))
            null = null[len(null) - len(rows) :]
            begin, end = borders[:-1], borders[1:]
        else:
            needed = np.unique(np.concatenate((np.maximum(rows - 1, 0), rows)))
            stored = self._entries(encoding, needed)
            ends, nulls = _unadjust(stored, adjustment)
            place = np.searchsorted(needed, rows)
            end, null = ends[place], nulls[place]
            begin = np.where(rows == 0, 0, ends[np.maximum(place - 1, 0)])
        require((begin >= 0).all() and (end >= begin).all(), "offsets are out of order")
        return begin, end, null

    def _binary(self, message: pb.Binary, rows: Rows) -> tuple[raw.Variable, Bytes | None]:
        begin, end, null = self._borders(message.indices, int(message.null_adjustment), rows)
        validity = bits.pack(~null) if null.any() else None
        if isinstance(rows, range) and len(rows):  # each value begins where the previous one ends
            data, places = self._bytes(message.bytes, begin[:1], end[-1:])
            borders = np.empty(len(end) + 1, np.int64)
            borders[0] = places[0]
            np.add(end, places[0] - begin[0], out=borders[1:])
            return raw.Variable(borders, data), validity
        data, places = self._bytes(message.bytes, begin, end)
        return raw.Variable(starts_of(end - begin), gather(data, places, end - begin)), validity

    def _bytes(self, encoding: pb.ArrayEncoding, begin: Ints, end: Ints) -> tuple[Bytes, Ints]:
        """Read the bytes of ascending ranges."""
        if encoding.WhichOneof("array_encoding") == "nullable":
            encoding = encoding.nullable.no_nulls.values
        if encoding.WhichOneof("array_encoding") != "flat" or encoding.flat.bits_per_value != 8:
            raise Unsupported("encoded bytes of strings")
        flat = encoding.flat
        buffer = self._buffer(flat.buffer)
        if flat.HasField("compression"):
            return decompress(flat.compression.scheme, self._page.read(buffer)), begin
        return self._page.fetch(buffer, begin, end)

    # ---- dictionaries

    @cached_property
    def _items(self) -> pa.Array:
        message = self._encoding
        if message.WhichOneof("array_encoding") == "nullable":
            message = message.nullable.no_nulls.values
        kind = self._kind.value_type if pa.types.is_dictionary(self._kind) else self._kind
        count = int(message.dictionary.num_dictionary_items)
        claim(8 * count, f"{count:,} items of a dictionary")
        inner = Page(
            self._page.source, self._page.index, count, self._page.positions, self._page.sizes
        )
        return ArrayPage(inner, message.dictionary.items, kind).read(range(0, count))

    def _codes(
        self, encoding: pb.ArrayEncoding, rows: Rows
    ) -> tuple[NDArray[np.generic], NDArray[np.bool_] | None]:
        """Read dictionary indices (0 for nulls) and null flags, which only old releases write."""
        inner, validity = self._strip(encoding, rows, 1)
        if inner is None:
            return np.zeros(len(rows), np.uint8), np.ones(len(rows), bool)
        codes = raw.words_of(self._flat(inner.flat, rows, 1), 1, 2, 4, 8)
        if validity is None:
            return codes, None
        null = bits.unpack(validity, len(rows)) == 0
        return np.where(null, codes.dtype.type(0), codes), null

    def _look_up(self, message: pb.Dictionary, rows: Rows) -> pa.Array:
        codes, missing = self._codes(message.indices, rows)
        items = self._items
        if pa.types.is_dictionary(self._kind):  # a null may be stored as the key of a null item
            there = codes if missing is None else codes[~missing]
            require(len(there) == 0 or int(there.max()) < len(items), "an index has no value")
            keys, items = without_null_items(codes, missing, items)
            kind = self._kind.index_type
            fitting = keys.type.bit_width == kind.bit_width and len(items) < 1 << kind.bit_width - 1
            keys = keys.view(kind) if fitting else keys.cast(kind)
            ordered = self._kind.ordered
            return pa.DictionaryArray.from_arrays(keys, items, ordered=ordered, safe=False)
        require(len(codes) == 0 or int(codes.max()) <= len(items), "an index has no value")
        null = codes == 0 if missing is None else (codes == 0) | missing
        index = codes.astype(np.int64) - 1
        return look_up(items, arrow_of(index, null if null.any() else None))


def without_null_items(
    codes: NDArray[np.generic], missing: NDArray[np.bool_] | None, items: pa.Array
) -> tuple[pa.Array, pa.Array]:
    """Replace keys of null items by null keys, because Arrow cannot unify null items."""
    if items.null_count == 0:
        return arrow_of(codes, missing), items
    valid = flags_of(items.is_valid())
    place = np.cumsum(valid) - 1
    null = ~valid[codes] if missing is None else ~valid[codes] | missing
    return arrow_of(place[codes], null), ak.drop_null(items)


def _unadjust(stored: NDArray[np.uint64], adjustment: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Return end offsets and null flags; end offsets of nulls are stored larger."""
    ends = stored.astype(np.int64)
    if adjustment == 0:
        return ends, np.zeros(len(ends), bool)
    null = stored >= np.uint64(adjustment)
    ends[null] -= adjustment
    return ends, null


def _bits(data: Bytes, rows: Rows, before: int, group: int) -> raw.Bits:
    """Select the rows' bits from a bitmap that begins at bit ``before``."""
    if isinstance(rows, range):
        count = len(rows) * group
        return raw.Bits(bits.slice_bits(data, rows.start * group - before, count), count)
    places = (rows[:, None] * group + np.arange(group)).ravel() - before
    require(places[-1] < data.size * 8, "a bit buffer is too short")
    flags = np.unpackbits(data, bitorder="little")
    return raw.Bits(bits.pack(flags[places]), len(places))
