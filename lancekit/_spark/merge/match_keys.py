"""Matching of source rows and target rows, by collected keys or by a Spark join.

Collected keys are looked up in the target by this process, or by tasks.  Each task gets the
source's keys and a piece of the target: ranges of rows, so that several tasks share a large
fragment.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format import row_address
from lancekit._pipeline.casts.plan import CastPlan
from lancekit._pipeline.engine import LocalRunner
from lancekit._pipeline.merge_strategy import SENT_BYTES, MatchPlan
from lancekit._pipeline.probe import KeyTable, Matches, key_values, probe
from lancekit._pipeline.probe_ranges import (
    HashedKeys,
    Keys,
    SortedKeys,
    compact_keys,
    narrowed,
    probe_compactly,
    probe_ranges,
)
from lancekit._pipeline.source_keys import SourceKeys, key_lookup, key_schema, repeated_in_source
from lancekit._pipeline.write_rows import WriteTarget
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read
from lancekit._spark.frames.scan import cut_pieces, fragment_frame, whole_ranges
from lancekit._spark.frames.types import to_spark_batch, typed_parts, wire_schema
from lancekit._spark.frames.wire_rows import (
    FAILURE,
    by_position,
    gathered,
    key_wire,
    pack_keys,
    prepare,
    raise_failure,
    unpack_keys,
)
from lancekit._spark.jobs.client import client_of
from lancekit._spark.jobs.collect import collect, run_action
from lancekit._spark.jobs.shipment import Shipment, shipped
from lancekit._spark.merge.cached_source import CachedSource, SameKeys
from lancekit._spark.merge.merge_task import ADDRESS, MatchedRows, MergeTask, ReadRows
from lancekit._storage.base import Bytes, Store
from lancekit._versions.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Indices = npt.NDArray[np.int64]

#: the alignment of arrays that are sent
_WORD = 64
#: most bytes of row routings that every task gets, although it needs only its own
_ROUTING_BYTES = 8 << 20


def find_pairs(
    session: SparkSession,
    keys: SourceKeys,
    target: Sequence[FragmentSource],
    match: MatchPlan,
    snapshot: Snapshot,
) -> list[Matches]:
    """Return the matches of each fragment, or of its parts, in the target's order.

    session: the session of the tasks.
    keys: the keys to find.
    target: the fragments of the target.
    match: the plan, which says where keys are looked up.
    snapshot: the version; its folder takes keys that are too large to send.
    """
    found: Iterable[Matches]
    if match.strategy == "index":
        read = Read(target, lookup=key_lookup(snapshot, keys.table))
        found = probe(read, keys.table, LocalRunner().map)
    elif match.strategy == "driver":
        found = probe_compactly(target, compact_keys(keys.table), LocalRunner().map)
    else:
        most = SENT_BYTES if match.strategy == "closure" else 0
        with shipped(_packed(compact_keys(keys.table)), snapshot.store, most) as sent:
            found = _on_workers(session, sent, keys.table.names, target, snapshot.store)
    return [keys.restored(part) for part in found if len(part.offsets)]


def _packed(keys: Keys) -> Iterator[Bytes]:
    """Yield the keys in the form for tasks: a header, then their arrays without a copy."""
    if isinstance(keys, SortedKeys):
        yield _head(keys, 0, keys.first_rows.dtype)
        yield pa.py_buffer(keys.values)
        yield pa.py_buffer(keys.first_rows)
    elif isinstance(keys, HashedKeys):
        yield _head(keys, keys.seed, keys.first_rows.dtype)
        yield pa.py_buffer(keys.hashes)
        yield from map(_stream, keys.columns)
        yield pa.py_buffer(keys.first_rows)
    else:
        yield _head(keys, 0, None)
        yield from map(_stream, keys.columns)


def _head(keys: Keys, seed: int, rows: np.dtype[np.generic] | None) -> bytes:
    """Return the header of the arrays, padded so that the arrays after it are aligned."""
    head = pickle.dumps((type(keys), keys.names, seed, rows))
    return head.ljust(-(-len(head) // _WORD) * _WORD, b"\0")


def _stream(column: pa.Array) -> pa.Buffer:
    table = pa.table({"k": column})
    sink = pa.BufferOutputStream(pa.system_memory_pool())  # other pools keep large freed buffers
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@lru_cache(maxsize=1)
def _unpacked(sent: Shipment) -> Keys:
    """Unpack the keys that were sent, only once if a process runs several tasks."""
    kind, names, seed, rows = pickle.loads(sent.part(0))  # noqa: S301  # made by the driver
    parts = [sent.part(number) for number in range(1, len(sent))]
    if kind is SortedKeys:
        values, first_rows = parts
        return SortedKeys(names, np.frombuffer(values, np.int64), np.frombuffer(first_rows, rows))
    if kind is HashedKeys:
        hashes, *packed, first_rows = parts
        columns = tuple(map(_column, packed))
        numbers = np.frombuffer(hashes, np.uint64), seed, np.frombuffer(first_rows, rows)
        return HashedKeys(names, columns, *numbers)
    return KeyTable(names, tuple(map(_column, parts)))


def _column(packed: memoryview) -> pa.Array:
    return ak.combine_chunks(pa.ipc.open_stream(packed).read_all().column(0))


def forget_keys() -> None:
    """Free the keys of an earlier job in a worker."""
    _unpacked.cache_clear()


def _on_workers(
    session: SparkSession,
    sent: Shipment,
    names: tuple[str, ...],
    target: Sequence[FragmentSource],
    store: Store,
) -> list[Matches]:
    if not len(target):
        return []
    request = ScanRequest(outputs=plan_columns(target[0].schema, list(names)))
    pieces = cut_pieces(whole_ranges(target), request, client_of(session).parallelism())
    # Each piece is pickled separately, so that a worker unpickles only its own.
    packed = [pickle.dumps(piece.ranges) for piece in pieces]

    def probe(batches: Iterable[pa.RecordBatch]) -> list[Matches]:
        keys = _unpacked(sent)
        found: list[Matches] = []
        for batch in batches:
            for number in batch.column(0).to_pylist():
                ranges = pickle.loads(packed[number])  # noqa: S301  # made above
                found += map(narrowed, probe_ranges(ranges, keys))
        return found

    numbers = session.range(0, len(packed), 1, len(packed))
    place = WriteTarget(store)
    parts = collect(numbers, probe, written_to=[place], tasks=len(packed), what="matching keys")
    return [match for part in parts for match in part]


@dataclass(frozen=True, slots=True)
class RowRouting:
    """The matches of the rows in one partition of the source; rows count from its first.

    rows, addresses: pairs of a row and the address of a matched target row, in row order.
    skipped: rows that are dropped.
    key_sum: the checksum of the partition's keys.
    """

    rows: npt.NDArray[np.integer]
    addresses: Indices
    skipped: Indices
    key_sum: int

    def parts(self) -> Iterator[Bytes]:
        """Yield the parts that `read` expects, the long ones without a copy."""
        yield pickle.dumps((self.rows.dtype, self.skipped, self.key_sum))
        yield pa.py_buffer(self.rows)
        yield pa.py_buffer(self.addresses)

    @classmethod
    def read(cls, sent: Shipment, partition: int) -> RowRouting:
        """Read the routing that was sent to a partition's task."""
        head, rows, addresses = (sent.part(3 * partition + part) for part in range(3))
        kind, skipped, key_sum = pickle.loads(head)  # noqa: S301  # made by the driver
        # copied, because numbers in a file are not aligned
        pairs = np.array(np.frombuffer(rows, kind)), np.array(np.frombuffer(addresses, np.int64))
        return cls(*pairs, skipped, key_sum)

    def skipped_between(self, start: int, stop: int) -> Indices:
        """Return the dropped rows in a range."""
        return self.skipped[slice(*np.searchsorted(self.skipped, (start, stop)))]


