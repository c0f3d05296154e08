"""The cards of shards, and of what was done to them."""

from __future__ import annotations

from datetime import datetime

from lancekit.notebook.cards.common import ENGINES, NAMES, facts, ref, table
from lancekit.notebook.render.models import Card, Column, Row
from lancekit.notebook.render.words import clean, count, listing, plural, size
from lancekit.operations.common.results import MemWalMergeResult, MergedShard
from lancekit.operations.mem_wal.cleanup import MemWalCleanupStats
from lancekit.operations.mem_wal.shards import ShardInfo, Shards
from lancekit.options import options

__all__ = ["mem_wal_cleanup_card", "mem_wal_merge_card", "shards_card"]

_SHARDS = (
    Column("shard"),
    Column("epoch", numeric=True),
    Column("to be merged", numeric=True),
    Column("rows", numeric=True),
    Column("merged up to", numeric=True),
    Column("entries in the log", numeric=True),
)


def shards_card(shards: Shards, now: datetime) -> Card:  # noqa: ARG001  # no times
    most = options.display_rows
    waiting = sum(len(one.unmerged_generations) for one in shards)
    cut = f"{count(most)} of {count(len(shards))}; list(ds.mem_wal_shards()) has all"
    rows = table(
        caption="By id",
        columns=_SHARDS,
        rows=tuple(map(_shard, shards[:most])),
        note=cut if len(shards) > most else "",
    )
    return Card(
        kind="Shards",
        title=plural(len(shards), "shard"),
        headline=(f"{plural(waiting, 'generation')} to be merged",) if shards else (),
        facts=facts(("next", "ds.merge_mem_wal()" if waiting else "")),
        tables=(rows,) if shards else (),
    )


def _shard(shard: ShardInfo) -> Row:
    waiting = shard.unmerged_generations
    rows = [one.rows for one in waiting]
    known = "" if None in rows else count(sum(number or 0 for number in rows))
    return Row(
        (
            clean(shard.shard_id) + (", sealed" if shard.sealed else ""),
            count(shard.epoch),
            count(len(waiting)),
            known,
            count(shard.merged_generation),
            count(shard.log_entries),
        ),
        quiet=not (waiting or shard.log_entries),
    )


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
            *(_done(result) if result.commits else ()),
        ),
    )


def _done(result: MemWalMergeResult) -> tuple[tuple[str, str], ...]:
    return (
        ("commits", f"{count(result.commits)}, in {plural(result.attempts, 'attempt')}"),
        ("ran", ENGINES.get(result.engine, result.engine)),
        ("then", "ds.cleanup_mem_wal() removes files that are not needed any more"),
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
