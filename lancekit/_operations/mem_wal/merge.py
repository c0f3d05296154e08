"""Generations of shards become rows of the table: each step is one commit, and lands once.

A commit has the new rows, the deletions of what they replace or delete, the keys that they bring
in, and the mark that says up to where each shard is merged (docs/format/memwal.md, 7).  So a merge
can be stopped anywhere and done again, and any number of them may run at once.
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
from lancekit._operations.mem_wal.initialize import details_beside
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

#: and how many of their bytes, whatever the rows
_BYTES = 1 << 30

#: errors that stop the merge of one shard, and of no other
_OF_SHARDS = (CorruptFileError, ShardError, UnsupportedFeatureError, *OF_ROWS)

#: is told how many generations are merged, and how many there are to be
Progress = Callable[[int, int], object]


class PlannedMerge(NamedTuple):
    """What there is to be merged: into which version, of which shards, and what by each commit."""

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
    """Merge the generations of shards that the newest version lacks, and drain their manifests.

    snapshot: a version of the branch.
    shards: whose generations.
    policy: how often a step is worked out anew when others land meanwhile.
    rows_per_commit: about how many rows of generations one commit merges.
    on_error: what becomes of rows that the table refuses.
    progress: told of each commit.

    Returns
    -------
    tuple
        The newest version; what was done, and the error for the shards that could not be merged.

    Raises InvalidArgumentError: the table has no shards.
    Raises ShardError: a shard began to count below the mark that the table has of it.
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
                if parts := _apart(step):
                    left.extendleft(reversed(parts))
                else:
                    failed[step[0].shard.id] = _stopped(step[0], error)
                continue
            attempts += tries
            landed.append(one)
            _drain_all({each.shard for each in step}, current)
            done += len(step)
            tracker.set(done, count)
            tracker.draw()
            if progress is not None:
                progress(done, count)
    # what was merged and not drained, by someone who was stopped in between
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
    return current, (result, _first_of(failed, result) if failed else None)


def is_refusal(error: LancekitError) -> bool:
    """Tell whether a merge stopped at rows that ``on_error="quarantine"`` sets aside."""
    return "reasons" in error.context


def _apart(step: Sequence[WaitingGeneration]) -> list[tuple[WaitingGeneration, ...]]:
    """Return smaller steps: one for each shard, or else one for each generation."""
    by_shard: dict[UUID, list[WaitingGeneration]] = {}
    for each in step:
        by_shard.setdefault(each.shard.id, []).append(each)
    if len(by_shard) > 1:
        return list(map(tuple, by_shard.values()))
    return [(each,) for each in step] if len(step) > 1 else []


def _stopped(waiting: WaitingGeneration, error: LancekitError) -> LancekitError:
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


def _first_of(failed: Mapping[UUID, LancekitError], result: MemWalMergeResult) -> LancekitError:
    """Return the error of the first shard that could not be merged, and name the other shards."""
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
    """Return what is to be merged into the newest version of a branch.

    Raises InvalidArgumentError, ShardError: as of `merge_generations`.
    """
    # manifests first: whatever is drained since then, the newest version has
    manifests = {s: m for s in shards if (m := latest(s)) is not None}
    current = latest_snapshot(snapshot.location)
    merged, marks = details_beside(current, list(manifests)).merged, Marks(current)
    for shard, manifest in manifests.items():
        done = merged.get(shard.id, 0)
        if manifest.current_generation <= done:  # a newer manifest may be of what was merged since
            _check_above(shard, (latest(shard) or manifest).current_generation, done)
        for table in manifest.sstables:
            if table.generation <= done and not marks.has(shard.id, table.generation):
                _check_above(shard, table.generation, done)
    return PlannedMerge(current, manifests, list(_steps(_waiting(manifests, merged), rows)))


def _check_above(shard: Shard, generation: int, merged: int) -> None:
    """Refuse a shard that counts from the beginning under a mark that was inherited."""
    if generation <= merged:
        raise ShardError(
            f"A generation of shard {shard.id} is {generation}, and the table says that it has all "
            f"up to {merged}: what the shard has is taken for merged.",
            hint="It was begun by a writer that does not know what a branch or a clone inherits. "
            f"Bring its generations, tables below {shard.store.uri}, in by merge_insert, remove "
            "that folder, and write to another shard: ds.mem_wal_writer(str(uuid.uuid4())).",
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


# ---- draining


def drain(shard: Shard, merged: int) -> None:
    """Take generations up to a number off a shard's manifest.

    The writer stays who it is.  Their folders stay, for readers that have them in their plans.
    """

    def edit(newest: ShardManifest) -> ShardManifest | None:
        left = tuple(table for table in newest.sstables if table.generation > merged)
        if len(left) == len(newest.sstables):
            return None
        # a generation that is not listed cannot tell which entries it has
        return replace(newest, sstables=left, replay_after=flushed_up_to(shard, newest))

    change(shard, None, edit)


def _drain_all(shards: Collection[Shard], current: Snapshot) -> None:
    merged = details_beside(current, list(shards)).merged
    for shard in shards:
        if shard.id in merged:
            drain(shard, merged[shard.id])