def route_rows(
    matches: list[Matches], keys: SourceKeys, starts: Indices, sums: Sequence[int]
) -> list[RowRouting]:
    """Return the routing of each partition; empty ``matches``, which can be large."""
    dropped = np.empty(0, np.int64)
    if keys.kept is not None:
        mask = np.ones(keys.rows, bool)
        mask[keys.kept] = False
        dropped = np.flatnonzero(mask)
    skipped = (
        dropped[slice(*cut)] - start
        for start, cut in zip(starts, pairwise(np.searchsorted(dropped, starts)), strict=False)
    )
    parts = zip(_pairs(matches, keys.rows, starts), skipped, sums, strict=True)
    return [RowRouting(*pairs, some, key_sum) for pairs, some, key_sum in parts]


def _pairs(
    matches: list[Matches], count: int, starts: Indices
) -> Iterator[tuple[npt.NDArray[np.integer], Indices]]:
    """Yield the pairs of each partition, in row order; rows count from the partition's first.

    If no row has two matches, all ``count`` rows together only need an array of addresses.
    """
    small: type[np.integer] = np.int32 if count < 1 << 31 else np.int64
    pairs, known = sum(len(match.offsets) for match in matches), np.zeros(count, bool)
    for match in matches:
        known[match.source_rows] = True
    if np.count_nonzero(known) == pairs:
        address_of = np.empty(count, np.int64)
        while matches:
            match = matches.pop()
            address_of[match.source_rows] = _addresses(match)
        for start, stop in pairwise(starts):
            own, mine = known[start:stop], address_of[start:stop]
            yield np.flatnonzero(own).astype(small), mine if own.all() else mine[own]
        return
    rows = np.concatenate([match.source_rows for match in matches])
    by_row = np.argsort(rows, kind="stable")
    addresses = np.concatenate([*map(_addresses, matches)])[by_row]
    rows = rows[by_row]
    matches.clear()
    for start, stop in pairwise(starts):
        part = slice(*np.searchsorted(rows, (start, stop)))
        yield (rows[part] - start).astype(small), addresses[part]


def _addresses(match: Matches) -> Indices:
    return row_address.addresses(match.fragment_id, match.offsets.astype(np.int64))


