"""Choice of a page's decoder by its layout, and the decoder of constant pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit._arrow_values import arrow_of
from lancekit._file.container.footer import Page, StoredPage
from lancekit._file.encodings.decode import decode_block
from lancekit._file.encodings.packed_struct import struct_array
from lancekit._file.kernels import values as raw
from lancekit._file.kernels.bounds import claim, look_up, nulls
from lancekit._file.kernels.faults import Damaged, Unsupported, require
from lancekit._file.kernels.memory import Bytes, Ints, starts_of, view
from lancekit._file.kernels.row_selection import Rows, grouped
from lancekit._file.layouts.assemble import nest
from lancekit._file.layouts.blob_descriptors import DESCRIPTOR
from lancekit._file.layouts.field_tree import Leaf, PageDecoder, Path
from lancekit._file.layouts.fullzip_decode import FullZipPage
from lancekit._file.layouts.miniblock_decode import MiniBlockPages
from lancekit._file.layouts.repdef import Layers, Levels, pick, rows_of
from lancekit._format.pb import encodings_v21_pb2 as pb
from lancekit._lazy import cached_property

if TYPE_CHECKING:
    from lancekit._file.layouts.v20_decode import ArrayPage
    from lancekit._format.pb import encodings_v20_pb2

# ---- constant pages: all rows null, or all valid rows equal (docs/format/data-files.md, 9)

#: Approximate bytes that a level takes while lists are built from it.
_LEVEL_BYTES = 16


class _ConstantPage:
    """Decoder of one constant page.

    Its buffers are the value, unless that is inline or absent, then the levels, if any.
    """

    def __init__(self, page: Page, layout: pb.ConstantLayout, kind: pa.DataType) -> None:
        self._page = page
        self._layout = layout
        self._kind = kind
        self._layers = Layers.of(layout.layers)
        count = len(page.sizes)
        require(count <= 3, f"a constant page of {count} buffers")
        self._has_scalar = layout.HasField("inline_value") or count in {1, 3}
        nullable = self._layers.kinds[0] == pb.NULLABLE_ITEM
        require(
            self._has_scalar or nullable or self._layers.lists or page.length == 0,
            "neither a value nor nulls",
        )

    def leaf(self, rows: Rows) -> Leaf:
        """Return decoded rows with their levels."""
        levels = self._levels
        if not isinstance(rows, range) or len(rows) != self._page.length:
            levels, _ = pick(levels, self._layers, self._starts, rows)
        shown = levels.visible(self._layers)
        count = levels.count if shown is None else int(np.count_nonzero(shown))
        return Leaf(self._values(count), self._layers, levels)

    def _values(self, count: int) -> pa.Array:
        if self._kind == pa.struct([]):  # the type has only one value
            return struct_array(self._kind, [], count)
        if not self._has_scalar:
            return nulls(count, self._kind)
        return look_up(self._scalar, arrow_of(np.zeros(count, np.int8)))

    @cached_property
    def _levels(self) -> Levels:
        layout = self._layout
        count = len(self._page.sizes)
        if count < 2:
            require(not self._layers.lists, "lists without repetition levels")
            return Levels(self._page.length)
        repetition = self._stream(count - 2, layout, "rep_compression", int(layout.num_rep_values))
        definition = self._stream(count - 1, layout, "def_compression", int(layout.num_def_values))
        streams = [stream for stream in (repetition, definition) if stream is not None]
        lengths = {len(stream) for stream in streams} or {self._page.length}
        require(len(lengths) == 1, "repetition and definition levels differ in number")
        (entries,) = lengths
        require(
            self._layers.lists or entries == self._page.length,
            "the page's level count does not match its row count",
        )
        return Levels(entries, repetition, definition)

    @cached_property
    def _starts(self) -> Ints | None:
        """Position of each row's first level; ``None`` without lists."""
        if not self._layers.lists:
            return None
        starts = rows_of(self._levels, self._layers)
        require(
            len(starts) == self._page.length + 1,
            "the page's level count does not match its row count",
        )
        return starts

    def _stream(
        self, buffer: int, layout: pb.ConstantLayout, name: str, count: int
    ) -> NDArray[np.uint16] | None:
        """Return repetition or definition levels, which are stored raw or compressed."""
        if self._page.size(buffer) == 0:
            return None
        data = self._page.read(buffer)
        if layout.HasField(name):
            claim(_LEVEL_BYTES * count, f"{count:,} levels")
            return raw.words_of(decode_block(getattr(layout, name), data, count), 2)
        return view(data, "<u2")

    @cached_property
    def _scalar(self) -> pa.Array:
        """Array with the page's one value."""
        if self._layout.HasField("inline_value"):
            inline = np.frombuffer(self._layout.inline_value, np.uint8)
            return raw.to_arrow(raw.Fixed(inline.size, inline, 1), self._kind)
        buffers = _scalar_buffers(self._page.read(0))
        if len(buffers) == 1:
            return raw.to_arrow(raw.Fixed(buffers[0].size, buffers[0], 1), self._kind)
        require(len(buffers) == 2 and buffers[0].size in {8, 16}, "a scalar of unknown form")
        width = buffers[0].size // 2
        offsets = np.frombuffer(buffers[0].tobytes(), f"<i{width}")
        return raw.to_arrow(raw.Variable(offsets, buffers[1]), self._kind)


