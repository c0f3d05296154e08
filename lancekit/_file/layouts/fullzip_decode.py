"""Full-zip decoder: large values, each after its levels (docs/format/data-files.md, 8)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import arrow_of
from lancekit._cache import remembered
from lancekit._file.container.footer import Page
from lancekit._file.encodings import general
from lancekit._file.encodings.buffers import kind_of
from lancekit._file.encodings.packed_struct import struct_array, values_to_arrow
from lancekit._file.kernels import bits
from lancekit._file.kernels import values as raw
from lancekit._file.kernels.compression import decompress_each
from lancekit._file.kernels.faults import Damaged, Unsupported, require
from lancekit._file.kernels.fsst_decode import symbol_table
from lancekit._file.kernels.memory import Bytes, Ints, as_bytes, gather, ranges, starts_of
from lancekit._file.kernels.row_selection import Rows
from lancekit._file.layouts.field_tree import Leaf
from lancekit._file.layouts.repdef import Layers, Levels, Words
from lancekit._format.pb import encodings_v21_pb2 as pb
from lancekit._lazy import cached_property


class FullZipPage:
    """Decoder of one full-zip page of fixed or variable width."""

    def __init__(self, page: Page, layout: pb.FullZipLayout, kind: pa.DataType) -> None:
        self._page = page
        self._layout = layout
        self._kind = kind
        self._layers = Layers.of(layout.layers)
        require(
            self._layers.lists or layout.num_items == page.length,
            "the page's item count does not match its row count",
        )
        details = layout.WhichOneof("details")
        width = prefix = odd = 0
        if details == "bits_per_value":
            width, odd = divmod(layout.bits_per_value, 8)
        else:
            require(details == "bits_per_offset", "neither fixed nor variable width")
            prefix, odd = divmod(layout.bits_per_offset, 8)
            require(prefix in {4, 8}, "lengths of an impossible width")
        require(odd == 0, "a width that is not whole bytes")
        self._form = _EntryForm.of(self._layers, layout, width, prefix)

    def leaf(self, rows: Rows) -> Leaf:
        """Return rows with their levels; read only the bytes of requested rows."""
        if self._form.prefix:
            return self._variable(rows)
        return self._nested(rows) if self._layers.lists else self._strided(rows)

    # ---- fixed width

    def _strided(self, rows: Rows) -> Leaf:
        """Read rows of one fixed size."""
        stride = self._form.control + self._form.width
        require(stride * self._page.length <= self._page.size(0), "a buffer is too short")
        if isinstance(rows, range):
            ends = np.array([rows.start, rows.stop]) * stride
            data, places = self._page.fetch(0, ends[:1], ends[1:])
            start = int(places[0])
            table = data[start : start + len(rows) * stride].reshape(len(rows), stride)
        else:
            data, places = self._page.fetch(0, rows * stride, (rows + 1) * stride)
            table = gather(data, places, np.full(len(rows), stride)).reshape(-1, stride)
        _, definition = self._form.levels(table[:, : self._form.control])
        levels = Levels(len(rows), None, definition)
        return self._fixed_leaf(table[:, self._form.control :], levels)

    def _nested(self, rows: Rows) -> Leaf:
        data, starts, stops = self._fetch(rows)
        entries = self._form.entries(data, starts, stops)
        values = entries.filled_starts() + self._form.control
        width = self._form.width
        table = gather(data, values, np.full(len(values), width)).reshape(len(values), width)
        return self._fixed_leaf(table, entries.levels)

    def _fixed_leaf(self, table: np.ndarray, levels: Levels) -> Leaf:
        values, rest = _fixed_values(self._layout.value_compression, table, 1, len(table))
        require(rest.shape[1] == 0, "values wider than their encoding")
        return Leaf(values_to_arrow(values, self._kind), self._layers, levels)

    # ---- variable width

    @cached_property
    def _index(self) -> Ints:
        """Start of every row in the data, and the end of the last row."""
        key = None if self._page.key is None else ("index", self._page.key)
        return remembered("pages", key, self._read_index, lambda index: int(index.nbytes))

    def _read_index(self) -> Ints:
        entries = self._page.length + 1
        width, odd = divmod(self._page.size(1), entries)
        require(odd == 0 and width in {1, 2, 4, 8}, "a repetition index of the wrong size")
        index = self._page.read(1).view(f"<u{width}").astype(np.int64)
        require(
            index[0] >= 0 and (index[1:] >= index[:-1]).all() and index[-1] <= self._page.size(0),
            "the repetition index is out of order",
        )
        return index

    def _fetch(self, rows: Rows) -> tuple[np.ndarray, Ints, Ints]:
        """Return bytes, and the start and stop of each row in them."""
        if isinstance(rows, range):
            borders = self._index[rows.start : rows.stop + 1]
            data, places = self._page.fetch(0, borders[:1], borders[-1:])
            borders = borders + (places[0] - borders[0])
            starts, stops = borders[:-1], borders[1:]
        else:
            begin, end = self._index[rows], self._index[rows + 1]
            data, starts = self._page.fetch(0, begin, end)
            stops = starts + (end - begin)
        require((stops - starts >= self._form.control).all(), "a row is shorter than its levels")
        return data, starts, stops

    def _variable(self, rows: Rows) -> Leaf:
        form = self._form
        data, starts, stops = self._fetch(rows)
        entries = form.entries(data, starts, stops)
        places = entries.filled_starts() + form.control
        ends = stops
        if self._layers.lists:
            ends = np.append(entries.starts[1:], stops[-1])
        if entries.filled is not None:
            ends = ends[entries.filled]
        header = places + form.prefix
        if not self._layers.lists:
            require((header <= ends).all(), "a row is shorter than its header")
        lengths = form.lengths(data, places)
        if not self._layers.lists:
            require((lengths == ends - header).all(), "a value's length does not match its row's")
        shown = entries.levels.visible(self._layers)
        valid = entries.filled
        if valid is not None and shown is not None:
            valid = valid[shown]
        encoding = self._layout.value_compression
        packed = kind_of(encoding) == "variable_packed_struct"  # its fields have variable width
        decode = _packed_values if packed else _variable_values
        values = decode(encoding, self._kind, data, header, lengths, valid)
        return Leaf(values, self._layers, entries.levels)


# ---- entries of full-zip pages: their positions and levels (docs/format/data-files.md, 8)
#
# An entry is a control word, ``repetition << bits_def | definition``, then the value's bytes if it
# has a value.  Every visible entry of a fixed-width page has a value.  In variable-width pages only
# valid entries have one, after its length.

#: Up to this many remaining rows, a plain loop is faster than a step for all rows together.
_FEW_ROWS = 48


@dataclass(frozen=True, slots=True)
class _Entries:
    """Entries with their positions and levels, and a flag for each that has a value."""

    starts: Ints
    levels: Levels
    filled: NDArray[np.bool_] | None

    def filled_starts(self) -> Ints:
        """Return the positions of the entries that have a value."""
        return self.starts if self.filled is None else self.starts[self.filled]


@dataclass(frozen=True, slots=True)
class _EntryForm:
    """Layout of a page's entries; exactly one of ``width`` and ``prefix`` is not 0."""

    #: bytes of the control word
    control: int
    bits_def: int
    #: the largest definition of an entry with a value
    filled: int
    #: bytes of a value
    width: int
    #: bytes of a value's length
    prefix: int
    layers: Layers

    @classmethod
    def of(cls, layers: Layers, layout: pb.FullZipLayout, width: int, prefix: int) -> _EntryForm:
        """Check a page's widths and return the layout of its entries."""
        bits_rep, bits_def = layout.bits_rep, layout.bits_def
        require(bits_rep <= 16 and bits_def <= 16, "levels of more than 16 bits")
        bits = bits_rep + bits_def
        control = 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4
        require(not layers.lists or bits_rep, "lists without repetition")
        require(layers.lists or not bits_rep, "repetition without lists")
        return cls(control, bits_def, 0 if prefix else layers.visible, width, prefix, layers)

    def levels(self, control: Bytes) -> tuple[Words | None, Words | None]:
        """Split control words, an array of shape (entries, bytes), into levels."""
        if not self.control:
            return None, None
        words = np.ascontiguousarray(control).view(f"<u{self.control}").ravel()
        definition = None
        if self.bits_def:
            definition = (words & words.dtype.type((1 << self.bits_def) - 1)).astype(np.uint16)
        if not self.layers.lists:
            return None, definition
        return (words >> words.dtype.type(self.bits_def)).astype(np.uint16), definition

    def entries(self, data: Bytes, starts: Ints, stops: Ints) -> _Entries:
        """Return the entries of rows from ``starts`` to ``stops`` of ``data``."""
        require(len(stops) == 0 or stops[-1] <= data.size, "a row reaches outside of its page")
        places = self._places(data, starts, stops) if self.layers.lists else starts
        repetition, definition = self.levels(data[places[:, None] + np.arange(self.control)])
        filled = None if definition is None else definition <= self.filled
        return _Entries(places, Levels(len(places), repetition, definition), filled)

    def _places(self, data: Bytes, starts: Ints, stops: Ints) -> Ints:
        """Return the position of every entry, in order."""
        sizes = stops - starts
        stride = self.control + self.width
        if self.prefix == 0 and self.filled == self.layers.largest:
            counts = sizes // stride
            require((counts * stride == sizes).all() and (counts > 0).all(), _UNEVEN)
            return _strided(starts, counts, stride)
        if self.prefix == 0 and self.layers.lists == 1 and self.width:
            # only null and empty rows have an entry without a value, and it is their only entry
            counts = sizes // stride
            require(((counts * stride == sizes) | (sizes == self.control)).all(), _UNEVEN)
            return _strided(starts, np.maximum(counts, 1), stride)
        return self._walk(data, starts, stops)

    def _walk(self, data: Bytes, starts: Ints, stops: Ints) -> Ints:
        """Step through all rows in parallel, one entry at a time, then through long rows alone."""
        found = []
        places = starts
        while len(places) > _FEW_ROWS:
            found.append(places)
            behind = self._next(data, places, stops)
            left = behind < stops
            places, stops = behind[left], stops[left]
        for place, stop in zip(places.tolist(), stops.tolist(), strict=True):
            found.append(self._walk_row(data, place, stop))
        joined = np.concatenate(found) if found else starts
        joined.sort()
        return joined

    def _next(self, data: Bytes, places: Ints, stops: Ints) -> Ints:
        """Return the positions of the entries that follow the entries at ``places``."""
        require((places + self.control <= stops).all(), _UNEVEN)
        _, definition = self.levels(data[places[:, None] + np.arange(self.control)])
        behind = places + self.control
        filled = slice(None) if definition is None else np.flatnonzero(definition <= self.filled)
        behind[filled] += self.width
        if self.prefix:
            at = behind[filled]
            require((at + self.prefix <= stops[filled]).all(), _UNEVEN)
            lengths = self.lengths(data, at)
            require((lengths <= stops[filled] - at - self.prefix).all(), _UNEVEN)
            behind[filled] = at + self.prefix + lengths
        require((behind <= stops).all(), _UNEVEN)
        return behind

    def lengths(self, data: Bytes, places: Ints) -> Ints:
        """Read the lengths of values at ``places``."""
        lengths = _lengths(data, places, self.prefix)
        require((lengths >= 0).all(), "a value of impossible length")
        return lengths

    def _walk_row(self, data: Bytes, place: int, stop: int) -> Ints:
        """Return the positions of one row's entries."""
        found = []
        row = data[place:stop].tobytes()
        control, prefix, width, size = self.control, self.prefix, self.width, len(row)
        mask, filled = (1 << self.bits_def) - 1, self.filled
        at = 0
        while at < size:
            found.append(at)
            word = int.from_bytes(row[at : at + control], "little")
            at += control
            if word & mask <= filled:
                at += width
                if prefix:
                    at += prefix + int.from_bytes(row[at : at + prefix], "little")
        if at != size:
            raise Damaged(_UNEVEN)
        return np.array(found, np.int64) + place


