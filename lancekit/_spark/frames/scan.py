"""A scan as a Spark DataFrame, whose fragments are read in Spark's tasks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from lancekit._format.extensions import text_batch, text_schema
from lancekit._scan.fragment_rows import (
    ScanRequest,
    Workers,
    read_block,
    read_together,
    row_bytes,
    scan_together,
)
from lancekit._scan.fragments.reader import META_COLUMNS, FragmentReader
from lancekit._scan.fragments.rebatch import combined
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read
from lancekit._scan.scan import Scan
from lancekit._spark.frames.runner import TASKS_PER_CORE
from lancekit._spark.frames.types import READ_IT, spark_schema, to_spark_batch, wire_schema
from lancekit._spark.jobs.client import client_of
from lancekit._spark.jobs.collect import map_batches, pack
from lancekit._spark.jobs.failures import first_line
from lancekit._spark.jobs.shipment import spark_bytes
from lancekit._spark.session.preflight import check_workers
from lancekit._spark.session.session import spark_session
from lancekit.errors import PredicateError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: least decoded bytes of a task, which take about as long as the start of a task
_LEAST_BYTES = 16 << 20
#: opening a file takes about as long as decoding so many bytes
_FILE_BYTES = 128 << 10
#: most decoded bytes of a task, because a failed task reads them again
_MOST_BYTES = 1 << 30


#: physical rows of a fragment, from the first offset to before the second
Range = tuple[FragmentSource, int, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows that one task reads: ranges of physical rows, or rows that an index found.

    `size` is the approximate number of their bytes.
    """

    ranges: tuple[Range, ...]
    chosen: Read | None = None
    size: int = 0


