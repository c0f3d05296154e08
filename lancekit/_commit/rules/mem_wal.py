"""Rules about shards: the generations of each are merged once, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from lancekit._commit.rules.verdict import (
    COMPATIBLE,
    Context,
    Verdict,
    excluded,
    listed,
    rebased,
    retry,
)
from lancekit._format import operations as ops
from lancekit._format.mem_wal.details import merged_generations
from lancekit._format.mem_wal.names import MEM_WAL
from lancekit._format.operation_parts import CompactedSsTable

__all__ = ["generations", "index_over_generations"]


def _by_shard(merged: Iterable[CompactedSsTable]) -> dict[UUID, int]:
    found: dict[UUID, int] = {}
    for one in merged:
        found[one.shard_id] = max(one.generation, found.get(one.shard_id, 0))
    return found


def _compared(mine: Mapping[UUID, int], theirs: Mapping[UUID, int]) -> Verdict:
    both = sorted(mine.keys() & theirs.keys(), key=str)
    if not both:
        return COMPATIBLE
    stale = [shard for shard in both if theirs[shard] >= mine[shard]]
    facts = tuple((str(shard), theirs[shard]) for shard in stale or both)
    named = listed(f"shard {shard} up to generation {number}" for shard, number in facts)
    if stale:
        return excluded(f"{named} is merged already", generations=facts)
    return retry(f"{named} was merged", generations=facts)


def generations(
    mine: ops.Update | ops.UpdateMemWalState,
    theirs: ops.Update | ops.UpdateMemWalState | ops.CreateIndex,
    _context: Context,
) -> Verdict:
    """Lands unless both merged generations of the same shard.

    If the other one merged mine or a later one, mine can never land; if an earlier one, it has to
    be done again.
    """
    ours = _by_shard(mine.compacted_sstables)
    if isinstance(theirs, ops.CreateIndex):
        details = [index.index_details for index in theirs.new_indices if index.name == MEM_WAL]
        return _compared(ours, merged_generations(details[0]) if details else {})
    return _compared(ours, _by_shard(theirs.compacted_sstables))


def index_over_generations(
    mine: ops.CreateIndex, theirs: ops.UpdateMemWalState, _context: Context
) -> Verdict:
    """Lands if it makes the log's own index, which then records the newest generations."""
    if all(index.name != MEM_WAL for index in mine.new_indices):
        return excluded("the state of the write-ahead log was changed")
    merged = _by_shard(theirs.compacted_sstables)
    return rebased(
        "the newest generation of each shard is kept",
        indices=(MEM_WAL,),
        generations=tuple((str(shard), number) for shard, number in merged.items()),
    )
