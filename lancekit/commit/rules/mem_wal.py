"""Rules about write-ahead logs: each region's generations are merged once, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from lancekit.commit.rules.verdict import (
    COMPATIBLE,
    Context,
    Outcome,
    Verdict,
    excluded,
    listed,
    rebased,
    retry,
)
from lancekit.format import operations as ops
from lancekit.format.mem_wal.details import merged_generations
from lancekit.format.mem_wal.names import MEM_WAL

__all__ = ["generations", "index_over_generations", "merged_twice"]


def _by_region(merged: Iterable[ops.CompactedSsTable]) -> dict[UUID, int]:
    found: dict[UUID, int] = {}
    for one in merged:
        found[one.shard_id] = max(one.generation, found.get(one.shard_id, 0))
    return found


def _compared(mine: Mapping[UUID, int], theirs: Mapping[UUID, int]) -> Verdict:
    both = sorted(mine.keys() & theirs.keys(), key=str)
    if not both:
        return COMPATIBLE
    stale = [region for region in both if theirs[region] >= mine[region]]
    facts = tuple((str(region), theirs[region]) for region in stale or both)
    named = listed(f"region {region} up to generation {number}" for region, number in facts)
    if stale:
        return excluded(f"{named} is merged already", generations=facts)
    return retry(f"{named} was merged", generations=facts)


def generations(
    mine: ops.Update | ops.UpdateMemWalState,
    theirs: ops.Update | ops.UpdateMemWalState | ops.CreateIndex,
    _context: Context,
) -> Verdict:
    """Lands unless both merged generations of the same region of a write-ahead log.

    If the other one merged mine or a later one, mine can never land; if an earlier one, it has to
    be done again.
    """
    ours = _by_region(mine.compacted_sstables)
    if isinstance(theirs, ops.CreateIndex):
        details = [index.index_details for index in theirs.new_indices if index.name == MEM_WAL]
        return _compared(ours, merged_generations(details[0]) if details else {})
    return _compared(ours, _by_region(theirs.compacted_sstables))


def merged_twice(mine: ops.Update, theirs: ops.Update, context: Context) -> Verdict:
    """Lands unless the other one merged the same generation, or a later one."""
    if not mine.compacted_sstables:
        return COMPATIBLE
    verdict = generations(mine, theirs, context)
    # an earlier generation's merge shows in the rows: the other rules look at them
    return verdict if verdict.outcome is Outcome.INCOMPATIBLE else COMPATIBLE


def index_over_generations(
    mine: ops.CreateIndex, theirs: ops.UpdateMemWalState, _context: Context
) -> Verdict:
    """Lands if it makes the log's own index, which then records the newest generations."""
    if all(index.name != MEM_WAL for index in mine.new_indices):
        return excluded("the state of the write-ahead log was changed")
    merged = _by_region(theirs.compacted_sstables)
    return rebased(
        "the newest generation of each region is kept",
        indices=(MEM_WAL,),
        generations=tuple((str(region), number) for region, number in merged.items()),
    )
