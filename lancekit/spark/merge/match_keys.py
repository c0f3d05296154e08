"""Which source row matches which target row, found with keys that travel, and sent to the writers.

The target's fragments are probed by this process, or by tasks that each get the source's keys and
a piece of the target: ranges of rows, so that a large fragment is shared by several tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.format import row_address
from lancekit.pipeline.engine.engine import LocalRunner
from lancekit.pipeline.keys.hashed import HashedKeys, hashed_keys
from lancekit.pipeline.keys.indexed import key_choice
from lancekit.pipeline.keys.probe import KeyTable, Matches, probe
from lancekit.pipeline.keys.probe_ranges import Keys, probe_ranges
from lancekit.pipeline.keys.sorted import SortedKeys, sorted_keys
from lancekit.pipeline.keys.source_keys import SourceKeys
from lancekit.pipeline.merge.strategy import CLOSURE_BYTES, MatchPlan
from lancekit.pipeline.rows.new_files import WriteTarget
from lancekit.scan.fragment_rows import ScanRequest
from lancekit.scan.fragments.source import FragmentSource
from lancekit.scan.outputs import plan_columns
from lancekit.spark.frames.scan import cut_pieces, whole_ranges
from lancekit.spark.jobs.client import client_of
from lancekit.spark.jobs.collect import collect
from lancekit.spark.jobs.shipment import Shipment, shipped
from lancekit.storage import Store
from lancekit.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RowRouting", "find_pairs", "forget_keys", "orders", "send_orders"]

Indices = npt.NDArray[np.int64]

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
    if match.strategy in {"driver", "index"}:
        asked = key_choice(snapshot, keys.table) if match.strategy == "index" else None
        found = probe(target, keys.table, LocalRunner().map, asked)
    else:
        most = CLOSURE_BYTES if match.strategy == "closure" else 0
        with shipped(_packed(keys.table), snapshot.store, most) as sent:
            found = _on_workers(session, sent, keys.table.names, target, snapshot.store)
    return [keys.restored(part) for part in found if len(part.offsets)]


def _packed(keys: KeyTable) -> list[pa.Buffer]:
    """Return the keys as tasks get them: sorted or hashed if they are very many, else as they are.

    From how many on it pays, `sorted_keys` and `hashed_keys` know.
    """
    ascending = sorted_keys(keys)
    hashed = hashed_keys(keys) if ascending is None else None
    columns = {f"k{at}": column for at, column in enumerate((hashed or keys).columns)}
    table, seed = pa.table(columns), 0
    if ascending is not None:
        table = pa.table({"sorted": ascending.values, "rows": ascending.first_rows})
    elif hashed is not None:
        table = pa.table({"hashes": hashed.hashes, "rows": hashed.first_rows, **columns})
        seed = hashed.seed
    table = table.replace_schema_metadata({"seed": str(seed)})
    sink = pa.BufferOutputStream(pa.system_memory_pool())  # others keep the room of large buffers
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return [sink.getvalue()]


@lru_cache(maxsize=1)
def _unpacked(sent: Shipment, names: tuple[str, ...]) -> Keys:
    """Return the keys that were sent; a process that has several tasks unpacks them once."""
    table = pa.ipc.open_stream(sent.part(0)).read_all()
    columns = [ak.combine_chunks(column) for column in table.columns]
    if table.column_names[0] == "sorted":
        return SortedKeys(names, columns[0].to_numpy(), columns[1].to_numpy())
    if table.column_names[0] == "hashes":
        hashes, rows = (column.to_numpy() for column in columns[:2])
        seed = int((table.schema.metadata or {})[b"seed"])
        return HashedKeys(names, tuple(columns[2:]), hashes, seed, rows)
    return KeyTable(names, tuple(columns))


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
        keys = _unpacked(sent, names)
        found: list[Matches] = []
        for batch in batches:
            for number in batch.column(0).to_pylist():
                ranges = pickle.loads(packed[number])  # noqa: S301  # made above
                found += map(_narrowed, probe_ranges(ranges, keys))
        return found

    numbers = session.range(0, len(packed), 1, len(packed))
    place = WriteTarget(store)
    parts = collect(numbers, probe, written_to=[place], tasks=len(packed), what="matching keys")
    return [match for part in parts for match in part]


def _narrowed(found: Matches) -> Matches:
    """Return pairs in half the bytes; only `_by_row` computes with them, in 64 bits."""
    small = not len(found.source_rows) or found.source_rows.max() < 1 << 31
    source_rows = found.source_rows.astype(np.int32) if small else found.source_rows
    return Matches(
        fragment_id=found.fragment_id,
        offsets=cast(Indices, found.offsets.astype(np.uint32)),
        source_rows=cast(Indices, source_rows),
    )


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

    def skipped_between(self, start: int, stop: int) -> Indices:
        """Return the rows of a range that are left out."""
        return self.skipped[slice(*np.searchsorted(self.skipped, (start, stop)))]


def orders(
    matches: list[Matches], keys: SourceKeys, starts: Indices, sums: Sequence[int]
) -> list[RowRouting]:
    """Return what each partition's task is to do; ``matches`` is empty then: it may be large."""
    rows, addresses = _by_row(matches, keys.rows)
    left_out = np.empty(0, np.int64)
    if keys.kept is not None:
        mask = np.ones(keys.rows, bool)
        mask[keys.kept] = False
        left_out = np.flatnonzero(mask)
    told = (slice(*cut) for cut in pairwise(np.searchsorted(rows, starts)))
    skipped = (slice(*cut) for cut in pairwise(np.searchsorted(left_out, starts)))
    out = []
    for start, mine, some, key_sum in zip(starts[:-1], told, skipped, sums, strict=True):
        rows[mine] -= int(start)  # in place: copies of all parts would double the memory
        out.append(RowRouting(rows[mine], addresses[mine], left_out[some] - start, key_sum))
    return out


def _by_row(matches: list[Matches], count: int) -> tuple[npt.NDArray[np.integer[Any]], Indices]:
    """Return the pairs of ``count`` source rows and the addresses that they match, by row."""
    small: type[np.integer[Any]] = np.int32 if count < 1 << 31 else np.int64
    pairs, known = sum(len(match.offsets) for match in matches), np.zeros(count, bool)
    for match in matches:
        known[match.source_rows] = True
    if np.count_nonzero(known) == pairs:
        # no row has two, and nothing is to be sorted
        address_of = np.empty(count, np.int64)
        while matches:
            match = matches.pop()
            address_of[match.source_rows] = _addresses(match)
        rows = np.flatnonzero(known).astype(small)
        return rows, address_of if pairs == count else address_of[known]
    rows = np.concatenate([match.source_rows for match in matches])
    by_row = np.argsort(rows, kind="stable")
    addresses = np.concatenate([*map(_addresses, matches)])[by_row]
    matches.clear()
    return rows[by_row].astype(small), addresses


def _addresses(match: Matches) -> Indices:
    return row_address.addresses(match.fragment_id, match.offsets.astype(np.int64))


def send_orders(orders: Iterable[RowRouting], store: Store) -> AbstractContextManager[Shipment]:
    """Make orders available to tasks, by the numbers of their partitions."""
    return shipped(map(pickle.dumps, orders), store, _ORDER_BYTES)
