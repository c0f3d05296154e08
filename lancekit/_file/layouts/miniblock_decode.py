"""Mini-block decoder: small values in chunks of a few KiB (docs/format/data-files.md, 7)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit._arrow_values import arrow_of
from lancekit._cache import remembered
from lancekit._file.container.footer import Page
from lancekit._file.encodings import decode, fsst, variable
from lancekit._file.encodings.buffers import ChunkBuffers
from lancekit._file.encodings.decode import decode_block, decode_blocks, decode_chunks
from lancekit._file.encodings.packed_struct import values_to_arrow
from lancekit._file.kernels import values as raw
from lancekit._file.kernels.bounds import claim, look_up
from lancekit._file.kernels.faults import require
from lancekit._file.kernels.fsst_decode import decode_by_page
from lancekit._file.kernels.memory import (
    Bytes,
    Ints,
    as_bytes,
    fetch,
    gather,
    owned,
    starts_of,
    view,
)
from lancekit._file.kernels.row_selection import Rows
from lancekit._file.kernels.values import DecodedValues, words_of
from lancekit._file.layouts.field_tree import Leaf
from lancekit._file.layouts.repdef import Layers, Levels, Words, pick, rows_of
from lancekit._format.pb import encodings_v21_pb2 as pb
from lancekit._lazy import cached_property

_MOST_ITEMS = 1 << 48
_KEY_BYTES = 80  # size of a page's cache key
_MAX_LOG = 15  # at most 32,768 values in any chunk but the last


class _Chunks(NamedTuple):
    """Chunks of all pages: the file's bytes from `starts` to `stops`."""

    starts: Ints
    stops: Ints
    #: number of values before each chunk, then the total
    values: Ints
    #: number of rows that start before each chunk, then the total
    rows: Ints
    #: number of rows that have ended at the end of each chunk
    ended: Ints
    #: page number of each chunk
    pages: Ints

    def cover(self, rows: Rows) -> Ints:
        """Return the chunks that contain any of the rows."""
        if isinstance(rows, range):
            first = int(np.searchsorted(self.rows, rows.start, "right")) - 1
            last = int(np.searchsorted(self.ended, rows.stop - 1, "right"))
            return np.arange(first, last + 1)
        count = len(self.ended)
        begin = np.searchsorted(self.rows, rows, "right") - 1
        end = np.searchsorted(self.ended, rows, "right")
        marks = np.bincount(begin, minlength=count + 1) - np.bincount(end + 1, minlength=count + 1)
        return np.flatnonzero(np.cumsum(marks))

    def bytes_held(self) -> int:
        """Return the tables' memory in bytes."""
        return sum(part.nbytes for part in (self.starts, self.stops, self.values, self.pages)) + (
            0 if self.rows is self.values else self.rows.nbytes + self.ended.nbytes
        )

    def cut(self, wanted: Ints) -> NDArray[np.bool_]:
        """Return True for each chunk that begins within a row whose start is in no wanted chunk."""
        alone = np.append(True, wanted[1:] != wanted[:-1] + 1)
        # a row has begun before the chunk and continues in it
        return alone & (self.rows[wanted] > np.append(0, self.ended)[wanted])


class _Chunk(NamedTuple):
    """Single chunk: its page, its bytes in the file, its number of values, the rows wanted."""

    page: int
    start: int
    size: int
    values: int
    wanted: range


class _Parts(NamedTuple):
    """Buffers of several chunks."""

    #: number of levels in each chunk
    counts: Ints
    repetition: ChunkBuffers | None
    definition: ChunkBuffers | None
    values: list[ChunkBuffers]


def _align(sizes: Ints) -> Ints:
    return (sizes + 7) // 8 * 8


