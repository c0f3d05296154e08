"""The clauses, the job and the result of a merge-insert (docs/format/operations.md, 5).

Engines differ only in how they find keys; both return a `MergeWork`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit import _arrow_kernels as ak
from lancekit._format import row_address
from lancekit._format.column_names import ROW_ADDRESS
from lancekit._format.deletions import to_bitmap
from lancekit._format.fragment import Fragment
from lancekit._format.key_hashes import hash_keys
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._format.paths import pick
from lancekit._pipeline.casts.plan import CastPlan
from lancekit._pipeline.column_patch import Patched, added_files
from lancekit._pipeline.delete_rows import DeletedRows, find_rows
from lancekit._pipeline.engine import MapTasks
from lancekit._pipeline.merge_condition import PairCondition
from lancekit._pipeline.merge_strategy import MatchPlan
from lancekit._pipeline.probe import Matches, probe, show_keys
from lancekit._pipeline.source_keys import Kept, SourceKeys, key_lookup
from lancekit._pipeline.write_rows import NewFiles, WriteTask
from lancekit._scan.expressions.predicate import Predicate, Unbound
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.reader import FragmentReader, as_offsets
from lancekit._scan.fragments.rebatch import taken
from lancekit._scan.fragments.source import FragmentSource, RowSet
from lancekit._scan.read import Read, reading
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import MatchedRowsError

Hashes = npt.NDArray[np.uint64]
#: the action for existing rows with a match
Matched = Literal["keep", "update", "delete", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClauses:
    """The actions of a merge-insert for each kind of row.

    on: the columns that are compared.
    matched: ``"keep"``, ``"update"``, ``"delete"`` or ``"fail"``.
    condition: over columns ``source`` and ``target`` (structs): selects the matched rows to update.
    insert: whether source rows without a match are inserted.
    once: whether a source row that matches several rows replaces all these by one row.  Ignored if
        Spark joins both sides, because there are too many keys to send.
    delete_by_source: whether target rows without a match are deleted.
    by_source: the condition of these deletions; ``None`` for all rows without a match.
    guard: the paths of the primary key's columns, in key order, whose hashes the key filter
        contains; empty if no filter is written.
    guard_updates: whether updated rows can get other keys, so that the filter must contain them.
    dedupe: which of several source rows with one key to keep: ``"first"``, ``"last"`` or ``None``,
        which refuses them.
    dedupe_by: a column instead: the row with its largest value is kept, and of equals the first.
    rewrite_columns: whether updated rows stay in place, and the source's columns of their fragments
        are rewritten; else whole rows are rewritten.
    files: where new rows go; rewritten columns stay in the dataset's own folder.
    use_index: whether indices of the key columns may be queried.
    deleting: a boolean column of the source that is not written: matched rows are deleted where it
        is true.
    known_by: the columns that identify rows for users, if `on` is the row address.  The source was
        then computed from the version that it is merged into.
    worked_from: the columns of the target that the source was computed from.
    rules: the actions in words, where the other attributes do not describe them.
    new_columns: whether columns of the source that the dataset lacks are added to it.
    compacted: the generations of write-ahead logs that this merge brings into the table.
    """

    on: tuple[str, ...]
    dedupe: Kept | None = None
    dedupe_by: str | None = None
    matched: Matched = "keep"
    condition: Unbound | None = None
    insert: bool = False
    once: bool = False
    delete_by_source: bool = False
    by_source: Unbound | None = None
    guard: tuple[tuple[str, ...], ...] = ()
    guard_updates: bool = False
    rewrite_columns: bool = False
    files: NewFiles = field(default_factory=NewFiles)
    use_index: bool = True
    deleting: str | None = None
    new_columns: bool = False
    known_by: tuple[str, ...] = ()
    worked_from: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    compacted: tuple[CompactedSsTable, ...] = ()

    def condition_on(self, source: pa.Schema, target: pa.Schema) -> PairCondition | None:
        """Return the condition that selects the matched rows to update, or None if all are.

        Raises PredicateError: the condition does not fit the columns of the source and the target.
        """
        condition = self.condition if self.matched == "update" else None
        return None if condition is None else PairCondition.of(condition, source, target)

    @property
    def by_address(self) -> bool:
        """True if source rows identify their target row by address; null marks a new row."""
        return self.on == (ROW_ADDRESS,)

    @property
    def shown_on(self) -> tuple[str, ...]:
        """The columns that identify rows for users."""
        return self.known_by if self.by_address else self.on


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeJob:
    """A merge into one version, without the source's rows.

    casts: the casts of the source's rows to the dataset's types; columns may be missing.
    target: the fragments of the version.
    clauses: the actions for each kind of row.
    task: where new rows go.
    snapshot: the version, whose indices may be queried.
    dry: whether to write nothing.
    """

    casts: CastPlan
    target: tuple[FragmentSource, ...]
    clauses: MergeClauses
    task: WriteTask
    snapshot: Snapshot
    dry: bool = False

    @property
    def condition(self) -> PairCondition | None:
        """The condition that selects the matched rows to update, or None if all are."""
        return self.clauses.condition_on(self.casts.target, self.task.schema.to_arrow())

    @property
    def patches(self) -> bool:
        """True if columns are rewritten instead of rows."""
        return self.clauses.rewrite_columns and not self.dry

    @property
    def keeps_ids(self) -> bool:
        """True if rewritten rows have row ids to keep."""
        return self.clauses.matched == "update" and any(s.stable_row_ids for s in self.target)


@dataclass(frozen=True, kw_only=True)
class MergeWork:
    """The result of a merge-insert: files that no version refers to yet, and counts.

    marked: by fragment, the rows that are replaced or deleted.
    new_fragments: the new rows; empty after a dry run.
    patched: instead of both, the fragments whose columns were rewritten.
    inserted, updated, deleted: numbers of rows; after a dry run, as they would be.
    skipped: the number of source rows that were dropped because others have their keys; ``None`` if
        a join on Spark dropped them without counting.
    inserted_hashes: the hashes of keys that may be new; ``None`` without a key filter.
    match: how the keys were found.
    examples: after a dry run, the first few new rows in the dataset's schema; ``_rowaddr`` is the
        address of the row that each replaces, null for an inserted row.
    matched, alone: the numbers of target rows with a match, and of source rows without one.
    deleted_examples: the addresses of the first few deleted rows, ascending.
    fan_out: the most target rows that one source row matches; 0 if they were not counted.
    """

    marked: tuple[DeletedRows, ...] = ()
    new_fragments: tuple[Fragment, ...] = ()
    patched: tuple[Patched, ...] = ()
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    skipped: int | None = 0
    inserted_hashes: Hashes | None = None
    match: MatchPlan | None = None
    examples: pa.Table | None = None
    matched: int = 0
    alone: int = 0
    deleted_examples: tuple[int, ...] = ()
    fan_out: int = 0

    @property
    def written(self) -> tuple[Fragment, ...]:
        """The files that were written, as fragments with only these files."""
        return (*self.new_fragments, *added_files(self.patched))


#: new rows of each kind that a dry run returns
EXAMPLES = 20


def writes_rows(clauses: MergeClauses) -> bool:
    """Return True if a merge can have new rows to write."""
    return clauses.insert or clauses.matched == "update"


def find_matches(
    job: MergeJob, keys: SourceKeys, map_tasks: MapTasks, match: MatchPlan
) -> list[Matches]:
    """Find the rows of the target with keys of the source, in this process.

    map_tasks: a runner's ``map``.
    match: the plan, which says whether indices are queried.
    """
    if job.clauses.by_address:
        return addressed(keys.given[0])
    lookup = key_lookup(job.snapshot, keys.table) if match.strategy == "index" else None
    read = Read(job.target, lookup=lookup)
    return [keys.restored(m) for m in probe(read, keys.table, map_tasks)]


def fan_out(matches: Sequence[Matches]) -> int:
    """Return the most target rows that one source row matches."""
    rows = [match.source_rows for match in matches if len(match.source_rows)]
    return int(np.bincount(np.concatenate(rows)).max()) if rows else 0


def addressed(addresses: pa.Array) -> list[Matches]:
    """Return the matches of source rows, given the address of each one's target row or null."""
    known = np.flatnonzero(addresses.is_valid().to_numpy(zero_copy_only=False))
    values = addresses.fill_null(0).to_numpy()[known]
    ascending = np.argsort(values)
    values, known = values[ascending], known[ascending]
    found, start = list[Matches](), 0
    for id_, offsets in row_address.by_fragment(values):
        rows = known[start : start + len(offsets)]
        found.append(Matches(fragment_id=id_, offsets=offsets, source_rows=rows))
        start += len(offsets)
    return found


