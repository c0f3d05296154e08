"""The part of a merge that runs in a task: write the new rows for source rows and matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit import _arrow_kernels as ak
from lancekit._format import row_address
from lancekit._format.deletions import to_bitmap, to_offsets
from lancekit._format.fragment import Fragment
from lancekit._pipeline.merge_condition import PairCondition
from lancekit._pipeline.merge_plan import EXAMPLES, MergeClauses, guard_hashes
from lancekit._pipeline.probe import key_values
from lancekit._pipeline.source_keys import key_columns
from lancekit._pipeline.write_rows import WriteTask, write_fragments
from lancekit._spark.jobs.worker import of_partition

# ---- rows of a version in the form of task results: bitmaps, of at most two bytes a row


@dataclass
class RowSet:
    """Rows by fragment id, and the number of added rows, duplicates included.

    Examples
    --------
    >>> rows = RowSet()
    >>> rows.add(np.array([5, 7, (1 << 32) + 2, 5]))
    >>> len(rows), rows.added, {id_: list(found) for id_, found in rows.by_fragment.items()}
    (3, 4, {0: [5, 7], 1: [2]})
    """

    by_fragment: dict[int, BitMap] = field(default_factory=dict)
    added: int = 0

    def add(self, addresses: npt.NDArray[np.integer]) -> None:
        """Add rows by their addresses, in any order."""
        self.added += len(addresses)
        for id_, offsets in row_address.by_fragment(np.sort(addresses)):
            self.add_bitmap(id_, to_bitmap(offsets))

    def add_bitmap(self, fragment_id: int, offsets: BitMap) -> None:
        """Add rows of a fragment, without counting them in `added`."""
        known = self.by_fragment.get(fragment_id)
        self.by_fragment[fragment_id] = offsets if known is None else known | offsets

    @classmethod
    def union(cls, parts: Iterable[RowSet]) -> RowSet:
        """Merge several row sets."""
        out = cls()
        for part in parts:
            out.added += part.added
            for id_, offsets in part.by_fragment.items():
                out.add_bitmap(id_, offsets)
        return out

    def offsets(self) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Yield fragment ids, ascending, each with the ascending offsets of its rows."""
        for id_ in sorted(self.by_fragment):
            yield id_, to_offsets(self.by_fragment[id_]).astype(np.int64)

    def __len__(self) -> int:
        """Return the number of distinct rows."""
        return sum(map(len, self.by_fragment.values()))


ADDRESS = "address"

Hashes = npt.NDArray[np.uint64]


class MatchedRows(NamedTuple):
    """Rows of the source: one for each matched target row, or one without a match.

    `lent` has the columns of the target rows, or is ``None`` if no row has a match.  Addresses of
    the target rows are in `address`, null for a row without a match.
    """

    source: pa.RecordBatch
    lent: pa.RecordBatch | None
    address: pa.Array

    def updates(self, condition: PairCondition | None) -> npt.NDArray[np.int64]:
        """Return the rows with a match that satisfy the condition, if any."""
        pairs = np.flatnonzero(self.address.is_valid().to_numpy(zero_copy_only=False))
        if condition is None or not len(pairs):
            return pairs
        rows = pa.array(pairs)
        lent = _take(self.lent, rows) if self.lent is not None and self.lent.num_columns else None
        return pairs[condition.holds(_take(self.source, rows), lent)]


