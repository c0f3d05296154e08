"""Readers of a field's rows from its physical columns.

A field's reader returns a `Plan`: the pieces to decode, which can run in threads, and a function
that combines their results.  From 2.1 on, each leaf's levels have the shape of all its parents, so
`_Leaves` reads leaves independently.  In 2.0 structs and lists have columns of their own: `_Struct`
passes rows to its children, and `_Lists` requests items from its child.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._cache import remembered
from lancekit._file.columns.blocks import BlockBounds, Blocks, Part, blocks_of
from lancekit._file.columns.decoders import array_page, checked_rows, decoder_of
from lancekit._file.columns.page_runs import PageGroup, runs_of
from lancekit._file.columns.threads import Piece, divide
from lancekit._file.columns.work import SMALL_BYTES, SmallRun, Work
from lancekit._file.container.footer import Container, StoredPage
from lancekit._file.encodings.packed_struct import struct_array
from lancekit._file.kernels.bounds import allowance, null_bytes
from lancekit._file.kernels.faults import Damaged, Unsupported, located, require
from lancekit._file.kernels.memory import Ints, ranges, starts_of
from lancekit._file.kernels.row_selection import Rows, split
from lancekit._file.layouts.assemble import aligned, lists_over, merge, struct_of, texts_over, wrap
from lancekit._file.layouts.field_tree import Node, Path, paths, tree
from lancekit._lazy import cached_property
from lancekit.errors import FormatError

#: Encoded bytes that a stream of batches decodes at a time, and the minimum number of rows.
_UNIT_BYTES = 2 << 20
_UNIT_ROWS = 64

#: Approximate limit of decoded bytes, for pages that encode any number of rows in few bytes.
_UNIT_DECODED = 64 << 20

#: Minimum bytes that a row takes while it is decoded.
_LEVELS_BYTES = 8


class PrefetchSource(Protocol):
    """Source of byte ranges that should be fetched together before rows are read."""

    def prefetch_ranges(self, rows: Rows, /) -> Iterable[tuple[int, int]]:
        """Return (position, size) of the ranges."""


class Plan(NamedTuple):
    """Pieces to decode, and a function that combines their results to chunks of the field."""

    work: list[Work]
    finish: Callable[[list[pa.Array]], list[pa.Array]]
    #: pages with the rows to read from them, for prefetching before the work begins
    prefetch: Sequence[tuple[PrefetchSource, Rows]] = ()


class _Reader(Protocol):
    """Reader of a field or of a part of one."""

    @property
    def columns(self) -> Sequence[_Column]:
        """Physical columns that the reader uses."""

    def plan(self, rows: Rows) -> Plan:
        """Return the plan for reading rows, or list items, of this part."""


class _Column:
    """Physical column of a file: its pages, grouped into runs that are decoded as one."""

    def __init__(
        self, container: Container, node: Node, column: int, rows: int, group: int = 1
    ) -> None:
        self.file = container.source.name
        self.name = node.name
        self.is_20 = container.version == (2, 0)
        self.page_memory = container.page_memory
        with located(self.file, self.name):
            self.stored = container.pages(column)
            self.runs = self._runs(None if container.key is None else (container.key, column))
            borders = [0, *accumulate(run.length for run in self.runs)]
            if group != 1:
                for border in borders:
                    require(border % group == 0, "a page ends inside of a list of fixed size")
                borders = [border // group for border in borders]
            if borders[-1] != rows:
                raise Damaged(f"its pages hold {borders[-1]} rows, not {rows}")
            #: the first row of each run, followed by the total number of rows
            self.borders = borders

    @cached_property
    def firsts(self) -> Ints:
        """The borders as an array."""
        return np.array(self.borders, np.int64)

    def split(self, rows: Rows) -> Iterator[tuple[int, Rows]]:
        """Yield (run, rows within the run) for each run of pages with some of the rows."""
        if len(self.runs) == 1 and len(rows):
            return iter([(0, rows)])
        return split(rows, self.firsts)

    def _runs(self, key: Hashable | None) -> list[PageGroup]:
        """Return the runs of pages that are decoded as one."""
        if len(self.stored) == 1:
            return [PageGroup.of(self.stored)]
        key = None if key is None else ("runs", key)
        counts = remembered("columns", key, self._run_lengths, lambda found: 40 * len(found))
        pages = iter(self.stored)
        return [PageGroup.of(islice(pages, count)) for count in counts]

    def _run_lengths(self) -> list[int]:
        return [len(run.pages) for run in runs_of(self.stored)]

    @property
    def encoded_bytes(self) -> int:
        return sum(run.encoded_bytes for run in self.runs)


class _Leaf:
    """Reader of a column with values."""

    def __init__(
        self, container: Container, node: Node, column: int, rows: int, path: Path
    ) -> None:
        self._column = _Column(container, node, column, rows, path.group)
        self._path = path
        self._decoders: dict[int, Callable[[Rows], pa.Array]] = {}
        self._blocks: dict[int, Blocks | None] = {}

    @property
    def columns(self) -> Sequence[_Column]:
        return [self._column]

    def plan(self, rows: Rows) -> Plan:
        work: list[Work] = []
        prefetch: list[tuple[PageGroup, Rows]] = []
        for place, part in self._column.split(rows):
            work += self._work(place, part, prefetch)
        return Plan(work, list, prefetch)

    def _work(
        self, place: int, rows: Rows, prefetch: list[tuple[PageGroup, Rows]]
    ) -> Iterator[Work]:
        """Yield the work for rows of one run of pages; add pages to `prefetch`."""
        run, blocks = self._column.runs[place], self._blocks_of(place)
        is_small = run.encoded_bytes <= SMALL_BYTES
        for part in [Part(rows)] if blocks is None else blocks.parts(rows):
            if blocks is not None and part.array is not None:
                yield Work(0, partial(blocks.select, part))
                continue
            prefetch.append((run, part.rows))
            if blocks is not None and part.fill and not blocks.whole:
                block, fill = blocks.span(part.block), partial(blocks.fill, part)
                if is_small:
                    small = self._small(place, block, partial(blocks.filled, part))
                    yield Work(0, partial(fill, partial(self._read, place)), small)
                    continue
                cost = sum(piece.cost for piece in divide(run.whole, place, block))
                yield Work(cost, partial(fill, partial(self._read, place)))
                continue
            if is_small and not part.fill:
                small = self._small(place, part.rows)
                yield Work(0, partial(self._read, place, part.rows), small)
                continue
            pieces = [Piece(place, part.rows, 0)]
            for piece in pieces if is_small else divide(run.whole, place, part.rows):
                read: Callable[[], pa.Array] = partial(self._read, place, piece.rows)
                if blocks is not None and part.fill:
                    read = partial(blocks.fill_inside, piece.rows, partial(self._read, place))
                yield Work(piece.cost, read)

    def _small(
        self, place: int, rows: Rows, finish: Callable[[pa.Array], pa.Array] | None = None
    ) -> SmallRun | None:
        """Return a run that can be decoded together with others, or ``None`` if this one cannot."""
        column, run = self._column, self._column.runs[place]
        if run.first.run_key is None or not run.first.page.positions:
            return None
        length = column.borders[place + 1] - column.borders[place]
        return SmallRun(run, length, self._path, rows, column.page_memory, finish)

    def bounds(self, rows: range) -> Iterator[tuple[range, BlockBounds | None]]:
        """Yield consecutive ranges of rows, each with the bounds of its values if known."""
        for place, part in split(rows, self._column.firsts):
            blocks, first = self._blocks_of(place), int(self._column.firsts[place])
            whole = range(int(part[0]), int(part[-1]) + 1)
            for found, bounds in [(whole, None)] if blocks is None else blocks.bounds(whole):
                yield range(first + found.start, first + found.stop), bounds

    def _blocks_of(self, place: int) -> Blocks | None:
        if place not in self._blocks:
            run, (first, last) = self._column.runs[place], self._column.borders[place : place + 2]
            self._blocks[place] = blocks_of(run, last - first, self._path.kinds[-1])
        return self._blocks[place]

    def _read(self, place: int, rows: Rows) -> pa.Array:
        """Decode rows of one run of pages."""
        run = self._column.runs[place]
        pages, first = run.pages, run.first.page.index
        if len(pages) == 1:
            return self._decode(place, pages, rows, run.encoded_bytes)
        try:
            return self._decode(place, pages, rows, run.encoded_bytes)
        except FormatError:
            # decoded one by one, the error names the page
            borders = starts_of(np.array([stored.page.length for stored in pages]))
            group = self._path.group
            parts = [
                self._decode(-1 - first - page, [pages[page]], part, sum(pages[page].page.sizes))
                for page, part in split(rows, borders // group)
            ]
            return ak.concat_arrays(parts)

    def _decode(self, key: int, pages: Sequence[StoredPage], rows: Rows, encoded: int) -> pa.Array:
        column = self._column
        with (
            located(column.file, column.name, pages[0].page.index),
            allowance(encoded, column.page_memory),
        ):
            decode = self._decoders.get(key)
            if decode is None:
                decode = self._decoders[key] = self._decoder_of(pages)
            return checked_rows(decode(rows), rows, self._path.kinds[-1])

    def _decoder_of(self, pages: Sequence[StoredPage]) -> Callable[[Rows], pa.Array]:
        if self._column.is_20:
            return array_page(pages[0], self._path.kinds[0]).read
        return decoder_of(pages, self._path)


class _Leaves:
    """Reader of a field in a 2.1+ file, which merges its leaves."""

    def __init__(self, node: Node, leaves: Sequence[_Leaf]) -> None:
        self._node = node
        self._leaves = leaves

    @property
    def columns(self) -> Sequence[_Column]:
        return [column for leaf in self._leaves for column in leaf.columns]

    def plan(self, rows: Rows) -> Plan:
        return _combined(
            [leaf.plan(rows) for leaf in self._leaves], lambda parts: merge(self._node, parts)
        )


class _Struct:
    """Reader of a struct in a 2.0 file: a column without data, and the children's columns."""

    def __init__(self, node: Node, header: _Column, children: Sequence[_Reader]) -> None:
        self._node = node
        self._header = header
        self._children = children
        for stored in header.stored:
            with located(header.file, header.name, stored.page.index):
                array_page(stored, node.kind).check_struct()

    @property
    def columns(self) -> Sequence[_Column]:
        return [self._header, *(column for child in self._children for column in child.columns)]

    def plan(self, rows: Rows) -> Plan:
        if not self._children:  # no child is stored: all are null
            kind, count = self._node.kind, len(rows)
            nulls = [pa.nulls(count, kind.field(at).type) for at in range(kind.num_fields)]
            return Plan([], lambda _: [struct_array(kind, nulls, count)])
        return _combined(
            [child.plan(rows) for child in self._children],
            lambda parts: struct_of(self._node.kind, parts, None),
        )


