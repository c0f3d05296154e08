"""A source whose tasks know which target rows their rows replace.

A task reads its part of the cached source, and nothing is shuffled.  Only if updated rows need
columns of the target, the source's rows, but not the target's, are first sent to tasks that each
read one range of the target.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format import row_address
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import CastPlan
from lancekit._pipeline.source_keys import key_columns
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.rebatch import combined
from lancekit._scan.fragments.source import FragmentSource
from lancekit._spark.frames.types import (
    restore,
    spark_schema,
    to_spark_batch,
    typed_parts,
    wire_schema,
)
from lancekit._spark.frames.wire_rows import FAILURE, by_position, failure_row, raise_failure
from lancekit._spark.jobs.collect import map_batches
from lancekit._spark.jobs.shipment import Shipment
from lancekit._spark.jobs.worker import this_partition
from lancekit._spark.merge.cached_source import CachedSource, KeySum, other_rows
from lancekit._spark.merge.match_keys import RowRouting, forget_keys
from lancekit._spark.merge.merge_task import ADDRESS, MatchedRows, MergeTask, ReadRows
from lancekit.errors import LancekitError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Indices = npt.NDArray[np.int64]

#: the column with the number of the task that a row goes to
PIECE = "piece"
#: source rows whose target rows a task reads at the same time
_LENT_ROWS = 1 << 17
#: sampled pairs for each cut
_SAMPLED = 1 << 12


def routed_frame(
    cached: CachedSource,
    plan: CastPlan,
    bounds: Indices | None,
    sent: Shipment,
    target: Sequence[FragmentSource],
    work: MergeTask,
) -> tuple[DataFrame, ReadRows]:
    """Return the source's rows to write, and a reader for tasks.

    cached, plan: the source, and the casts to the dataset's types.
    bounds: the addresses where the rows are cut into pieces, by `piece_bounds`.
    sent: the routing of each partition.
    target: the fragments of the target.
    work: the task that processes the rows.
    """
    frame, own = cached.select(plan.target.names)
    reader = _RoutedReader(own, plan, sent, work)
    if bounds is None:
        return frame, reader

    def pieces(address: pa.Array) -> Indices:
        if ak.null_count(address):  # rows without a match can go to any piece
            return np.arange(len(address)) % (len(bounds) + 1)
        return np.searchsorted(bounds, address.to_numpy(), side="right")

    laid = shuffle_rows(frame, reader, pieces, work.source)
    if work.lent.names:
        laid = laid.repartitionById(len(bounds) + 1, PIECE)
    laid = laid.sortWithinPartitions(laid[ADDRESS].asc_nulls_last())
    return laid, _Lend(work, _fragments_of(target, bounds))


def piece_bounds(
    routings: Sequence[RowRouting], work: MergeTask, most: int, *, sort: bool
) -> Indices | None:
    """Return the addresses that cut all pairs into pieces of about equal size.

    ``None`` if the rows are written in their own partitions.

    routings: the routing of each partition.
    work: the task that processes the rows.
    most: the most pieces.
    sort: whether a task needs updated rows first, sorted by address.
    """
    if not work.lent.names and not sort:
        return None
    pairs = sum(len(routing.addresses) for routing in routings)
    count = max(min(most, pairs // _LENT_ROWS), 1)
    # a sample determines the cuts, with little memory
    step = max(pairs // (count * _SAMPLED), 1)
    addresses = np.sort(np.concatenate([routing.addresses[::step] for routing in routings]))
    return addresses[[len(addresses) * n // count for n in range(1, count)]]


def _fragments_of(target: Sequence[FragmentSource], bounds: Indices) -> tuple[bytes, ...]:
    """Return the fragments that each piece reads, pickled by piece."""
    cuts = [0, *row_address.fragment_ids(bounds).tolist(), row_address.LAST_FRAGMENT]
    return tuple(
        pickle.dumps({s.fragment.id: s for s in target if first <= s.fragment.id <= last})
        for first, last in pairwise(cuts)
    )


@dataclass(frozen=True)
class _RoutedReader:
    """A reader that applies a partition's routing on a worker."""

    own: pa.Schema
    plan: CastPlan
    sent: Shipment
    work: MergeTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[MatchedRows]:
        forget_keys()
        routing = RowRouting.read(self.sent, this_partition())
        clauses, names = self.work.clauses, self.work.source.names
        updates = clauses.matched == "update"
        key_sum, start = KeySum(), 0
        for batch in cast_all(self.plan, restore(batches, self.own)):
            key_sum.add(key_columns(batch, clauses.on))
            stop = start + batch.num_rows
            pairs = slice(*np.searchsorted(routing.rows, (start, stop)))
            rows, addresses = routing.rows[pairs] - start, routing.addresses[pairs]
            if updates and len(rows):
                taken = ak.take(batch.select(names), rows)
                yield MatchedRows(taken, None, pa.array(addresses))
            if clauses.insert:
                unmatched = np.ones(batch.num_rows, bool)
                unmatched[rows] = False
                unmatched[routing.skipped_between(start, stop) - start] = False
                taken = ak.filter(batch.select(names), unmatched)
                if taken.num_rows:
                    yield MatchedRows(taken, None, pa.nulls(taken.num_rows, pa.int64()))
            start = stop
        if key_sum.ordered != routing.key_sum:
            raise other_rows()


