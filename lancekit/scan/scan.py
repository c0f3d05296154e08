"""Scans: which columns and rows of which fragments, as batches or as a table.

`ScanRequest` is what a scan asks of every fragment, and can be sent to a worker; `scan_fragment`
answers it for one fragment; `Scan` runs it over all, in order, and cuts limit and offset.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancekit.errors import FormatError
from lancekit.file.kernels.bits import flags_of
from lancekit.file.kernels.widths import value_bytes
from lancekit.format.deletions import to_offsets
from lancekit.format.schema import LanceSchema
from lancekit.legible import shown, warn
from lancekit.scan.ahead import Workers
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.fragments.joint_reader import open_together, rows_together, together
from lancekit.scan.fragments.reader import (
    FragmentReader,
    Offsets,
    as_offsets,
    column_field,
    rows_without_columns,
)
from lancekit.scan.fragments.rebatch import combined, cut_at, no_rows
from lancekit.scan.fragments.source import FragmentSource
from lancekit.scan.fragments.trimmed import trimmed
from lancekit.scan.indexed.choice import RowChoice
from lancekit.scan.outputs import Output
from lancekit.scan.selection import Selection, projections

__all__ = [
    "Scan",
    "ScanRequest",
    "Search",
    "block_rows",
    "computed",
    "default_batch_rows",
    "read_block",
    "read_together",
    "row_bytes",
    "scan_fragment",
    "scan_together",
    "select_among",
    "select_rows",
    "selected_rows",
]

#: rows of a batch, as in the reference
BATCH_ROWS = 8192
#: where the rows of a batch can be set for a whole process, as in the reference
_BATCH_VARIABLE = "LANCE_DEFAULT_BATCH_SIZE"
#: what one of Arrow's batches holds
_MOST_ROWS = 1 << 31
#: physical rows that `selected_rows` looks at together
_LOOKED_AT = 1 << 18
#: decoded bytes held at a time for one fragment
_BLOCK_BYTES = 64 << 20
#: the same, of columns that only a filter looks at
_FILTER_BYTES = 8 << 20
#: the same, for a scan that may stop early
_LIMITED_BLOCK_BYTES = 4 << 20


#: fragments of fewer rows are small; of so many of them rows are read by themselves
_SMALL_ROWS, _FEW_SMALL = 1 << 15, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What to read of each fragment, and how much of it to hold at a time."""

    outputs: tuple[Output, ...]
    predicate: Predicate | None = None
    batch_rows: int = BATCH_ROWS
    block_bytes: int = _BLOCK_BYTES
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        return pa.schema([output.field for output in self.outputs], dict(self.metadata) or None)


def default_batch_rows() -> int:
    """Return the rows of a batch where nothing is asked for: what the environment says, or 8192."""
    text = os.environ.get(_BATCH_VARIABLE)
    if text is None:
        return BATCH_ROWS
    if text.isdecimal() and int(text) > 0:
        return int(text)
    warn(
        f"{_BATCH_VARIABLE} is {shown(text)}, which is no whole number above 0: batches have "
        f"{BATCH_ROWS} rows."
    )
    return BATCH_ROWS


# ---- one fragment


def scan_fragment(source: FragmentSource, request: ScanRequest) -> Iterator[pa.Table]:
    """Yield the selected rows of one fragment, in order, in blocks of bounded size."""
    reader = FragmentReader(source)
    step = block_rows(reader.source.schema, request)
    for start in range(0, reader.physical_rows, step):
        yield read_block(reader, request, start, min(start + step, reader.physical_rows))


def scan_together(sources: Sequence[FragmentSource], request: ScanRequest) -> Iterator[pa.Table]:
    """Do the same with fragments that `together` has put together: one block for all of them."""
    if len(sources) > 1:
        try:
            reader = open_together(sources)
            block = read_block(reader, request, 0, reader.physical_rows)
        except FormatError:
            pass  # the next time the error names the file
        else:
            yield block
            return
    for source in sources:
        yield from scan_fragment(source, request)


def read_together(
    sources: Sequence[FragmentSource], request: ScanRequest
) -> Iterator[tuple[FragmentSource, ...]]:
    """Yield all fragments, in order, those in one tuple that are to be read together.

    They make a block at most, and there is one for each thread if there are rows enough.
    """
    if sources:
        most_rows = min(rows_together(sources), block_rows(sources[0].schema, request))
        yield from together(sources, most_rows)