class _Lists:
    """Reader of lists in a 2.0 file, or of strings in its first form: offsets, and items."""

    def __init__(self, node: Node, header: _Column, child: _Reader) -> None:
        self._node = node
        self._header = header
        self._child = child
        self._pages = [array_page(stored, node.kind) for stored in header.stored]
        self._items = _first_items(header, node)
        self._over = texts_over if node.is_leaf else lists_over

    @property
    def columns(self) -> Sequence[_Column]:
        return [self._header, *self._child.columns]

    def plan(self, rows: Rows) -> Plan:
        lengths, nulls, spans, places = [], [], [], []
        for page, part in split(rows, self._header.firsts):
            with located(self._header.file, self._header.name, page):
                begin, end, null = self._pages[page].lists(part)
            lengths.append(end - begin)
            nulls.append(null)
            first = int(self._items[page])
            if isinstance(rows, range):
                spans.append(range(first + int(begin[0]), first + int(end[-1])))
            else:
                places.append(ranges(first + begin, end - begin))
        if not lengths:
            return Plan([], lambda _: [])
        wanted: Rows
        if isinstance(rows, range):
            wanted = range(spans[0].start, spans[-1].stop)
        else:
            wanted = np.concatenate(places)
        inner = self._child.plan(wanted)
        size, null = np.concatenate(lengths), np.concatenate(nulls)
        require(int(size.sum()) == len(wanted), "lists that do not follow each other")
        return Plan(
            inner.work,
            lambda results: self._over(self._node.kind, size, null, inner.finish(results)),
            inner.prefetch,
        )