def _scalar_buffers(data: Bytes) -> list[Bytes]:
    """Return the buffers of a scalar, which follow their number and their lengths."""
    words = view(data, "<u4")
    require(len(words) > 0 and 1 <= words[0] <= 2, "a scalar of unknown form")
    count = int(words[0])
    require(len(words) > count, "a scalar is too short")
    borders = starts_of(words[1 : count + 1]) + 4 * (count + 1)
    require(borders[-1] <= data.size, "a scalar is too short")
    return [data[start:stop] for start, stop in pairwise(borders.tolist())]


_LAYOUTS: dict[str, Callable[[Page, Any, pa.DataType], PageDecoder]] = {
    "mini_block": lambda page, layout, kind: MiniBlockPages([(page, layout)], kind),
    "full_zip": FullZipPage,
    "constant": _ConstantPage,
}


def decoder_of(pages: Sequence[StoredPage], path: Path) -> Callable[[Rows], pa.Array]:
    """Return a function that decodes rows of one page of a 2.1+ file, or of a group of pages.

    Rows are numbered across the pages.  The arrays have the path's last type.
    """
    kind, group = path.kinds[0], path.group
    decoder: PageDecoder
    if len(pages) == 1:
        decoder = _decoder(pages[0].page, cast("pb.PageLayout", pages[0].encoding), kind)
    else:
        encodings = [cast("pb.PageLayout", stored.encoding) for stored in pages]
        layouts = [(p.page, e.mini_block) for p, e in zip(pages, encodings, strict=True)]
        decoder = MiniBlockPages(layouts, kind)
    return lambda rows: nest(decoder.leaf(grouped(rows, group)), path, len(rows))


def _decoder(page: Page, encoding: pb.PageLayout, kind: pa.DataType) -> PageDecoder:
    name = encoding.WhichOneof("layout") or "unknown"
    if name == "blob":
        from lancekit._file.layouts.blobs import BlobPage

        descriptors = _decoder(page, encoding.blob.inner_layout, DESCRIPTOR)
        return BlobPage(page, descriptors, Layers.of(encoding.blob.layers), kind)
    make = _LAYOUTS.get(name)
    if make is None:
        raise Unsupported(f"page layout {name!r}")
    decoder: PageDecoder = make(page, getattr(encoding, name), kind)
    return decoder


def checked_rows(array: pa.Array, rows: Rows, kind: pa.DataType) -> pa.Array:
    """Return the decoded array; raise `Damaged` if its length or type is wrong."""
    if len(array) != len(rows) or array.type != kind:
        raise Damaged(f"it decodes to {len(array)} values of {array.type}, not {len(rows)}")
    return array


def array_page(stored: StoredPage, kind: pa.DataType) -> ArrayPage:
    """Return the decoder of one page of a 2.0 file."""
    from lancekit._file.layouts.v20_decode import ArrayPage

    encoding = cast("encodings_v20_pb2.ArrayEncoding", stored.encoding)
    return ArrayPage(stored.page, encoding, kind)
