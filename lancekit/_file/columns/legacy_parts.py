"""Decoders of parts of legacy fields: plain values, strings, lists, structs, dictionaries.

Legacy files have no validity bits.  A null number has any value, and a null list or struct is
empty.  An empty string is null if the field is nullable.

See docs/format/legacy.md, 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa

from lancekit._arrow_values import arrow_of, numbers_of
from lancekit._file.container.footer import Container
from lancekit._file.encodings.packed_struct import struct_array
from lancekit._file.kernels import bits
from lancekit._file.kernels import values as raw
from lancekit._file.kernels.arrow_buffers import is_variable
from lancekit._file.kernels.bounds import claim, nulls
from lancekit._file.kernels.faults import Unsupported, require
from lancekit._file.kernels.memory import Bytes, Ints, as_bytes, fetch, gather, ranges, starts_of
from lancekit._file.kernels.row_selection import Rows, grouped
from lancekit._file.layouts.assemble import nested_in, struct_of
from lancekit._file.layouts.blob_descriptors import DESCRIPTOR
from lancekit._file.layouts.field_tree import Node, is_list
from lancekit._file.layouts.repdef import Lists
from lancekit._file.layouts.v20_decode import without_null_items
from lancekit._format.arrow_parts import item_field
from lancekit._lazy import cached_property
from lancekit._storage.base import RandomAccess

Places: TypeAlias = tuple[tuple[int, int], ...]


class LegacyPart(Protocol):
    """Reader of a field or of a part of one."""

    @property
    def pages(self) -> _Pages:
        """Positions of the pages, with the number of the part's entries in each."""

    @property
    def children(self) -> Sequence[LegacyPart]:
        """Parts of child fields."""

    @property
    def encoding(self) -> str:
        """Description of the encoding, in words."""

    def read(self, rows: Rows) -> pa.Array:
        """Decode some of the entries."""

    def places(self) -> list[Places]:
        """Return (position, size) of the buffers of each page."""


@dataclass(frozen=True, slots=True)
class _Nulls:
    """A column part of nulls only; the file stores only their number."""

    pages: _Pages
    kind: pa.DataType
    children: ClassVar[Sequence[LegacyPart]] = ()
    encoding: ClassVar[str] = "nulls"

    def read(self, rows: Rows) -> pa.Array:
        return nulls(len(rows), self.kind)

    def places(self) -> list[Places]:
        return [() for _ in self.pages.lengths]


