"""Merge generations of shards into the table, in steps of one commit each.

A commit has the new rows, their keys, the deletions of rows that they replace or delete, and the
last merged generation of each shard (docs/format/memwal.md, 7).  So a merge can be stopped at any
point and repeated, and any number of merges may run at the same time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from lancekit._defaults import ROWS_PER_COMMIT
from lancekit._format.mem_wal.shard_manifest import ShardManifest
from lancekit._operations.common.results import MemWalMergeResult, MergedShard
from lancekit._operations.common.retry import RetryPolicy, retried
from lancekit._operations.mem_wal.initialize import details_with_shards
from lancekit._operations.mem_wal.merge_step import (
    OF_ROWS,
    Landed,
    OnError,
    Step,
    WaitingGeneration,
)
from lancekit._operations.unmerged.counts import waiting_rows
from lancekit._operations.unmerged.marks import Marks
from lancekit._shards.log import flushed_up_to
from lancekit._shards.manifests import change, latest
from lancekit._shards.schema import Shard
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, LancekitError, ShardError, UnsupportedFeatureError
from lancekit.progress import tracking

#: the approximate bytes of generations in one commit, whatever their rows
_BYTES = 1 << 30

#: errors that stop the merge of one shard, and of no other
_OF_SHARDS = (CorruptFileError, ShardError, UnsupportedFeatureError, *OF_ROWS)

#: receives the number of merged generations, and the total
Progress = Callable[[int, int], object]


class PlannedMerge(NamedTuple):
    """A planned merge: the version to merge into, the shards' manifests, and the commits."""

    current: Snapshot
    manifests: Mapping[Shard, ShardManifest]
    steps: list[tuple[WaitingGeneration, ...]]


def merge_generations(
    snapshot: Snapshot,
    shards: Iterable[Shard],
    policy: RetryPolicy,
    *,
    rows_per_commit: int = ROWS_PER_COMMIT,
    on_error: OnError = "raise",
    progress: Progress | None = None,
) -> tuple[Snapshot, tuple[MemWalMergeResult, LancekitError | None]]:
    """Merge the generations that the newest version lacks, and drain the shards' manifests.

    snapshot: a version of the branch.
    policy: how often a step is repeated after concurrent commits.
    rows_per_commit: the approximate number of rows of generations in one commit.
    on_error: how to handle rows that the table refuses.
    progress: called after each commit.

    Returns
    -------
    tuple
        The newest version; the result, and the error of the shards that could not be merged.

    Raises InvalidArgumentError: the table has no MemWAL.
    Raises ShardError: a shard's generations are not above the table's mark.
    Raises RetriesExhaustedError: others changed the same rows before every attempt.
    """
    started = time.monotonic()
    current, manifests, steps = planned_merge(snapshot, shards, rows_per_commit)
    read_version, count = current.version, sum(map(len, steps))
    landed: list[Landed] = []
    failed: dict[UUID, LancekitError] = {}
    attempts = done = 0
    left = deque(steps)
    with tracking("merging generations", count) as tracker:
        while left:
            step = tuple(each for each in left.popleft() if each.shard.id not in failed)
            if not step:
                continue
            try:
                (current, one), tries = retried(current, Step(step, on_error), policy)
            except _OF_SHARDS as error:
                if parts := _split(step):
                    left.extendleft(reversed(parts))
                else:
                    failed[step[0].shard.id] = _naming_generation(step[0], error)
                continue
            attempts += tries
            landed.append(one)
            _drain_all({each.shard for each in step}, current)
            done += len(step)
            tracker.set(done, count)
            tracker.draw()
            if progress is not None:
                progress(done, count)
    # drain generations that a stopped merge left
    _drain_all(manifests, current)
    merged = [each for one in landed for each in one.merged]
    result = MemWalMergeResult(
        num_inserted_rows=sum(one.inserted for one in landed),
        num_updated_rows=sum(one.updated for one in landed),
        num_deleted_rows=sum(one.deleted for one in landed),
        num_merged_generations=len(merged),
        num_quarantined_rows=sum(one.quarantined for one in landed),
        num_skipped_generations=done - len(merged),
        shards=_by_shard(merged),
        commits=sum(bool(one.merged) for one in landed),
        attempts=attempts,
        version=current.version,
        read_version=read_version,
        branch=current.branch,
        location=current.location,
        duration=time.monotonic() - started,
        engine=next((one.engine for one in landed if one.engine != "local"), "local"),
        waiting=replace(waiting_rows(current), refused=any(map(is_refusal, failed.values()))),
    )
    return current, (result, _combined_error(failed, result) if failed else None)


def is_refusal(error: LancekitError) -> bool:
    """Return True if a merge stopped at rows that ``on_error="quarantine"`` moves to quarantine."""
    return "reasons" in error.context


