"""The rows of a fragment that match a scan request, in blocks, read ahead in threads.

A `ScanRequest` is the same for every fragment and can be sent to a worker. `scan_fragment` runs it
on one fragment.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import array_of, flags_of
from lancekit._file.columns.blocks import BlockBounds
from lancekit._file.kernels.bounds import value_bytes
from lancekit._format.schema import LanceSchema
from lancekit._lazy import cached_property
from lancekit._legible import shown, warn
from lancekit._machine import decoding_threads
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragments.joint_reader import open_together, rows_together, together
from lancekit._scan.fragments.reader import (
    FragmentReader,
    Offsets,
    as_offsets,
    column_field,
    rows_without_columns,
)
from lancekit._scan.fragments.rebatch import no_rows
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import Output
from lancekit.progress import result_of, step, stoppable

#: rows of a batch, as in the reference
BATCH_ROWS = 8192
#: the environment variable with the rows of a batch, as in the reference
_BATCH_VARIABLE = "LANCE_DEFAULT_BATCH_SIZE"
#: physical rows that `selected_rows` filters at a time
_FILTERED_ROWS = 1 << 18
#: decoded bytes of one fragment that are in memory at a time
_BLOCK_BYTES = 64 << 20
#: the same for the columns of a filter: other columns are read for its rows alone
_FILTER_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The outputs and the filter of a read, and the size of its blocks in decoded bytes."""

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
    """Return the default batch size: ``LANCE_DEFAULT_BATCH_SIZE`` if it is set, else 8192 rows."""
    text = os.environ.get(_BATCH_VARIABLE)
    if text is None:
        return BATCH_ROWS
    if text.isdecimal() and int(text) > 0:
        return int(text)
    warn(
        f"{_BATCH_VARIABLE} must be an integer of 1 or more, got {shown(text)}: batches have "
        f"{BATCH_ROWS} rows."
    )
    return BATCH_ROWS


def scan_fragment(source: FragmentSource, request: ScanRequest) -> Iterator[pa.Table]:
    """Yield the selected rows of one fragment, in order, in blocks of bounded size."""
    reader = FragmentReader(source)
    rows = block_rows(reader.source.schema, request)
    for start in range(0, reader.physical_rows, rows):
        yield read_block(reader, request, start, min(start + rows, reader.physical_rows))


def scan_together(sources: Sequence[FragmentSource], request: ScanRequest) -> Iterator[pa.Table]:
    """Yield the selected rows of fragments that `together` has grouped, in one block if several."""
    if len(sources) == 1:
        yield from scan_fragment(sources[0], request)
        return
    reader = open_together(sources)
    yield read_block(reader, request, 0, reader.physical_rows)


def read_together(
    sources: Sequence[FragmentSource], request: ScanRequest
) -> Iterator[tuple[FragmentSource, ...]]:
    """Yield all fragments in order, as tuples of fragments to read together.

    A tuple has at most the rows of a block, and few enough that each thread gets a tuple.
    """
    if sources:
        most_rows = min(rows_together(sources), block_rows(sources[0].schema, request))
        yield from together(sources, most_rows)


def block_rows(schema: LanceSchema, request: ScanRequest) -> int:
    """Return the rows of a block, a multiple of the batch size."""
    batches = request.block_bytes // row_bytes(schema, request) // request.batch_rows
    return max(batches, 1) * request.batch_rows


def read_block(reader: FragmentReader, request: ScanRequest, start: int, stop: int) -> pa.Table:
    """Read the selected rows among the physical rows ``start`` to ``stop`` of a fragment."""
    if request.predicate is None:
        rows_read = project(reader, request.outputs, reader.live_between(start, stop))
        step(stop - start)
        return rows_read
    if not request.outputs:  # only the row count is requested
        _, _, mask = _masked(reader, request.predicate, reader.live_between(start, stop))
        return rows_without_columns(mask.true_count)
    inputs = set[str]().union(*(output.inputs for output in request.outputs))
    rows, known = select_rows(reader, request.predicate, start, stop, inputs)
    if not len(rows):
        return no_rows(pa.schema([output.field for output in request.outputs]))
    return project(reader, request.outputs, rows, known)


def select_rows(
    reader: FragmentReader, predicate: Predicate, start: int, stop: int, keep: Collection[str] = ()
) -> tuple[Offsets | range, pa.Table | None]:
    """Return the offsets among the physical rows ``start`` to ``stop`` that a filter selects.

    The filter's columns that are listed in `keep` are returned, too, for these rows.
    """
    return select_among(reader, predicate, reader.live_between(start, stop), keep)


def select_among(
    reader: FragmentReader, predicate: Predicate, among: Offsets | range, keep: Collection[str] = ()
) -> tuple[Offsets | range, pa.Table | None]:
    """Return the offsets that a filter selects among ascending ones, as `select_rows` does."""
    rows, known, mask = _masked(reader, predicate, among)
    known = known.select([name for name in known.column_names if name in keep])
    if mask.true_count < len(rows):
        selected = np.flatnonzero(flags_of(mask))
        rows = selected + rows.start if isinstance(rows, range) else rows[selected]
        known = ak.filter(known, mask)  # filters chunk by chunk; `take` joins chunks first
    return rows, known if known.column_names else None


