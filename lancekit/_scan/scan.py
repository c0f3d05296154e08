"""Scans: which columns and rows of which fragments, as batches or as a table.

`Scan` asks all fragments what `fragment_rows` answers for each, in order, and cuts limit and
offset.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import NamedTuple, Protocol, TypeAlias, cast

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.schema import LanceSchema
from lancekit._scan.fragment_rows import (
    ScanRequest,
    Workers,
    block_rows,
    filter_rows,
    project,
    read_block,
    read_together,
    scan_together,
    select_rows,
)
from lancekit._scan.fragments.reader import (
    FragmentReader,
    rows_without_columns,
)
from lancekit._scan.fragments.rebatch import combined, cut_at, no_rows
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.read import Read, Selection, projected, projections
from lancekit.progress import step, tracking

#: what one of Arrow's batches holds
_MOST_ROWS = 1 << 31
#: the same, for a scan that may stop early
_LIMITED_BLOCK_BYTES = 4 << 20


class Search(Protocol):
    """What chooses and orders the rows of a scan itself, by what it makes of columns."""

    @property
    def made(self) -> tuple[pa.Field, ...]:
        """The columns that it makes, which outputs may name."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it asks all rows for."""

    @property
    def prefilter(self) -> bool:
        """Whether the scan's filter is asked before."""

    def describe(self, scan: Scan) -> str:
        """Say what is done with the rows of a scan."""

    def blocks(self, scan: Scan) -> Generator[pa.Table]:
        """Yield the outputs of the rows chosen, filtered, before limit and offset."""


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A scan of fragments in order; nothing is read before it is iterated.

    `read` says which rows are looked at, `request` what becomes of them.
    """

    read: Read
    request: ScanRequest
    limit: int | None = None
    offset: int = 0
    search: Search | None = None

    @property
    def in_order(self) -> bool:
        """Whether the rows are all those of the fragments, as they come."""
        return self.request.predicate is None and self.search is None

    def of_same_rows(
        self, request: ScanRequest, sources: Sequence[FragmentSource] | None = None
    ) -> Scan:
        """Return a scan that looks at the same rows for another request, without limits."""
        read = self.read if sources is None else replace(self.read, sources=sources)
        return Scan(read=read, request=request)

    @property
    def sources(self) -> Sequence[FragmentSource]:
        """The fragments."""
        return self.read.sources

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
                yield ak.cast(batch, schema) if batch.schema != schema else batch

    def to_table(self) -> pa.Table:
        """Read the whole result."""
        schema = self.request.schema
        with tracking("reading", total_rows=self._rows_to_read()):
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
        with tracking("counting", total_rows=self._rows_to_read()):
            return sum(table.num_rows for table in self.tables())

    def _rows_to_read(self) -> int | None:
        """Return how many rows are looked at; ``None`` if that turns out while they are."""
        if self.search is not None or self.read.lookup is not None or self.limit is not None:
            return None
        if self.read.rows.known:
            return self.read.num_rows
        return sum(source.fragment.physical_rows for source in self.sources)

    def _whole(self) -> Iterator[_AnyJob]:
        """Of some fragments rows are chosen; the others are read as wholes."""
        for part in self.read.parts():
            if part.is_of_all_rows:
                yield from self._unchosen(part.sources)
            else:
                yield _Chosen(part)

    def _unchosen(self, sources: Sequence[FragmentSource]) -> Iterator[_Job | _Block]:
        """Small fragments are read together, if all of them are read; large ones in blocks."""
        if self.limit is not None:
            yield from (_Job((source,)) for source in sources)
            return
        for group in read_together(sources, self.request):
            rows = block_rows(group[0].schema, self.request)
            if len(group) > 1 or group[0].fragment.physical_rows <= rows:
                yield _Job(group)
                continue
            rows = max(rows, filter_rows(group[0].schema, self.request))
            reader = FragmentReader(group[0])
            for start in range(0, reader.physical_rows, rows):
                yield _Block(reader, start, min(start + rows, reader.physical_rows))

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


class _Job(NamedTuple):
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
        step(len(self.live_rows))


class _Block(NamedTuple):
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


class _Chosen(NamedTuple):
    """Rows that indices have chosen; where these are not exact, a filter chooses among them."""

    of: Read

    @property
    def schema(self) -> LanceSchema:
        """What is read of."""
        return self.of.sources[0].schema

    def find(self, request: ScanRequest) -> Selection:
        """Return the rows that are wanted."""
        inputs = set[str]().union(*(output.inputs for output in request.outputs))
        return self.of.select(request.predicate, inputs)

    def run(self, request: ScanRequest) -> Iterator[pa.Table]:
        yield from self.of.read(request)


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
            partial(projected, request),
        )
        yield from chain.from_iterable(workers.results(work))
