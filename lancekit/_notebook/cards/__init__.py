"""Cards of objects: a table maps each class to the function that builds its card.

A card imports only the module of that function, so that the first card of a notebook is fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from lancekit._lazy import loaded
from lancekit._notebook.render.models import Card

#: by class, relative to `lancekit`: the function that builds its card, relative to this package
CARDS: Mapping[str, str] = {
    "_api.answer.Answer": "answers.answer_card",
    "_api.listed.Listed": "indices.listed_card",
    "_api.lance_dataset.LanceDataset": "dataset.dataset_card",
    "_api.history.History": "versions.history_card",
    "_api.history.Version": "versions.version_card",
    "_format.transaction.Transaction": "versions.transaction_card",
    "_api.changes.DatasetDelta": "versions.delta_card",
    "_api.diff.DatasetDiff": "histories.diff_card",
    "_api.diff_rows.SampledChanges": "results.sampled_changes_card",
    "_operations.lineage.conflicts.SampledConflicts": "results.sampled_conflicts_card",
    "_api.changes.ChangeFeed": "histories.feed_card",
    "_api.bisect.Bisection": "histories.bisection_card",
    "_api.constraints.Duplicates": "constraints.duplicates_card",
    "_api.histories.RowHistory": "histories.row_history_card",
    "_api.histories.ColumnHistory": "histories.column_history_card",
    "_api.tags.Tags": "versions.tags_card",
    "_api.branches.Branches": "versions.branches_card",
    "_api.table_indices.TableIndices": "indices.indices_card",
    "_operations.index.describe.IndexCoverage": "indices.coverage_card",
    "_operations.index.describe.IndexDescription": "indices.index_card",
    "_api.fragment.LanceFragment": "statistics.fragment_card",
    "_api.scanner.LanceScanner": "explanations.scanner_card",
    "_pylance.scanner_builder.ScannerBuilder": "explanations.scanner_builder_card",
    "_api.lsm_scanner.LsmScanner": "explanations.lsm_scanner_card",
    "_pylance.lsm_planners.LsmPointLookupPlanner": "explanations.lookup_planner_card",
    "_pylance.lsm_planners.LsmVectorSearchPlanner": "explanations.vector_planner_card",
    "_api.merge_builder.MergeInsertBuilder": "explanations.merge_builder_card",
    "_api.sql.SqlQueryBuilder": "explanations.query_builder_card",
    "_api.sql.SqlQuery": "explanations.query_card",
    "_api.lance_stats.LanceStats": "statistics.stats_card",
    "_operations.maintenance.inventory.DataStatistics": "statistics.data_statistics_card",
    "_pipeline.diff.statistics.ColumnStatistics": "statistics.column_statistics_card",
    "_scan.statistics.ScanStatistics": "statistics.scan_statistics_card",
    "_api.pylance_session.Session": "cache.session_of_pylance_card",
    "_api.column.DatasetColumn": "statistics.column_card",
    "_api.column.ColumnSummary": "statistics.summary_card",
    "_api.constraints.Constraints": "constraints.constraints_card",
    "_api.constraints.ConstraintRun": "constraints.constraint_run_card",
    "_operations.common.results.MergeResult": "results.merge_card",
    "_operations.common.results.MemWalMergeResult": "mem_wal.mem_wal_merge_card",
    "_operations.mem_wal.cleanup.MemWalCleanupStats": "mem_wal.mem_wal_cleanup_card",
    "_api.mem_wal_rows.MemWalQuarantine": "mem_wal.mem_wal_quarantine_card",
    "_operations.mem_wal.quarantine.MemWalRepair": "mem_wal.mem_wal_repair_card",
    "_api.mem_wal_rows.MemWalSetAside": "mem_wal.mem_wal_set_aside_card",
    "_operations.mem_wal.shards.Shards": "mem_wal.shards_card",
    "_operations.common.results.DeleteResult": "results.delete_card",
    "_operations.common.results.UpdateResult": "results.update_card",
    "_operations.common.results.ApplyResult": "results.apply_card",
    "_api.branch_comparison.BranchComparison": "results.comparison_card",
    "_operations.lineage.branch_merge.BranchMergePlan": "results.branch_plan_card",
    "_operations.lineage.conflicts.Conflicts": "results.conflicts_card",
    "_operations.common.results.CompactionMetrics": "results.compaction_card",
    "_operations.maintenance.deepen.DeepenResult": "results.deepen_card",
    "_operations.common.new_file.WrittenFiles": "results.written_card",
    "_operations.cleanup.plan.CleanupStats": "results.cleanup_card",
    "_operations.cleanup.run.CleanupExplanation": "results.cleanup_plan_card",
    "_operations.explain.explanation.Explanation": "explanations.explanation_card",
    "_operations.explain.merge.MergePlan": "explanations.merge_plan_card",
    "_statements.select.SqlResult": "results.sql_card",
    "_spark.session.info.SessionInfo": "cache.session_card",
    "_cache.CacheInfo": "cache.cache_card",
    "_api.shard_writer.ShardWriter": "mem_wal.shard_writer_card",
    "_api.sinks.MemWalSink": "mem_wal.mem_wal_sink_card",
    "errors.CommitConflictError": "failure.conflict_card",
    "_notebook.render.controls.Interactive": "common.own_card",
    "errors.LancekitError": "failure.failure_card",
}


def card(value: object, now: datetime) -> Card:
    """Return the card of an object; a card reads only metadata."""
    for kind in type(value).__mro__:
        name = CARDS.get(f"{kind.__module__}.{kind.__qualname__}".removeprefix("lancekit."))
        if name is not None:
            made: Card = loaded(f"_notebook.cards.{name}")(value, now)
            return made
    raise TypeError(f"{type(value).__name__} has no card")
