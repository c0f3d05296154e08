"""Merge-insert: update matched rows, insert new rows, delete rows that the source lacks.

`check_clauses` checks the clauses, `check_columns` also the source's columns, `check_source` also
its rows.  `merge_rows` merges and commits.  `merge_computed` merges rows computed from the target.
`merge_uncommitted` leaves the commit to the caller, and `dry_merge` writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from lancekit._commit.protocol import check_writable
from lancekit._commit.rules.pending import BatchMarker, Pending
from lancekit._format.column_names import ROW_ADDRESS, not_in_source
from lancekit._format.field_marks import holds_blobs
from lancekit._format.key_filter import ExactKeySet, KeyFilter
from lancekit._format.operation_parts import UpdateMode
from lancekit._format.operations import Update
from lancekit._format.paths import find_field, top_of
from lancekit._format.schema import LanceSchema, check_key_type
from lancekit._format.transaction import Transaction, row_counts
from lancekit._legible import count, plural, warn
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.results import MergeResult
from lancekit._operations.common.retry import RetryPolicy, retried
from lancekit._operations.common.staged_files import (
    removed_unless_landed,
    write_targets,
    write_task,
)
from lancekit._operations.delete import apply_deletions
from lancekit._operations.unmerged.waiting import check_in_order
from lancekit._pipeline.casts.plan import CastPlan, plan_cast
from lancekit._pipeline.engine import EngineName
from lancekit._pipeline.key_counter import key_filter, key_paths
from lancekit._pipeline.merge_condition import PairCondition
from lancekit._pipeline.merge_here import rewritten_columns
from lancekit._pipeline.merge_plan import MergeClauses, MergeJob, MergeWork
from lancekit._pipeline.source import Source
from lancekit._pipeline.write_rows import WriteTask
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, SchemaMismatchError
from lancekit.progress import tracking


def check_clauses(schema: LanceSchema, clauses: MergeClauses) -> MergeClauses:
    """Return the clauses with the key columns checked.

    Raises InvalidArgumentError: there are no key columns, or the merge would change nothing.
    Raises ColumnNotFoundError: a key column is not in the schema.
    """
    on = clauses.on or tuple(f.name for f in schema.primary_key)
    if not on:
        raise InvalidArgumentError(
            "A merge-insert needs key columns, but the dataset has no primary key.",
            hint='Pass them: merge_insert(["id"]), or create the dataset with primary_key=["id"].',
        )
    for name in on if not clauses.by_address else ():
        check_key_type(find_field(schema, name)[-1])
    _check_dedupe(schema, clauses)
    if clauses.matched == "keep" and not clauses.insert and not clauses.delete_by_source:
        raise InvalidArgumentError(
            "The merge-insert is not configured to change the data in any way.",
            hint="Add when_matched_update_all(), when_not_matched_insert_all() or another clause.",
        )
    return replace(clauses, on=on)


def _check_dedupe(schema: LanceSchema, clauses: MergeClauses) -> None:
    if clauses.dedupe not in {None, "first", "last"}:
        raise InvalidArgumentError(
            f"dedupe must be 'first' or 'last', got {clauses.dedupe!r}.",
            hint="To keep the row with the largest value of a column, use dedupe_by.",
            dedupe=clauses.dedupe,
        )
    if clauses.dedupe_by is None:
        return
    if clauses.dedupe is not None:
        raise InvalidArgumentError(
            "dedupe and dedupe_by exclude each other.", hint="Leave one of them out."
        )
    field = schema.field(clauses.dedupe_by)
    if field.children:
        raise InvalidArgumentError(
            f"Column {field.name!r} of type {field.to_arrow().type} cannot be used for dedupe_by.",
            hint="Use a column without nested values.",
            column=field.name,
        )


def _guarded(schema: LanceSchema, clauses: MergeClauses, plan: CastPlan) -> MergeClauses:
    """Return the clauses with the primary key as guard, if the merge may add keys to the table.

    Inserted rows add keys.  Updated rows can add keys if the merge does not match by the whole
    primary key.
    """
    paths = key_paths(schema)
    updates = clauses.matched == "update" and not {p[0] for p in paths} <= set(clauses.on)
    if not (clauses.insert or updates) or not {p[0] for p in paths} <= set(plan.target.names):
        return clauses
    return replace(clauses, guard=paths, guard_updates=updates)


def merge_rows(
    snapshot: Snapshot,
    source: Source,
    clauses: MergeClauses,
    policy: RetryPolicy,
    *,
    properties: Mapping[str, str] | None = None,
    mark: BatchMarker | None = None,
) -> tuple[Snapshot, MergeResult]:
    """Merge rows into a version.

    snapshot: the version that the caller sees, which may not be the newest.
    source: the rows.
    clauses: the clauses of the merge, checked by `check_clauses`.
    policy: how often to retry after a conflict.
    properties: the properties of the transaction.
    mark: a batch marker, with which the merge lands at most once.

    Raises SchemaMismatchError: the rows do not fit the dataset.
    Raises DuplicateKeysError: a key occurs more than once in the source.
    Raises MatchedRowsError: a row matched, and matched rows are not allowed.
    """
    started = time.monotonic()
    compute = _prepared(snapshot, source, clauses)
    request = _MergeRequest(clauses, source.schema, properties or {}, mark)
    with tracking("merging"):
        done, attempts = retried(
            snapshot, lambda current: _attempt(current, compute, request), policy
        )
    _warn_of_fan_out(done, clauses)
    return done.landed, _result(snapshot, done, clauses, attempts, started, source.engine)


def merge_computed(
    snapshot: Snapshot,
    rows_of: Callable[[Snapshot], Source],
    clauses: MergeClauses,
    policy: RetryPolicy,
) -> tuple[Snapshot, MergeResult]:
    """Merge rows that are computed from the target version.  Raises the errors of `merge_rows`.

    rows_of: computes the rows of a version; called again for a newer version after a conflict.
    snapshot, clauses, policy: as in `merge_rows`.
    """
    started = time.monotonic()

    def attempt(current: Snapshot) -> tuple[_LandedMerge, EngineName]:
        with rows_of(current) as source:
            request = _MergeRequest(clauses, source.schema)
            return _attempt(current, _prepared(current, source, clauses), request), source.engine

    with tracking("merging"):
        (done, engine), attempts = retried(snapshot, attempt, policy)
    _warn_of_fan_out(done, clauses)
    return done.landed, _result(snapshot, done, clauses, attempts, started, engine)


@dataclass(frozen=True, slots=True)
class _MergeRequest:
    """Clauses and columns of a merge, and the properties and mark of its transaction."""

    clauses: MergeClauses
    rows: pa.Schema
    properties: Mapping[str, str] = field(default_factory=dict)
    mark: BatchMarker | None = None


class _LandedMerge(NamedTuple):
    """A merge that landed."""

    landed: Snapshot
    work: MergeWork
    operation: Update
    added: tuple[str, ...] = ()


def _attempt(
    current: Snapshot, compute: Callable[[Snapshot, WriteTask], MergeWork], request: _MergeRequest
) -> _LandedMerge:
    clauses = request.clauses
    wide = widened_target(current, request.rows, clauses)
    task = _task(wide, clauses)
    work = compute(wide, task)
    with removed_unless_landed(current.store, work.written, task.places):
        operation = _operation(wide, work, clauses)
        pending = Pending(
            operation=operation,
            # rewritten columns conflict with any change of the fragment
            affected_rows=None
            if clauses.rewrite_columns
            else {m.fragment_id: m.rows for m in work.marked},
            doing="merge-insert",
            properties={
                **request.properties,
                **row_counts(work.inserted, work.updated, work.deleted),
            },
            mark=request.mark,
        )
        if wide is current:
            return _LandedMerge(commit(current, pending), work, operation)
        from lancekit._operations.new_columns import commit_widened

        landed = commit_widened(current, wide, pending)
        known = set(current.manifest.schema.names)
        added = tuple(name for name in wide.manifest.schema.names if name not in known)
        return _LandedMerge(landed, work, operation, added)


def widened_target(current: Snapshot, rows: pa.Schema, clauses: MergeClauses) -> Snapshot:
    """Return the version with the rows' new columns, if the merge adds and writes these."""
    if not clauses.new_columns or not (clauses.insert or clauses.matched == "update"):
        return current
    from lancekit._operations.new_columns import widened

    return widened(current, rows)


