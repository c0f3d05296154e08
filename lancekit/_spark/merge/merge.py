"""Merge-inserts on Spark, with at most one job that writes.

If the keys are collected, they are matched first, and each task of the source gets the target rows
that its rows replace.  Otherwise, Spark joins both sides.  In both cases, a column of the target is
read only if a matched row needs it: because the source lacks it, or because a condition reads it.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format import row_address
from lancekit._format.deletions import to_bitmap
from lancekit._format.fragment import Fragment
from lancekit._format.row_ids_encode import with_row_ids
from lancekit._pipeline.column_patch import Patch, Patched, all_patched, try_patch
from lancekit._pipeline.engine import LocalRunner
from lancekit._pipeline.join_files import join_small_files
from lancekit._pipeline.merge_here import patch_task, rewritten_columns
from lancekit._pipeline.merge_plan import (
    EXAMPLES,
    MergeClauses,
    MergeJob,
    MergeWork,
    addressed,
    guard_hashes,
    mark_fragments,
    matched_rows,
    writes_rows,
)
from lancekit._pipeline.merge_strategy import MatchPlan
from lancekit._pipeline.probe import Matches, first_matches, key_values
from lancekit._pipeline.source_keys import SourceKeys, repeated_since_checked
from lancekit._pipeline.write_rows import WriteTarget, WriteTask, delete_fragments
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.rebatch import taken
from lancekit._scan.fragments.source import FragmentSource
from lancekit._spark.frames.runner import SparkRunner
from lancekit._spark.frames.types import typed_parts
from lancekit._spark.frames.wire_rows import FAILURE, raise_failure, subschema
from lancekit._spark.jobs.client import most_tasks
from lancekit._spark.jobs.collect import collect
from lancekit._spark.merge.cached_source import CachedSource, SourceSummary
from lancekit._spark.merge.match_keys import find_pairs, join_frame, route_rows, send_routings
from lancekit._spark.merge.merge_task import (
    ADDRESS,
    MatchedRows,
    MergeTask,
    ReadRows,
    RowSet,
    TaskResult,
    concatenated,
    lent_columns,
)
from lancekit._spark.merge.routed_source import PIECE, piece_bounds, routed_frame, shuffle_rows
from lancekit.errors import LancekitError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def merge_by_pairs(
    cached: CachedSource,
    found: SourceSummary,
    take_keys: Callable[[], SourceKeys],
    job: MergeJob,
    match: MatchPlan,
) -> MergeWork:
    """Run a merge with collected keys; the result differs from `merge_locally` only in row order.

    cached, found: the source's rows, and the summary of their partitions.
    take_keys: returns the keys, and drops all other references to them.
    job: the merge.
    match: the plan, which says where the keys are matched.
    """
    clauses, target, store = job.clauses, job.target, job.task.store
    keys = take_keys()
    if clauses.by_address:
        matches = addressed(keys.given[0])
    else:
        matches = find_pairs(cached.frame.sparkSession, keys, target, match, job.snapshot)
    matched = _rows_of(matches)
    if clauses.matched == "fail" and len(matched):
        named = pa.table(list(keys.given), names=list(clauses.on))
        rows = np.concatenate([match.source_rows for match in matches])
        raise matched_rows(clauses.on, key_values(named, clauses.on, rows), len(matched))
    keys = keys.without_values()
    _release_memory()
    work = _work(job)
    alone = int(keys.unmatched([match.source_rows for match in matches]).sum())
    parts: list[TaskResult] = []
    if (clauses.matched == "update" and len(matched)) or (clauses.insert and alone):
        replaced = first_matches(matches) if clauses.once else matches
        sums = [key_sum.ordered for key_sum in found.sums]
        del matches
        routings = route_rows(replaced, keys, found.starts, sums)
        sort = job.keeps_ids and not job.patches
        cuts = piece_bounds(routings, work, most_tasks(cached.frame.sparkSession), sort=sort)
        with send_routings(routings, store) as sent:
            routings.clear()  # the tasks have them
            frame, read = routed_frame(cached, job.casts, cuts, sent, target, work)
            if job.patches:
                return _rewrite_fragments(frame, read, work, target, match, keys.skipped)
            parts = _run(frame, read, work)
    every = clauses.matched == "delete" or clauses.once
    return _finish(parts, matched, matched if every else None, job, match, keys.skipped, alone)


def _release_memory() -> None:
    """Return freed memory to the system, where possible.

    The keys and the pairs of rows are as large as the later data, and the C library would keep
    their memory: a quarter of a merge's peak.
    """
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
        if trim is not None:
            trim(0)


def merge_by_join(
    cached: CachedSource, found: SourceSummary, job: MergeJob, match: MatchPlan
) -> MergeWork:
    """Run a merge by a Spark join, for keys that are too many to collect.

    Raises SourceChangedError: cached rows were lost, and recomputed rows have other keys.
    Raises DuplicateKeysError: a key occurs twice.
    """
    work = _work(job)
    broadcast = match.strategy == "broadcast"
    check = found.check(job.clauses.on)
    frame, read = join_frame(cached, job.casts, check, job.target, work, broadcast=broadcast)
    skipped = None if job.clauses.dedupe_by else 0
    if job.patches:
        return _rewrite_fragments(frame, read, work, job.target, match, skipped)
    if job.keeps_ids:
        # moved rows must come first in a fragment: they keep ids, and inserted rows get new ones
        frame = frame.sortWithinPartitions(frame[ADDRESS].asc_nulls_last())
    parts = _run(frame, read, work)
    matches = RowSet.union(part.matches for part in parts)
    error = _refusal(parts, matches, job.clauses)
    if error is not None:
        delete_fragments(job.task.store, _fragments(parts), job.task.places)
        raise error
    return _finish(parts, matches, None, job, match, skipped)


def _refusal(
    parts: Sequence[TaskResult], matches: RowSet, clauses: MergeClauses
) -> LancekitError | None:
    if clauses.matched == "fail" and len(matches):
        keys = [key for part in parts for key in part.keys]
        return matched_rows(clauses.on, keys, len(matches))
    if len(matches) < matches.added:
        return repeated_since_checked(clauses.on)
    return None


def _work(job: MergeJob) -> MergeTask:
    source, clauses, task, condition = job.casts.target, job.clauses, job.task, job.condition
    # a column that selects between rows is needed even if no rows are written
    needed = [*clauses.on, *([clauses.dedupe_by] if clauses.dedupe_by else [])]
    names = [n for n in source.names if writes_rows(clauses) or n in needed]
    return MergeTask(
        source=subschema(source, names),
        lent=subschema(
            task.schema.to_arrow(),
            lent_columns(source, clauses, condition, task.schema.names, dry=job.dry),
        ),
        clauses=clauses,
        condition=condition,
        task=task,
        dry=job.dry,
    )


def _run(frame: DataFrame, read: ReadRows, work: MergeTask) -> list[TaskResult]:
    def run(batches: Iterable[pa.RecordBatch]) -> TaskResult:
        return work(read(batches))

    return collect(frame, run, written_to=work.task.targets, what="merging")


def _fragments(parts: Sequence[TaskResult]) -> tuple[Fragment, ...]:
    return tuple(fragment for part in parts for fragment in part.new)


def _finish(
    parts: Sequence[TaskResult],
    matches: RowSet,
    removed: RowSet | None,
    job: MergeJob,
    match: MatchPlan,
    skipped: int | None,
    alone: int | None = None,
) -> MergeWork:
    """Combine the results of the tasks with the values that are known without tasks."""
    clauses, task = job.clauses, job.task
    new = _fragments(parts)
    try:
        if job.keeps_ids:
            by_id = {source.fragment.id: source for source in job.target}
            new = tuple(f for part in parts for f in _with_ids(part, by_id))
        new = tuple(join_small_files(task, new))
        if removed is None:
            removed = RowSet.union(part.removed for part in parts)
        by_source = clauses.delete_by_source
        on_spark = by_source and match.strategy != "driver"
        updated = len(removed) if clauses.matched == "update" else 0
        dropped = RowSet.union(part.dropped for part in parts)
        if clauses.matched == "delete":
            dropped = removed
        marked, unmatched_rows, examples = mark_fragments(
            job,
            matches.by_fragment if by_source else {},
            RowSet.union((removed, dropped)).by_fragment,
            dropped.by_fragment,
            SparkRunner(task.store).map if on_spark else LocalRunner().map,
        )
        return MergeWork(
            marked=marked,
            new_fragments=new,
            inserted=sum(part.inserted for part in parts),
            updated=updated,
            deleted=unmatched_rows + len(dropped),
            skipped=skipped,
            inserted_hashes=(
                concatenated([part.hashes for part in parts]) if clauses.guard else None
            ),
            match=match,
            examples=_examples(parts, task) if job.dry else None,
            matched=len(matches),
            alone=sum(part.alone for part in parts) if alone is None else alone,
            deleted_examples=examples,
        )
    except BaseException:
        delete_fragments(task.store, new, task.places)
        raise


def _examples(parts: Sequence[TaskResult], task: WriteTask) -> pa.Table:
    """Return the first few new rows of each kind, updated rows first."""
    schema = task.schema.to_arrow().append(pa.field("_rowaddr", pa.uint64()))
    tables = [pa.ipc.open_stream(p.examples).read_all() for p in parts if p.examples is not None]
    table = pa.concat_tables([schema.empty_table(), *tables])
    updated = ak.filter(table, table.column("_rowaddr").is_valid()).slice(0, EXAMPLES)
    inserted = ak.filter(table, table.column("_rowaddr").is_null()).slice(0, EXAMPLES)
    order = np.argsort(updated.column("_rowaddr").to_numpy(), kind="stable")
    return pa.concat_tables([taken(updated, order), inserted])


def _with_ids(part: TaskResult, target: Mapping[int, FragmentSource]) -> list[Fragment]:
    """Give the updated rows of a task, which it wrote first, the ids of the rows they replace.

    It wrote them in ascending order of the replaced rows' addresses.
    """
    ids = [FragmentReader(target[id_]).row_ids(offsets) for id_, offsets in part.removed.offsets()]
    return with_row_ids(part.new, np.concatenate([np.empty(0, np.uint64), *ids]))


def _rows_of(matches: Sequence[Matches]) -> RowSet:
    rows = RowSet()
    for match in matches:
        rows.add_bitmap(match.fragment_id, to_bitmap(match.offsets))
    return rows


# ---- Merges on Spark that update columns beside the existing rows
#
# One task gets all new values of a fragment, and writes the fragment's file.


@dataclass(frozen=True, slots=True)
class _Part:
    """The fragments that a task patched, and the hashes of its rows' primary keys."""

    patched: tuple[Patched, ...]
    hashes: npt.NDArray[np.uint64]