class MiniBlockPages:
    """Decoder of one mini-block page, or of several pages with the same encoding.

    The pages may differ in their number of items and in their FSST symbol tables.  Only a single
    page may have a dictionary.
    """

    def __init__(self, pages: Sequence[tuple[Page, pb.MiniBlockLayout]], kind: pa.DataType) -> None:
        self._pages = [page for page, _ in pages]
        self._counts = [int(layout.num_items) for _, layout in pages]
        require(max(self._counts) < _MOST_ITEMS, "a page with too many items")
        self._layouts = [layout for _, layout in pages]
        self._layout = layout = pages[0][1]
        self._kind = kind
        keys = tuple(page.key for page in self._pages)
        # the key has all pages: different columns may be read together with the same first page
        self._key = None if None in keys else keys
        self._layers = Layers.of(layout.layers)
        if self._layers.lists:
            require(
                layout.HasField("rep_compression") and layout.repetition_index_depth == 1,
                "lists without repetition",
            )
        else:
            require(not layout.HasField("rep_compression"), "repetition without lists")
            lengths = [page.length for page in self._pages]
            require(self._counts == lengths, "the page's item count does not match its row count")

    @cached_property
    def _words(self) -> tuple[NDArray[np.unsignedinteger], Ints]:
        """Metadata word of each chunk, and the number of chunks in each page."""
        return self._metadata(0, "<u4" if self._layout.has_large_chunk else "<u2")

    @cached_property
    def _chunks(self) -> _Chunks:
        key = None if self._key is None else ("chunks", *self._key)
        return remembered("pages", key, self._read_chunks, self._bytes_held)

    def _bytes_held(self, chunks: _Chunks) -> int:
        """Return the bytes of the chunk tables and of their cache key."""
        return chunks.bytes_held() + _KEY_BYTES * len(self._pages)

    def _read_chunks(self) -> _Chunks:
        pages = self._pages
        words, each = self._words
        require((each > 0).all(), "a page has no chunks")
        words = words.astype(np.int64)
        sizes = ((words >> 4) + 1) * 8
        firsts = starts_of(each)
        lasts = firsts[1:] - 1  # the last chunk of a page has the remaining values
        logs = words & 15
        logs[lasts] = 1
        require((logs >= 1).all() and (logs <= _MAX_LOG).all(), "a chunk of impossible size")
        counts = np.left_shift(np.int64(1), logs)
        counts[lasts] = 0
        counts[lasts] = np.array(self._counts) - np.add.reduceat(counts, firsts[:-1])
        require((counts[lasts] >= 0).all(), "the chunks hold more values than the page")
        require((counts[lasts] <= 1 << _MAX_LOG).all(), "a chunk of impossible size")
        places = starts_of(sizes)
        before = places[firsts[:-1]]
        require(
            (np.diff(places[firsts]) <= [page.size(1) for page in pages]).all(),
            "the chunks are longer than their buffer",
        )
        places = places[:-1] + np.repeat([page.positions[1] for page in pages] - before, each)
        values = starts_of(counts)
        rows, ended = self._rows(firsts) if self._layers.lists else (values, values[1:])
        owners = np.repeat(np.arange(len(pages)), each)
        return _Chunks(places, places + sizes, values, rows, ended, owners)

    def _rows(self, firsts: Ints) -> tuple[Ints, Ints]:
        """Read the repetition index: rows started before each chunk, and rows ended after each."""
        index, each = self._metadata(3 if self._layout.HasField("dictionary") else 2, "<u8")
        require(
            (each == 2 * np.diff(firsts)).all(), "the repetition index does not match its chunks"
        )
        index = index.astype(np.int64)
        ends, rest = index[::2], index[1::2]
        lengths = [page.length for page in self._pages]
        require(
            (ends >= 0).all() and (ends <= max(lengths)).all() and (rest >= 0).all(),
            "the repetition index is out of order",
        )
        continues = (rest > 0).astype(np.int64)
        starts = ends + continues
        starts[1:] -= continues[:-1]
        require(
            (starts >= 0).all()
            and not continues[firsts[1:] - 1].any()
            and (np.add.reduceat(ends, firsts[:-1]) == lengths).all(),
            "the repetition index does not add up to the page's rows",
        )
        return starts_of(starts), np.cumsum(ends)

    def _metadata(self, buffer: int, dtype: str) -> tuple[NDArray[np.unsignedinteger], Ints]:
        """Read a small buffer of all pages as numbers; return also the count for each page."""
        pages = self._pages
        if len(pages) == 1:
            words = view(pages[0].read(buffer), dtype)
            return words, np.array([len(words)])
        width = np.dtype(dtype).itemsize
        sizes = np.array([page.size(buffer) for page in pages], np.int64) // width * width
        starts = np.array([page.positions[buffer] for page in pages], np.int64)
        data, places = fetch(pages[0].source, 0, starts, starts + sizes)
        return view(gather(data, places, sizes), dtype), sizes // width

    @cached_property
    def _dictionary(self) -> pa.Array:
        key = None if self._key is None else ("dictionary", *self._key, self._kind)
        if key is None:
            return self._read_dictionary()
        return remembered(
            "dictionaries",
            key,
            lambda: owned(self._read_dictionary()),
            pa.Array.get_total_buffer_size,
        )

    def _read_dictionary(self) -> pa.Array:
        (page,) = self._pages
        count = int(self._layout.num_dictionary_items)
        claim(8 * count, f"{count:,} items of a dictionary")
        kind = self._kind.value_type if pa.types.is_dictionary(self._kind) else self._kind
        return raw.to_arrow(decode_block(self._layout.dictionary, page.read(2), count), kind)

    def leaf(self, rows: Rows) -> Leaf:
        """Return rows with their levels; read only chunks that contain a requested row."""
        chunk = None if self._layers.lists or not isinstance(rows, range) else self._single(rows)
        return self._decode_many(rows) if chunk is None else self._decode_one(chunk)

    @cached_property
    def _first(self) -> tuple[int, int, int]:
        """Position and size of the first chunk, and its number of values."""
        page, (words, each) = self._pages[0], self._words
        require(each[0] > 0, "a page has no chunks")
        word = int(words[0])
        size = ((word >> 4) + 1) * 8
        require(size <= page.size(1), "the chunks are longer than their buffer")
        if each[0] == 1:
            require(page.length <= 1 << _MAX_LOG, "a chunk of impossible size")
            return page.positions[1], size, page.length
        require(1 <= word & 15 <= _MAX_LOG, "a chunk of impossible size")
        return page.positions[1], size, 1 << (word & 15)

    def _single(self, rows: range) -> _Chunk | None:
        """Return the only chunk that contains the rows, or ``None`` if there are several."""
        start, size, values = self._first
        if len(rows) and rows.stop <= values:
            return _Chunk(0, start, size, values, rows)
        chunks = self._chunks
        at = int(np.searchsorted(chunks.rows, rows.start, "right")) - 1
        if len(rows) == 0 or rows.stop > chunks.rows[at + 1]:
            return None
        first, start = int(chunks.rows[at]), int(chunks.starts[at])
        size, values = int(chunks.stops[at]) - start, int(chunks.rows[at + 1]) - first
        wanted = range(rows.start - first, rows.stop - first)
        return _Chunk(int(chunks.pages[at]), start, size, values, wanted)

    def _decode_one(self, chunk: _Chunk) -> Leaf:
        data = as_bytes(self._pages[0].source.read(chunk.start, chunk.size))
        layout = self._layouts[chunk.page]
        decoded, definition = _decode_chunk(layout, data, chunk.values, chunk.wanted)
        return self._leaf(decoded, Levels(len(chunk.wanted), None, definition))

    def _decode_many(self, rows: Rows) -> Leaf:
        chunks = self._chunks
        wanted = chunks.cover(rows)
        starts, stops = chunks.starts[wanted], chunks.stops[wanted]
        data, places = fetch(self._pages[0].source, 0, starts, stops)
        sizes = stops - starts
        counts = chunks.values[wanted + 1] - chunks.values[wanted]
        parts = self._parse_chunks(data, places, sizes, counts)
        levels = self._levels(parts)
        if self._layers.lists:
            self._check_visible(levels, parts.counts, counts)
        cut = chunks.cut(wanted) if self._layers.lists else np.zeros(len(wanted), bool)
        first = chunks.rows[wanted]
        # a row that starts in an unread chunk counts as starting with this chunk
        starting = starts_of(chunks.rows[wanted + 1] - first + cut)
        if isinstance(rows, range):
            before = int(first[0] - cut[0])
            local: Rows = range(rows.start - before, rows.stop - before)
            if local == range(0, int(starting[-1])):
                return self._decode(parts, counts, levels, None, chunks.pages[wanted])
        else:
            chunk = np.searchsorted(first, rows, "right") - 1
            local = rows + (starting[:-1] + cut - first)[chunk]
        entries = None
        if self._layers.lists:
            entries = self._row_starts(levels, parts.counts, cut, starting)
        levels, keep = pick(levels, self._layers, entries, local)
        return self._decode(parts, counts, levels, keep, chunks.pages[wanted])

    def _check_visible(self, levels: Levels, entries: Ints, values: Ints) -> None:
        """Raise `Damaged` if a chunk's levels and values differ in number.

        Otherwise a chunk would take values from the next chunk.
        """
        shown = levels.visible(self._layers)
        if shown is not None:
            hidden = np.searchsorted(np.flatnonzero(~shown), starts_of(entries))
            entries = entries - (hidden[1:] - hidden[:-1])
        require(np.array_equal(entries, values), "a chunk's value count does not match its levels")

    def _row_starts(self, levels: Levels, counts: Ints, cut: NDArray[np.bool_], rows: Ints) -> Ints:
        """Return the first entry of every row; check the repetition index for each chunk."""
        chunks = starts_of(counts)
        starts = rows_of(levels, self._layers, chunks[:-1][cut])
        require(
            (np.searchsorted(starts, chunks[:-1]) == rows[:-1]).all()
            and len(starts) == rows[-1] + 1,
            "the repetition index does not match the levels",
        )
        return starts

    def _levels(self, parts: _Parts) -> Levels:
        layout = self._layout
        repetition = definition = None
        if parts.repetition is not None:
            blocks = decode_blocks(layout.rep_compression, parts.repetition, parts.counts)
            repetition = raw.words_of(blocks, 2)
        if parts.definition is not None:
            blocks = decode_blocks(layout.def_compression, parts.definition, parts.counts)
            definition = raw.words_of(blocks, 2)
        return Levels(int(parts.counts.sum()), repetition, definition)

    def _decode(
        self, parts: _Parts, counts: Ints, levels: Levels, keep: slice | Ints | None, owners: Ints
    ) -> Leaf:
        positions = keep if isinstance(keep, np.ndarray) else None
        if positions is not None and len(positions):
            require(positions[-1] < counts.sum(), "more entries than values")
        decoded = self._values(parts, counts, positions, owners)
        if isinstance(keep, slice):
            require(keep.stop <= decoded.count, "more entries than values")
            decoded = raw.select(decoded, keep)
        return self._leaf(decoded, levels)

    def _values(
        self, parts: _Parts, counts: Ints, rows: Ints | None, owners: Ints
    ) -> raw.DecodedValues:
        """Decode the values of chunks; ``owners`` are their page numbers."""
        encoding = self._layout.value_compression
        if len(self._pages) == 1 or not encoding.HasField("fsst"):
            return decode_chunks(encoding, parts.values, counts, rows)
        codes = variable.decode_chunks(fsst.check(encoding), parts.values, counts, rows)
        sizes = np.bincount(owners, counts, len(self._pages)).astype(np.int64)
        borders = starts_of(sizes)
        if rows is not None:
            borders = np.searchsorted(rows, borders)
        tables = [layout.value_compression.fsst.symbol_table for layout in self._layouts]
        return decode_by_page(codes, tables, np.diff(borders))

    def _leaf(self, decoded: raw.DecodedValues, levels: Levels) -> Leaf:
        if self._layout.HasField("dictionary"):
            values = self._look_up(decoded, levels)
        else:
            values = values_to_arrow(decoded, self._kind)
        return Leaf(values, self._layers, levels)

    def _parse_chunks(self, data: Bytes, places: Ints, sizes: Ints, values: Ints) -> _Parts:
        """Parse the headers of all chunks, and locate their buffers."""
        layout = self._layout
        halves = view(data, "<u2")
        at = places // 2
        has_repetition = layout.HasField("rep_compression")
        has_definition = layout.HasField("def_compression")
        wide = layout.has_large_chunk
        fields = 1 + has_repetition + has_definition
        header = 2 * fields + (4 if wide else 2) * int(layout.num_buffers)
        require(header <= 4096 and (sizes >= header).all(), "a chunk is shorter than its header")
        part = places + -(-header // 8) * 8
        field = at + 1
        counts = values
        if has_repetition or has_definition:
            counts = halves[at].astype(np.int64)
            if not self._layers.lists:
                require((counts == values).all(), "a chunk's level count does not match its rows")
        pieces: list[ChunkBuffers | None] = []
        for present in (has_repetition, has_definition):
            if not present:
                pieces.append(None)
                continue
            length = halves[field].astype(np.int64)
            pieces.append(ChunkBuffers(data, part, length))
            part = part + _align(length)
            field = field + 1
        buffers = []
        for _ in range(int(layout.num_buffers)):
            length = halves[field].astype(np.int64)
            if wide:
                length |= halves[field + 1].astype(np.int64) << 16
            field = field + (2 if wide else 1)
            buffers.append(ChunkBuffers(data, part, length))
            part = part + _align(length)
        # the last buffer may lack its padding
        require((part - 8 < places + sizes).all(), "a chunk's buffers are longer than the chunk")
        return _Parts(counts, pieces[0], pieces[1], buffers)

    def _look_up(self, decoded: raw.DecodedValues, levels: Levels) -> pa.Array:
        index = raw.words_of(decoded, 1, 2, 4, 8)
        items = self._dictionary
        if len(index) and int(index.max()) >= len(items):  # nulls have arbitrary indices
            wild = index >= len(items)
            require(levels.nulls(self._layers)[wild].all(), "an index has no value")
            index = np.where(wild, index.dtype.type(0), index)
        if len(items) == 0:
            return pa.nulls(len(index), self._kind)
        if pa.types.is_dictionary(self._kind):
            keys = np.dtype(self._kind.index_type.to_pandas_dtype())
            require(len(items) - 1 <= np.iinfo(keys).max, "an index is larger than its type")
            same = index.dtype.itemsize == keys.itemsize
            index = index.view(keys) if same else index.astype(keys)
            return pa.DictionaryArray.from_arrays(
                arrow_of(index), items, ordered=self._kind.ordered, safe=False
            )
        return look_up(items, arrow_of(index))


# ---- rows of a single mini-block chunk, for small tables and short ranges
#
# `MiniBlockPages` decodes arrays of chunks, which takes dozens of NumPy calls for any number of
# chunks.  For one chunk, plain integers replace the arrays, and encodings that allow it unpack only
# the requested values.  Other encodings decode the chunk as an array of one.


def _decode_chunk(
    layout: pb.MiniBlockLayout, data: Bytes, count: int, rows: range
) -> tuple[DecodedValues, Words | None]:
    """Decode rows of one chunk of a page without lists.

    data: the whole chunk.
    count: the number of values that it must have.
    rows: the requested rows, relative to the chunk.

    Returns
    -------
    The values, and the definition levels or ``None``.

    Raises Damaged, Unsupported: call it within `located`.
    """
    nullable = layout.HasField("def_compression")
    header = _header(nullable, int(layout.num_buffers), bool(layout.has_large_chunk))
    require(header.size <= 4096 and data.size >= header.size, "a chunk is shorter than its header")
    entries, *lengths = header.unpack(data[: header.size].tobytes())
    place = -(-header.size // 8) * 8
    buffers = []
    for length in lengths:
        buffers.append(data[place : place + length])
        place += -(-length // 8) * 8
    # the last buffer may lack its padding
    require(place - 8 < data.size, "a chunk's buffers are longer than the chunk")
    definition = None
    if nullable:
        require(entries == count, "a chunk's level count does not match its rows")
        levels = decode.decode_block(layout.def_compression, buffers.pop(0), count)
        definition = words_of(levels, 2)[rows.start : rows.stop]
    return decode.decode_chunk(layout.value_compression, buffers, count, rows), definition


@lru_cache
def _header(nullable: bool, buffers: int, wide: bool) -> struct.Struct:
    """Return the header's struct: number of levels, then the length of each buffer."""
    return struct.Struct(f"<{2 if nullable else 1}H{buffers}{'I' if wide else 'H'}")