def block_rows(schema: LanceSchema, request: ScanRequest) -> int:
    """Return how many rows of a fragment are read at a time: whole batches."""
    batches = request.block_bytes // row_bytes(schema, request) // request.batch_rows
    return max(batches, 1) * request.batch_rows


def read_block(reader: FragmentReader, request: ScanRequest, start: int, stop: int) -> pa.Table:
    """Read the selected rows among the physical rows ``start`` to ``stop`` of a fragment."""
    if request.predicate is None:
        return project(reader, request.outputs, reader.live_between(start, stop))
    if not request.outputs:  # it is their number that is wanted
        _, _, mask = _masked(reader, request.predicate, reader.live_between(start, stop))
        return rows_without_columns(mask.true_count)
    inputs = set[str]().union(*(output.inputs for output in request.outputs))
    rows, known = select_rows(reader, request.predicate, start, stop, inputs)
    return project(reader, request.outputs, rows, known)


def select_rows(
    reader: FragmentReader,
    predicate: Predicate,
    start: int,
    stop: int,
    keep: Collection[str] = (),
) -> tuple[Offsets | range, pa.Table | None]:
    """Return which of the physical rows ``start`` to ``stop`` a filter selects.

    With them come those columns to ``keep`` that the filter has read.
    """
    return select_among(reader, predicate, reader.live_between(start, stop), keep)


def select_among(
    reader: FragmentReader,
    predicate: Predicate,
    among: Offsets | range,
    keep: Collection[str] = (),
) -> tuple[Offsets | range, pa.Table | None]:
    """Do the same among some rows of a fragment, which ascend."""
    rows, known, mask = _masked(reader, predicate, among)
    known = known.select([name for name in known.column_names if name in keep])
    if mask.true_count < len(rows):
        chosen = np.flatnonzero(flags_of(mask))
        rows = chosen + rows.start if isinstance(rows, range) else rows[chosen]
        known = known.filter(mask)  # chunk by chunk, where `take` would join them first
    return rows, known if known.column_names else None


def selected_rows(reader: FragmentReader, predicate: Predicate) -> Offsets:
    """Return which rows of a fragment a filter selects, ascending; it looks at some at a time."""
    rows = reader.physical_rows
    found = [
        as_offsets(select_rows(reader, predicate, start, min(start + _LOOKED_AT, rows))[0])
        for start in range(0, rows, _LOOKED_AT)
    ]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _masked(
    reader: FragmentReader, predicate: Predicate, among: Offsets | range
) -> tuple[Offsets | range, pa.Table, pa.BooleanArray]:
    """Return rows, the columns that a filter looks at, and which of the rows it selects."""
    rows = trimmed(reader, predicate, among)
    known = reader.read(sorted(predicate.columns), rows)
    return rows, known, predicate.mask(known)


def project(
    reader: FragmentReader,
    outputs: Sequence[Output],
    rows: Offsets | range,
    known: pa.Table | None = None,
) -> pa.Table:
    """Read and compute the outputs for physical rows; ``known`` holds columns already read."""
    inputs = set[str]().union(*(output.inputs for output in outputs))
    if outputs and not inputs:
        inputs = {"_rowaddr"}  # constants alone do not say how many rows there are
    arrays = dict(zip(known.column_names, known.columns, strict=True)) if known else {}
    fresh = reader.read(sorted(inputs - arrays.keys()), rows)
    arrays.update(zip(fresh.column_names, fresh.columns, strict=True))
    return computed(outputs, arrays, fresh.num_rows)


def computed(
    outputs: Sequence[Output], arrays: Mapping[str, pa.ChunkedArray], num_rows: int
) -> pa.Table:
    """Return the outputs, given the columns that they are made of."""
    if not outputs:
        return rows_without_columns(num_rows)
    batch = pa.table(dict(arrays) if any(output.expression for output in outputs) else {})
    columns = [
        arrays[output.column] if output.expression is None else output.expression.evaluate(batch)
        for output in outputs
    ]
    return pa.table(columns, schema=pa.schema([output.field for output in outputs]))


def _is_small(source: FragmentSource) -> bool:
    return source.fragment.physical_rows < _SMALL_ROWS


def _filter_rows(schema: LanceSchema, request: ScanRequest) -> int:
    """Return of how many rows of a fragment a filter is asked at a time; 0 if there is none."""
    if request.predicate is None:
        return 0
    return block_rows(schema, replace(request, outputs=(), block_bytes=_FILTER_BYTES))


