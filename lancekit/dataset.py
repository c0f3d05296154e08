"""pylance's `dataset`, re-exported from `lancekit._api.lance_dataset` and other modules.

The package imports this module at once (see there), so its names are imported on first access.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from lancekit._lazy import door

if TYPE_CHECKING:
    from lancekit._api.bisect import Bisection, Evaluation, Flip
    from lancekit._api.branches import Branches
    from lancekit._api.changes import ChangeFeed, ChangeStep, DatasetDelta
    from lancekit._api.column import Bin, ColumnSummary, DatasetColumn
    from lancekit._api.constraints import ConstraintResult, ConstraintRun, Constraints, Duplicates
    from lancekit._api.diff import DatasetDiff, DiffCounts, SchemaChanges
    from lancekit._api.diff_rows import ChangedRow
    from lancekit._api.explainer import Explainer
    from lancekit._api.fragment import FragmentMetadata, LanceFragment
    from lancekit._api.histories import ColumnChange, ColumnHistory, RowChange, RowHistory
    from lancekit._api.lance_dataset import LanceDataset, dataset, write_dataset
    from lancekit._api.lance_operation import Index, LanceOperation
    from lancekit._api.lance_stats import LanceStats
    from lancekit._api.merge_builder import MergeInsertBuilder
    from lancekit._api.plots import Plots
    from lancekit._api.scanner import LanceScanner
    from lancekit._api.sql import SqlQuery, SqlQueryBuilder
    from lancekit._api.table_indices import TableIndices
    from lancekit._api.tags import Tags
    from lancekit._arguments.record import AlterColumn, AutoCleanupConfig
    from lancekit._format.index import IndexFile
    from lancekit._format.transaction import COMMIT_MESSAGE as LANCE_COMMIT_MESSAGE_KEY
    from lancekit._format.transaction import Transaction
    from lancekit._operations.checks.constraints import Constraint
    from lancekit._operations.common.new_file import WrittenFiles
    from lancekit._operations.index.describe import IndexCoverage, Uncovered
    from lancekit._operations.maintenance.deepen import DeepenResult
    from lancekit._operations.maintenance.inventory import DataStatistics, FieldStatistics
    from lancekit._picture import Picture
    from lancekit._pipeline.diff.statistics import ColumnStatistics
    from lancekit._pylance.scanner_builder import ScannerBuilder
    from lancekit._pylance.vector_index_reader import VectorIndexReader
    from lancekit._scan.order_by import ColumnOrdering
    from lancekit.progress import IndexProgress

__all__ = [
    "LANCE_COMMIT_MESSAGE_KEY",
    "AlterColumn",
    "AutoCleanupConfig",
    "Bin",
    "Bisection",
    "Branches",
    "ChangeFeed",
    "ChangeStep",
    "ChangedRow",
    "ColumnChange",
    "ColumnHistory",
    "ColumnOrdering",
    "ColumnStatistics",
    "ColumnSummary",
    "Constraint",
    "ConstraintResult",
    "ConstraintRun",
    "Constraints",
    "DataStatistics",
    "DatasetColumn",
    "DatasetDelta",
    "DatasetDiff",
    "DeepenResult",
    "DiffCounts",
    "Duplicates",
    "Evaluation",
    "Explainer",
    "FieldStatistics",
    "Flip",
    "FragmentMetadata",
    "Index",
    "IndexCoverage",
    "IndexFile",
    "IndexProgress",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceStats",
    "MergeInsertBuilder",
    "Picture",
    "Plots",
    "RowChange",
    "RowHistory",
    "ScannerBuilder",
    "SchemaChanges",
    "SqlQuery",
    "SqlQueryBuilder",
    "TableIndices",
    "Tags",
    "Transaction",
    "Uncovered",
    "VectorIndexReader",
    "WrittenFiles",
    "dataset",
    "write_dataset",
]


#: the same for Python at run time: the module of each name
_HOMES = {
    "_api.bisect": "Bisection Evaluation Flip",
    "_api.branches": "Branches",
    "_api.changes": "ChangeFeed ChangeStep DatasetDelta",
    "_api.column": "Bin ColumnSummary DatasetColumn",
    "_api.constraints": "ConstraintResult ConstraintRun Constraints Duplicates",
    "_api.diff": "DatasetDiff DiffCounts SchemaChanges",
    "_api.diff_rows": "ChangedRow",
    "_api.explainer": "Explainer",
    "_api.fragment": "FragmentMetadata LanceFragment",
    "_api.lance_dataset": "LanceDataset dataset write_dataset",
    "_api.lance_operation": "Index LanceOperation",
    "_api.merge_builder": "MergeInsertBuilder",
    "_api.lance_stats": "LanceStats",
    "_api.plots": "Plots",
    "_api.histories": "ColumnChange ColumnHistory RowChange RowHistory",
    "_api.scanner": "LanceScanner",
    "_pylance.scanner_builder": "ScannerBuilder",
    "_pylance.vector_index_reader": "VectorIndexReader",
    "_api.sql": "SqlQuery SqlQueryBuilder",
    "_api.table_indices": "TableIndices",
    "_api.tags": "Tags",
    "_arguments.record": "AlterColumn AutoCleanupConfig",
    "_format.index": "IndexFile",
    "_format.transaction": "LANCE_COMMIT_MESSAGE_KEY=COMMIT_MESSAGE Transaction",
    "_operations.checks.constraints": "Constraint",
    "_operations.index.describe": "IndexCoverage Uncovered",
    "_operations.common.new_file": "WrittenFiles",
    "_operations.maintenance.deepen": "DeepenResult",
    "_operations.maintenance.inventory": "DataStatistics FieldStatistics",
    "_picture": "Picture",
    "_pipeline.diff.statistics": "ColumnStatistics",
    "_scan.order_by": "ColumnOrdering",
    "progress": "IndexProgress",
}

__getattr__: Callable[[str], object] = door(__name__, _HOMES)