def _rewrite_fragments(
    frame: DataFrame,
    read: ReadRows,
    work: MergeTask,
    target: Sequence[FragmentSource],
    match: MatchPlan,
    skipped: int | None,
) -> MergeWork:
    """Rewrite the source's columns in the fragments that have a match.

    frame, read: the source's rows with the addresses of their matches, and a reader for tasks.
    work: the task that processes the rows.
    target: the fragments of the target.
    match, skipped: as in `MergeWork`.
    """
    most = most_tasks(frame.sparkSession)
    count = max(min(len(target), most), 1)  # cast errors must appear for an empty table, too
    ids = np.array([source.fragment.id for source in target])

    def updates(batches: Iterable[pa.RecordBatch]) -> Iterator[MatchedRows]:
        for joined in read(batches):
            rows = pa.array(joined.updates(work.condition))
            yield MatchedRows(ak.take(joined.source, rows), None, ak.take(joined.address, rows))

    def pieces(address: pa.Array) -> npt.NDArray[np.int64]:
        return np.searchsorted(ids, row_address.fragment_ids(address.to_numpy())) % count

    laid = shuffle_rows(frame, updates, pieces, work.source)
    # each row goes to the task that writes its fragment
    laid = laid.repartitionById(count, PIECE).sortWithinPartitions(ADDRESS)
    packed = tuple(
        pickle.dumps({s.fragment.id: s for s in target[place::count]}) for place in range(count)
    )
    own = (WriteTarget(work.task.store),)
    parts = collect(laid, _Rewrite(work, packed), written_to=own)
    patched = tuple(each for part in parts for each in part.patched)
    hashes = concatenated([part.hashes for part in parts])
    return MergeWork(
        patched=patched,
        updated=sum(len(part.rows) for part in patched),
        skipped=skipped,
        inserted_hashes=hashes if work.clauses.guard else None,
        match=match,
    )


