"""Full-zip pages: large values, each behind its own levels (file format, section 8)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit.file import bits, raw
from lancekit.file.compression import SCHEMES, decompress
from lancekit.file.faults import Damaged, Unsupported, require
from lancekit.file.fsst import symbol_table
from lancekit.file.memory import Bytes, Ints, as_bytes, gather, starts_of
from lancekit.file.page import Leaf, Page, item_layer
from lancekit.file.pieces import kind_of
from lancekit.file.selection import Selection, Span
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["FullZipPage"]


class FullZipPage:
    """Decoder of one full-zip page, of fixed or variable width."""

    def __init__(self, page: Page, layout: pb.FullZipLayout, kind: pa.DataType) -> None:
        self._page = page
        self._layout = layout
        self._kind = raw.storage_type(kind)
        self._layers = tuple(layout.layers)
        item_layer(self._layers)
        if layout.bits_rep:
            raise Unsupported("a nested column")
        require(layout.num_items == page.length, "the page's items are not its rows")
        require(layout.bits_def <= 16, "levels of more than 16 bits")
        self._control = (layout.bits_def + 7) // 8

    def read(self, rows: Selection) -> pa.Array:
        """Return rows as an array of the column's type."""
        return self.leaf(rows).to_array()

    def leaf(self, rows: Selection) -> Leaf:
        """Return rows with their levels; only the bytes of wanted rows are read."""
        details = self._layout.WhichOneof("details")
        if details == "bits_per_value":
            return self._fixed(rows)
        require(details == "bits_per_offset", "neither fixed nor variable width")
        return self._variable(rows)

    def _definition(self, control: Bytes) -> NDArray[np.uint16] | None:
        """Return the levels of control words, an array of shape (rows, bytes)."""
        if not self._control:
            return None
        words = np.ascontiguousarray(control)
        if self._control == 1:
            return words.ravel().astype(np.uint16)
        return words.view("<u2").ravel()

    # ---- fixed width

    def _fixed(self, rows: Selection) -> Leaf:
        bits_per_value = self._layout.bits_per_value
        require(bits_per_value % 8 == 0, "a width that is not whole bytes")
        width = bits_per_value // 8
        stride = self._control + width
        require(stride * self._page.length <= self._page.size(0), "a buffer is too short")
        if isinstance(rows, Span):
            ends = np.array([rows.start, rows.stop]) * stride
            data, places = self._page.fetch(0, ends[:1], ends[1:])
            start = int(places[0])
            table = data[start : start + len(rows) * stride].reshape(len(rows), stride)
        else:
            data, places = self._page.fetch(0, rows * stride, (rows + 1) * stride)
            table = data[places[:, None] + np.arange(stride)]
        definition = self._definition(table[:, : self._control])
        values, rest = _fixed_values(
            self._layout.value_compression, table[:, self._control :], 1, len(rows)
        )
        require(rest.shape[1] == 0, "values wider than their encoding")
        return Leaf(raw.to_arrow(values, self._kind), self._layers, definition)

    # ---- variable width

    @cached_property
    def _index(self) -> Ints:
        """Where every row starts in the data, and the end of the last."""
        entries = self._page.length + 1
        width, odd = divmod(self._page.size(1), entries)
        require(odd == 0 and width in {1, 2, 4, 8}, "a repetition index of the wrong size")
        index = self._page.read(1).view(f"<u{width}").astype(np.int64)
        require(
            index[0] >= 0 and (index[1:] >= index[:-1]).all() and index[-1] <= self._page.size(0),
            "the repetition index is out of order",
        )
        return index

    def _variable(self, rows: Selection) -> Leaf:
        prefix, odd = divmod(self._layout.bits_per_offset, 8)
        require(not odd and prefix in {4, 8}, "lengths of an impossible width")
        if isinstance(rows, Span):
            borders = self._index[rows.start : rows.stop + 1]
            data, places = self._page.fetch(0, borders[:1], borders[-1:])
            starts = borders[:-1] - borders[0] + places[0]
            sizes = np.diff(borders)
        else:
            begin, end = self._index[rows], self._index[rows + 1]
            data, starts = self._page.fetch(0, begin, end)
            sizes = end - begin
        control = self._control
        require((sizes >= control).all(), "a row is shorter than its control word")
        definition = self._definition(data[starts[:, None] + np.arange(control)])
        header = control + prefix
        if definition is None:
            valid: NDArray[np.bool_] = np.ones(len(starts), bool)
        else:
            valid = definition == 0
        require((sizes[valid] >= header).all(), "a row is shorter than its header")
        lengths = data[(starts[valid] + control)[:, None] + np.arange(prefix)]
        declared = np.ascontiguousarray(lengths).view(f"<u{prefix}").ravel().astype(np.int64)
        payload = np.where(valid, sizes - header, 0)
        require((declared == payload[valid]).all(), "a value's length is not its row's")
        bodies = gather(data, starts + np.where(valid, header, sizes), payload)
        encoded = raw.Variable(starts_of(payload), bodies)
        values = _variable_values(self._layout.value_compression, encoded, valid)
        return Leaf(raw.to_arrow(values, self._kind), self._layers, definition)


