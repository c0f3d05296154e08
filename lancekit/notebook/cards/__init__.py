"""From objects to cards: one function for each type, found in a table by names.

A card loads its own module alone: the first card of a notebook is to be there at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from lancekit.lazy import loaded
from lancekit.notebook.render.models import Card

__all__ = ["CARDS", "card"]

#: by a class, below `lancekit`: the function that makes its card, below this package
CARDS: Mapping[str, str] = {
    "api.lance_dataset.LanceDataset": "dataset.dataset_card",
    "api.history.History": "versions.history_card",
    "api.history.Version": "versions.version_card",
    "format.transaction.Transaction": "transaction.transaction_card",
    "api.delta.DatasetDelta": "transaction.delta_card",
    "api.diff.DatasetDiff": "diff.diff_card",
    "api.changes.ChangeFeed": "diff.feed_card",
    "api.bisect.Bisection": "histories.bisection_card",
    "api.duplicates.Duplicates": "constraints.duplicates_card",
    "api.row_history.RowHistory": "histories.row_history_card",
    "api.column_history.ColumnHistory": "histories.column_history_card",
    "api.tags.Tags": "refs.tags_card",
    "api.branches.Branches": "refs.branches_card",
    "api.table_indices.TableIndices": "indices.indices_card",
    "operations.index.coverage.IndexCoverage": "indices.coverage_card",
    "operations.index.describe.IndexDescription": "indices.index_card",
    "api.fragment.LanceFragment": "statistics.fragment_card",
    "api.scanner.LanceScanner": "scans.scanner_card",
    "api.scanner_builder.ScannerBuilder": "scans.scanner_builder_card",
    "api.lsm_scanner.LsmScanner": "scans.lsm_scanner_card",
    "api.lsm_planners.LsmPointLookupPlanner": "scans.lookup_planner_card",
    "api.lsm_planners.LsmVectorSearchPlanner": "scans.vector_planner_card",
    "api.merge_builder.MergeInsertBuilder": "scans.merge_builder_card",
    "api.sql.SqlQueryBuilder": "scans.query_builder_card",
    "api.sql.SqlQuery": "scans.query_card",
    "api.stats.LanceStats": "statistics.stats_card",
    "operations.maintenance.inventory.DataStatistics": "statistics.data_statistics_card",
    "pipeline.diff.statistics.ColumnStatistics": "statistics.column_statistics_card",
    "scan.statistics.ScanStatistics": "statistics.scan_statistics_card",
    "api.pylance.session.Session": "cache.session_of_pylance_card",
    "api.column.DatasetColumn": "column.column_card",
    "api.column.ColumnSummary": "column.summary_card",
    "api.constraints.Constraints": "constraints.constraints_card",
    "api.constraints.ConstraintRun": "constraints.constraint_run_card",
    "operations.common.results.MergeResult": "results.merge_card",
    "operations.common.results.MemWalMergeResult": "mem_wal.mem_wal_merge_card",
    "operations.mem_wal.cleanup.MemWalCleanupStats": "mem_wal.mem_wal_cleanup_card",
    "api.mem_wal_quarantine.MemWalQuarantine": "mem_wal.mem_wal_quarantine_card",
    "operations.mem_wal.set_aside.MemWalRepair": "mem_wal.mem_wal_repair_card",
    "api.mem_wal_set_aside.MemWalSetAside": "mem_wal.mem_wal_set_aside_card",
    "operations.mem_wal.shards.Shards": "mem_wal.shards_card",
    "operations.common.results.DeleteResult": "results.delete_card",
    "operations.common.results.UpdateResult": "results.update_card",
    "operations.common.results.ApplyResult": "results.apply_card",
    "api.branch_comparison.BranchComparison": "results.comparison_card",
    "operations.lineage.branch_merge.BranchMergePlan": "results.branch_plan_card",
    "operations.lineage.conflicts.Conflicts": "results.conflicts_card",
    "operations.common.results.CompactionMetrics": "results.compaction_card",
    "operations.maintenance.deepen.DeepenResult": "results.deepen_card",
    "operations.cleanup.plan.CleanupStats": "results.cleanup_card",
    "operations.cleanup.run.CleanupExplanation": "results.cleanup_plan_card",
    "operations.explain.explanation.Explanation": "explanations.explanation_card",
    "operations.merge.preview.MergePlan": "merge_plan.merge_plan_card",
    "statements.results.SqlResult": "sql.sql_card",
    "spark.session.info.SessionInfo": "cache.session_card",
    "cache.CacheInfo": "cache.cache_card",
    "api.shard_writer.ShardWriter": "mem_wal.shard_writer_card",
    "api.mem_wal_sink.MemWalSink": "mem_wal.mem_wal_sink_card",
    "errors.CommitConflictError": "conflict.conflict_card",
    "notebook.render.controls.Interactive": "common.own_card",
    "errors.LancekitError": "failure.failure_card",
}


def card(value: object, now: datetime) -> Card:
    """Return the card of an object; only metadata is read for it."""
    for kind in type(value).__mro__:
        name = CARDS.get(f"{kind.__module__}.{kind.__qualname__}".removeprefix("lancekit."))
        if name is not None:
            made: Card = loaded(f"notebook.cards.{name}")(value, now)
            return made
    raise TypeError(f"{type(value).__name__} has no card")