@dataclass(frozen=True)
class _Rewrite:
    """A function that writes the files of the fragments whose rows a task gets."""

    work: MergeTask
    packed: tuple[bytes, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> _Part:
        clauses, task = self.work.clauses, self.work.task
        columns = rewritten_columns(self.work.source.names, clauses.on)
        write = patch_task(task, columns)
        found: list[Patched | LancekitError] = []
        hashes: list[npt.NDArray[np.uint64]] = []
        by_id: Mapping[int, FragmentSource] = {}
        for piece, id_, offsets, values in self._by_fragment(batches):
            by_id = by_id or pickle.loads(self.packed[piece])  # noqa: S301  # made by the driver
            if (np.diff(offsets) == 0).any():
                found.append(repeated_since_checked(clauses.on))
                break
            hashes.append(guard_hashes(values, clauses))
            patch = Patch(
                source=by_id[id_], offsets=offsets, values=values.select(columns), write=write
            )
            found.append(try_patch(patch))
        return _Part(all_patched(found, task.store), concatenated(hashes))

    def _by_fragment(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[int, int, npt.NDArray[np.int64], pa.Table]]:
        """Yield the rows of each fragment together; the rows come sorted."""
        cached: list[pa.RecordBatch] = []
        offsets: list[npt.NDArray[np.int64]] = []
        last = piece = -1
        for batch in batches:
            raise_failure(batch.column(FAILURE))
            if not batch.num_rows:
                continue
            piece = batch.column(PIECE)[0].as_py()  # the same for all rows of a task
            for source, rows in typed_parts(batch, self.work.source):
                addresses = rows.column(ADDRESS).to_numpy()
                ids = row_address.fragment_ids(addresses)
                cuts = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
                for start, stop in pairwise(cuts):
                    if cached and ids[start] != last:
                        yield piece, last, np.concatenate(offsets), pa.Table.from_batches(cached)
                        cached, offsets = [], []
                    last = int(ids[start])
                    cached.append(source.slice(start, stop - start))
                    offsets.append(row_address.offsets(addresses[start:stop]))
        if cached:
            yield piece, last, np.concatenate(offsets), pa.Table.from_batches(cached)
