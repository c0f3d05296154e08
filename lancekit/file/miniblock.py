"""Mini-block pages: small values in chunks of a few KiB (file format, section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit.file import raw
from lancekit.file.faults import Unsupported, require
from lancekit.file.memory import Bytes, Ints, starts_of, view
from lancekit.file.minivalues import decode_values
from lancekit.file.page import Leaf, Page, item_layer
from lancekit.file.pieces import Pieces, decode_blocks, decode_one
from lancekit.file.selection import Selection, Span
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["MiniBlockPage"]

_MAX_LOG = 15  # values of a chunk other than the last: at most 32,768


@dataclass(frozen=True, slots=True)
class _Chunks:
    """Chunk borders of a page: bytes in the data buffer, and rows; one more than chunks."""

    places: Ints
    rows: Ints


def _align(sizes: Ints) -> Ints:
    return (sizes + 7) // 8 * 8


class MiniBlockPage:
    """Decoder of one mini-block page."""

    def __init__(self, page: Page, layout: pb.MiniBlockLayout, kind: pa.DataType) -> None:
        self._page = page
        self._layout = layout
        self._kind = raw.storage_type(kind)
        self._layers = tuple(layout.layers)
        item_layer(self._layers)
        if layout.HasField("rep_compression") or layout.repetition_index_depth:
            raise Unsupported("a nested column")
        require(layout.num_items == page.length, "the page's items are not its rows")

    @cached_property
    def _chunks(self) -> _Chunks:
        words = view(self._page.read(0), "<u4" if self._layout.has_large_chunk else "<u2")
        words = words.astype(np.int64)
        sizes = ((words >> 4) + 1) * 8
        logs = words[:-1] & 15
        require(len(words) > 0, "a page has no chunks")
        require((logs >= 1).all() and (logs <= _MAX_LOG).all(), "a chunk of impossible size")
        counts = np.left_shift(np.int64(1), logs)
        last = self._page.length - int(counts.sum())
        require(last >= 0, "the chunks hold more rows than the page")
        places = starts_of(sizes)
        require(places[-1] <= self._page.size(1), "the chunks are longer than their buffer")
        return _Chunks(places, starts_of(np.append(counts, last)))

    @cached_property
    def _dictionary(self) -> pa.Array:
        count = int(self._layout.num_dictionary_items)
        kind = self._kind.value_type if pa.types.is_dictionary(self._kind) else self._kind
        return raw.to_arrow(decode_one(self._layout.dictionary, self._page.read(2), count), kind)

    def read(self, rows: Selection) -> pa.Array:
        """Return rows as an array of the column's type."""
        return self.leaf(rows).to_array()

    def leaf(self, rows: Selection) -> Leaf:
        """Return rows with their levels; only chunks that hold a wanted row are read."""
        chunks = self._chunks
        if isinstance(rows, Span):
            first = int(np.searchsorted(chunks.rows, rows.start, "right")) - 1
            last = int(np.searchsorted(chunks.rows, rows.stop, "left"))
            wanted = np.arange(first, last)
        else:
            of_row = np.searchsorted(chunks.rows, rows, "right") - 1
            change = np.append(True, of_row[1:] != of_row[:-1])
            wanted = of_row[change]
        counts = (chunks.rows[1:] - chunks.rows[:-1])[wanted]
        data, places = self._page.fetch(1, chunks.places[wanted], chunks.places[wanted + 1])
        sizes = chunks.places[wanted + 1] - chunks.places[wanted]

        keep: slice | Ints | None
        if isinstance(rows, Span):
            skipped = int(chunks.rows[wanted[0]])
            keep = slice(rows.start - skipped, rows.stop - skipped)
            if keep == slice(0, int(counts.sum())):
                keep = None
        else:
            before = starts_of(counts)[:-1][np.cumsum(change) - 1]
            keep = rows - chunks.rows[of_row] + before
        return self._decode(data, places, sizes, counts, keep)

    def _decode(
        self, data: Bytes, places: Ints, sizes: Ints, counts: Ints, keep: slice | Ints | None
    ) -> Leaf:
        levels, buffers = self._parse_chunks(data, places, sizes, counts)
        definition = None if levels is None else self._definition(levels, counts)
        if definition is not None and keep is not None:
            definition = definition[keep]
        positions = keep if isinstance(keep, np.ndarray) else None
        decoded = decode_values(self._layout.value_compression, buffers, counts, positions)
        if isinstance(keep, slice):
            decoded = raw.select(decoded, keep)
        if self._layout.HasField("dictionary"):
            values = self._look_up(decoded, definition)
        else:
            values = raw.to_arrow(decoded, self._kind)
        return Leaf(values, self._layers, definition)

    def _parse_chunks(
        self, data: Bytes, places: Ints, sizes: Ints, counts: Ints
    ) -> tuple[Pieces | None, list[Pieces]]:
        """Parse the headers of all chunks; return the definition and the value buffers."""
        layout = self._layout
        halves = view(data, "<u2")
        at = places // 2
        has_levels = layout.HasField("def_compression")
        wide = layout.has_large_chunk
        header = 2 + 2 * has_levels + (4 if wide else 2) * int(layout.num_buffers)
        require(header <= 4096 and (sizes >= header).all(), "a chunk is shorter than its header")
        part = places + -(-header // 8) * 8
        field = at + 1
        levels = None
        if has_levels:
            require((halves[at] == counts).all(), "a chunk's levels are not its rows")
            length = halves[field].astype(np.int64)
            levels = Pieces(data, part, length)
            part = part + _align(length)
            field = field + 1
        buffers = []
        for _ in range(int(layout.num_buffers)):
            length = halves[field].astype(np.int64)
            if wide:
                length |= halves[field + 1].astype(np.int64) << 16
            field = field + (2 if wide else 1)
            buffers.append(Pieces(data, part, length))
            part = part + _align(length)
        # the padding of the last buffer may be missing
        require((part - 8 < places + sizes).all(), "a chunk's buffers are longer than the chunk")
        return levels, buffers

    def _definition(self, levels: Pieces, counts: Ints) -> NDArray[np.uint16]:
        return raw.words_of(decode_blocks(self._layout.def_compression, levels, counts), 2)

    def _look_up(self, decoded: raw.Raw, definition: NDArray[np.uint16] | None) -> pa.Array:
        index = raw.words_of(decoded, 1, 2, 4, 8)
        items = self._dictionary
        if definition is not None:  # null rows hold arbitrary indices
            index = np.where(definition == 0, index, index.dtype.type(0))
        if len(items) == 0:
            require(definition is not None and (definition != 0).all(), "an empty dictionary")
            return pa.nulls(len(index), self._kind)
        require(len(index) == 0 or int(index.max()) < len(items), "an index has no value")
        if pa.types.is_dictionary(self._kind):
            keys = pa.array(index).cast(self._kind.index_type)
            return pa.DictionaryArray.from_arrays(keys, items, ordered=self._kind.ordered)
        return items.take(pa.array(index))
