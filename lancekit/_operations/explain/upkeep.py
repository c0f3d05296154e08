"""Explanations of indices, their upkeep, a check of all files, and a merge of shards."""

from __future__ import annotations

from collections.abc import Iterable

from lancekit._legible import plural
from lancekit._operations.explain.explanation import (
    Explanation,
    PlanNode,
    Writes,
    explain_metadata,
    explanation,
    reads,
)
from lancekit._operations.explain.scans import read_node
from lancekit._operations.index.create import IndexPlan
from lancekit._operations.index.optimize import IndexUpkeep, OptimizeRequest, plan_upkeep
from lancekit._operations.maintenance.compact import compaction_choice
from lancekit._operations.maintenance.compact_plan import CompactionOptions, plan_compaction
from lancekit._operations.mem_wal.merge import planned_merge
from lancekit._operations.mem_wal.merge_step import engine_of
from lancekit._operations.unmerged.counts import waiting_rows
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from lancekit._pipeline.engine import Choice, choose_engine
from lancekit._scan.fragments.source import fragment_sources
from lancekit._shards.schema import Shard
from lancekit._versions.snapshot import Snapshot

_HERE = Choice("local", "indices are maintained in this process, whatever their size")
_NOTHING = "the indices cover all rows, so no version is created"


def explain_index(plan: IndexPlan, operation: str) -> Explanation:
    """Explain the build of an index."""
    snapshot, request, choice = plan.snapshot, plan.request, plan.choice
    node = read_node(snapshot, [plan.column.path]) if request.train else None
    return explanation(
        snapshot,
        operation,
        choice,
        plan=node,
        reads=None if node is None else node.reads,
        writes=Writes(
            what=f"the files of index {plan.name!r}, of type {request.kind.label}",
            rows=snapshot.manifest.num_rows if request.train else 0,
            exact=True,
        ),
        commits=["CreateIndex"],
        notes=[
            f"it replaces the existing index {plan.name!r}" if plan.replaced else "",
            "tasks index groups of fragments, and further tasks join their results"
            if choice.engine == "spark"
            else "",
            "" if request.train else "it covers no rows until optimize_indices() adds them",
        ],
    )


def explain_optimize_indices(snapshot: Snapshot, request: OptimizeRequest) -> Explanation:
    """Explain which rows would be added to which indices; index files are not read.

    Raises IndexNotFoundError, NotOfferedError: as in `optimize_indices`.
    """
    plans = plan_upkeep(snapshot, request)
    if not plans:
        return explanation(snapshot, "optimize_indices", _HERE, notes=[_NOTHING])
    missing = {id_ for plan in plans for id_ in plan.fresh}
    sources = [one for one in fragment_sources(snapshot) if one.fragment.id in missing]
    columns = [plan.column.path for plan in plans if plan.fresh]
    segments = (
        "each index becomes one segment"
        if request.retrain
        else f"the rows join the newest {plural(request.merge, 'segment')} of each index"
        if request.merge
        else "the rows become a new segment of each index"
    )
    amount = reads(snapshot, columns, sources)
    return explanation(
        snapshot,
        "optimize_indices",
        _HERE,
        plan=PlanNode("Read", reads=amount),
        reads=amount,
        writes=Writes(what=f"new files of {plural(len(plans), 'index', 'indices')}"),
        commits=["CreateIndex"],
        notes=[*map(_upkeep_note, plans), segments],
    )


def _upkeep_note(plan: IndexUpkeep) -> str:
    """Return a note on the rows that an index gets, and on the segments that are joined."""
    ids = set(plan.fresh)
    rows = sum(f.num_rows for f in plan.snapshot.manifest.fragments if f.id in ids)
    amount = f"{plural(rows, 'row')} of {plural(len(ids), 'fragment')}"
    if plan.rebuild:
        return f"index {plan.name!r} is rebuilt with {amount}"
    joined = "" if len(plan.joined) < 2 else f"{len(plan.joined)} of its segments are joined"
    gets = f"index {plan.name!r} gets {amount}" if ids else f"index {plan.name!r}"
    return f"{gets}: {joined}" if joined else gets


def explain_validate(snapshot: Snapshot, *, deep: bool) -> Explanation:
    """Explain a check of a version: the frame of each file, and with ``deep`` all values."""
    node = read_node(snapshot, snapshot.manifest.schema.names if deep else [])
    return explanation(
        snapshot,
        "validate",
        choose_engine(snapshot.manifest.num_rows if deep else 0),
        plan=node if deep else None,
        reads=node.reads,
        notes=[
            "every value is read, and checksums are verified in files that have them"
            if deep
            else "only the frame of each file is read, no values"
        ],
    )


# ---- compaction


def explain_compaction(snapshot: Snapshot, options: CompactionOptions) -> Explanation:
    """Explain a compaction."""
    plan = plan_compaction(snapshot, options)
    ids = {fragment.id for task in plan.tasks for fragment in task.fragments}
    sources = [s for s in fragment_sources(snapshot) if s.fragment.id in ids]
    left = [
        f"{len(covered.fragment_ids)} fragments are not compacted, because index "
        f"{covered.index!r} covers them"
        for covered in plan.left_to_indices
    ]
    if not sources:
        note = "there is nothing to compact, so no version is created"
        return explain_metadata(snapshot, "compact_files", [], [note, *left])
    amount = reads(snapshot, snapshot.manifest.schema.names, sources)
    return explanation(
        snapshot,
        "compact_files",
        compaction_choice(plan.tasks),
        plan=PlanNode("Read", reads=amount),
        reads=amount,
        writes=Writes(
            what=f"the same rows in new files, by {len(plan.tasks)} tasks",
            rows=amount.rows,
            bytes=amount.bytes,
        ),
        commits=["ReserveFragments", "Rewrite"],
        notes=["old files are kept until cleanup_old_versions() removes them", *left],
    )


# ---- merges of generations


def explain_merge_mem_wal(
    snapshot: Snapshot, shards: Iterable[Shard], rows_per_commit: int, *, flush: bool
) -> Explanation:
    """Explain a merge of the flushed generations of shards, and of their logs."""
    current, manifests, steps = planned_merge(snapshot, shards, rows_per_commit)
    waiting = [each for step in steps for each in step]
    logs = waiting_rows(current)
    in_logs, flushed = _notes_of_logs(logs, flush=flush), logs.in_logs if flush else 0
    if not waiting and not flushed:
        note = f"no generation of {plural(len(manifests), 'shard')} is waiting"
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
            *([f"{parts} are also read"] if tables else []),
            "the shard manifests then drop these generations; cleanup_mem_wal() removes their "
            "files",
        ],
    )


def _notes_of_logs(waiting: WaitingRows, *, flush: bool) -> list[str]:
    if not waiting.in_logs:
        return []
    rows = f"{waiting.in_logs:,} rows are only in logs: "
    if flush:
        return [f"{rows}all are flushed first, which takes their shards from other processes"]
    return [f"{rows}rows of open writers of this process are flushed first; flush=True merges all"]
