"""Merge-insert: update matched rows, insert new ones, delete what the source lacks."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

import pyarrow as pa

from lancekit.commit.pending import Pending
from lancekit.commit.protocol import check_writable, commit
from lancekit.commit.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, SchemaMismatchError
from lancekit.format.key_filter import ExactKeySet, KeyFilter, choose_filter
from lancekit.format.schema import LanceSchema, check_key_type, column_not_found
from lancekit.format.transaction import Update
from lancekit.operations.delete import apply_deletions
from lancekit.operations.landing import removed_unless_landed
from lancekit.operations.results import MergeResult
from lancekit.operations.retry import RetryPolicy, retried
from lancekit.options import options
from lancekit.pipeline.casts import CastPlan, plan_cast
from lancekit.pipeline.merge import MergeClauses, MergeWork
from lancekit.pipeline.source import Source
from lancekit.pipeline.write import WriteTask
from lancekit.scan.fragment import fragment_sources

__all__ = ["check_clauses", "merge_insert"]


def check_clauses(schema: LanceSchema, clauses: MergeClauses) -> MergeClauses:
    """Return the clauses with the key columns checked, and the columns to guard.

    Raises
    ------
    InvalidArgumentError
        There are no key columns, or the merge would change nothing.
    ColumnNotFoundError
        A key column is not in the schema.
    """
    key = tuple(f.name for f in schema.primary_key)
    on = clauses.on or key
    if not on:
        raise InvalidArgumentError(
            "A merge-insert needs key columns, and the dataset has no primary key.",
            hint='Name them: merge_insert(["id"]), or create the dataset with primary_key=["id"].',
        )
    for name in on:
        check_key_type(schema.field(name))
    nothing = clauses.matched == "keep" and not clauses.insert and clauses.delete_by_source is None
    if nothing:
        raise InvalidArgumentError(
            "The merge-insert is not configured to change the data in any way.",
            hint="Add when_matched_update_all(), when_not_matched_insert_all() or another clause.",
        )
    guard = key if clauses.insert and set(on) == set(key) else ()
    return replace(clauses, on=on, guard=guard)


def merge_insert(
    snapshot: Snapshot, source: Source, clauses: MergeClauses, policy: RetryPolicy
) -> tuple[Snapshot, MergeResult]:
    """Merge rows into a version.

    Parameters
    ----------
    snapshot
        The version that the caller sees; others may have landed since.
    source
        The rows.
    clauses
        What to do, checked by `check_clauses`.
    policy
        How often to do it again when other writers land meanwhile.

    Raises
    ------
    SchemaMismatchError
        The rows do not fit the dataset.
    DuplicateKeysError
        A key occurs more than once in the source.
    MatchedRowsError
        A row matched, and matched rows are not allowed.
    """
    started = time.monotonic()
    plan = _plan(snapshot.manifest.schema.to_arrow(), source.schema, clauses)
    source.check_keys(plan, clauses.on)

    def attempt(current: Snapshot) -> tuple[Snapshot, MergeWork, Update]:
        check_writable(current)
        target = fragment_sources(current)
        work = source.merge(plan, target, clauses, _write_task(current))
        return _land(current, work, clauses)

    (landed, work, operation), attempts = retried(snapshot, attempt, policy)
    guard = operation.inserted_rows
    return landed, MergeResult(
        num_inserted_rows=work.inserted,
        num_updated_rows=work.updated,
        num_deleted_rows=work.deleted,
        on=clauses.on,
        version=landed.version,
        read_version=snapshot.version,
        branch=landed.branch,
        attempts=attempts,
        duration=time.monotonic() - started,
        engine=source.engine,
        key_guard=None if guard is None else "exact" if isinstance(guard, ExactKeySet) else "bloom",
        fragments_added=len(operation.new_fragments),
        fragments_changed=len(operation.updated_fragments),
        fragments_removed=len(operation.removed_fragment_ids),
        bytes_written=sum(file.size_bytes for f in operation.new_fragments for file in f.files),
    )


def _plan(target: pa.Schema, source: pa.Schema, clauses: MergeClauses) -> CastPlan:
    """Plan the casts to the columns that the source has; it may lack others than the key."""
    present = [f for f in target if f.name in source.names]
    for name in clauses.on:
        if name not in source.names:
            raise column_not_found(name, source.names)
    if clauses.insert:
        lacking = [f.name for f in target if f.name not in source.names and not f.nullable]
        if lacking:
            raise SchemaMismatchError(
                f"The source lacks {', '.join(map(repr, lacking))}, which cannot be null, so its "
                "new rows cannot be inserted.",
                hint="Add the columns, or leave when_not_matched_insert_all() out.",
                missing=lacking,
            )
    return plan_cast(source, pa.schema(present))


def _write_task(snapshot: Snapshot) -> WriteTask:
    """Return how to write rows that are to be added to a version."""
    return WriteTask(
        store=snapshot.store,
        schema=snapshot.manifest.schema,
        storage_version=snapshot.manifest.storage_version,
        checksums=options.checksums,
    )


def _land(
    current: Snapshot, work: MergeWork, clauses: MergeClauses
) -> tuple[Snapshot, MergeWork, Update]:
    """Commit what a merge worked out; its files are removed if it did not land."""
    schema = current.manifest.schema
    with removed_unless_landed(current.store, work.new_fragments):
        updated, removed = apply_deletions(current, work.marked)
        operation = Update(
            removed_fragment_ids=removed,
            updated_fragments=updated,
            new_fragments=work.new_fragments,
            fields_for_preserving_frag_bitmap=tuple(f.id for f in schema.walk()),
            inserted_rows=_key_filter(schema, work, clauses),
        )
        pending = Pending(
            operation=operation,
            uuid=str(uuid.uuid4()),
            affected_rows={m.fragment_id: m.rows for m in work.marked},
        )
        return commit(current, pending), work, operation


def _key_filter(schema: LanceSchema, work: MergeWork, clauses: MergeClauses) -> KeyFilter | None:
    if not clauses.guard:
        return None
    fields = [schema.field(name) for name in clauses.guard]
    types = [f.to_arrow().type for f in fields]
    return choose_filter([f.id for f in fields], types, work.inserted_hashes)