_UNEVEN = "a row does not end where an entry does"


def _lengths(data: Bytes, places: Ints, width: int) -> Ints:
    stored = np.ascontiguousarray(data[places[:, None] + np.arange(width)])
    return stored.view(f"<u{width}").ravel().astype(np.int64)


def _strided(starts: Ints, counts: Ints, stride: int) -> Ints:
    """Return the positions of ``counts`` entries of equal size from each of ``starts``."""
    place = ranges(np.zeros(len(starts), np.int64), counts)
    place *= stride
    place += np.repeat(starts, counts)
    return place


# ---- value encodings of full-zip pages: each value is encoded separately


def _fixed_values(
    encoding: pb.CompressiveEncoding, table: Bytes, dimension: int, count: int
) -> tuple[raw.DecodedValues, Bytes]:
    """Decode ``dimension`` items at the left of every row; return them and the remaining columns.

    The validity bitmaps of nested lists come first, from the outside in.
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
        case "packed_struct":
            return _fixed_values(encoding.packed_struct.values, table, dimension, count)
        case "constant" if not encoding.constant.HasField("value"):
            return raw.Nulls(count * dimension), table
        case name:
            raise Unsupported(f"encoding {name!r} of full-zip values")


def _take_bits(table: Bytes, size: int, count: int) -> tuple[Bytes, Bytes]:
    """Concatenate ``count`` bits, in ``size`` bytes, from the left of every row."""
    require(size <= table.shape[1], "values narrower than their encoding")
    flags = np.unpackbits(table[:, :size], axis=1, count=count, bitorder="little")
    return bits.pack(flags.reshape(-1)), table[:, size:]


def _variable_values(
    encoding: pb.CompressiveEncoding,
    kind: pa.DataType,
    data: Bytes,
    starts: Ints,
    lengths: Ints,
    valid: NDArray[np.bool_] | None,
) -> pa.Array:
    """Decode strings at ``starts``; entries that are not ``valid`` become empty strings."""
    values = _decode(encoding, raw.Variable(starts_of(lengths), gather(data, starts, lengths)))
    if valid is not None:
        sizes = np.zeros(len(valid), np.int64)
        sizes[valid] = np.diff(values.offsets)
        values = raw.Variable(starts_of(sizes) + int(values.offsets[0]), values.data)
    return raw.to_arrow(values, kind)


def _decode(encoding: pb.CompressiveEncoding, encoded: raw.Variable) -> raw.Variable:
    match kind_of(encoding):
        case "variable":
            return encoded
        case "fsst":
            codes = _decode(encoding.fsst.values, encoded)
            return symbol_table(encoding.fsst.symbol_table).decode(codes)
        case "general":
            scheme = general.check(encoding.general)
            return _decode(encoding.general.values, _decompress_each(scheme, encoded))
        case name:
            raise Unsupported(f"encoding {name!r} of full-zip values")


def _decompress_each(scheme: str, encoded: raw.Variable) -> raw.Variable:
    """Decompress values one by one; they are large, so a Python loop is fast enough."""
    borders = pairwise(encoded.offsets.tolist())
    places_of = ((start, stop, None) for start, stop in borders)
    units = decompress_each(scheme, encoded.data, places_of)
    places = starts_of(np.array([unit.size for unit in units], np.int64))
    return raw.Variable(places, np.concatenate(units) if units else np.empty(0, np.uint8))


def _packed_values(
    encoding: pb.CompressiveEncoding,
    kind: pa.DataType,
    data: Bytes,
    starts: Ints,
    lengths: Ints,
    valid: NDArray[np.bool_] | None,
) -> pa.Array:
    """Decode structs with consecutive fields; variable-width fields follow their lengths.

    Null structs have no bytes.
    """
    stored = encoding.variable_packed_struct.fields
    require(
        pa.types.is_struct(kind) and kind.num_fields == len(stored),
        f"packed structs of {len(stored)} fields in a column of {kind}",
    )
    stops = starts + lengths
    place = starts
    children = []
    for number, message in enumerate(stored):
        child = kind.field(number).type
        if not message.HasField("bits_per_length"):
            width, odd = divmod(int(message.bits_per_value), 8)
            require(odd == 0, "a width that is not whole bytes")
            require((width <= stops - place).all(), "a packed struct is too short")
            table = gather(data, place, np.full(len(place), width)).reshape(len(place), width)
            values, rest = _fixed_values(message.value, table, 1, len(place))
            require(rest.shape[1] == 0, "values wider than their encoding")
            children.append(raw.to_arrow(values, child))
            place = place + width
        else:
            place, sizes = _prefixed(data, place, stops, int(message.bits_per_length))
            children.append(_variable_values(message.value, child, data, place, sizes, None))
            place = place + sizes
    require((place == stops).all(), "a packed struct is too long")
    structs = struct_array(kind, children, len(starts))
    if valid is None or valid.all():
        return structs
    return ak.take(structs, arrow_of(np.cumsum(valid) - 1, ~valid))


def _prefixed(data: Bytes, place: Ints, stops: Ints, bits_per_length: int) -> tuple[Ints, Ints]:
    """Read lengths at ``place``; return the positions of the values after them, and the lengths."""
    require(bits_per_length in {32, 64}, "lengths of an impossible width")
    width = bits_per_length // 8
    require((width <= stops - place).all(), "a packed struct is too short")
    sizes = _lengths(data, place, width)
    begin = place + width
    require(((sizes >= 0) & (sizes <= stops - begin)).all(), "a packed struct is too short")
    return begin, sizes