def guard_hashes(
    rows: pa.Table | pa.RecordBatch, clauses: MergeClauses, at: npt.NDArray[np.int64] | None = None
) -> Hashes:
    """Return the hashes of the primary keys of all rows, or of the rows at some positions.

    The result is empty if no filter is written.  Only key columns are read.
    """
    if not clauses.guard:
        return np.empty(0, np.uint64)
    keys = rows.select(list(dict.fromkeys(top for top, *_ in clauses.guard)))
    if at is not None:
        keys = taken(keys, at) if isinstance(keys, pa.Table) else ak.take(keys, at)
    return hash_keys([pick(keys.column(top), rest) for top, *rest in clauses.guard])


def matched_rows(
    on: tuple[str, ...], keys: list[tuple[object, ...]], rows: int
) -> MatchedRowsError:
    """Return the error for rows with a match, if the merge forbids matches."""
    return MatchedRowsError(
        f"{rows} rows of the dataset match the source, which when_matched_fail forbids: "
        f"{show_keys(on, keys)}.",
        hint="Nothing was written. Leave these rows out, or use when_matched_update_all().",
        keys=keys,
        on=on,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RemoveTask:
    """A task: find the rows to remove from a fragment.  Can be sent to a worker.

    gone, matched: the rows that are replaced or deleted, and all rows with a match.
    deleted: the matched rows that are deleted, for examples.
    rows: the rows that may be deleted for lack of a match.
    """

    source: FragmentSource
    gone: BitMap
    matched: BitMap
    delete_by_source: bool
    by_source: Predicate | None
    deleted: BitMap
    rows: RowSet


def mark_fragments(
    job: MergeJob,
    matched: Mapping[int, BitMap],
    gone: Mapping[int, BitMap],
    deleted: Mapping[int, BitMap],
    map_tasks: MapTasks,
) -> tuple[tuple[DeletedRows, ...], int, tuple[int, ...]]:
    """Return removed rows by fragment, the number of unmatched ones, and examples of deleted rows.

    job: the merge.
    matched, gone, deleted: by fragment id, the offsets of the rows with a match, of the matched
        rows that are replaced or deleted, and of the matched rows that are deleted.
    map_tasks: a runner's ``map``.
    """
    deletes, by_source = job.clauses.delete_by_source, _by_source(job)
    rows = _unmatched_rows(job, by_source)
    tasks = [
        _RemoveTask(
            source=s,
            gone=gone.get(s.fragment.id, BitMap()),
            matched=matched.get(s.fragment.id, BitMap()),
            delete_by_source=deletes,
            by_source=by_source,
            deleted=deleted.get(s.fragment.id, BitMap()),
            rows=rows.only([s.fragment.id]),
        )
        for s in job.target
        if s.fragment.id in gone or (deletes and s.fragment.id not in rows.skipped)
    ]
    found = map_tasks(_mark_removed, tasks)
    examples = [address for _, _, some in found for address in some]
    marked = tuple(m for m, _, _ in found if m.rows)
    return marked, sum(rows for _, rows, _ in found), tuple(examples[:EXAMPLES])


def _by_source(job: MergeJob) -> Predicate | None:
    """Return the condition for deleting rows without a match, or None if all are deleted."""
    condition = job.clauses.by_source if job.clauses.delete_by_source else None
    schema = blob_view(job.snapshot.manifest.schema).to_arrow()
    return None if condition is None else Predicate.parse(condition, schema)


def _unmatched_rows(job: MergeJob, by_source: Predicate | None) -> RowSet:
    """Return the rows that may be deleted for lack of a match; query indices if allowed."""
    if by_source is None or not job.clauses.use_index:
        return RowSet()
    schema = blob_view(job.snapshot.manifest.schema)
    return reading(job.snapshot, by_source, schema).row_set


def _mark_removed(task: _RemoveTask) -> tuple[DeletedRows, int, list[int]]:
    reader = FragmentReader(task.source)
    unmatched = _live(task, reader) - task.matched
    marked = DeletedRows.of(reader, task.gone | unmatched)
    deleted = (task.deleted | unmatched)[:EXAMPLES]
    examples = [row_address.joined(marked.fragment_id, offset) for offset in deleted]
    return marked, len(unmatched), examples


def _live(task: _RemoveTask, reader: FragmentReader) -> BitMap:
    """Return the live rows that are deleted if they have no match."""
    if not task.delete_by_source:
        return BitMap()
    if task.by_source is None:
        return BitMap(range(reader.physical_rows)) - reader.deleted
    source = replace(task.source, schema=blob_view(task.source.schema))
    if task.rows.known:
        found = Read((source,), task.rows).select(task.by_source)
        return to_bitmap(as_offsets(found.rows))
    return find_rows(source, task.by_source).rows
