"""What a compaction would do, by what plans it."""

from __future__ import annotations

from lancekit.operations.explain.explanation import (
    Explanation,
    PlanNode,
    Writes,
    explain_metadata,
    explanation,
    reads,
)
from lancekit.operations.maintenance.compact import compaction_choice
from lancekit.operations.maintenance.compact_plan import CompactionOptions, plan_compaction
from lancekit.scan.fragments.source import fragment_sources
from lancekit.versions.snapshot import Snapshot

__all__ = ["explain_compaction"]


def explain_compaction(snapshot: Snapshot, options: CompactionOptions) -> Explanation:
    """Explain a compaction."""
    plan = plan_compaction(snapshot, options)
    ids = {fragment.id for task in plan.tasks for fragment in task.fragments}
    sources = [s for s in fragment_sources(snapshot) if s.fragment.id in ids]
    left = [
        f"{len(covered.fragment_ids)} fragments are left alone, because index {covered.index!r} "
        "covers them"
        for covered in plan.left_to_indices
    ]
    if not sources:
        note = "there is nothing to compact, so no version is made"
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
        notes=["old files stay until cleanup_old_versions() removes them", *left],
    )