def selected_rows(reader: FragmentReader, predicate: Predicate) -> Offsets:
    """Return all offsets of a fragment that a filter selects, ascending; filters in blocks."""
    rows = reader.physical_rows
    found = [
        as_offsets(select_rows(reader, predicate, start, min(start + _FILTERED_ROWS, rows))[0])
        for start in range(0, rows, _FILTERED_ROWS)
    ]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _masked(
    reader: FragmentReader, predicate: Predicate, among: Offsets | range
) -> tuple[Offsets | range, pa.Table, pa.BooleanArray]:
    """Return the rows left after pruning, the filter's columns, and the filter's mask."""
    rows, names = pruned(reader, predicate, among), sorted(predicate.columns)
    if not len(rows):
        nothing = no_rows(pa.schema([column_field(reader.source.schema, name) for name in names]))
        step(len(among))
        return rows, nothing, cast("pa.BooleanArray", pa.array([], pa.bool_()))
    known = reader.read(names, rows)
    mask = predicate.mask(known)
    step(len(among))
    return rows, known, mask


def project(
    reader: FragmentReader,
    outputs: Sequence[Output],
    rows: Offsets | range,
    known: pa.Table | None = None,
) -> pa.Table:
    """Read and compute the outputs for physical rows; `known` holds columns already read."""
    inputs = set[str]().union(*(output.inputs for output in outputs))
    if outputs and not inputs:
        inputs = {"_rowaddr"}  # constants need another column for the number of rows
    arrays = dict(zip(known.column_names, known.columns, strict=True)) if known else {}
    fresh = reader.read(sorted(inputs - arrays.keys()), rows)
    arrays.update(zip(fresh.column_names, fresh.columns, strict=True))
    return computed(outputs, arrays, fresh.num_rows)


def computed(
    outputs: Sequence[Output], arrays: Mapping[str, pa.ChunkedArray], num_rows: int
) -> pa.Table:
    """Return the outputs, computed from their input columns."""
    if not outputs:
        return rows_without_columns(num_rows)
    batches = pa.table(dict(arrays)).to_batches() if any(one.expression for one in outputs) else []
    columns = [
        arrays[output.column]
        if output.expression is None
        else pa.chunked_array(map(output.expression.evaluate, batches), output.field.type)
        for output in outputs
    ]
    return pa.table(columns, schema=pa.schema([output.field for output in outputs]))


def filter_rows(schema: LanceSchema, request: ScanRequest) -> int:
    """Return how many rows of a fragment are filtered at a time; 0 without a filter."""
    if request.predicate is None:
        return 0
    return block_rows(schema, replace(request, outputs=(), block_bytes=_FILTER_BYTES))


def row_bytes(schema: LanceSchema, request: ScanRequest) -> int:
    """Estimate the decoded bytes of one row of all columns that a request reads."""
    plain = {o.column: o.field.type for o in request.outputs if o.expression is None}
    names = set[str]().union(*(o.expression.columns for o in request.outputs if o.expression))
    if request.predicate is not None:
        names |= request.predicate.columns
    others = (column_field(schema, name).type for name in names - plain.keys())
    return max(sum(map(value_bytes, chain(plain.values(), others))), 1)


# ---- zone-map pruning: blocks whose cached bounds rule out every match


def pruned(reader: FragmentReader, predicate: Predicate, rows: Offsets | range) -> Offsets | range:
    """Drop blocks without a match from both ends of some rows, by cached bounds; reads nothing.

    Blocks in the middle stay: rows in two separate ranges take longer to read.
    """
    schema = predicate.schema
    for name in sorted(predicate.columns):
        # hidden columns and parts of nested ones have no bounds
        if name.isidentifier() and name in schema.names and len(rows):
            around = range(int(rows[0]), int(rows[-1]) + 1)
            kind, found = reader.bounds(name, around)
            if any(known for _, known in found) and kind == schema.field(name).type:
                first, last = _matching_range(predicate, name, kind, found)
                rows = _between(rows, first, last)
    return rows


def _matching_range(
    predicate: Predicate,
    name: str,
    kind: pa.DataType,
    found: list[tuple[range, BlockBounds | None]],
) -> tuple[int, int]:
    """Return the start of the first block that may have a match, and the end of the last."""
    least, greatest = (
        array_of([None if known is None else known[side] for _, known in found], kind)
        for side in (0, 1)
    )
    may = predicate.may_want(name, least, greatest)
    places = np.flatnonzero(may | np.array([known is None for _, known in found]))
    if not len(places):
        return 0, 0
    return found[places[0]][0].start, found[places[-1]][0].stop


def _between(rows: Offsets | range, first: int, last: int) -> Offsets | range:
    if isinstance(rows, range):
        start = max(rows.start, first)
        return range(start, max(start, min(rows.stop, last)))
    begin, end = np.searchsorted(rows, (first, last))
    return rows[begin:end]


# ---- work that runs ahead of its consumer, in threads if there are two tasks or more

T = TypeVar("T")


class Workers:
    """A pool of threads that starts with a second task and ends with the ``with`` block.

    By default it has as many threads as decode in a process. Tasks that run when the block ends
    stop at their next step.

    Examples
    --------
    >>> with Workers() as workers:
    ...     list(workers.results([lambda: "first", lambda: "second"]))
    ['first', 'second']
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or decoding_threads()

    def __enter__(self) -> Workers:
        self._operation = stoppable()
        return self

    def __exit__(self, *_: object) -> None:
        self._operation.stop()
        if "_pool" in self.__dict__:
            self._pool.shutdown(wait=True, cancel_futures=True)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix="lancekit-scan")

    def results(self, work: Iterable[Callable[[], T]]) -> Iterator[T]:
        """Yield the results of tasks in order, while the next few tasks run."""
        rest = iter(work)
        first = next(rest, None)
        second = next(rest, None)
        if first is not None and second is None:
            yield first()
        if first is None or second is None:
            return
        running: deque[Future[T]] = deque()
        for do in chain((first, second), rest):
            running.append(self._pool.submit(copy_context().run, self._operation.within, do))
            if len(running) > self._threads:
                yield result_of(running.popleft(), step)
            step()
        while running:
            yield result_of(running.popleft(), step)
            step()
