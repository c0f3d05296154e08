"""From objects to cards: one function for each type, found in a table by names.

A card loads its own module alone: the first card of a notebook is to be there at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from lancekit._lazy import loaded
from lancekit._notebook.render.models import Card

__all__ = ["CARDS", "card"]

#: by a class, below `lancekit`: the function that makes its card, below this package
CARDS: Mapping[str, str] = {
    "_api.lance_dataset.LanceDataset": "dataset.dataset_card",
    "_api.history.History": "versions.history_card",
    "_api.history.Version": "versions.version_card",
    "_format.transaction.Transaction": "transaction.transaction_card",
    "_api.delta.DatasetDelta": "transaction.delta_card",
    "_api.diff.DatasetDiff": "diff.diff_card",
    "_api.changes.ChangeFeed": "diff.feed_card",
    "_api.bisect.Bisection": "histories.bisection_card",
    "_api.duplicates.Duplicates": "constraints.duplicates_card",
    "_api.row_history.RowHistory": "histories.row_history_card",
    "_api.column_history.ColumnHistory": "histories.column_history_card",
    "_api.tags.Tags": "refs.tags_card",
    "_api.branches.Branches": "refs.branches_card",
    "_api.table_indices.TableIndices": "indices.indices_card",
    "_operations.index.coverage.IndexCoverage": "indices.coverage_card",
    "_operations.index.describe.IndexDescription": "indices.index_card",
    "_api.fragment.LanceFragment": "statistics.fragment_card",
    "_api.scanner.LanceScanner": "scans.scanner_card",
    "_api.scanner_builder.ScannerBuilder": "scans.scanner_builder_card",
    "_api.lsm_scanner.LsmScanner": "scans.lsm_scanner_card",
    "_api.lsm_planners.LsmPointLookupPlanner": "scans.lookup_planner_card",
    "_api.lsm_planners.LsmVectorSearchPlanner": "scans.vector_planner_card",
    "_api.merge_builder.MergeInsertBuilder": "scans.merge_builder_card",
    "_api.sql.SqlQueryBuilder": "scans.query_builder_card",
    "_api.sql.SqlQuery": "scans.query_card",
    "_api.stats.LanceStats": "statistics.stats_card",
    "_operations.maintenance.inventory.DataStatistics": "statistics.data_statistics_card",
    "_pipeline.diff.statistics.ColumnStatistics": "statistics.column_statistics_card",
    "_scan.statistics.ScanStatistics": "statistics.scan_statistics_card",
    "_api.pylance_session.Session": "cache.session_of_pylance_card",
    "_api.column.DatasetColumn": "column.column_card",
    "_api.column.ColumnSummary": "column.summary_card",
    "_api.constraints.Constraints": "constraints.constraints_card",
    "_api.constraints.ConstraintRun": "constraints.constraint_run_card",
    "_operations.common.results.MergeResult": "results.merge_card",
    "_operations.common.results.MemWalMergeResult": "mem_wal.mem_wal_merge_card",
    "_operations.mem_wal.cleanup.MemWalCleanupStats": "mem_wal.mem_wal_cleanup_card",
    "_api.mem_wal_quarantine.MemWalQuarantine": "mem_wal.mem_wal_quarantine_card",
    "_operations.mem_wal.set_aside.MemWalRepair": "mem_wal.mem_wal_repair_card",
    "_api.mem_wal_set_aside.MemWalSetAside": "mem_wal.mem_wal_set_aside_card",
    "_operations.mem_wal.shards.Shards": "mem_wal.shards_card",
    "_operations.common.results.DeleteResult": "results.delete_card",
    "_operations.common.results.UpdateResult": "results.update_card",
    "_operations.common.results.ApplyResult": "results.apply_card",
    "_api.branch_comparison.BranchComparison": "results.comparison_card",
    "_operations.lineage.branch_merge.BranchMergePlan": "results.branch_plan_card",
    "_operations.lineage.conflicts.Conflicts": "results.conflicts_card",
    "_operations.common.results.CompactionMetrics": "results.compaction_card",
    "_operations.maintenance.deepen.DeepenResult": "results.deepen_card",
    "_operations.cleanup.plan.CleanupStats": "results.cleanup_card",
    "_operations.cleanup.run.CleanupExplanation": "results.cleanup_plan_card",
    "_operations.explain.explanation.Explanation": "explanations.explanation_card",
    "_operations.merge.preview.MergePlan": "merge_plan.merge_plan_card",
    "_statements.results.SqlResult": "sql.sql_card",
    "_spark.session.info.SessionInfo": "cache.session_card",
    "_cache.CacheInfo": "cache.cache_card",
    "_api.shard_writer.ShardWriter": "mem_wal.shard_writer_card",
    "_api.mem_wal_sink.MemWalSink": "mem_wal.mem_wal_sink_card",
    "errors.CommitConflictError": "conflict.conflict_card",
    "_notebook.render.controls.Interactive": "common.own_card",
    "errors.LancekitError": "failure.failure_card",
}


def card(value: object, now: datetime) -> Card:
    """Return the card of an object; only metadata is read for it."""
    for kind in type(value).__mro__:
        name = CARDS.get(f"{kind.__module__}.{kind.__qualname__}".removeprefix("lancekit."))
        if name is not None:
            made: Card = loaded(f"_notebook.cards.{name}")(value, now)
            return made
    raise TypeError(f"{type(value).__name__} has no card")