#: reads `MatchedRows` in a task
ReadRows: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[MatchedRows]]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one task.

    `matches` are the target rows with a match, `removed` the replaced or deleted ones, `dropped`
    the rows that a row of the source deletes.  `alone` counts source rows without a match.
    """

    new: list[Fragment]
    matches: RowSet
    removed: RowSet
    dropped: RowSet
    inserted: int
    alone: int
    hashes: Hashes
    keys: list[tuple[object, ...]]
    examples: bytes | None


@dataclass(slots=True)
class _Tally:
    """The counts and rows that a task has found so far."""

    matches: RowSet = field(default_factory=RowSet)
    removed: RowSet = field(default_factory=RowSet)
    dropped: RowSet = field(default_factory=RowSet)
    hashes: list[Hashes] = field(default_factory=list)
    inserted: int = 0
    alone: int = 0
    keys: list[tuple[object, ...]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """The work of a task with joined rows.  Can be sent to a worker.

    source: the columns of the source that are needed.
    lent: the columns of a matched target row that are needed.
    clauses, condition: the actions, and the condition for updates or ``None``.
    task: where and how to write new rows.
    dry: whether to write nothing.
    """

    source: pa.Schema
    lent: pa.Schema
    clauses: MergeClauses
    condition: PairCondition | None
    task: WriteTask
    dry: bool = False

    def __call__(self, rows: Iterable[MatchedRows]) -> TaskResult:
        """Write the new rows of a partition."""
        tally = _Tally()
        new, examples = list[Fragment](), None
        if self.dry:
            examples = _examples(self._new_rows(rows, tally), self.task.schema.to_arrow())
        else:
            batches = (batch for batch, _ in self._new_rows(rows, tally))
            new = write_fragments(batches, of_partition(self.task))
        return TaskResult(
            new=new,
            matches=tally.matches,
            removed=tally.removed,
            dropped=tally.dropped,
            inserted=tally.inserted,
            alone=tally.alone,
            hashes=concatenated(tally.hashes),
            keys=tally.keys,
            examples=examples,
        )

    def _new_rows(
        self, rows: Iterable[MatchedRows], tally: _Tally
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """Yield new rows, and the addresses of the rows that they replace."""
        clauses = self.clauses
        for joined in rows:
            source, lent, address = joined
            matched = address.is_valid().to_numpy(zero_copy_only=False)
            pairs, alone = np.flatnonzero(matched), np.flatnonzero(~matched)
            addresses = address.fill_null(0).to_numpy()
            tally.matches.add(addresses[pairs])
            tally.alone += len(alone)
            if clauses.matched == "fail" and len(pairs) and not tally.keys:
                named = pa.table(key_columns(source, clauses.on), names=list(clauses.on))
                tally.keys = key_values(named, clauses.on, pairs)
            if clauses.matched == "update" and len(pairs):
                pairs = joined.updates(self.condition)
                if clauses.deleting is not None:
                    drop = source.column(clauses.deleting).to_numpy(zero_copy_only=False)[pairs]
                    tally.dropped.add(addresses[pairs[drop]])
                    pairs = pairs[~drop]
                if clauses.guard_updates:
                    tally.hashes.append(guard_hashes(source, clauses, pairs))
                yield from self._rows(source, lent, pairs, address)
            if clauses.matched in {"update", "delete"}:
                tally.removed.add(addresses[pairs])
            if clauses.insert:
                tally.inserted += len(alone)
                tally.hashes.append(guard_hashes(source, clauses, alone))
                yield from self._rows(source, None, alone, address)

    def _rows(
        self,
        source: pa.RecordBatch,
        lent: pa.RecordBatch | None,
        rows: npt.NDArray[np.int64],
        address: pa.Array,
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """Yield new rows in the dataset's schema; missing columns are lent, or null."""
        if not len(rows):
            return
        schema = self.task.schema.to_arrow()
        given = set(source.schema.names)
        at = None if len(rows) == source.num_rows else pa.array(rows)

        def column(field: pa.Field) -> pa.Array:
            if field.name in given:
                return _at(source.column(field.name), at)
            if lent is None:
                return pa.nulls(len(rows), field.type)
            return _at(lent.column(field.name), at)

        batch = pa.RecordBatch.from_arrays([column(f) for f in schema], schema=schema)
        yield batch, _at(address, at)


def _at(values: pa.Array, rows: pa.Array | None) -> pa.Array:
    return values if rows is None else ak.take(values, rows)


def _take(batch: pa.RecordBatch, rows: pa.Array) -> pa.Table:
    return ak.take(pa.Table.from_batches([batch]), rows)


def _examples(rows: Iterable[tuple[pa.RecordBatch, pa.Array]], schema: pa.Schema) -> bytes:
    """Return the first few new rows of each kind, and discard the others."""
    left = {True: EXAMPLES, False: EXAMPLES}
    fields = [*schema, pa.field("_rowaddr", pa.uint64())]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema(fields)) as writer:
        for batch, address in rows:
            replaces = address[0].is_valid
            part = slice(0, left[replaces])
            left[replaces] -= min(batch.num_rows, left[replaces])
            columns = [*batch.columns, address.cast(pa.uint64())]
            shown = pa.RecordBatch.from_arrays([c[part] for c in columns], schema=pa.schema(fields))
            writer.write_batch(shown)
    return bytes(sink.getvalue())


def concatenated(hashes: Sequence[Hashes]) -> Hashes:
    """Concatenate arrays of hashes; there may be none."""
    return np.concatenate([np.empty(0, np.uint64), *hashes])


def lent_columns(
    source: pa.Schema,
    clauses: MergeClauses,
    condition: PairCondition | None,
    names: Sequence[str],
    *,
    dry: bool,
) -> list[str]:
    """Return the target's columns that an updated row needs besides its key."""
    if clauses.matched != "update":
        return []
    named = () if condition is None else condition.target
    given, whole = set(source.names), dry or not clauses.rewrite_columns
    return [n for n in names if n in named or (whole and n not in given)]