def _warn_of_fan_out(done: _LandedMerge, clauses: MergeClauses) -> None:
    """Warn if one source row matches many rows by columns that are not the primary key."""
    key = [field.name for field in done.landed.manifest.schema.primary_key]
    changes = clauses.matched in {"update", "delete"} and not clauses.once
    if done.work.fan_out > 1 and changes and key and not set(key) <= set(clauses.on):
        warn(
            f"One source row matches {count(done.work.fan_out)} rows by {', '.join(clauses.on)}, "
            f"which is not the primary key ({', '.join(key)}). The merge updated "
            f"{plural(done.work.updated, 'row')} and deleted {plural(done.work.deleted, 'row')}. "
            "To match by the primary key: merge_insert()."
        )


def _result(
    snapshot: Snapshot,
    done: _LandedMerge,
    clauses: MergeClauses,
    attempts: int,
    started: float,
    engine: EngineName,
) -> MergeResult:
    landed, work, operation, added = done
    guard = operation.inserted_rows
    return MergeResult(
        num_inserted_rows=work.inserted,
        num_updated_rows=work.updated,
        num_deleted_rows=work.deleted,
        num_skipped_rows=work.skipped,
        match=work.match,
        on=clauses.shown_on,
        version=landed.version,
        read_version=snapshot.version,
        branch=landed.branch,
        location=landed.location,
        attempts=attempts,
        duration=time.monotonic() - started,
        engine=engine,
        key_guard=None if guard is None else "exact" if isinstance(guard, ExactKeySet) else "bloom",
        fragments_added=len(operation.new_fragments),
        fragments_changed=len(operation.updated_fragments),
        fragments_removed=len(operation.removed_fragment_ids),
        bytes_written=sum(file.size_bytes for f in work.written for file in f.files),
        columns_added=added,
    )


