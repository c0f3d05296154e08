"""Which source row matches which target row, found with keys that travel, and sent to the writers.

The target's fragments are probed by this process, or by tasks that each get the source's keys and
a piece of the target: ranges of rows, so that a large fragment is shared by several tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format import row_address
from lancekit._pipeline.engine.engine import LocalRunner
from lancekit._pipeline.keys.indexed import key_lookup
from lancekit._pipeline.keys.probe import KeyTable, Matches, probe
from lancekit._pipeline.keys.probe_ranges import (
    HashedKeys,
    Keys,
    compact_keys,
    narrowed,
    probe_compactly,
    probe_ranges,
)
from lancekit._pipeline.keys.sorted import SortedKeys
from lancekit._pipeline.keys.source_keys import SourceKeys
from lancekit._pipeline.merge.strategy import SENT_BYTES, MatchPlan
from lancekit._pipeline.rows.write import WriteTarget
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read
from lancekit._spark.frames.scan import cut_pieces, whole_ranges
from lancekit._spark.jobs.client import client_of
from lancekit._spark.jobs.collect import collect
from lancekit._spark.jobs.shipment import Shipment, shipped
from lancekit._storage.base import Bytes, Store
from lancekit._versions.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RowRouting", "find_pairs", "forget_keys", "orders", "send_orders"]

Indices = npt.NDArray[np.int64]

#: arrays that were sent begin at a multiple of so many bytes
_WORD = 64
#: orders that are sent to each task, whose own is one of many
_ORDER_BYTES = 8 << 20


def find_pairs(
    session: SparkSession,
    keys: SourceKeys,
    target: Sequence[FragmentSource],
    match: MatchPlan,
    snapshot: Snapshot,
) -> list[Matches]:
    """Return the matches of each fragment, or of several parts of it, in the target's order.

    Parameters
    ----------
    session
        Where tasks run.
    keys
        What to look for.
    target
        The target's fragments.
    match
        Who looks.
    snapshot
        The version; its folder takes keys that are too many to be sent otherwise.
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
    """Yield the keys as tasks get them: what they are, then their arrays, without a copy."""
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


def _head(keys: Keys, seed: int, rows: np.dtype[Any] | None) -> bytes:
    """Return what a task has to know of the arrays, as long as words are: they lie behind it."""
    head = pickle.dumps((type(keys), keys.names, seed, rows))
    return head.ljust(-(-len(head) // _WORD) * _WORD, b"\0")


def _stream(column: pa.Array) -> pa.Buffer:
    table = pa.table({"k": column})
    sink = pa.BufferOutputStream(pa.system_memory_pool())  # others keep the room of large buffers
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@lru_cache(maxsize=1)
def _unpacked(sent: Shipment) -> Keys:
    """Return the keys that were sent; a process that has several tasks unpacks them once."""
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
    """Let a worker's process go on without the keys of an earlier job."""
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
    # Each piece is pickled by itself, so that a worker unpacks no more than its own.
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
    """What a task does with the rows of one partition of the source; rows count from its first.

    Attributes
    ----------
    rows, addresses
        Pairs of a row and the address of a target row that it matches, by row.
    skipped
        Rows that are left out.
    key_sum
        The sum of the partition's keys.
    """

    rows: npt.NDArray[np.integer[Any]]
    addresses: Indices
    skipped: Indices
    key_sum: int

    def parts(self) -> Iterator[Bytes]:
        """Yield it in as many parts as `read` takes, the long ones without a copy."""
        yield pickle.dumps((self.rows.dtype, self.skipped, self.key_sum))
        yield pa.py_buffer(self.rows)
        yield pa.py_buffer(self.addresses)

    @classmethod
    def read(cls, sent: Shipment, partition: int) -> RowRouting:
        """Return what a partition's task was sent."""
        head, rows, addresses = (sent.part(3 * partition + part) for part in range(3))
        kind, skipped, key_sum = pickle.loads(head)  # noqa: S301  # made by the driver
        # copies: in a file numbers begin anywhere
        pairs = np.array(np.frombuffer(rows, kind)), np.array(np.frombuffer(addresses, np.int64))
        return cls(*pairs, skipped, key_sum)

    def skipped_between(self, start: int, stop: int) -> Indices:
        """Return the rows of a range that are left out."""
        return self.skipped[slice(*np.searchsorted(self.skipped, (start, stop)))]


def orders(
    matches: list[Matches], keys: SourceKeys, starts: Indices, sums: Sequence[int]
) -> list[RowRouting]:
    """Return what each partition's task is to do; ``matches`` is empty then: it may be large."""
    left_out = np.empty(0, np.int64)
    if keys.kept is not None:
        mask = np.ones(keys.rows, bool)
        mask[keys.kept] = False
        left_out = np.flatnonzero(mask)
    skipped = (
        left_out[slice(*cut)] - start
        for start, cut in zip(starts, pairwise(np.searchsorted(left_out, starts)), strict=False)
    )
    told = zip(_pairs(matches, keys.rows, starts), skipped, sums, strict=True)
    return [RowRouting(*pairs, some, key_sum) for pairs, some, key_sum in told]


def _pairs(
    matches: list[Matches], count: int, starts: Indices
) -> Iterator[tuple[npt.NDArray[np.integer[Any]], Indices]]:
    """Yield the pairs of each partition, by row; rows count from the partition's first.

    What is made of all ``count`` rows together is an address for each, if no row has two.
    """
    small: type[np.integer[Any]] = np.int32 if count < 1 << 31 else np.int64
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


def send_orders(orders: Iterable[RowRouting], store: Store) -> AbstractContextManager[Shipment]:
    """Make orders available to tasks, by the numbers of their partitions."""
    return shipped((part for order in orders for part in order.parts()), store, _ORDER_BYTES)
