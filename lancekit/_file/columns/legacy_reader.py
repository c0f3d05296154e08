"""Reading the rows of one field of a legacy file: what to decode, in pieces.

Batches are small, and all columns of one lie together: rows of many batches are read as one.
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

#: Bytes of the file that the rows of a piece lie in: far less than an array of strings may have.
_PIECE_BYTES = 64 << 20

#: The same for a stream of batches, with the rows that a part of it has at least.
_UNIT_BYTES, _UNIT_ROWS = 8 << 20, 64


class LegacyFieldReader:
    """Reads one top-level field of a file of 0.1."""

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
        """Yield the field and all below it, parents first."""
        waiting = [] if self._part is None else [self._part]
        while waiting:
            part = waiting.pop()
            yield part
            waiting += reversed(part.children)

    def plan(self, rows: Rows) -> Plan:
        """Return what to do for some rows, and how to make chunks of the field's type of it."""
        return Plan(
            [
                Work(self._cost(part), partial(self._read, part))
                for part in self._cut(rows, _PIECE_BYTES)
            ],
            list,
            [(self, rows)],
        )

    def ahead_of(self, rows: Rows) -> Iterator[tuple[int, int]]:
        """Yield where the batches lie that rows are in, if what is between pages is read anyway.

        Pages of other columns between those of one are: fetched for each, they would come as often.
        """
        if self._part is None or len(rows) == 0:
            return
        pages = self._part.pages
        last = len(pages.positions)
        if self._container.size > last * self._container.source.gap:
            return
        # before a page of strings lie their bytes, but no more than behind a page of the last batch
        borders = np.concatenate(([0], pages.positions, [self._container.column_table[0][0]]))
        touched = np.unique(pages.runs(rows).page)
        for start, stop in zip(borders[touched], borders[touched + 2], strict=True):
            yield int(start), max(int(stop - start), 0)

    def bounds(self, rows: range) -> Iterator[tuple[range, BlockBounds | None]]:
        """Yield the rows: nothing is remembered of what lies in the file as it is."""
        if rows:
            yield rows, None

    def units(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows in parts that take little memory."""
        return self._cut(rows, _UNIT_BYTES)

    def _cut(self, rows: Rows, most: int) -> Iterator[Rows]:
        """Yield the rows in parts that lie in about so many bytes of the file."""
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