def _casts(target: pa.Schema, source: pa.Schema, clauses: MergeClauses) -> CastPlan:
    """Plan the casts of the source's columns; the source may lack any column except the key."""
    given = set(source.names)
    present = [field for field in target if field.name in given]
    if clauses.by_address:
        present.append(pa.field(ROW_ADDRESS, pa.int64()))
    if clauses.deleting is not None:
        present.append(pa.field(clauses.deleting, pa.bool_(), nullable=False))
    for name in [*clauses.on, *([clauses.dedupe_by] if clauses.dedupe_by else [])]:
        if name not in given and top_of(name) not in given:
            raise not_in_source(name, source.names, "merge")
    if clauses.insert:
        lacking = [f.name for f in target if f.name not in given and not f.nullable]
        if lacking:
            raise SchemaMismatchError(
                f"The source lacks the non-nullable columns {', '.join(map(repr, lacking))}, so "
                "its new rows cannot be inserted.",
                hint="Add the columns, or leave when_not_matched_insert_all() out.",
                missing=lacking,
            )
    return plan_cast(source, pa.schema(present), optional=set(target.names) - given)


def merge_uncommitted(
    snapshot: Snapshot, source: Source, clauses: MergeClauses
) -> tuple[Transaction, dict[str, int]]:
    """Compute a merge without a commit; return its transaction, and counts of rows.

    The transaction has the filter of inserted keys, which guards it against other merges that
    land before its commit.  Its files stay, whether it is committed or not.
    """
    if widened_target(snapshot, source.schema, clauses) is not snapshot:
        raise InvalidArgumentError(
            "schema_mode='merge' adds columns, which only a commit can do.",
            hint="Call execute(), or add the columns first.",
        )
    work = _prepared(snapshot, source, clauses)(snapshot, _task(snapshot, clauses))
    operation = _operation(snapshot, work, clauses)
    return Transaction(read_version=snapshot.version, operation=operation), {
        "num_inserted_rows": work.inserted,
        "num_updated_rows": work.updated,
        "num_deleted_rows": work.deleted,
    }


def dry_merge(snapshot: Snapshot, source: Source, clauses: MergeClauses) -> MergeWork:
    """Compute a merge without writing anything.

    The result has the numbers of rows, the rows to replace or delete (`marked`), a few new rows
    (`examples`), and how keys were matched (`match`).  The source stays open, so that `merge_rows`
    can follow with the same rows.

    Raises SchemaMismatchError, DuplicateKeysError, MatchedRowsError: as in `merge_rows`.
    """
    wide = widened_target(snapshot, source.schema, clauses)
    return _prepared(wide, source, clauses, dry=True)(wide, _task(wide, clauses))


def check_columns(schema: LanceSchema, source: pa.Schema, clauses: MergeClauses) -> CastPlan:
    """Check a merge against the columns, and return the casts of its source.

    Raises SchemaMismatchError, InvalidArgumentError: the columns do not fit the dataset, or the
        clauses.
    """
    plan = _casts(schema.to_arrow(), source, clauses)
    if clauses.rewrite_columns:
        check_rewrite(schema, clauses, plan.target.names)
    # check the conditions even if the merge tests no row with them
    if clauses.condition is not None:
        PairCondition.of(clauses.condition, plan.target, schema.to_arrow())
    if clauses.by_source is not None:
        Predicate.parse(clauses.by_source, blob_view(schema).to_arrow())
    return plan


