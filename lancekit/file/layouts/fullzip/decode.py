"""Full-zip pages: large values, each behind its own levels (docs/format/data-files.md, 8)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancekit.cache import remembered
from lancekit.file.container.page import Page
from lancekit.file.encodings.packed_struct import values_to_arrow
from lancekit.file.kernels.faults import require
from lancekit.file.kernels.memory import Ints, gather
from lancekit.file.kernels.row_selection import Rows
from lancekit.file.layouts.fullzip.entries import EntryForm
from lancekit.file.layouts.fullzip.values import (
    fixed_values,
    is_packed,
    packed_values,
    variable_values,
)
from lancekit.file.structure.leaf import Leaf
from lancekit.file.structure.repdef import Layers, Levels
from lancekit.format.pb import encodings_v21_pb2 as pb
from lancekit.lazy import cached_property

__all__ = ["FullZipPage"]


class FullZipPage:
    """Decoder of one full-zip page, of fixed or variable width."""

    def __init__(self, page: Page, layout: pb.FullZipLayout, kind: pa.DataType) -> None:
        self._page = page
        self._layout = layout
        self._kind = kind
        self._layers = Layers.of(layout.layers)
        require(
            self._layers.lists or layout.num_items == page.length,
            "the page's items are not its rows",
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
        self._form = EntryForm.of(
            self._layers,
            bits_rep=layout.bits_rep,
            bits_def=layout.bits_def,
            width=width,
            prefix=prefix,
        )

    def leaf(self, rows: Rows) -> Leaf:
        """Return rows with their levels; only the bytes of wanted rows are read."""
        if self._form.prefix:
            return self._variable(rows)
        return self._nested(rows) if self._layers.lists else self._strided(rows)

    # ---- fixed width

    def _strided(self, rows: Rows) -> Leaf:
        """Read rows that all have the same size."""
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
        levels = Levels(len(entries.starts), entries.repetition, entries.definition)
        return self._fixed_leaf(table, levels)

    def _fixed_leaf(self, table: np.ndarray, levels: Levels) -> Leaf:
        values, rest = fixed_values(self._layout.value_compression, table, 1, len(table))
        require(rest.shape[1] == 0, "values wider than their encoding")
        return Leaf(values_to_arrow(values, self._kind), self._layers, levels)

    # ---- variable width

    @cached_property
    def _index(self) -> Ints:
        """Where every row starts in the data, and the end of the last."""
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
        """Return bytes, and where in them each row starts and stops."""
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
        levels = Levels(len(entries.starts), entries.repetition, entries.definition)
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
            require((lengths == ends - header).all(), "a value's length is not its row's")
        shown = levels.visible(self._layers)
        valid = entries.filled
        if valid is not None and shown is not None:
            valid = valid[shown]
        encoding = self._layout.value_compression
        if is_packed(encoding):
            values = packed_values(encoding, self._kind, data, header, lengths, valid)
        else:
            values = variable_values(encoding, self._kind, data, header, lengths, valid)
        return Leaf(values, self._layers, levels)