def _split(step: Sequence[WaitingGeneration]) -> list[tuple[WaitingGeneration, ...]]:
    """Split a step by shard, or a step of one shard by generation; empty if it cannot be split."""
    by_shard: dict[UUID, list[WaitingGeneration]] = {}
    for each in step:
        by_shard.setdefault(each.shard.id, []).append(each)
    if len(by_shard) > 1:
        return list(map(tuple, by_shard.values()))
    return [(each,) for each in step] if len(step) > 1 else []


def _naming_generation(waiting: WaitingGeneration, error: LancekitError) -> LancekitError:
    """Return an error that names the generation at which the merge of a shard stopped."""
    if "generation" in error.context and "shard" in error.context:
        return error
    first, *details = error.message.split("\n")
    shard, generation = str(waiting.shard.id), waiting.table.generation
    named = type(error)(
        f"Generation {generation} of shard {shard} cannot be merged: {first}",
        details=details,
        hint=error.hint,
        **{**error.context, "shard": shard, "generation": generation},
    )
    named.__cause__ = error
    return named


def _combined_error(
    failed: Mapping[UUID, LancekitError], result: MemWalMergeResult
) -> LancekitError:
    """Return the error of the first shard that failed, with the other shards in its text."""
    error, *others = failed.values()
    lines = [*error.message.rstrip("\n").split("\n")]
    lines += [f"  {other.message.splitlines()[0]}" for other in others]
    if result.shards:
        names = ", ".join(str(one.shard) for one in result.shards)
        lines.append(f"Merged into version {result.version}: generations of {names}.")
    whole = type(error)(
        lines[0],
        details=[*lines[1:], ""] if len(lines) > 1 else [],
        hint=error.hint,
        **{
            **error.context,
            "failed": {str(shard): one for shard, one in failed.items()},
            "merged": result,
        },
    )
    whole.__cause__ = error.__cause__
    return whole


def planned_merge(snapshot: Snapshot, shards: Iterable[Shard], rows: int) -> PlannedMerge:
    """Plan a merge into the newest version of a branch.

    Raises InvalidArgumentError, ShardError: as `merge_generations` raises them.
    """
    # manifests first: the newest version has all generations that are drained after this
    manifests = {s: m for s in shards if (m := latest(s)) is not None}
    current = latest_snapshot(snapshot.location)
    merged, marks = details_with_shards(current, list(manifests)).merged, Marks(current)
    for shard, manifest in manifests.items():
        done = merged.get(shard.id, 0)
        if manifest.current_generation <= done:  # the manifest may be older than a merge
            _check_above(shard, (latest(shard) or manifest).current_generation, done)
        for table in manifest.sstables:
            if table.generation <= done and not marks.has(shard.id, table.generation):
                _check_above(shard, table.generation, done)
    return PlannedMerge(current, manifests, list(_steps(_waiting(manifests, merged), rows)))


def _check_above(shard: Shard, generation: int, merged: int) -> None:
    """Refuse a shard whose generations started at 1 under an inherited mark."""
    if generation <= merged:
        raise ShardError(
            f"Generation {generation} of shard {shard.id} counts as merged, because the table "
            f"records all up to {merged} as merged, but it is not.",
            hint="The shard was created by a writer that ignores the marks of a branch or a "
            f"clone. Merge its generations (tables below {shard.store.uri}) with merge_insert, "
            "remove that folder, and write to another shard: ds.mem_wal_writer(str(uuid.uuid4())).",
            shard=str(shard.id),
            generation=generation,
            merged=merged,
        )


def _waiting(
    manifests: Mapping[Shard, ShardManifest], merged: Mapping[UUID, int]
) -> Iterator[WaitingGeneration]:
    """Yield the generations to merge, shard by shard, older generations first."""
    for shard, manifest in manifests.items():
        for table in sorted(manifest.sstables, key=lambda table: table.generation):
            if table.generation > merged.get(shard.id, 0):
                yield WaitingGeneration(shard, table)


def _steps(
    waiting: Iterable[WaitingGeneration], rows: int
) -> Iterator[tuple[WaitingGeneration, ...]]:
    """Group generations into steps of about `rows` rows or `_BYTES` bytes, whichever comes first.

    Generations that do not record their size count as 0.
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


# ---- draining


def drain(shard: Shard, merged: int) -> None:
    """Remove generations up to a number from a shard's manifest.

    The epoch stays, and so do the folders, for readers that planned to read them.
    """

    def edit(newest: ShardManifest) -> ShardManifest | None:
        left = tuple(table for table in newest.sstables if table.generation > merged)
        if len(left) == len(newest.sstables):
            return None
        # compute the cursor now: it depends on the row counts of listed generations
        return replace(newest, sstables=left, replay_after=flushed_up_to(shard, newest))

    change(shard, None, edit)


def _drain_all(shards: Collection[Shard], current: Snapshot) -> None:
    merged = details_with_shards(current, list(shards)).merged
    for shard in shards:
        if shard.id in merged:
            drain(shard, merged[shard.id])