def check_source(snapshot: Snapshot, source: Source, clauses: MergeClauses) -> CastPlan:
    """Check a merge against a version and the source's rows; return the casts of its source.

    Raises SchemaMismatchError, InvalidArgumentError: the rows do not fit the dataset, or the
        clauses.
    Raises DuplicateKeysError: a key occurs more than once in the source.
    """
    schema = widened_target(snapshot, source.schema, clauses).manifest.schema
    plan = check_columns(schema, source.schema, clauses)
    source.check_keys(plan, clauses)
    guard = _guarded(schema, clauses, plan).guard
    key = tuple(path[0] for path in guard if len(path) == 1)
    if guard and len(key) == len(guard) and not set(clauses.on) <= set(key):
        # else two rows of the source that differ in the merge's columns could share a primary key
        source.check_keys(plan, clauses, key)
    return plan


def _prepared(
    snapshot: Snapshot, source: Source, clauses: MergeClauses, *, dry: bool = False
) -> Callable[[Snapshot, WriteTask], MergeWork]:
    """Check a merge against a version; return a function that computes it on any newer version."""
    schema = widened_target(snapshot, source.schema, clauses).manifest.schema
    plan = check_source(snapshot, source, clauses)

    def work(current: Snapshot, task: WriteTask) -> MergeWork:
        check_writable(current)
        check_in_order(current, clauses.compacted)
        newest = current.manifest.schema
        # after a rename or a cast that landed meanwhile, the rows may no longer fit
        casts = plan if newest == schema else _casts(newest.to_arrow(), source.schema, clauses)
        guarded = _guarded(newest, clauses, casts)
        target = tuple(fragment_sources(current))
        return source.merge(
            MergeJob(
                casts=casts, target=target, clauses=guarded, task=task, snapshot=current, dry=dry
            )
        )

    return work


def _task(current: Snapshot, clauses: MergeClauses) -> WriteTask:
    files = clauses.files
    places = write_targets(
        current.location,
        current.manifest.base_paths,
        files.bases,
        every=files.every,
        primary=files.primary,
    )
    return replace(write_task(current, files.storage_version), places=places)


def _operation(current: Snapshot, work: MergeWork, clauses: MergeClauses) -> Update:
    schema = current.manifest.schema
    if clauses.rewrite_columns:
        rewritten = _rewrite_operation(current, work, key_filter(schema, work.inserted_hashes))
        return replace(rewritten, compacted_sstables=clauses.compacted)
    updated, removed = apply_deletions(current, work.marked)
    return Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=work.new_fragments,
        fields_for_preserving_frag_bitmap=tuple(f.id for f in schema.walk()),
        inserted_rows=key_filter(schema, work.inserted_hashes),
        compacted_sstables=clauses.compacted,
    )


# ---- merge-inserts that rewrite columns in place: their checks and their transaction


def check_rewrite(schema: LanceSchema, clauses: MergeClauses, source: Sequence[str]) -> None:
    """Raise ``InvalidArgumentError`` if a merge cannot rewrite columns in place.

    schema: the dataset's schema.
    source: the names of the source's columns.
    """
    columns = rewritten_columns(source, clauses.on)
    parts = (part for name in columns for part in schema.field(name).walk())
    for reason, holds in {
        "new rows would be inserted": clauses.insert,
        "rows that the source lacks would be deleted": clauses.delete_by_source,
        "matched rows would not be updated": clauses.matched != "update",
        "the source has all columns of the dataset": set(source) >= set(schema.names),
        "the source has only the key columns": not columns,
        "the source has a blob column": any(holds_blobs(part.metadata) for part in parts),
    }.items():
        if holds:
            raise InvalidArgumentError(
                f"write_mode='rewrite_columns' does not support this merge: {reason}.",
                hint="Use write_mode('auto'). rewrite_columns is for merges that only update "
                "matched rows with some of the columns.",
                write_mode="rewrite_columns",
            )


def _rewrite_operation(current: Snapshot, work: MergeWork, guard: KeyFilter | None) -> Update:
    """Return the Update that replaces fragments with their patched states."""
    schema = current.manifest.schema
    written_ids = {id_ for part in work.patched for id_ in part.fragment.files[-1].fields}
    tops = [f for f in schema.fields if written_ids.intersection(part.id for part in f.walk())]
    stable = current.manifest.has_stable_row_ids
    return Update(
        updated_fragments=tuple(part.fragment for part in work.patched),
        # a file does not list the parent structs of its fields
        fields_modified=tuple(field.id for top in tops for field in top.walk()),
        update_mode=UpdateMode.REWRITE_COLUMNS,
        updated_fragment_offsets=(
            {part.fragment.id: bytes(part.rows.serialize()) for part in work.patched}
            if stable
            else {}
        ),
        inserted_rows=guard,
    )
