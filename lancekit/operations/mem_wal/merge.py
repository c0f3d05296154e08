"""Generations of shards become rows of the table: each step is one commit, and lands once.

A commit has the new rows, the deletions of what they replace or delete, the keys that they bring
in, and the mark that says up to where each shard is merged (docs/format/memwal.md, 7).  So a merge
can be stopped anywhere and done again, and any number of them may run at once.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa

from lancekit.commit.protocol import check_writable
from lancekit.commit.rules.pending import Pending
from lancekit.errors import (
    CommitUnknownError,
    LancekitError,
    RetryableConflictError,
    ShardError,
)
from lancekit.format.mem_wal.shard_manifest import ShardManifest, SsTable
from lancekit.format.operation_parts import CompactedSsTable
from lancekit.format.operations import Update
from lancekit.format.schema import LanceSchema
from lancekit.operations.cleanup.auto import commit
from lancekit.operations.common.key_guard import key_filter, key_paths
from lancekit.operations.common.results import MemWalMergeResult, MergedShard
from lancekit.operations.common.retry import RetryPolicy, retried
from lancekit.operations.common.staged_files import removed_unless_landed, write_task
from lancekit.operations.delete import apply_deletions
from lancekit.operations.mem_wal.generation import open_generation
from lancekit.operations.mem_wal.initialize import initialized
from lancekit.operations.mem_wal.newest_rows import NewestRows, newest_rows
from lancekit.operations.unmerged.waiting import Marks
from lancekit.operations.unmerged.waiting_rows import waiting_rows
from lancekit.options import options
from lancekit.pipeline.casts.plan import plan_cast
from lancekit.pipeline.engine.engine import (
    Choice,
    EngineName,
    LocalRunner,
    choose_engine,
    spark_engine,
)
from lancekit.pipeline.engine.inputs import ScannedRows
from lancekit.pipeline.merge.plan import MergeClauses, MergeJob, MergeWork
from lancekit.pipeline.rows.delete import DeletedRows
from lancekit.pipeline.source import LocalSource, Source
from lancekit.progress import tracking
from lancekit.scan.fragments.source import fragment_sources
from lancekit.shards.manifests import change, latest
from lancekit.shards.shard import Shard
from lancekit.versions.listing import latest_snapshot
from lancekit.versions.snapshot import Snapshot

__all__ = [
    "ROWS_PER_COMMIT",
    "PlannedMerge",
    "Progress",
    "WaitingGeneration",
    "drain",
    "engine_of",
    "merge_generations",
    "planned_merge",
]

#: rows of generations that one commit merges, about; one generation at least
ROWS_PER_COMMIT = 1_000_000
#: and how many of their bytes, whatever the rows
_BYTES = 1 << 30

#: is told how many generations are merged, and how many there are to be
Progress = Callable[[int, int], object]


class WaitingGeneration(NamedTuple):
    """A generation that is to be merged."""

    shard: Shard
    table: SsTable


class PlannedMerge(NamedTuple):
    """What there is to be merged: into which version, of which shards, and what by each commit."""

    current: Snapshot
    manifests: Mapping[Shard, ShardManifest]
    steps: list[tuple[WaitingGeneration, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Landed:
    """What came of a step."""

    merged: tuple[WaitingGeneration, ...] = ()
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    engine: EngineName = "local"


def merge_generations(
    snapshot: Snapshot,
    shards: Iterable[Shard],
    policy: RetryPolicy,
    *,
    rows_per_commit: int = ROWS_PER_COMMIT,
    progress: Progress | None = None,
) -> tuple[Snapshot, MemWalMergeResult]:
    """Merge the generations of shards that the newest version lacks, and drain their manifests.

    Parameters
    ----------
    snapshot
        A version of the branch.
    shards
        Whose generations.
    policy
        How often a step is worked out anew when others land meanwhile.
    rows_per_commit
        About how many rows of generations one commit merges.
    progress
        Told of each commit.

    Raises
    ------
    InvalidArgumentError
        The table has no shards.
    ShardError
        A shard began to count below the mark that the table has of it.
    CorruptFileError
        A generation cannot be read.
    RetriesExhaustedError
        Others changed the same rows before every attempt.
    """
    started = time.monotonic()
    current, manifests, steps = planned_merge(snapshot, shards, rows_per_commit)
    read_version, count = current.version, sum(map(len, steps))
    landed: list[_Landed] = []
    attempts = done = 0
    with tracking("merging generations", count) as tracker:
        for step in steps:
            (current, result), tries = retried(current, _Step(step), policy)
            attempts += tries
            landed.append(result)
            _drain_all({each.shard for each in step}, current)
            done += len(step)
            tracker.set(done, count)
            tracker.draw()
            if progress is not None:
                progress(done, count)
    # what was merged and not drained, by someone who was stopped in between
    _drain_all(manifests, current)
    merged = [each for one in landed for each in one.merged]
    return current, MemWalMergeResult(
        num_inserted_rows=sum(one.inserted for one in landed),
        num_updated_rows=sum(one.updated for one in landed),
        num_deleted_rows=sum(one.deleted for one in landed),
        num_merged_generations=len(merged),
        num_skipped_generations=count - len(merged),
        shards=_by_shard(merged),
        commits=sum(bool(one.merged) for one in landed),
        attempts=attempts,
        version=current.version,
        read_version=read_version,
        branch=current.branch,
        line=current.line,
        duration=time.monotonic() - started,
        engine=next((one.engine for one in landed if one.engine != "local"), "local"),
        waiting=waiting_rows(current),
    )


def planned_merge(snapshot: Snapshot, shards: Iterable[Shard], rows: int) -> PlannedMerge:
    """Return what is to be merged into the newest version of a branch.

    Raises
    ------
    InvalidArgumentError, ShardError
        As of `merge_generations`.
    """
    # manifests first: whatever is drained since then, the newest version has
    manifests = {s: m for s in shards if (m := latest(s)) is not None}
    current = latest_snapshot(snapshot.line)
    merged, marks = initialized(current).merged, Marks(current)
    for shard, manifest in manifests.items():
        done = merged.get(shard.id, 0)
        if manifest.current_generation <= done:  # a newer manifest may be of what was merged since
            _check_above(shard, (latest(shard) or manifest).current_generation, done)
        for table in manifest.sstables:
            if table.generation <= done and not marks.has(shard.id, table.generation):
                _check_above(shard, table.generation, done)
    steps = list(_steps(_waiting(manifests, merged), rows))
    return PlannedMerge(current, manifests, steps)


def engine_of(current: Snapshot, step: Iterable[WaitingGeneration]) -> Choice:
    """Return where a step is worked out."""
    rows = sum(each.table.physical_rows or 0 for each in step)
    return choose_engine(current.manifest.num_rows + rows)


def _check_above(shard: Shard, generation: int, merged: int) -> None:
    """Refuse a shard that counts from the beginning under a mark that was inherited."""
    if generation <= merged:
        raise ShardError(
            f"A generation of shard {shard.id} is {generation}, and the table says that it has all "
            f"up to {merged}: what the shard has is taken for merged.",
            hint="It was begun by a writer that does not know what a branch or a clone inherits. "
            f"Bring its generations, tables below {shard.store.uri}, in by merge_insert, remove "
            "that folder, and write to another shard.",
            shard=str(shard.id),
            generation=generation,
            merged=merged,
        )


def _waiting(
    manifests: Mapping[Shard, ShardManifest], merged: Mapping[UUID, int]
) -> Iterator[WaitingGeneration]:
    """Yield what is to be merged: shard by shard, older generations first."""
    for shard, manifest in manifests.items():
        for table in sorted(manifest.sstables, key=lambda table: table.generation):
            if table.generation > merged.get(shard.id, 0):
                yield WaitingGeneration(shard, table)


def _steps(
    waiting: Iterable[WaitingGeneration], rows: int
) -> Iterator[tuple[WaitingGeneration, ...]]:
    """Cut generations into steps of about so many rows, and not too many bytes.

    Those that do not say how large they are count as nothing.
    """
    step: list[WaitingGeneration] = []
    share = 0.0
    for each in waiting:
        table = each.table
        own = max((table.physical_rows or 0) / rows, (table.in_memory_bytes or 0) / _BYTES)
        if step and share + own > 1:
            yield tuple(step)
            step, share = [], 0.0
        step.append(each)
        share += own
    if step:
        yield tuple(step)


def _by_shard(merged: Sequence[WaitingGeneration]) -> tuple[MergedShard, ...]:
    found: dict[UUID, list[int]] = {}
    for shard, table in merged:
        found.setdefault(shard.id, []).append(table.generation)
    return tuple(MergedShard(shard, tuple(numbers)) for shard, numbers in found.items())


# ---- one commit


@dataclass(frozen=True, slots=True)
class _Step:
    """Generations that one commit merges; called with the version that they come on top of."""

    waiting: tuple[WaitingGeneration, ...]

    def __call__(self, current: Snapshot) -> tuple[Snapshot, _Landed]:
        left = self._left(current)
        if not left:
            return current, _Landed()
        try:
            return _land(current, left)
        except (CommitUnknownError, RetryableConflictError):
            raise
        except LancekitError as error:
            # another merger may have been first: then a mark excludes mine, or files are gone
            newest = latest_snapshot(current.line)
            if self._left(newest) == left:
                raise
            raise RetryableConflictError(
                f"Generations of shard {left[0].shard.id} were merged by another merger: "
                f"{error.message}",
                read_version=current.version,
            ) from error

    def _left(self, current: Snapshot) -> tuple[WaitingGeneration, ...]:
        merged = initialized(current).merged
        return tuple(w for w in self.waiting if w.table.generation > merged.get(w.shard.id, 0))


def _land(current: Snapshot, waiting: tuple[WaitingGeneration, ...]) -> tuple[Snapshot, _Landed]:
    check_writable(current)
    schema = current.manifest.schema
    rows = newest_rows(LocalRunner().map(partial(_opened, schema), waiting), schema)
    engine = engine_of(current, waiting).engine
    work = _work_out(current, rows, engine)
    with removed_unless_landed(current.store, work.new_fragments):
        updated, removed = apply_deletions(current, work.marked)
        highest = {each.shard.id: each.table.generation for each in waiting}
        operation = Update(
            removed_fragment_ids=removed,
            updated_fragments=updated,
            new_fragments=work.new_fragments,
            fields_for_preserving_frag_bitmap=tuple(f.id for f in schema.walk()),
            inserted_rows=key_filter(schema, work.inserted_hashes),
            compacted_sstables=tuple(CompactedSsTable(*mark) for mark in highest.items()),
        )
        pending = Pending(
            operation=operation,
            uuid=str(uuid.uuid4()),
            affected_rows={found.fragment_id: found.rows for found in work.marked},
            doing="merge_mem_wal",
        )
        landed = commit(current, pending)
    return landed, _Landed(
        merged=waiting,
        inserted=work.inserted,
        updated=work.updated,
        deleted=work.deleted,
        engine=engine,
    )


def _opened(schema: LanceSchema, generation: WaitingGeneration) -> Snapshot:
    return open_generation(generation.shard, generation.table, schema)


def _work_out(current: Snapshot, rows: NewestRows, engine: EngineName) -> MergeWork:
    """Write the rows that live, and find what they replace and what the others delete."""
    schema = current.manifest.schema
    plan = plan_cast(schema.to_arrow(), schema.to_arrow())
    task, on = write_task(current), tuple(field.name for field in schema.primary_key)
    if not on:
        with _source(current, rows, engine) as source:
            new = source.write(plan, task)
        return MergeWork(new_fragments=tuple(new), inserted=rows.num_rows)
    upsert = MergeClauses(on=on, matched="update", insert=True, once=True, guard=key_paths(schema))
    job = MergeJob(
        casts=plan,
        target=tuple(fragment_sources(current)),
        clauses=upsert,
        task=task,
        snapshot=current,
    )
    with _source(current, rows, engine) as source:
        work = source.merge(job)
    if not rows.deleted.num_rows:
        return work
    keys = plan_cast(rows.deleted.schema, rows.deleted.schema)
    deleting = replace(job, casts=keys, clauses=MergeClauses(on=on, matched="delete"))
    with (
        removed_unless_landed(current.store, work.new_fragments),
        _keys(rows.deleted, engine) as source,
    ):
        gone = source.merge(deleting)
    return replace(work, marked=_together(work.marked, gone.marked), deleted=gone.deleted)


def _source(current: Snapshot, rows: NewestRows, engine: EngineName) -> Source:
    if engine == "spark":  # the tasks read the generations
        source: Source = spark_engine().source(ScannedRows(rows.scan(current), rows.reader), None)
        return source
    return LocalSource(rows.reader(), options.source_memory_bytes)


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


# ---- draining


def drain(shard: Shard, merged: int) -> None:
    """Take generations up to a number off a shard's manifest.

    The writer stays who it is.  Their folders stay, for readers that have them in their plans.
    """

    def edit(newest: ShardManifest) -> ShardManifest | None:
        left = tuple(table for table in newest.sstables if table.generation > merged)
        return None if len(left) == len(newest.sstables) else replace(newest, sstables=left)

    change(shard, None, edit)


def _drain_all(shards: Iterable[Shard], current: Snapshot) -> None:
    merged = initialized(current).merged
    for shard in shards:
        if shard.id in merged:
            drain(shard, merged[shard.id])
