"""A merge-insert on Spark: one join of the source's rows with the target's keys.

Each task of the join writes the rows that are new, and tells which old ones they replace; the
driver puts these findings together.  Target columns take part in the join only if a matched row
needs them: those that the source lacks, and those that a condition names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit.errors import DuplicateKeysError
from lancekit.format.deletions import to_bitmap
from lancekit.format.fragment import Fragment
from lancekit.pipeline.casts import CastPlan
from lancekit.pipeline.merge import (
    MergeClauses,
    MergeWork,
    condition_holds,
    guard_hashes,
    mark_fragments,
    matched_rows,
    with_row_ids,
)
from lancekit.pipeline.probe import key_values
from lancekit.pipeline.runner import LocalRunner
from lancekit.pipeline.write import WriteTask, delete_fragments, write_fragments
from lancekit.scan.fragment import FragmentReader
from lancekit.scan.scanner import ScanRequest, plan_columns
from lancekit.scan.sources import FragmentSource
from lancekit.spark.frame import fragment_frame
from lancekit.spark.jobs import collect
from lancekit.spark.keys import key_wire, pack_keys
from lancekit.spark.prepare import FAILURE, by_place, gathered, pick, prepare, raise_failure
from lancekit.spark.runner import SparkRunner
from lancekit.spark.types import from_spark_batch, to_spark_batch, wire_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["merge_on_spark"]

Number = TypeVar("Number", np.int64, np.uint64)

_ADDRESS = "address"
_OFFSET_BITS = 32


def merge_on_spark(
    frame: DataFrame,
    schema: pa.Schema,
    plan: CastPlan,
    target: Sequence[FragmentSource],
    clauses: MergeClauses,
    task: WriteTask,
) -> MergeWork:
    """Work out a merge; the same as `merge_locally` but for the order of new rows.

    Parameters
    ----------
    frame, schema
        The source's rows in wire form, and their true schema.
    plan
        The casts to the dataset's types.
    target
        The target's fragments.
    clauses
        What to do.
    task
        Where new rows go.
    """
    work = _Work(
        source=plan.target if _writes(clauses) else pick(plan.target, clauses.on),
        lent=pick(task.schema.to_arrow(), _lent_columns(plan.target, clauses, task)),
        clauses=clauses,
        task=task,
    )
    source = prepare(frame, schema, plan, clauses.on, work.source.names)
    keys = _target_keys(frame.sparkSession, target, clauses, work)
    names = [f"k{at}" for at in range(len(clauses.on))]
    # Spark thinks that a scan has as many rows as tasks, and would broadcast any target.
    joined = source.join(keys.hint("merge"), names, "left")
    laid_out = gathered(joined.select(*work.columns))
    if _keeps_ids(target, clauses):
        # moved rows come first in their fragments: they have ids, the inserted ones get theirs
        laid_out = laid_out.sortWithinPartitions(laid_out[_ADDRESS].asc_nulls_last())
    found = collect(laid_out, work, discard=lambda part: delete_fragments(task.store, part.new))
    new = tuple(fragment for part in found for fragment in part.new)
    try:
        if _keeps_ids(target, clauses):
            new = tuple(f for part in found for f in _with_ids(part, target))
        return _assemble(found, new, target, clauses)
    except BaseException:
        delete_fragments(task.store, new)
        raise


def _keeps_ids(target: Sequence[FragmentSource], clauses: MergeClauses) -> bool:
    return clauses.matched == "update" and any(source.stable_row_ids for source in target)


def _writes(clauses: MergeClauses) -> bool:
    return clauses.insert or clauses.matched == "update"


def _lent_columns(source: pa.Schema, clauses: MergeClauses, task: WriteTask) -> list[str]:
    """Return the target columns that an updated row needs besides its key."""
    if clauses.matched != "update":
        return []
    text = (clauses.condition or "").casefold()
    # a name that the condition's text does not hold, it cannot mean
    named = {
        n for n in task.schema.names if text and (not n.isidentifier() or n.casefold() in text)
    }
    return [n for n in task.schema.names if n in named or n not in source.names]


def _target_keys(
    session: SparkSession, target: Sequence[FragmentSource], clauses: MergeClauses, work: _Work
) -> DataFrame:
    """Return the target's keys as ``k*``, what it lends as ``t*``, and its rows' addresses."""
    schema, on = work.task.schema, clauses.on
    names = list(dict.fromkeys([*on, *work.lent.names]))
    request = ScanRequest(outputs=plan_columns(schema, [*names, "_rowaddr"]))
    keys = key_wire(pick(schema.to_arrow(), on))
    lent = wire_schema(work.lent, exact=True)
    out = pa.schema([*by_place("k", keys), *by_place("t", lent), (_ADDRESS, pa.int64())])

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        packed = pack_keys([batch.column(name) for name in on], keys)
        sent = to_spark_batch(batch.select(lent.names), lent).columns
        address = batch.column("_rowaddr").cast(pa.int64())
        return pa.RecordBatch.from_arrays([*packed, *sent, address], schema=out)

    return fragment_frame(session, target, request, convert, out)


# ---- on the workers


@dataclass(frozen=True, slots=True)
class _Found:
    """What one task wrote and found.

    `matches` are the addresses of target rows that have a match, `gone` of those that are
    replaced or deleted for it, once per source row.
    """

    new: list[Fragment]
    matches: npt.NDArray[np.int64]
    gone: npt.NDArray[np.int64]
    inserted: int
    hashes: npt.NDArray[np.uint64]
    keys: list[tuple[object, ...]]


@dataclass(slots=True)
class _Tally:
    """What a task has found so far."""

    matches: list[npt.NDArray[np.int64]] = field(default_factory=list)
    gone: list[npt.NDArray[np.int64]] = field(default_factory=list)
    hashes: list[npt.NDArray[np.uint64]] = field(default_factory=list)
    inserted: int = 0
    keys: list[tuple[object, ...]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What a task does with joined rows.

    Attributes
    ----------
    source
        The columns of the source, ``s*``.
    lent
        The columns of a matched target row, ``t*``.
    """

    source: pa.Schema
    lent: pa.Schema
    clauses: MergeClauses
    task: WriteTask

    @property
    def columns(self) -> list[str]:
        """The joined columns, in order."""
        source, lent = by_place("s", self.source).names, by_place("t", self.lent).names
        return [*source, *lent, FAILURE, _ADDRESS]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> _Found:
        """Write what is new of the rows of a partition."""
        tally = _Tally()
        new = write_fragments(self._new_rows(batches, tally), self.task)
        return _Found(
            new=new,
            matches=_joined(tally.matches, np.int64),
            gone=_joined(tally.gone, np.int64),
            inserted=tally.inserted,
            hashes=_joined(tally.hashes, np.uint64),
            keys=tally.keys,
        )

    def _new_rows(
        self, batches: Iterable[pa.RecordBatch], tally: _Tally
    ) -> Iterator[pa.RecordBatch]:
        clauses, width = self.clauses, len(self.source)
        for batch in batches:
            raise_failure(batch.column(FAILURE))
            address = batch.column(_ADDRESS)
            places = range(batch.num_columns)
            source = from_spark_batch(batch.select(places[:width]), self.source)
            lent = from_spark_batch(batch.select(places[width:-2]), self.lent)
            matched = address.is_valid().to_numpy(zero_copy_only=False)
            pairs, alone = np.flatnonzero(matched), np.flatnonzero(~matched)
            addresses = address.fill_null(0).to_numpy()
            tally.matches.append(addresses[pairs])
            if clauses.matched == "fail" and len(pairs) and not tally.keys:
                tally.keys = key_values(pa.table(source), clauses.on, pairs)
            if clauses.matched == "update":
                pairs = self._changed(source, lent, pairs)
                if clauses.guard_updates:
                    tally.hashes.append(guard_hashes(source.take(pa.array(pairs)), clauses))
                yield from self._rows(source, lent, pairs)
            if clauses.matched in {"update", "delete"}:
                tally.gone.append(addresses[pairs])
            if clauses.insert:
                tally.inserted += len(alone)
                tally.hashes.append(guard_hashes(source.take(pa.array(alone)), clauses))
                yield from self._rows(source, None, alone)

    def _changed(
        self, source: pa.RecordBatch, lent: pa.RecordBatch, pairs: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the pairs for which the condition holds."""
        condition = self.clauses.condition
        if condition is None or not len(pairs):
            return pairs
        rows = pa.array(pairs)
        return pairs[condition_holds(condition, _take(source, rows), _take(lent, rows))]

    def _rows(
        self, source: pa.RecordBatch, lent: pa.RecordBatch | None, rows: npt.NDArray[np.int64]
    ) -> Iterator[pa.RecordBatch]:
        """Yield new rows in the dataset's schema; what the source lacks is lent, or null."""
        if not len(rows):
            return
        schema, at = self.task.schema.to_arrow(), pa.array(rows)

        def column(field: pa.Field) -> pa.Array:
            if field.name in source.schema.names:
                return source.column(field.name).take(at)
            if lent is None:
                return pa.nulls(len(rows), field.type)
            return lent.column(field.name).take(at)

        yield pa.RecordBatch.from_arrays([column(f) for f in schema], schema=schema)


def _take(batch: pa.RecordBatch, rows: pa.Array) -> pa.Table:
    return pa.Table.from_batches([batch]).take(rows)


def _joined(parts: Sequence[npt.NDArray[Number]], kind: type[Number]) -> npt.NDArray[Number]:
    return np.concatenate(parts) if parts else np.empty(0, kind)


# ---- on the driver


def _assemble(
    found: Sequence[_Found],
    new: tuple[Fragment, ...],
    target: Sequence[FragmentSource],
    clauses: MergeClauses,
) -> MergeWork:
    matches = _joined([part.matches for part in found], np.int64)
    if clauses.matched == "fail" and len(matches):
        keys = [key for part in found for key in part.keys]
        raise matched_rows(clauses.on, keys, len(matches))
    if len(np.unique(matches)) < len(matches):
        raise DuplicateKeysError(
            "The source held each key once when it was checked, and one of them twice when it was "
            "merged: it gives other rows each time it is read.",
            hint="Write it to a table first, and merge that.",
            on=clauses.on,
        )
    gone = _by_fragment(_joined([part.gone for part in found], np.int64))
    by_source = clauses.delete_by_source is not None
    marked, left_out = mark_fragments(
        target,
        _by_fragment(matches) if by_source else {},
        gone,
        clauses,
        SparkRunner().map if by_source else LocalRunner().map,
    )
    changed = sum(map(len, gone.values()))
    return MergeWork(
        marked=marked,
        new_fragments=new,
        inserted=sum(part.inserted for part in found),
        updated=changed if clauses.matched == "update" else 0,
        deleted=left_out + (changed if clauses.matched == "delete" else 0),
        inserted_hashes=(
            _joined([part.hashes for part in found], np.uint64) if clauses.guard else None
        ),
    )


def _with_ids(part: _Found, target: Sequence[FragmentSource]) -> list[Fragment]:
    """Give the updated rows of a task, which it wrote first, the ids of those they replace."""
    ids = np.empty(len(part.gone), np.uint64)
    owners = part.gone >> _OFFSET_BITS
    for source in target:
        mine = np.flatnonzero(owners == source.fragment.id)
        if len(mine):
            offsets = part.gone[mine] & ((1 << _OFFSET_BITS) - 1)
            ids[mine] = FragmentReader(source).row_ids(offsets)
    return with_row_ids(part.new, ids)


def _by_fragment(addresses: npt.NDArray[np.int64]) -> Mapping[int, BitMap]:
    """Return the offsets of row addresses by fragment id."""
    addresses = np.sort(addresses)
    ids, starts = np.unique(addresses >> _OFFSET_BITS, return_index=True)
    parts = np.split(addresses & ((1 << _OFFSET_BITS) - 1), starts[1:])
    return {int(id_): to_bitmap(part) for id_, part in zip(ids, parts, strict=False)}
