"""Reader of one field of a legacy file: divides rows into pieces to decode.

Batches are small, and a batch stores all columns together.  So one piece has rows of many batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lancekit._file.columns.blocks import BlockBounds
from lancekit._file.columns.decoders import checked_rows
from lancekit._file.columns.field_reader import Plan
from lancekit._file.columns.legacy_parts import LegacyPart, part_of
from lancekit._file.columns.work import Work
from lancekit._file.container.footer import Container
from lancekit._file.container.legacy_tables import legacy_metadata
from lancekit._file.encodings.packed_struct import struct_array
from lancekit._file.kernels.bounds import allowance
from lancekit._file.kernels.faults import Damaged, located
from lancekit._file.kernels.row_selection import Rows
from lancekit._file.layouts.assemble import wrap
from lancekit._file.layouts.field_tree import tree

#: Bytes of the file that the rows of a piece span: far below the limit of a string array.
_PIECE_BYTES = 64 << 20

#: The same for a part of a stream of batches, and its minimum number of rows.
_UNIT_BYTES, _UNIT_ROWS = 8 << 20, 64


class LegacyFieldReader:
    """Reader of one top-level field of a 0.1 file."""

    def __init__(self, container: Container, field: pa.Field, columns: Sequence[int]) -> None:
        self._container = container
        self._field = field
        self._rows = int(container.descriptor.length)
        self._part: LegacyPart | None = None
        with located(container.source.name, field.name):
            node = tree(field)
            self._kind = node.kind
            if len(columns) != sum(1 for _ in node.walk()):
                raise Damaged(f"{len(columns)} fields for one of {field.type}")
            if node.kind != pa.struct([]):
                source = container.source
                metadata = legacy_metadata(container.tail.read, container.size, source.name)
                offsets = np.array(metadata.batch_offsets, np.int64)
                self._part = part_of(
                    container,
                    node,
                    iter(columns),
                    offsets[1:] - offsets[:-1],
                    nullable=field.nullable,
                )

    def parts(self) -> Iterator[LegacyPart]:
        """Yield the reader of the field and of all its descendants, parents first."""
        waiting = [] if self._part is None else [self._part]
        while waiting:
            part = waiting.pop()
            yield part
            waiting += reversed(part.children)

    def plan(self, rows: Rows) -> Plan:
        """Return the plan for reading rows as chunks of the field's type."""
        return Plan(
            [
                Work(self._cost(part), partial(self._read, part))
                for part in self._cut(rows, _PIECE_BYTES)
            ],
            list,
            [(self, rows)],
        )

    def prefetch_ranges(self, rows: Rows) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the rows' batches if the gaps between pages are read anyway.

        The gaps have the pages of other columns, which would otherwise be fetched once per column.
        """
        if self._part is None or len(rows) == 0:
            return
        pages = self._part.pages
        last = len(pages.positions)
        if self._container.size > last * self._container.source.gap:
            return
        # the bytes of strings precede their page, but follow the pages of the previous batch
        borders = np.concatenate(([0], pages.positions, [self._container.column_table[0][0]]))
        touched = np.unique(pages.runs(rows).page)
        for start, stop in zip(borders[touched], borders[touched + 2], strict=True):
            yield int(start), max(int(stop - start), 0)

    def bounds(self, rows: range) -> Iterator[tuple[range, BlockBounds | None]]:
        """Yield all rows without bounds, because values of legacy files are not cached."""
        if rows:
            yield rows, None

    def units(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows in parts that take little memory."""
        return self._cut(rows, _UNIT_BYTES)

    def _cut(self, rows: Rows, most: int) -> Iterator[Rows]:
        """Yield the rows in parts that span about `most` bytes of the file."""
        step = max(_UNIT_ROWS, most * self._rows // self._container.size)
        borders = np.arange(step, self._rows, step)
        if self._part is not None:
            pages = self._part.pages
            moved = pages.positions[1:] // most != pages.positions[:-1] // most
            borders = np.union1d(borders, pages.firsts[1:-1][moved])
        if isinstance(rows, range):
            cuts = np.clip(borders, rows.start, rows.stop) - rows.start
        else:
            cuts = np.searchsorted(rows, borders)
        for start, stop in pairwise(np.unique(np.concatenate(([0], cuts, [len(rows)]))).tolist()):
            yield rows[start:stop]

    def _cost(self, rows: Rows) -> int:
        columns = max(1, len(self._container.column_table))
        return self._container.size * len(rows) // max(1, self._rows) // columns

    def _read(self, rows: Rows) -> pa.Array:
        container = self._container
        with (
            located(container.source.name, self._field.name),
            allowance(container.size, container.page_memory),
        ):
            if self._part is None:
                array = struct_array(self._kind, [], len(rows))
            else:
                array = self._part.read(rows)
            return wrap(checked_rows(array, rows, self._kind), self._field.type)