def row_bytes(schema: LanceSchema, request: ScanRequest) -> int:
    """Estimate the decoded bytes of one row of what a request reads."""
    plain = {o.column: o.field.type for o in request.outputs if o.expression is None}
    names = set[str]().union(*(o.expression.columns for o in request.outputs if o.expression))
    if request.predicate is not None:
        names |= request.predicate.columns
    others = (column_field(schema, name).type for name in names - plain.keys())
    return max(sum(map(value_bytes, chain(plain.values(), others))), 1)


# ---- all fragments


class Search(Protocol):
    """What chooses and orders the rows of a scan itself, by what it makes of columns."""

    @property
    def made(self) -> tuple[pa.Field, ...]:
        """The columns that it makes, which outputs may name."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it asks all rows for."""

    def told(self, rows: int) -> str:
        """Say what is done with so many rows."""

    def blocks(self, scan: Scan) -> Generator[pa.Table]:
        """Yield the outputs of the rows chosen, filtered, before limit and offset."""


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A scan of fragments in order; nothing is read before it is iterated.

    With a `choice` indices are asked which rows the filter wants, before any are looked at.
    """

    sources: tuple[FragmentSource, ...]
    request: ScanRequest
    limit: int | None = None
    offset: int = 0
    search: Search | None = None
    choice: RowChoice | None = None

    @property
    def in_order(self) -> bool:
        """Whether the rows are all those of the fragments, as they come."""
        return self.request.predicate is None and self.search is None

    def tables(self) -> Iterator[pa.Table]:
        """Yield the result in blocks, fragments being read ahead in threads."""
        if self.in_order and (self.offset or self.limit is not None):
            yield from self._read_all(list(self._windows()))
            return
        skip, left = self.offset, self.limit
        blocks = self.search.blocks(self) if self.search else self._read_all(list(self._whole()))
        for block in blocks:
            part = block.slice(skip, left)
            skip = max(skip - block.num_rows, 0)
            if part.num_rows:
                yield part
            if left is not None:
                left -= part.num_rows
                if left == 0:
                    blocks.close()
                    return

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result in batches of at most `batch_rows` rows.

        Without a filter, no batch has rows of two fragments, as in the reference.
        """
        schema = self.request.schema
        whole = self.in_order and not self.offset and self.limit is None
        parts = (source.num_rows for source in self.sources)
        most = min(self.request.batch_rows, _MOST_ROWS)
        for table in cut_at(self.tables(), parts) if whole else self.tables():
            for batch in combined(table).to_batches(max_chunksize=most):
                yield batch.cast(schema) if batch.schema != schema else batch

    def to_table(self) -> pa.Table:
        """Read the whole result."""
        schema = self.request.schema
        parts = list(self.tables())
        if not parts:
            return no_rows(schema)
        if not schema.names:
            return rows_without_columns(sum(part.num_rows for part in parts))
        return pa.concat_tables(parts).replace_schema_metadata(schema.metadata)

    def count(self) -> int:
        """Count the rows of the result."""
        if self.in_order:
            rows = sum(source.num_rows for source in self.sources)
            rows = max(rows - self.offset, 0)
            return rows if self.limit is None else min(rows, self.limit)
        return sum(table.num_rows for table in self.tables())

    def _whole(self) -> Iterator[_AnyJob]:
        """Of some fragments rows are chosen; the others are read as wholes.

        So are small ones, if they are many: together they take less than one by one.
        """
        if self.choice is None:
            yield from self._unchosen(self.sources)
            return
        chosen = [(source, self.choice.rows_of(source)) for source in self.sources]
        small = sum(bool(rows and rows[0]) and _is_small(source) for source, rows in chosen)
        whole: list[FragmentSource] = []
        for source, rows in chosen:
            if rows is None or (rows[0] and small > _FEW_SMALL and _is_small(source)):
                whole.append(source)
            elif rows[0]:
                yield from self._unchosen(whole)
                whole = []
                yield _Chosen(source, *rows)
        yield from self._unchosen(whole)

    def _unchosen(self, sources: Sequence[FragmentSource]) -> Iterator[_Job | _Block]:
        """Small fragments are read together, if all of them are read; large ones in blocks."""
        if self.limit is not None:
            yield from (_Job((source,)) for source in sources)
            return
        for group in read_together(sources, self.request):
            step = block_rows(group[0].schema, self.request)
            if len(group) > 1 or group[0].fragment.physical_rows <= step:
                yield _Job(group)
                continue
            step = max(step, _filter_rows(group[0].schema, self.request))
            reader = FragmentReader(group[0])
            for start in range(0, reader.physical_rows, step):
                yield _Block(reader, start, min(start + step, reader.physical_rows))

    def _windows(self) -> Iterator[_Job]:
        """Without a filter, offset and limit name rows of each fragment; the rest is not read."""
        before = 0  # rows of this scan's fragments, which need not be the dataset's first
        for source in self.sources:
            rows = source.num_rows
            start = max(self.offset - before, 0)
            stop = rows
            if self.limit is not None:
                stop = min(rows, self.offset + self.limit - before)
            if start < stop:
                whole = (start, stop) == (0, rows)
                yield _Job((source,), None if whole else range(start, stop))
            before += rows

    def _read_all(self, jobs: Sequence[_AnyJob]) -> Generator[pa.Table]:
        if self.limit is not None and self.request.predicate is not None:
            request = replace(self.request, block_bytes=_LIMITED_BLOCK_BYTES)
            for job in jobs:
                yield from job.run(request)
        elif len(jobs) == 1 and not isinstance(jobs[0], _Block):
            yield from jobs[0].run(self.request)
        elif jobs:
            yield from _read_ahead(jobs, self.request)


