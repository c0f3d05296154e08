"""Rows that come into a version by their primary key, and the commit that brings them.

A merge of generations uses this, and so do rows that are put back from a quarantine.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from lancekit._commit.rules.pending import Pending
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._format.operations import Update
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.new_keys import key_filter, key_paths
from lancekit._operations.common.staged_files import removed_unless_landed, write_task
from lancekit._operations.delete import apply_deletions
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.engine.engine import EngineName, spark_engine
from lancekit._pipeline.merge.plan import MergeClauses, MergeJob, MergeWork
from lancekit._pipeline.rows.delete import DeletedRows
from lancekit._pipeline.source import LocalSource, Source
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.snapshot import Snapshot
from lancekit.options import options

__all__ = ["land", "work_out"]


def work_out(
    current: Snapshot,
    live: Callable[[], Source],
    deleted: pa.Table,
    engine: EngineName = "local",
    lacking: frozenset[str] = frozenset(),
) -> MergeWork:
    """Write rows, and find what they replace and what is deleted.

    Parameters
    ----------
    current
        The version that they come on top of.
    live
        Opens the rows, which have the columns of the version; each key is there once.
    deleted
        The keys of the rows that are deleted.
    engine
        Where this runs.
    lacking
        Columns that the rows do not have: a row that is replaced keeps its values of these.
    """
    schema = current.manifest.schema
    columns = pa.schema([field for field in schema.to_arrow() if field.name not in lacking])
    plan = plan_cast(columns, columns, optional=lacking)
    task, on = write_task(current), tuple(field.name for field in schema.primary_key)
    if not on:
        with live() as source:
            new = source.write(plan, task)
        rows = sum(fragment.physical_rows or 0 for fragment in new)
        return MergeWork(new_fragments=tuple(new), inserted=rows)
    upsert = MergeClauses(on=on, matched="update", insert=True, once=True, guard=key_paths(schema))
    job = MergeJob(
        casts=plan,
        target=tuple(fragment_sources(current)),
        clauses=upsert,
        task=task,
        snapshot=current,
    )
    with live() as source:
        work = source.merge(job)
    if not deleted.num_rows:
        return work
    keys = plan_cast(deleted.schema, deleted.schema)
    deleting = replace(job, casts=keys, clauses=MergeClauses(on=on, matched="delete"))
    with (
        removed_unless_landed(current.store, work.new_fragments),
        _keys(deleted, engine) as source,
    ):
        gone = source.merge(deleting)
    return replace(work, marked=_together(work.marked, gone.marked), deleted=gone.deleted)


def _keys(keys: pa.Table, engine: EngineName) -> Source:
    if engine == "spark":
        source: Source = spark_engine().source(keys, None)
        return source
    return LocalSource(keys.to_reader(), options.source_memory_bytes)


def _together(*parts: Sequence[DeletedRows]) -> tuple[DeletedRows, ...]:
    """Return what several merges into one version found, each fragment once."""
    found: dict[int, DeletedRows] = {}
    for one in (each for part in parts for each in part):
        other = found.get(one.fragment_id)
        rows = one.rows if other is None else one.rows | other.rows
        found[one.fragment_id] = replace(one, rows=rows)
    return tuple(found.values())


def land(
    current: Snapshot, work: MergeWork, marks: tuple[CompactedSsTable, ...], *, doing: str
) -> Snapshot:
    """Commit what `work_out` found.

    Parameters
    ----------
    current
        The version that it was worked out on.
    work
        The rows.
    marks
        Of the generations and the tables of a quarantine that the rows come from.
    doing
        What the commit is called in messages.
    """
    schema = current.manifest.schema
    with removed_unless_landed(current.store, work.new_fragments):
        updated, removed = apply_deletions(current, work.marked)
        operation = Update(
            removed_fragment_ids=removed,
            updated_fragments=updated,
            new_fragments=work.new_fragments,
            fields_for_preserving_frag_bitmap=tuple(f.id for f in schema.walk()),
            inserted_rows=key_filter(schema, work.inserted_hashes),
            compacted_sstables=marks,
        )
        pending = Pending(
            operation=operation,
            uuid=str(uuid.uuid4()),
            affected_rows={found.fragment_id: found.rows for found in work.marked},
            doing=doing,
        )
        return commit(current, pending)