def _first_items(header: _Column, node: Node) -> Ints:
    """Return the first item of each page of offsets, then the total number of items."""
    counts = []
    for stored in header.stored:
        with located(header.file, header.name, stored.page.index):
            counts.append(array_page(stored, node.kind).num_items)
    return starts_of(np.array(counts, np.int64))


def _combined(plans: Sequence[Plan], combine: Callable[[list[pa.Array]], pa.Array]) -> Plan:
    """Return a plan that combines the plans of several parts of the same rows."""

    def finish(results: list[pa.Array]) -> list[pa.Array]:
        remaining = iter(results)
        chunks = [plan.finish(list(islice(remaining, len(plan.work)))) for plan in plans]
        return [combine(parts) for parts in aligned(chunks)]

    return Plan(
        [piece for plan in plans for piece in plan.work],
        finish,
        [pages for plan in plans for pages in plan.prefetch],
    )


def _check_columns(node: Node, expected: int, columns: Sequence[int]) -> None:
    if len(columns) != expected:
        raise Damaged(f"{node.kind} takes {expected} physical columns, not {len(columns)}")


def _reader(container: Container, node: Node, columns: Sequence[int], rows: int) -> _Reader:
    """Return the reader of a field in a 2.1+ file."""
    leaves = list(paths(node))
    _check_columns(node, len(leaves), columns)
    for _, path in leaves:
        if path.group != 1 and path.lists:
            raise Unsupported("a list in, or of, fixed-size lists of structs")
    readers = [
        _Leaf(container, leaf, column, rows, path)
        for (leaf, path), column in zip(leaves, columns, strict=True)
    ]
    return readers[0] if node.is_leaf else _Leaves(node, readers)


