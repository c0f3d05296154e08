"""From objects to cards: one function for each type, found in a table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from lancekit.api.bisect import Bisection
from lancekit.api.branch_comparison import BranchComparison
from lancekit.api.branches import Branches
from lancekit.api.changes import ChangeFeed
from lancekit.api.column import ColumnSummary, DatasetColumn
from lancekit.api.column_history import ColumnHistory
from lancekit.api.constraints import ConstraintRun, Constraints
from lancekit.api.delta import DatasetDelta
from lancekit.api.diff import DatasetDiff
from lancekit.api.duplicates import Duplicates
from lancekit.api.fragment import LanceFragment
from lancekit.api.history import History, Version
from lancekit.api.lance_dataset import LanceDataset
from lancekit.api.lsm_planners import LsmPointLookupPlanner, LsmVectorSearchPlanner
from lancekit.api.lsm_scanner import LsmScanner
from lancekit.api.mem_wal_quarantine import MemWalQuarantine
from lancekit.api.mem_wal_set_aside import MemWalSetAside
from lancekit.api.mem_wal_sink import MemWalSink
from lancekit.api.merge_builder import MergeInsertBuilder
from lancekit.api.pylance.session import Session
from lancekit.api.row_history import RowHistory
from lancekit.api.scanner import LanceScanner
from lancekit.api.scanner_builder import ScannerBuilder
from lancekit.api.shard_writer import ShardWriter
from lancekit.api.sql import SqlQuery, SqlQueryBuilder
from lancekit.api.stats import LanceStats
from lancekit.api.table_indices import TableIndices
from lancekit.api.tags import Tags
from lancekit.cache import CacheInfo
from lancekit.errors import CommitConflictError, LancekitError
from lancekit.format.transaction import Transaction
from lancekit.notebook.cards.bisect import bisection_card
from lancekit.notebook.cards.cache import cache_card, session_of_pylance_card
from lancekit.notebook.cards.column import column_card, summary_card
from lancekit.notebook.cards.column_history import column_history_card
from lancekit.notebook.cards.conflict import conflict_card
from lancekit.notebook.cards.constraints import constraint_run_card, constraints_card
from lancekit.notebook.cards.dataset import dataset_card
from lancekit.notebook.cards.diff import diff_card, feed_card
from lancekit.notebook.cards.duplicates import duplicates_card
from lancekit.notebook.cards.explanations import explanation_card
from lancekit.notebook.cards.failure import failure_card
from lancekit.notebook.cards.fragment import fragment_card
from lancekit.notebook.cards.indices import coverage_card, index_card, indices_card
from lancekit.notebook.cards.mem_wal import (
    mem_wal_cleanup_card,
    mem_wal_merge_card,
    mem_wal_quarantine_card,
    mem_wal_repair_card,
    mem_wal_set_aside_card,
    mem_wal_sink_card,
    shard_writer_card,
    shards_card,
)
from lancekit.notebook.cards.merge_plan import merge_plan_card
from lancekit.notebook.cards.refs import branches_card, tags_card
from lancekit.notebook.cards.results import (
    apply_card,
    branch_plan_card,
    cleanup_card,
    cleanup_plan_card,
    compaction_card,
    comparison_card,
    conflicts_card,
    deepen_card,
    delete_card,
    merge_card,
    update_card,
)
from lancekit.notebook.cards.row_history import row_history_card
from lancekit.notebook.cards.scans import (
    lookup_planner_card,
    lsm_scanner_card,
    merge_builder_card,
    query_builder_card,
    query_card,
    scanner_builder_card,
    scanner_card,
    vector_planner_card,
)
from lancekit.notebook.cards.session import session_card
from lancekit.notebook.cards.sql import sql_card
from lancekit.notebook.cards.statistics import (
    column_statistics_card,
    data_statistics_card,
    scan_statistics_card,
    stats_card,
)
from lancekit.notebook.cards.transaction import delta_card, transaction_card
from lancekit.notebook.cards.versions import history_card, version_card
from lancekit.notebook.render.controls import Interactive
from lancekit.notebook.render.models import Card
from lancekit.operations.cleanup.plan import CleanupStats
from lancekit.operations.cleanup.run import CleanupExplanation
from lancekit.operations.common.results import (
    ApplyResult,
    CompactionMetrics,
    DeleteResult,
    MemWalMergeResult,
    MergeResult,
    UpdateResult,
)
from lancekit.operations.explain.explanation import Explanation
from lancekit.operations.index.coverage import IndexCoverage
from lancekit.operations.index.describe import IndexDescription
from lancekit.operations.lineage.branch_merge import BranchMergePlan
from lancekit.operations.lineage.conflicts import Conflicts
from lancekit.operations.maintenance.deepen import DeepenResult
from lancekit.operations.maintenance.inventory import DataStatistics
from lancekit.operations.mem_wal.cleanup import MemWalCleanupStats
from lancekit.operations.mem_wal.set_aside import MemWalRepair
from lancekit.operations.mem_wal.shards import Shards
from lancekit.operations.merge.preview import MergePlan
from lancekit.pipeline.diff.statistics import ColumnStatistics
from lancekit.scan.statistics import ScanStatistics
from lancekit.spark.session.info import SessionInfo
from lancekit.statements.results import SqlResult

__all__ = ["CARDS", "card"]

CARDS: dict[type, Callable[[Any, datetime], Card]] = {
    LanceDataset: dataset_card,
    History: history_card,
    Version: version_card,
    Transaction: transaction_card,
    DatasetDelta: delta_card,
    DatasetDiff: diff_card,
    ChangeFeed: feed_card,
    Bisection: bisection_card,
    Duplicates: duplicates_card,
    RowHistory: row_history_card,
    ColumnHistory: column_history_card,
    Tags: tags_card,
    Branches: branches_card,
    TableIndices: indices_card,
    IndexCoverage: coverage_card,
    IndexDescription: index_card,
    LanceFragment: fragment_card,
    LanceScanner: scanner_card,
    ScannerBuilder: scanner_builder_card,
    LsmScanner: lsm_scanner_card,
    LsmPointLookupPlanner: lookup_planner_card,
    LsmVectorSearchPlanner: vector_planner_card,
    MergeInsertBuilder: merge_builder_card,
    SqlQueryBuilder: query_builder_card,
    SqlQuery: query_card,
    LanceStats: stats_card,
    DataStatistics: data_statistics_card,
    ColumnStatistics: column_statistics_card,
    ScanStatistics: scan_statistics_card,
    Session: session_of_pylance_card,
    DatasetColumn: column_card,
    ColumnSummary: summary_card,
    Constraints: constraints_card,
    ConstraintRun: constraint_run_card,
    MergeResult: merge_card,
    MemWalMergeResult: mem_wal_merge_card,
    MemWalCleanupStats: mem_wal_cleanup_card,
    MemWalQuarantine: mem_wal_quarantine_card,
    MemWalRepair: mem_wal_repair_card,
    MemWalSetAside: mem_wal_set_aside_card,
    Shards: shards_card,
    DeleteResult: delete_card,
    UpdateResult: update_card,
    ApplyResult: apply_card,
    BranchComparison: comparison_card,
    BranchMergePlan: branch_plan_card,
    Conflicts: conflicts_card,
    CompactionMetrics: compaction_card,
    DeepenResult: deepen_card,
    CleanupStats: cleanup_card,
    CleanupExplanation: cleanup_plan_card,
    Explanation: explanation_card,
    MergePlan: merge_plan_card,
    SqlResult: sql_card,
    SessionInfo: session_card,
    CacheInfo: cache_card,
    ShardWriter: shard_writer_card,
    MemWalSink: mem_wal_sink_card,
    CommitConflictError: conflict_card,
    Interactive: lambda value, now: value._card(now),
    LancekitError: failure_card,
}


def card(value: object, now: datetime) -> Card:
    """Return the card of an object; only metadata is read for it."""
    for kind in type(value).__mro__:
        if kind in CARDS:
            return CARDS[kind](value, now)
    raise TypeError(f"{type(value).__name__} has no card")
