"""What a compaction would do, by what plans it."""

from __future__ import annotations

from lancekit.operations.explain.explanation import (
    Explanation,
    Reads,
    Writes,
    explain_metadata,
    explanation,
)
from lancekit.operations.maintenance.compact_plan import CompactionOptions, plan_compaction
from lancekit.pipeline.engine.engine import choose_engine
from lancekit.scan.fragments.source import fragment_sources
from lancekit.versions.snapshot import Snapshot

__all__ = ["explain_compaction"]


def explain_compaction(snapshot: Snapshot, options: CompactionOptions) -> Explanation:
    """Explain a compaction."""
    plan = plan_compaction(snapshot, options)
    ids = {fragment.id for task in plan.tasks for fragment in task.fragments}
    sources = [s for s in fragment_sources(snapshot) if s.fragment.id in ids]
    rows = sum(source.fragment.num_rows for source in sources)
    left = [
        f"{len(covered.fragment_ids)} fragments are left alone, because index {covered.index!r} "
        "covers them"
        for covered in plan.left_to_indices
    ]
    if not sources:
        note = "there is nothing to compact, so no version is made"
        return explain_metadata(snapshot, "compact_files", [], [note, *left])
    size = sum(file.size_bytes for source in sources for file in source.fragment.files)
    return explanation(
        snapshot,
        "compact_files",
        choose_engine(rows),
        reads=Reads(
            columns=tuple(snapshot.manifest.schema.names),
            rows=rows,
            fragments=len(sources),
            all_fragments=len(snapshot.manifest.fragments),
            bytes=size,
        ),
        writes=Writes(
            what=f"the same rows in new files, by {len(plan.tasks)} tasks", rows=rows, bytes=size
        ),
        commits=["ReserveFragments", "Rewrite"],
        notes=["old files stay until cleanup_old_versions() removes them", *left],
    )
