"""The cards of what was done to shards."""

from __future__ import annotations

from datetime import datetime

from lancekit.notebook._common import ENGINES, NAMES, facts, ref
from lancekit.notebook.models import Card
from lancekit.notebook.words import count, listing, plural, size
from lancekit.operations.common.results import MemWalMergeResult, MergedShard
from lancekit.operations.mem_wal.cleanup import MemWalCleanupStats

__all__ = ["mem_wal_cleanup_card", "mem_wal_merge_card"]


def mem_wal_merge_card(result: MemWalMergeResult, now: datetime) -> Card:  # noqa: ARG001  # no times
    merged = plural(result.num_merged_generations, "generation")
    if not result.commits:
        title = f"nothing to merge into {ref(result.branch, result.version)}"
    else:
        title = f"merged {merged} into {ref(result.branch, result.version)}"
    skipped = result.num_skipped_generations
    return Card(
        kind="MemWAL merge",
        title=title,
        headline=(
            f"{count(result.num_inserted_rows)} inserted",
            f"{count(result.num_updated_rows)} updated",
            f"{count(result.num_deleted_rows)} deleted",
            f"{result.duration:.2f} s",
        ),
        facts=facts(
            ("shards", listing(map(_merged, result.shards), NAMES)),
            ("by another merger", plural(skipped, "generation") if skipped else ""),
            ("commits", f"{count(result.commits)}, in {plural(result.attempts, 'attempt')}"),
            ("ran", ENGINES.get(result.engine, result.engine)),
            ("then", "ds.cleanup_mem_wal() removes files that are not needed any more"),
        ),
    )


def _merged(shard: MergedShard) -> str:
    numbers = [count(shard.generations[0]), count(shard.generations[-1])]
    which = " to ".join(dict.fromkeys(numbers))
    word = "generations" if len(shard.generations) > 1 else "generation"
    return f"{shard.shard} ({word} {which})"


def mem_wal_cleanup_card(result: MemWalCleanupStats, now: datetime) -> Card:  # noqa: ARG001
    return Card(
        kind="MemWAL cleanup",
        title=f"removed {plural(result.files_removed, 'file')}",
        headline=(size(result.bytes_removed),),
        facts=facts(
            ("generations", count(result.generations_removed)),
            ("entries of logs", count(result.log_entries_removed)),
            ("manifests", count(result.manifests_removed)),
        ),
    )