def _fixed_values(
    encoding: pb.CompressiveEncoding, table: Bytes, dimension: int, count: int
) -> tuple[raw.Raw, Bytes]:
    """Decode ``dimension`` items from the left of every row; return them and what is left.

    The validity bitmaps of nested lists come first, the outermost one leading.
    """
    match kind_of(encoding):
        case "flat" if encoding.flat.bits_per_value == 1:
            size = -(-dimension // 8)
            flags, table = _take_bits(table, size, dimension)
            return raw.Bits(flags, count * dimension), table
        case "flat":
            width = int(encoding.flat.bits_per_value)
            require(width % 8 == 0, "a width that is not whole bytes")
            size = dimension * width // 8
            require(size <= table.shape[1], "values narrower than their encoding")
            data = as_bytes(np.ascontiguousarray(table[:, :size]).reshape(-1))
            return raw.Fixed(width // 8, data, count * dimension), table[:, size:]
        case "fixed_size_list":
            message = encoding.fixed_size_list
            inner = dimension * int(message.items_per_value)
            require(inner <= table.shape[1] * 8, "a list longer than its row")
            validity = None
            if message.has_validity:
                validity, table = _take_bits(table, -(-inner // 8), inner)
            items, table = _fixed_values(message.values, table, inner, count)
            size = int(message.items_per_value)
            return raw.Lists(size, validity, items, count * dimension), table
        case "constant" if not encoding.constant.HasField("value"):
            return raw.Nulls(count * dimension), table
        case name:
            raise Unsupported(f"encoding {name!r} of full-zip values")


def _take_bits(table: Bytes, size: int, count: int) -> tuple[Bytes, Bytes]:
    """Take ``count`` bits, in ``size`` bytes, from the left of every row, and join them."""
    require(size <= table.shape[1], "values narrower than their encoding")
    flags = np.unpackbits(table[:, :size], axis=1, count=count, bitorder="little")
    return bits.pack(flags.reshape(-1)), table[:, size:]


def _variable_values(
    encoding: pb.CompressiveEncoding, encoded: raw.Variable, valid: NDArray[np.bool_]
) -> raw.Variable:
    match kind_of(encoding):
        case "variable":
            return encoded
        case "fsst":
            codes = _variable_values(encoding.fsst.values, encoded, valid)
            return symbol_table(encoding.fsst.symbol_table).decode(codes)
        case "general":
            scheme = SCHEMES.get(encoding.general.compression.scheme)
            if scheme is None:
                raise Unsupported("an unknown compression scheme")
            units = _decompress_each(scheme, encoded, valid)
            return _variable_values(encoding.general.values, units, valid)
        case name:
            raise Unsupported(f"encoding {name!r} of full-zip values")


def _decompress_each(scheme: str, encoded: raw.Variable, valid: NDArray[np.bool_]) -> raw.Variable:
    """Decompress every value on its own; they are large, so a Python loop does not matter."""
    units = [np.empty(0, np.uint8)] * encoded.count
    offsets = encoded.offsets.tolist()
    for row in np.flatnonzero(valid).tolist():
        units[row] = decompress(scheme, encoded.data[offsets[row] : offsets[row + 1]])
    places = starts_of(np.array([unit.size for unit in units], np.int64))
    if places[-1] > 2**40:
        raise Damaged("more than a terabyte of values in a page")
    return raw.Variable(places, np.concatenate(units) if units else np.empty(0, np.uint8))