@dataclass(frozen=True, slots=True)
class _Plain:
    """Fixed-width values, booleans, or fixed-size lists of these."""

    pages: _Pages
    kind: pa.DataType
    children: ClassVar[Sequence[LegacyPart]] = ()
    encoding: ClassVar[str] = "plain values"

    def read(self, rows: Rows) -> pa.Array:
        sizes, width = _shape(self.kind)
        times = prod(sizes)
        count = times * len(rows)
        if width:
            data = _bytes(self.pages, times * width, rows)
            values: raw.DecodedValues = raw.Fixed(width, data, count)
        else:
            if not isinstance(rows, range):
                claim(8 * count, f"the places of {count:,} booleans")
            data = _bits(self.pages.holding(times), grouped(rows, times))
            values = raw.Bits(data, count)
        for place in range(len(sizes) - 1, -1, -1):
            count = prod(sizes[:place]) * len(rows)
            values = raw.Lists(sizes[place], None, values, count)
        return raw.to_arrow(values, self.kind)

    def places(self) -> list[Places]:
        sizes, width = _shape(self.kind)
        bits_of_entry = prod(sizes) * (8 * width or 1)
        pages = zip(self.pages.positions.tolist(), self.pages.lengths.tolist(), strict=True)
        return [((at, -(-length * bits_of_entry // 8)),) for at, length in pages]


def _shape(kind: pa.DataType) -> tuple[list[int], int]:
    """Return the sizes of nested fixed-size lists, and the bytes of an item (0 for booleans)."""
    sizes = []
    while pa.types.is_fixed_size_list(kind):
        sizes.append(int(kind.list_size))
        kind = kind.value_type
    width = raw.byte_width(kind)
    if width < 0 or (width == 0 and not pa.types.is_boolean(kind)) or 0 in sizes:
        raise Unsupported(f"values of type {kind} in a file of 0.1")
    return sizes, width


def _bytes(pages: _Pages, width: int, rows: Rows) -> Bytes:
    pages.holding(width)  # the number of bytes must not overflow
    page, first, stop = pages.runs(rows)
    begin = pages.positions[page]
    return _read_pieces(pages.source, begin + first * width, begin + stop * width)


def _bits(pages: _Pages, rows: Rows) -> Bytes:
    """Read bits of bitmaps that start on a byte in each page; read also bits between the rows."""
    if len(rows) == 0:
        return np.empty(0, np.uint8)
    page, first, stop = pages.runs(rows)
    touched, at = np.unique(page, return_index=True)
    low, high = first[at] & ~7, stop[np.append(at[1:], len(page)) - 1]
    begin = pages.positions[touched]
    data = _read_pieces(pages.source, begin + low // 8, begin - (-high // 8))
    starts = starts_of(-(-high // 8) - low // 8)
    if isinstance(rows, range):  # only the first page's bits can start within a byte
        found = bits.gather_bits(data, starts[:-1], high - low)
        return bits.slice_bits(found, int(first[0] - low[0]), len(rows))
    place = np.searchsorted(touched, page)
    wanted = ranges(8 * starts[place] + first - low[place], stop - first)
    return bits.pack(bits.unpack(data, 8 * data.size)[wanted])


class _OffsetRuns(NamedTuple):
    """Offsets of entries: page, first and last offset of each run; begin, length of each entry."""

    page: Ints
    first: Ints
    last: Ints
    begin: Ints
    lengths: Ints


def _read_offsets(pages: _Pages, dtype: str, rows: Rows) -> _OffsetRuns:
    """Read offsets; a page has one more offset than entries."""
    page, first, stop = pages.runs(rows)
    width = np.dtype(dtype).itemsize
    pages.holding(width)
    start = pages.positions[page]
    data = _read_pieces(pages.source, start + first * width, start + (stop + 1) * width)
    offsets = data.view(dtype).astype(np.int64)
    borders = starts_of(stop - first + 1)
    last = borders[1:] - 1
    begin = np.delete(offsets, last)
    lengths = np.delete(offsets, borders[:-1]) - begin
    require((begin >= 0).all() and (lengths >= 0).all(), "offsets are out of order")
    return _OffsetRuns(page, offsets[borders[:-1]], offsets[last], begin, lengths)


@dataclass(frozen=True, slots=True)
class _Strings:
    """Strings: their bytes, then offsets that count from the beginning of the file.

    Blobs are stored in the same way, and read as descriptors if the kind is `DESCRIPTOR`.
    """

    pages: _Pages
    kind: pa.DataType
    nullable: bool
    children: ClassVar[Sequence[LegacyPart]] = ()
    encoding: ClassVar[str] = "strings"

    def read(self, rows: Rows) -> pa.Array:
        found = _read_offsets(self.pages, "<i8", rows)
        lengths = found.lengths
        validity = bits.pack(lengths > 0) if self.nullable and not lengths.all() else None
        if self.kind == DESCRIPTOR:
            parts = [arrow_of(part.astype(np.uint64)) for part in (found.begin, lengths)]
            return raw.with_validity(struct_array(self.kind, parts, len(rows)), validity)
        data = _read_pieces(self.pages.source, found.first, found.last)
        return raw.to_arrow(raw.Variable(starts_of(lengths), data), self.kind, validity)

    def places(self) -> list[Places]:
        found = _read_offsets(self.pages, "<i8", range(int(self.pages.firsts[-1])))
        first, size = np.zeros((2, len(self.pages.lengths)), np.int64)
        first[found.page], size[found.page] = found.first, found.last - found.first
        table = (first, size, self.pages.positions, 8 * (self.pages.lengths + 1))
        rows = zip(*(column.tolist() for column in table), strict=True)
        return [((begin, many), (at, offsets)) for begin, many, at, offsets in rows]


class _Dictionary:
    """Keys, and values that are stored once for the file."""

    children: ClassVar[Sequence[LegacyPart]] = ()
    encoding: ClassVar[str] = "keys of a dictionary"

    def __init__(self, pages: _Pages, kind: pa.DataType, values: LegacyPart) -> None:
        self.pages = pages
        self._kind = cast("pa.DictionaryType", kind)
        self._keys = _Plain(pages, self._kind.index_type)
        self._values = values

    @cached_property
    def _items(self) -> pa.Array:
        return self._values.read(range(int(self._values.pages.firsts[-1])))

    def read(self, rows: Rows) -> pa.Array:
        keys = numbers_of(self._keys.read(rows))
        items = self._items
        require(
            len(keys) == 0 or (keys.min() >= 0 and keys.max() < len(items)),
            "a key of a dictionary has no value",
        )
        index, items = without_null_items(keys, None, items)
        index = index.cast(self._kind.index_type)
        ordered = self._kind.ordered
        return pa.DictionaryArray.from_arrays(index, items, ordered=ordered, safe=False)

    def places(self) -> list[Places]:
        return self._keys.places()


class _Lists:
    """Lists: offsets into the items of the same batch."""

    encoding: ClassVar[str] = "lists"

    def __init__(
        self, pages: _Pages, kind: pa.DataType, items: LegacyPart, rows: Ints | None
    ) -> None:
        self.pages = pages.shorter().of_batches(rows)
        self.children = (items,)
        self._kind = kind
        offsets = pa.int64() if pa.types.is_large_list(kind) else pa.int32()
        self._offsets = _Plain(pages, offsets)

    def read(self, rows: Rows) -> pa.Array:
        found = _read_offsets(self.pages, str(self._offsets.kind), rows)
        (child,) = self.children
        below = child.pages
        require((found.last <= below.lengths[found.page]).all(), "lists longer than their items")
        start, stop = (below.firsts[found.page] + each for each in (found.first, found.last))
        wanted: Rows = range(0)
        if len(start) and (start[1:] == stop[:-1]).all():
            wanted = range(int(start[0]), int(stop[-1]))
        elif len(start):
            count = int((stop - start).sum())
            claim(8 * count, f"the places of {count:,} items")
            wanted = ranges(start, stop - start)
        items = child.read(wanted)
        return nested_in(self._kind, Lists(starts_of(found.lengths), None), items)

    def places(self) -> list[Places]:
        return self._offsets.places()


@dataclass(frozen=True, slots=True)
class _Struct:
    """Structs, which consist only of their children."""

    kind: pa.DataType
    children: Sequence[LegacyPart]
    encoding: ClassVar[str] = "structs"

    @property
    def pages(self) -> _Pages:
        pages, *others = (child.pages for child in self.children)
        require(
            all(np.array_equal(pages.lengths, other.lengths) for other in others),
            "the fields of a struct differ in length",
        )
        return pages

    def read(self, rows: Rows) -> pa.Array:
        return struct_of(self.kind, [child.read(rows) for child in self.children], None)

    def places(self) -> list[Places]:
        return []


def part_of(
    container: Container, node: Node, columns: Iterator[int], rows: Ints | None, *, nullable: bool
) -> LegacyPart:
    """Return the reader of a part of a field; ``columns`` are the remaining columns, parents first.

    ``rows`` are the numbers of rows in the batches, or ``None`` for list items, which only the
    pages count.

    Raises Damaged, Unsupported: call it within `located`.
    """
    column, kind = next(columns), node.kind
    if node.is_leaf:
        pages = _Pages.of(container, column).of_batches(rows)
        return _leaf(container, pages, column, kind, nullable=nullable)
    if pa.types.is_struct(kind):
        fields = (kind.field(place) for place in range(kind.num_fields))
        pairs = list(zip(node.children, fields, strict=True))
        children = [
            part_of(container, child, columns, rows, nullable=field.nullable)
            for child, field in pairs
        ]
        return _Struct(kind, children)
    if not is_list(kind) or pa.types.is_map(kind):
        raise Unsupported(f"a column of {kind} in a file of 0.1")
    pages, item = _Pages.of(container, column), item_field(kind)
    below = part_of(container, node.children[0], columns, None, nullable=item.nullable)
    return _Lists(pages, kind, below, rows)


def _leaf(
    container: Container, pages: _Pages, column: int, kind: pa.DataType, *, nullable: bool
) -> LegacyPart:
    if pa.types.is_dictionary(kind):
        message = container.descriptor.schema.fields
        first = min(field.id for field in message)
        (stored,) = (field.dictionary for field in message if field.id == first + column)
        places = (np.array([part]) for part in (stored.offset, stored.length))
        values = _plain_or_strings(
            _Pages.checked(container, *places), kind.value_type, nullable=True
        )
        return _Dictionary(pages, kind, values)
    return _plain_or_strings(pages, kind, nullable=nullable)


def _plain_or_strings(pages: _Pages, kind: pa.DataType, *, nullable: bool) -> LegacyPart:
    if pa.types.is_null(kind):
        return _Nulls(pages, kind)
    if is_variable(kind) or kind == DESCRIPTOR:
        return _Strings(pages, kind, nullable)
    if pa.types.is_nested(kind) and not pa.types.is_fixed_size_list(kind):
        raise Unsupported(f"a column of {kind} in a file of 0.1")
    return _Plain(pages, kind)


# ---- pages of one legacy field, one for each batch: positions and bytes
#
# See docs/format/legacy.md, 2.


class _Runs(NamedTuple):
    """Consecutive rows within one page each: the page, the first row, and the last row + 1."""

    page: Ints
    first: Ints
    stop: Ints


@dataclass(frozen=True)
class _Pages:
    """Positions of a field's pages, and the number of entries in each."""

    source: RandomAccess
    positions: Ints
    lengths: Ints

    @classmethod
    def of(cls, container: Container, column: int) -> _Pages:
        """Read one field's part of the page table; call it within `located`."""
        require(0 <= column < len(container.column_table), f"there is no field {column}")
        table = np.frombuffer(container.tail.read(*container.column_table[column]), "<i8")
        return cls.checked(container, table[::2], table[1::2])

    @classmethod
    def checked(cls, container: Container, positions: Ints, lengths: Ints) -> _Pages:
        """Return pages after a check of their positions and lengths."""
        require(
            (positions >= 0).all() and (positions <= container.size).all(),
            "a page is outside of the file",
        )
        most = (1 << 62) // max(1, len(lengths))
        require((lengths >= 0).all() and (lengths <= most).all(), "a page has an impossible length")
        return cls(container.source, positions, lengths)

    @cached_property
    def firsts(self) -> Ints:
        """Number of the first entry in each page, then the total number of entries."""
        return starts_of(self.lengths)

    def holding(self, times: int) -> _Pages:
        """Return the pages with `times` as many entries, for the values within each entry."""
        require((self.lengths <= (1 << 62) // max(1, times)).all(), "a page has too many values")
        return _Pages(self.source, self.positions, self.lengths * times)

    def shorter(self) -> _Pages:
        """Return pages of offsets with one entry less: the number of lists."""
        require((self.lengths > 0).all(), "a page of lists has no offsets")
        return _Pages(self.source, self.positions, self.lengths - 1)

    def of_batches(self, rows: Ints | None) -> _Pages:
        """Return the pages with the numbers of rows of their batches; unchanged for list items.

        For a slice of structs, the first releases wrote all rows of the unsliced children.
        """
        if rows is None:
            return self
        require(
            len(rows) == len(self.lengths) and (self.lengths >= rows).all(),
            "a page has fewer rows than its batch",
        )
        return _Pages(self.source, self.positions, rows)

    def runs(self, rows: Rows) -> _Runs:
        """Return the runs of entries, in order."""
        firsts = self.firsts
        if len(rows) == 0:
            return _Runs(*np.zeros((3, 0), np.int64))
        if isinstance(rows, range):
            touched = slice(
                int(np.searchsorted(firsts, rows.start, "right")) - 1,
                int(np.searchsorted(firsts, rows.stop, "left")),
            )
            page = np.arange(touched.start, touched.stop)[self.lengths[touched] > 0]
            begin = np.maximum(firsts[page], rows.start)
            end = np.minimum(firsts[page + 1], rows.stop)
            return _Runs(page, begin - firsts[page], end - firsts[page])
        pages = np.searchsorted(firsts, rows, "right") - 1
        new = np.flatnonzero((rows[1:] != rows[:-1] + 1) | (pages[1:] != pages[:-1])) + 1
        begins = np.concatenate(([0], new))
        page, first = pages[begins], rows[begins]
        first = first - firsts[page]
        return _Runs(page, first, first + np.diff(np.append(begins, len(rows))))


def _read_pieces(source: RandomAccess, starts: Ints, stops: Ints) -> Bytes:
    """Concatenate byte ranges of the file, which must ascend, as pages do."""
    require(
        len(starts) == 0
        or (
            starts[0] >= 0
            and stops[-1] <= source.size()
            and (stops >= starts).all()
            and (starts[1:] >= stops[:-1]).all()
        ),
        "pages are outside of the file, or overlap",
    )
    data, places = fetch(source, 0, starts, stops)
    return as_bytes(gather(data, places, stops - starts))
