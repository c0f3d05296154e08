"""Scans: columns and rows of fragments, as batches or as a table.

A `Scan` runs `fragment_rows` on all fragments in order, and applies limit and offset.
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
from lancekit._scan.fragments.reader import FragmentReader, rows_without_columns
from lancekit._scan.fragments.rebatch import combined, cut_at, no_rows
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.read import Read, Selection, projected, projections
from lancekit.progress import step, tracking

#: the most rows of an Arrow batch
_MOST_ROWS = 1 << 31
#: bytes of a block in a scan that may stop early
_LIMITED_BLOCK_BYTES = 4 << 20


class Search(Protocol):
    """A search that selects and orders the rows of a scan, and computes columns for them."""

    @property
    def made(self) -> tuple[pa.Field, ...]:
        """The columns that the search computes, which outputs may name."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that the search reads for all rows."""

    @property
    def prefilter(self) -> bool:
        """True if the scan's filter is applied before the search."""

    def describe(self, scan: Scan) -> str:
        """Describe the search in a plan."""

    def blocks(self, scan: Scan) -> Generator[pa.Table]:
        """Yield the outputs of the rows found, filtered, before limit and offset."""


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A scan of fragments in order; nothing is read before it is iterated.

    `read` has the fragments and rows, `request` the filter and the outputs.
    """

    read: Read
    request: ScanRequest
    limit: int | None = None
    offset: int = 0
    search: Search | None = None

    @property
    def in_order(self) -> bool:
        """True if the scan returns all rows in order, without filter and search."""
        return self.request.predicate is None and self.search is None

    def of_same_rows(
        self, request: ScanRequest, sources: Sequence[FragmentSource] | None = None
    ) -> Scan:
        """Return a scan of the same rows for another request, without limit and offset."""
        read = self.read if sources is None else replace(self.read, sources=sources)
        return Scan(read=read, request=request)

    @property
    def sources(self) -> Sequence[FragmentSource]:
        """The fragments."""
        return self.read.sources

    def tables(self) -> Iterator[pa.Table]:
        """Yield the result in blocks; fragments are read ahead in threads."""
        if self.in_order and (self.offset or self.limit is not None):
            yield from self._read_all(list(self._windows()))
            return
        skip, left = self.offset, self.limit
        blocks = self.search.blocks(self) if self.search else self._read_all(list(self._jobs()))
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
        """Return the number of rows to read; ``None`` if it is not known in advance."""
        if self.search is not None or self.read.lookup is not None or self.limit is not None:
            return None
        if self.read.rows.known:
            return self.read.num_rows
        return sum(source.fragment.physical_rows for source in self.sources)

    def _jobs(self) -> Iterator[_AnyJob]:
        """Yield jobs: single rows where indices selected them, whole fragments elsewhere."""
        for part in self.read.parts():
            if part.is_of_all_rows:
                yield from self._whole_fragments(part.sources)
            else:
                yield _Selected(part)

    def _whole_fragments(self, sources: Sequence[FragmentSource]) -> Iterator[_Job | _Block]:
        """Yield jobs that read whole fragments: small ones together, large ones in blocks.

        With a limit, each fragment is a separate job.
        """
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
        """Yield jobs for the rows within offset and limit; only valid without a filter."""
        before = 0  # counts rows of this scan's fragments, not of the dataset
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
    """Fragments to read together, or one fragment and a range of its live rows."""

    sources: tuple[FragmentSource, ...]
    live_rows: range | None = None

    @property
    def schema(self) -> LanceSchema:
        """The schema of the fragments."""
        return self.sources[0].schema

    def find(self, request: ScanRequest) -> list[pa.Table]:
        return list(self.run(request))

    def run(self, request: ScanRequest) -> Iterator[pa.Table]:
        if self.live_rows is None:
            yield from scan_together(self.sources, request)
            return
        reader = FragmentReader(self.sources[0])
        yield project(reader, request.outputs, reader.live_rows(self.live_rows))
        step(len(self.live_rows))


class _Block(NamedTuple):
    """A range of physical rows of an open fragment: a large one is read ahead block by block."""

    reader: FragmentReader
    start: int
    stop: int

    @property
    def schema(self) -> LanceSchema:
        """The schema of the fragment."""
        return self.reader.source.schema

    def find(self, request: ScanRequest) -> Selection | list[pa.Table]:
        """Return the rows that match the filter; without a filter, return the result."""
        if request.predicate is None:
            return list(self.run(request))
        inputs = set[str]().union(*(output.inputs for output in request.outputs))
        rows = select_rows(self.reader, request.predicate, self.start, self.stop, inputs)
        return Selection(self.reader, *rows)

    def run(self, request: ScanRequest) -> Iterator[pa.Table]:
        yield read_block(self.reader, request, self.start, self.stop)


class _Selected(NamedTuple):
    """Rows that indices selected; where an index is not exact, the filter runs on them."""

    of: Read

    @property
    def schema(self) -> LanceSchema:
        """The schema of the fragments."""
        return self.of.sources[0].schema

    def find(self, request: ScanRequest) -> Selection:
        inputs = set[str]().union(*(output.inputs for output in request.outputs))
        return self.of.select(request.predicate, inputs)

    def run(self, request: ScanRequest) -> Iterator[pa.Table]:
        yield from self.of.read(request)


_AnyJob: TypeAlias = _Job | _Block | _Selected


def _read_ahead(jobs: Sequence[_AnyJob], request: ScanRequest) -> Generator[pa.Table]:
    with Workers() as workers:
        found = workers.results(partial(job.find, request) for job in jobs)
        if request.predicate is None:
            yield from chain.from_iterable(cast("Iterator[list[pa.Table]]", found))
            return
        work = projections(found, block_rows(jobs[0].schema, request), partial(projected, request))
        yield from chain.from_iterable(workers.results(work))