def cut_pieces(ranges: Sequence[Range], request: ScanRequest, parallelism: int) -> list[Piece]:
    """Cut ranges of fragments into pieces of about equal work, in order.

    Small fragments share a piece, and a large fragment is cut into several pieces.

    ranges: the fragments, and the physical rows of each.
    request: the columns to read, which determine the work of a row, and the filter.
    parallelism: the number of tasks that run at the same time.
    """
    if not ranges:
        return []
    weights = [
        (stop - start) * _row_width(source, request) + _FILE_BYTES * len(source.files)
        for source, start, stop in ranges
    ]
    total, rows = sum(weights), sum(stop - start for _, start, stop in ranges)
    count = min(total // _LEAST_BYTES, TASKS_PER_CORE * parallelism)
    count = max(min(max(count, total // _MOST_BYTES), rows), 1)
    cuts = [total * n // count for n in range(1, count + 1)]
    found: list[list[Range]] = [[] for _ in range(count)]
    piece = before = 0
    for (source, start, stop), weight in zip(ranges, weights, strict=True):
        at = start
        while at < stop:
            ends_here = cuts[piece] < before + weight
            until = start + (cuts[piece] - before) * (stop - start) // weight if ends_here else stop
            if at < until:
                found[piece].append((source, at, until))
                at = until
            piece += ends_here
        before += weight
    return [Piece(tuple(part), size=total // count) for part in found if part]


def _row_width(source: FragmentSource, request: ScanRequest) -> int:
    """Estimate the bytes of a row, by the size of the files for columns of variable width."""
    fragment, schema = source.fragment, source.schema
    assumed = row_bytes(schema, request)
    names = {name.partition(".")[0] for output in request.outputs for name in output.inputs}
    if request.predicate is not None:
        names |= {name.partition(".")[0] for name in request.predicate.columns}
    varying = {field.name for field in schema.to_arrow() if not _is_fixed(field.type)}
    wanted = len(names & varying)
    if not wanted or not fragment.physical_rows:
        return assumed
    stored = sum(file.file_size_bytes or 0 for file in fragment.files) // fragment.physical_rows
    whole = ScanRequest(outputs=plan_columns(schema, None))
    rest = max(stored - row_bytes(schema, whole), 0)
    return assumed + rest * wanted // len(varying)


def _is_fixed(kind: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(kind):
        return _is_fixed(kind.value_type)
    return bool(pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind))


def whole_ranges(sources: Iterable[FragmentSource]) -> list[Range]:
    """Return all physical rows of each fragment."""
    return [(source, 0, source.fragment.physical_rows) for source in sources]


def scan_pieces(scan: Scan, parallelism: int) -> list[Piece]:
    """Cut a scan into pieces for tasks; indices are queried here, and tasks get the rows found.

    parallelism: the number of tasks that run at the same time.
    """
    if not scan.read.row_set.known:
        return cut_pieces(scan_ranges(scan), scan.request, parallelism)
    pieces: list[Piece] = []
    for part in scan.read.parts():
        if part.is_of_all_rows:
            pieces += cut_pieces(whole_ranges(part.sources), scan.request, parallelism)
        else:
            size = part.num_rows * _row_width(part.sources[0], scan.request)
            pieces.append(Piece((), part, size))
    return pieces


def scan_ranges(scan: Scan) -> list[Range]:
    """Return the physical rows that a scan must read.

    Without a filter, offset and limit determine the rows, and only these are read.
    """
    if scan.request.predicate is not None or (scan.limit is None and not scan.offset):
        return whole_ranges(scan.sources)
    stop_at = None if scan.limit is None else scan.offset + scan.limit
    ranges: list[Range] = []
    before = 0
    for source in scan.sources:
        rows = source.fragment.num_rows
        start = max(scan.offset - before, 0)
        stop = rows if stop_at is None else min(rows, stop_at - before)
        if start < stop:
            ranges.append((source, *_physical(source, start, stop)))
        before += rows
    return ranges


def _physical(source: FragmentSource, start: int, stop: int) -> tuple[int, int]:
    """Return the physical range of a fragment that contains live rows ``start`` to ``stop``."""
    live = FragmentReader(source).live
    return (start, stop) if live is None else (int(live[start]), int(live[stop - 1]) + 1)


def read_piece(piece: Piece, request: ScanRequest) -> Iterator[pa.RecordBatch]:
    """Read the selected rows of a piece.

    A task has one core, so it reads block after block.  Only files that are not on a disk are read
    in parallel, because their time is spent waiting for responses.
    """
    for table in () if piece.chosen is None else piece.chosen.read(request):
        yield from _batches(table, request)
    reads = _reads(piece.ranges, request)
    if all(source.on_disk for source, *_ in piece.ranges):
        for read in reads:
            yield from chain.from_iterable(_batches(table, request) for table in read())
        return
    with Workers() as workers:
        for table in chain.from_iterable(workers.results(reads)):
            yield from _batches(table, request)


def _batches(table: pa.Table, request: ScanRequest) -> list[pa.RecordBatch]:
    return combined(table).to_batches(max_chunksize=request.batch_rows)


def _reads(
    ranges: Sequence[Range], request: ScanRequest
) -> Iterator[Callable[[], Iterable[pa.Table]]]:
    """Yield functions that read ranges in order: small fragments together, others in blocks."""
    for whole, part in groupby(ranges, _is_whole):
        if not whole:
            yield from chain.from_iterable(_blocks(*each, request) for each in part)
            continue
        for group in read_together([source for source, *_ in part], request):
            if len(group) > 1:
                yield partial(_list_of, group, request)
            else:
                yield from _blocks(group[0], 0, group[0].fragment.physical_rows, request)


def _is_whole(each: Range) -> bool:
    source, start, stop = each
    return (start, stop) == (0, source.fragment.physical_rows)


def _list_of(group: Sequence[FragmentSource], request: ScanRequest) -> list[pa.Table]:
    return list(scan_together(group, request))


def _blocks(
    source: FragmentSource, start: int, stop: int, request: ScanRequest
) -> Iterator[Callable[[], Iterable[pa.Table]]]:
    reader = FragmentReader(source)
    step = max(request.block_bytes // _row_width(source, request), 1)
    for at in range(start, stop, step):
        yield partial(_block, reader, request, at, min(at + step, stop))


def _block(reader: FragmentReader, request: ScanRequest, start: int, stop: int) -> list[pa.Table]:
    return [read_block(reader, request, start, stop)]


def fragment_frame(
    session: SparkSession,
    sources: Sequence[FragmentSource],
    request: ScanRequest,
    convert: Callable[[pa.RecordBatch], pa.RecordBatch],
    wire: pa.Schema,
) -> DataFrame:
    """Return a DataFrame of the rows that a request reads from fragments.

    session: the session of the DataFrame.
    sources, request: the fragments to read, and the columns, filter and limits.
    convert: converts batches to the schema ``wire``, on the workers.

    Raises StorageError: the dataset is in this process's memory, where no worker can read it.
    """
    pieces = cut_pieces(whole_ranges(sources), request, client_of(session).parallelism())
    return pieces_frame(session, pieces, request, convert, wire)


def pieces_frame(
    session: SparkSession,
    pieces: Sequence[Piece],
    request: ScanRequest,
    convert: Callable[[pa.RecordBatch], pa.RecordBatch],
    wire: pa.Schema,
) -> DataFrame:
    """Return the DataFrame of `fragment_frame` for some pieces, with one partition each."""
    check_workers(session)
    # Each piece is pickled separately, so that a worker unpickles only its own.
    packed = [pack(session, piece) for piece in pieces]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                piece = pickle.loads(packed[number // each])  # noqa: S301  # made above
                yield from map(convert, read_piece(piece, request))

    numbers, each = sized_range(session, len(packed), sum(piece.size for piece in pieces))
    return map_batches(numbers, read, spark_schema(wire))


def scan_wire(request: ScanRequest) -> pa.Schema:
    """Return the wire form of a scan's rows; row addresses and ids are plain integers."""
    fields = [pa.field(f.name, pa.int64()) if f.name in META_COLUMNS else f for f in request.schema]
    return wire_schema(text_schema(pa.schema(fields)))


def scan_batch(batch: pa.RecordBatch, wire: pa.Schema) -> pa.RecordBatch:
    """Convert a batch of a scan to the form of `scan_wire`."""
    return to_spark_batch(text_batch(batch), wire, READ_IT)


def scan_frame(scan: Scan, condition: Column | None = None) -> DataFrame:
    """Return a scan as a DataFrame, pinned to the version of the scan.

    Each action reads the requested columns and rows again, and no others.

    scan: the scan.
    condition: a further condition on the scan's rows, as a Spark column; Spark evaluates it before
        offset and limit.

    Raises UnsupportedTypeError: Spark has no type for a column.
    Raises PredicateError: the condition does not fit the columns.
    Raises StorageError: the dataset is in this process's memory, where no worker can read it.
    """
    # Refuse unreadable data before a session is started, which takes seconds.
    wire = scan_wire(scan.request)
    pickle.dumps(scan.sources[:1])
    session = spark_session()

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        return scan_batch(batch, wire)

    cut_later = condition is not None or scan.request.predicate is not None
    read = replace(scan, limit=None, offset=0) if cut_later else scan
    pieces = scan_pieces(read, client_of(session).parallelism())
    frame = pieces_frame(session, pieces, scan.request, convert, wire)
    if condition is not None:
        frame = _filtered(frame, condition)
    if cut_later and scan.offset:
        frame = frame.offset(scan.offset)
    return frame.limit(scan.limit) if cut_later and scan.limit is not None else frame


def _filtered(frame: DataFrame, condition: Column) -> DataFrame:
    from pyspark.errors import AnalysisException

    try:
        chosen = frame.where(condition)
        _ = frame.select(condition).schema  # Connect checks the condition only now
    except AnalysisException as error:
        raise PredicateError(
            f"The condition does not fit the selected columns: {first_line(error)}.",
            hint=f"The columns are {', '.join(frame.columns) or 'none'}.",
        ) from error
    return chosen


# ---- ranges of numbers that start tasks, and tell Spark the size of the tasks' output
#
# Spark assumes that `mapInArrow` returns as many bytes as it gets.  With one number for each task,
# Spark would take a table of any size for a few bytes, and every join would broadcast it.  So there
# are enough numbers for the bytes of the table, and a filter keeps the first number of each task;
# Spark assumes that a filter keeps all rows.

_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
#: the bytes of a number in a range
_NUMBER_BYTES = 8


def sized_range(session: SparkSession, tasks: int, size: int) -> tuple[DataFrame, int]:
    """Return a range with one number for each task, and a given size in Spark's estimate.

    Counting takes a task a few milliseconds at most, because sizes far above Spark's broadcast
    limit are reduced to twice the limit.

    session: the session of the range.
    tasks: the number of tasks.
    size: the bytes of the tasks' output.

    Returns
    -------
    tuple
        The range, and the common factor of its numbers.
    """
    most = 2 * max(spark_bytes(str(session.conf.get(_THRESHOLD, "10m"))) or 0, 0)
    each = max(min(size, most) // _NUMBER_BYTES // max(tasks, 1), 1)
    numbers = session.range(0, tasks * each, 1, max(tasks, 1))
    return (numbers if each == 1 else numbers.where(f"id % {each} = 0")), each