@dataclass(frozen=True, slots=True)
class _Job:
    """Fragments that are read together, or one and the live rows wanted of it."""

    sources: tuple[FragmentSource, ...]
    live_rows: range | None = None

    @property
    def schema(self) -> LanceSchema:
        """What is read of."""
        return self.sources[0].schema

    def find(self, request: ScanRequest) -> list[pa.Table]:
        """Return all that is wanted."""
        return list(self.run(request))

    def run(self, request: ScanRequest) -> Iterator[pa.Table]:
        if self.live_rows is None:
            yield from scan_together(self.sources, request)
            return
        reader = FragmentReader(self.sources[0])
        yield project(reader, request.outputs, reader.live_rows(self.live_rows))


@dataclass(frozen=True, slots=True)
class _Block:
    """Physical rows of an open fragment: no more of a large one is held than is read ahead."""

    reader: FragmentReader
    start: int
    stop: int

    @property
    def schema(self) -> LanceSchema:
        """What is read of."""
        return self.reader.source.schema

    def find(self, request: ScanRequest) -> Selection | list[pa.Table]:
        """Return the rows that a filter wants, of which no other column is read yet, or all."""
        if request.predicate is None:
            return list(self.run(request))
        inputs = set[str]().union(*(output.inputs for output in request.outputs))
        rows = select_rows(self.reader, request.predicate, self.start, self.stop, inputs)
        return Selection(self.reader, *rows)

    def run(self, request: ScanRequest) -> Iterator[pa.Table]:
        yield read_block(self.reader, request, self.start, self.stop)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Rows of a fragment that indices have chosen; if not `exact`, a filter chooses among them."""

    source: FragmentSource
    rows: BitMap
    exact: bool

    @property
    def schema(self) -> LanceSchema:
        """What is read of."""
        return self.source.schema

    def find(self, request: ScanRequest) -> Selection:
        """Return the rows that are wanted."""
        reader = FragmentReader(self.source)
        rows = to_offsets(self.rows - reader.deleted).astype(np.int64)
        if self.exact or request.predicate is None:
            return Selection(reader, rows, None)
        inputs = set[str]().union(*(output.inputs for output in request.outputs))
        return Selection(reader, *select_among(reader, request.predicate, rows, inputs))

    def run(self, request: ScanRequest) -> Iterator[pa.Table]:
        found = self.find(request)
        for part in found.parts(block_rows(self.schema, request)):
            yield project(part.reader, request.outputs, part.rows, part.known)


_AnyJob: TypeAlias = _Job | _Block | _Chosen


def _read_ahead(jobs: Sequence[_AnyJob], request: ScanRequest) -> Generator[pa.Table]:
    with Workers() as workers:
        found = workers.results(partial(job.find, request) for job in jobs)
        if request.predicate is None:
            yield from chain.from_iterable(cast("Iterator[list[pa.Table]]", found))
            return
        work = projections(
            found,
            block_rows(jobs[0].schema, request),
            lambda wanted: project(wanted.reader, request.outputs, wanted.rows, wanted.known),
        )
        yield from chain.from_iterable(workers.results(work))