def send_routings(routings: Iterable[RowRouting], store: Store) -> AbstractContextManager[Shipment]:
    """Make routings available to tasks, by the numbers of their partitions."""
    return shipped((part for each in routings for part in each.parts()), store, _ROUTING_BYTES)


# ---- A source that Spark joins with the target's keys, because its keys are too many to collect

#: keys that are collected for a message
_SAMPLE = 20


def check_by_grouping(cached: CachedSource, plan: CastPlan, on: tuple[str, ...]) -> None:
    """Raise ``DuplicateKeysError`` if a key of the source without a null occurs twice."""
    schema = key_schema(plan.target, on)
    keys = [f"k{at}" for at in range(len(on))]
    known = " and ".join(f"{key} is not null" for key in keys)
    rows = prepare(cached.frame, cached.schema, plan, on, ())
    groups = rows.groupBy(*keys, FAILURE).count()
    found = groups.where(f"{FAILURE} is not null or (`count` > 1 and {known})")
    session = cached.frame.sparkSession
    sample = run_action(session, found.limit(_SAMPLE).toArrow)
    raise_failure(sample.column(FAILURE))
    if sample.num_rows:
        total = run_action(session, found.selectExpr("sum(`count`) as n").toArrow)
        repeated = unpack_keys(sample.select(keys), schema)
        shown = key_values(repeated, on, np.arange(repeated.num_rows))
        raise repeated_in_source(on, shown, total.column("n")[0].as_py())


def join_frame(
    cached: CachedSource,
    plan: CastPlan,
    check: SameKeys,
    target: Sequence[FragmentSource],
    work: MergeTask,
    *,
    broadcast: bool,
) -> tuple[DataFrame, ReadRows]:
    """Return the source's rows joined with their matches, and a reader for tasks.

    cached, plan: the source, and the casts to the dataset's types.
    check: checks that a partition still has the same keys.
    target: the fragments of the target.
    work: the task that processes the rows, which determines the columns of both sides.
    broadcast: whether the target's keys are sent to the tasks of the source; else both sides are
        sorted.
    """
    on = work.clauses.on
    source = prepare(cached.frame, cached.schema, plan, on, work.source.names, check)
    if work.clauses.dedupe_by is not None:
        source = _largest(source, work, work.clauses.dedupe_by)
    keys = _target_keys(cached.frame.sparkSession, target, work)
    names = [f"k{at}" for at in range(len(on))]
    # Spark assumes that a scan has as many rows as tasks, and would broadcast any target.
    joined = source.join(keys.hint("broadcast" if broadcast else "merge"), names, "left")
    s, t = by_position("s", work.source).names, by_position("t", work.lent).names
    rows = joined.select(*s, *t, FAILURE, ADDRESS)
    # the source's partitions were gathered already; gathering again would renumber the tasks, by
    # whose numbers `check` identifies a partition
    return rows if broadcast else gathered(rows), _Reader(work.source, work.lent)


def _largest(source: DataFrame, work: MergeTask, by: str) -> DataFrame:
    """Keep the row with the largest value of each key, and all rows with a null in their key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = f.col(f"s{work.source.get_field_index(by)}")
    if pa.types.is_floating(work.source.field(by).type):
        order = f.nanvl(order, f.lit(None))
    keys = [f"k{at}" for at in range(len(work.clauses.on))]
    window = Window.partitionBy(*keys).orderBy(order.desc_nulls_last())
    known = " and ".join(f"{key} is not null" for key in keys)
    numbered = source.withColumn("place", f.row_number().over(window))
    return numbered.where(f"place = 1 or not ({known}) or {FAILURE} is not null").drop("place")


@dataclass(frozen=True, slots=True)
class _Reader:
    """A reader of joined rows on a worker."""

    source: pa.Schema
    lent: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[MatchedRows]:
        both = pa.schema([*self.source, *self.lent])
        places = range(len(both))
        width = len(self.source)
        for batch in batches:
            raise_failure(batch.column(FAILURE))
            for pairs, rows in typed_parts(batch, both):
                yield MatchedRows(
                    source=pairs.select(places[:width]),
                    lent=pairs.select(places[width:]),
                    address=rows.column(ADDRESS),
                )


def _target_keys(
    session: SparkSession, target: Sequence[FragmentSource], work: MergeTask
) -> DataFrame:
    """Return the target's keys as ``k*``, the columns to keep as ``t*``, and the row addresses."""
    schema, on = work.task.schema, work.clauses.on
    names = list(dict.fromkeys([*on, *work.lent.names]))
    request = ScanRequest(outputs=plan_columns(schema, [*names, "_rowaddr"]))
    keys = key_wire(key_schema(schema.to_arrow(), on))
    lent = wire_schema(work.lent, exact=True)
    out = pa.schema([*by_position("k", keys), *by_position("t", lent), (ADDRESS, pa.int64())])

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        packed = pack_keys([batch.column(name) for name in on], keys)
        sent = to_spark_batch(batch.select(lent.names), lent).columns
        address = batch.column("_rowaddr").cast(pa.int64())
        return pa.RecordBatch.from_arrays([*packed, *sent, address], schema=out)

    return fragment_frame(session, target, request, convert, out)
