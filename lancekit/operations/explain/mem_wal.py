"""What a merge of generations would do."""

from __future__ import annotations

from collections.abc import Iterable

from lancekit.legible import plural
from lancekit.operations.explain.explanation import (
    Explanation,
    PlanNode,
    Writes,
    explain_metadata,
    explanation,
)
from lancekit.operations.explain.nodes import read_node
from lancekit.operations.mem_wal.merge import planned_merge
from lancekit.operations.mem_wal.merge_step import engine_of
from lancekit.operations.unmerged.counts import waiting_rows
from lancekit.operations.unmerged.waiting_rows import WaitingRows
from lancekit.shards.shard import Shard
from lancekit.versions.snapshot import Snapshot

__all__ = ["explain_merge_mem_wal"]


def explain_merge_mem_wal(
    snapshot: Snapshot, shards: Iterable[Shard], rows_per_commit: int, *, flush: bool
) -> Explanation:
    """Explain a merge of what shards have flushed, and of logs."""
    current, manifests, steps = planned_merge(snapshot, shards, rows_per_commit)
    waiting = [each for step in steps for each in step]
    logs = waiting_rows(current)
    in_logs, flushed = _notes_of_logs(logs, flush=flush), logs.in_logs if flush else 0
    if not waiting and not flushed:
        note = f"no generation of {plural(len(manifests), 'shard')} waits"
        return explain_metadata(current, "merge_mem_wal", [], [note, *in_logs])
    tables = [each.table for each in waiting]
    count = len({each.shard for each in waiting})
    parts = f"{plural(len(tables), 'generation')} of {plural(count, 'shard')}"
    keys = [field.name for field in current.manifest.schema.primary_key]
    node = read_node(current, keys)
    return explanation(
        current,
        "merge_mem_wal",
        engine_of(current, steps[0] if steps else ()),
        plan=PlanNode("MatchKeys", ", ".join(keys), inputs=(PlanNode("Source", parts), node)),
        reads=node.reads,
        writes=Writes(
            what="the newest row of each key in new files, and deletion files for the old ones",
            rows=sum(table.physical_rows or 0 for table in tables) + flushed,
            bytes=sum(table.in_memory_bytes or 0 for table in tables),
        ),
        commits=["Update"] * max(len(steps), 1),
        notes=[
            *in_logs,
            *([f"{parts} are read, too"] if tables else []),
            "then the manifests of the shards leave them out; their files stay until "
            "cleanup_mem_wal() removes them",
        ],
    )


def _notes_of_logs(waiting: WaitingRows, *, flush: bool) -> list[str]:
    if not waiting.in_logs:
        return []
    rows = f"{waiting.in_logs:,} rows are in logs alone: "
    if flush:
        return [f"{rows}all are flushed first, and their shards are taken from other processes"]
    return [f"{rows}those of open writers of this process are flushed first, flush=True merges all"]