def _reader_20(container: Container, node: Node, columns: Iterator[int], rows: int) -> _Reader:
    """Return the reader of one part of a field in a 2.0 file."""
    column = next(columns)
    if node.is_leaf:
        if pa.types.is_struct(node.kind):
            header = _Column(container, node, column, rows)
            # a struct without stored children has the same columns as a packed struct
            plain = all(array_page(stored, node.kind).is_struct for stored in header.stored)
            if plain or not node.kind.num_fields:
                return _Struct(node, header, [])
        leaf = _Leaf(container, node, column, rows, Path((node.kind,), (1,)))
        (header,) = leaf.columns
        if not any(array_page(stored, node.kind).is_list for stored in header.stored):
            return leaf
        content, kind = int(_first_items(header, node)[-1]), pa.uint8()
        path = Path((kind,), (1,))
        return _Lists(
            node, header, _Leaf(container, Node(node.name, kind), column + 1, content, path)
        )
    header = _Column(container, node, column, rows)
    if pa.types.is_struct(node.kind):
        children = [_reader_20(container, child, columns, rows) for child in node.children]
        return _Struct(node, header, children)
    if pa.types.is_fixed_size_list(node.kind):
        raise Unsupported("a fixed-size list of structs in a 2.0 file")
    items = int(_first_items(header, node)[-1])
    return _Lists(node, header, _reader_20(container, node.children[0], columns, items))


class FieldReader:
    """Reader of one top-level field."""

    def __init__(self, container: Container, field: pa.Field, columns: Sequence[int]) -> None:
        self._field = field
        self._file = container.source.name
        self._rows = int(container.descriptor.length)
        node = tree(field)
        with located(self._file, self._field.name):
            if container.version == (2, 0):
                _check_columns(node, sum(1 for _ in node.walk()), columns)
                self._reader: _Reader = _reader_20(container, node, iter(columns), self._rows)
            else:
                self._reader = _reader(container, node, columns, self._rows)
        #: True if the reader's arrays have the field's type
        self._is_stored = isinstance(self._reader, _Leaf) and node.kind.equals(field.type)

    def plan(self, rows: Rows) -> Plan:
        """Return the plan for reading rows as chunks of the field's type."""
        inner = self._reader.plan(rows)
        if self._is_stored:
            return inner

        def finish(results: list[pa.Array]) -> list[pa.Array]:
            with located(self._file, self._field.name):
                return [wrap(array, self._field.type) for array in inner.finish(results)]

        return Plan(inner.work, finish, inner.prefetch)

    def bounds(self, rows: range) -> Iterator[tuple[range, BlockBounds | None]]:
        """Yield consecutive ranges of rows, each with the bounds of its values if known."""
        if isinstance(self._reader, _Leaf) and not self._field.type.num_fields:
            yield from self._reader.bounds(rows)
        elif rows:
            yield rows, None

    def units(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows in parts that take no more memory than one page of each column."""
        columns = self._reader.columns
        most = max(_UNIT_ROWS, _UNIT_DECODED // max(null_bytes(self._field.type), _LEVELS_BYTES))
        if len(columns) == 1 and columns[0].is_20:  # a page may be compressed as one unit
            first = 0
            for _, part in split(rows, columns[0].firsts):
                stop = first + len(part)
                for start in range(first, stop, most):
                    yield rows[start : min(start + most, stop)]
                first = stop
            return
        size = sum(column.encoded_bytes for column in columns)
        step = max(_UNIT_ROWS, min(_UNIT_BYTES * self._rows // max(1, size), most))
        for start in range(0, len(rows), step):
            yield rows[start : start + step]
