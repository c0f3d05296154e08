"""Constant pages: all rows null, or all valid rows equal (file format, section 9)."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit.file import raw
from lancekit.file.faults import require
from lancekit.file.memory import Bytes, starts_of, view
from lancekit.file.page import Leaf, Page, item_layer
from lancekit.file.pieces import decode_one
from lancekit.file.selection import Selection, Span
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["ConstantPage"]


class ConstantPage:
    """Decoder of one constant page.

    Its buffers are the scalar, unless that is inline or absent, then the levels, if there are any.
    """

    def __init__(self, page: Page, layout: pb.ConstantLayout, kind: pa.DataType) -> None:
        self._page = page
        self._layout = layout
        self._kind = raw.storage_type(kind)
        self._layers = tuple(layout.layers)
        self._nullable = item_layer(self._layers)
        count = len(page.sizes)
        self._has_scalar = layout.HasField("inline_value") or count in {1, 3}
        require(count <= 3, f"a constant page of {count} buffers")
        require(
            self._has_scalar or self._nullable or page.length == 0,
            "neither a value nor nulls",
        )

    def read(self, rows: Selection) -> pa.Array:
        """Return rows as an array of the column's type."""
        return self.leaf(rows).to_array()

    def leaf(self, rows: Selection) -> Leaf:
        """Return rows with their levels."""
        if not self._has_scalar:
            return Leaf(pa.nulls(len(rows), self._kind), self._layers)
        values = self._scalar.take(pa.array(np.zeros(len(rows), np.int8)))
        definition = self._definition
        if definition is not None:
            part = slice(rows.start, rows.stop) if isinstance(rows, Span) else rows
            definition = definition[part]
        return Leaf(values, self._layers, definition)

    @cached_property
    def _definition(self) -> NDArray[np.uint16] | None:
        count = len(self._page.sizes)
        if count < 2 or self._page.size(count - 1) == 0:
            return None
        require(self._page.size(count - 2) == 0, "repetition levels in a flat column")
        data = self._page.read(count - 1)
        levels: NDArray[np.uint16]
        if self._layout.HasField("def_compression"):
            decoded = decode_one(
                self._layout.def_compression, data, int(self._layout.num_def_values)
            )
            levels = raw.words_of(decoded, 2)
        else:
            levels = view(data, "<u2")
        require(len(levels) == self._page.length, "the page's levels are not its rows")
        return levels

    @cached_property
    def _scalar(self) -> pa.Array:
        """An array of one value."""
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
    """Return the buffers of a scalar: their number, their lengths, then one after another."""
    words = view(data, "<u4")
    require(len(words) > 0 and 1 <= words[0] <= 2, "a scalar of unknown form")
    count = int(words[0])
    require(len(words) > count, "a scalar is too short")
    borders = starts_of(words[1 : count + 1]) + 4 * (count + 1)
    require(borders[-1] <= data.size, "a scalar is too short")
    return [data[start:stop] for start, stop in pairwise(borders.tolist())]