def shuffle_rows(
    frame: DataFrame, read: ReadRows, pieces: Callable[[pa.Array], Indices], source: pa.Schema
) -> DataFrame:
    """Convert rows to the form in which Spark moves and sorts them.

    frame, read: the rows, and their reader for tasks.
    pieces: returns the numbers of the tasks that rows go to, by the addresses of their matches.
    source: the columns of the source in the rows.
    """
    wire = wire_schema(source, exact=True)
    out = pa.schema(
        [
            *by_position("s", wire),
            (ADDRESS, pa.int64()),
            (PIECE, pa.int32()),
            (FAILURE, pa.binary()),
        ]
    )

    def lay_out(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for rows, _, address in read(batches):
                sent = to_spark_batch(rows, wire).columns
                piece = pa.array(pieces(address), pa.int32())
                blank = pa.nulls(len(address), pa.binary())
                yield pa.RecordBatch.from_arrays([*sent, address, piece, blank], schema=out)
        except LancekitError as error:
            yield failure_row(error, out, **{PIECE: 0})

    return map_batches(frame, lay_out, spark_schema(out))


@dataclass(frozen=True)
class _Lend:
    """A reader of moved rows on a worker, with the columns that the target lends."""

    work: MergeTask
    packed: tuple[bytes, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[MatchedRows]:
        by_id: dict[int, FragmentSource] = {}
        reader: FragmentReader | None = None
        for batch in _joined_batches(batches, _LENT_ROWS):
            raise_failure(batch.column(FAILURE))
            for source, rows in typed_parts(batch, self.work.source):
                address = rows.column(ADDRESS)
                matched = rows.num_rows - ak.null_count(address)  # sorted first
                if matched and self.work.lent.names:
                    by_id = by_id or pickle.loads(self.packed[rows.column(PIECE)[0].as_py()])  # noqa: S301
                    lent, reader = self._lent(address[:matched].to_numpy(), by_id, reader)
                    start = 0
                    for part in lent:
                        stop = start + part.num_rows
                        yield MatchedRows(source[start:stop], part, address[start:stop])
                        start = stop
                elif matched:
                    yield MatchedRows(source[:matched], None, address[:matched])
                if matched < rows.num_rows:
                    yield MatchedRows(source[matched:], None, address[matched:])

    def _lent(
        self, addresses: Indices, by_id: dict[int, FragmentSource], reader: FragmentReader | None
    ) -> tuple[list[pa.RecordBatch], FragmentReader | None]:
        tables = []
        for id_, offsets in row_address.by_fragment(addresses):
            if reader is None or reader.source.fragment.id != id_:
                reader = FragmentReader(by_id[id_])
            tables.append(reader.read(self.work.lent.names, offsets))
        lent = combined(pa.concat_tables(tables)).to_batches()
        return [
            pa.RecordBatch.from_arrays(part.columns, schema=self.work.lent) for part in lent
        ], reader


def _joined_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Concatenate batches to at least so many rows."""
    cached: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        cached.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield ak.concat_batches(cached)
            cached, count = [], 0
    if count:
        yield ak.concat_batches(cached)
