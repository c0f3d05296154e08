"""A door: pylance's `dataset`, whose functions are those of `lancekit._api.open`.

It is opened before anybody asks (see the package), so what is behind it comes when it is asked for.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from lancekit._lazy import door

if TYPE_CHECKING:
    from lancekit._api.bisect import Bisection, Evaluation, Flip
    from lancekit._api.branches import Branches
    from lancekit._api.changes import ChangeFeed, ChangeStep
    from lancekit._api.column import Bin, ColumnSummary, DatasetColumn
    from lancekit._api.column_history import ColumnChange, ColumnHistory
    from lancekit._api.constraints import Constraint, ConstraintResult, ConstraintRun, Constraints
    from lancekit._api.delta import DatasetDelta
    from lancekit._api.diff import ChangedRow, DatasetDiff, DiffCounts, SchemaChanges
    from lancekit._api.duplicates import Duplicates
    from lancekit._api.explainer import Explainer
    from lancekit._api.fragment import FragmentMetadata, LanceFragment
    from lancekit._api.lance_dataset import LanceDataset
    from lancekit._api.lance_operation import Index, LanceOperation
    from lancekit._api.merge_builder import MergeInsertBuilder
    from lancekit._api.open import dataset, write_dataset
    from lancekit._api.plots import Plots
    from lancekit._api.row_history import RowChange, RowHistory
    from lancekit._api.scanner import LanceScanner
    from lancekit._api.scanner_builder import ScannerBuilder
    from lancekit._api.sql import SqlQuery, SqlQueryBuilder
    from lancekit._api.stats import LanceStats
    from lancekit._api.table_indices import TableIndices
    from lancekit._api.tags import Tags
    from lancekit._api.vector_index_reader import VectorIndexReader
    from lancekit._arguments.types import AlterColumn, AutoCleanupConfig
    from lancekit._format.index import IndexFile
    from lancekit._format.transaction import COMMIT_MESSAGE as LANCE_COMMIT_MESSAGE_KEY
    from lancekit._format.transaction import Transaction
    from lancekit._operations.index.coverage import IndexCoverage, Uncovered
    from lancekit._operations.maintenance.deepen import DeepenResult
    from lancekit._operations.maintenance.inventory import DataStatistics, FieldStatistics
    from lancekit._picture import Picture
    from lancekit._pipeline.diff.statistics import ColumnStatistics
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
    "dataset",
    "write_dataset",
]


#: the same to Python: which module has a name
_HOMES = {
    "_api.bisect": "Bisection Evaluation Flip",
    "_api.branches": "Branches",
    "_api.changes": "ChangeFeed ChangeStep",
    "_api.column": "Bin ColumnSummary DatasetColumn",
    "_api.column_history": "ColumnChange ColumnHistory",
    "_api.constraints": "Constraint ConstraintResult ConstraintRun Constraints",
    "_api.delta": "DatasetDelta",
    "_api.diff": "ChangedRow DatasetDiff DiffCounts SchemaChanges",
    "_api.duplicates": "Duplicates",
    "_api.explainer": "Explainer",
    "_api.fragment": "FragmentMetadata LanceFragment",
    "_api.lance_dataset": "LanceDataset",
    "_api.lance_operation": "Index LanceOperation",
    "_api.merge_builder": "MergeInsertBuilder",
    "_api.open": "dataset write_dataset",
    "_api.plots": "Plots",
    "_arguments.types": "AlterColumn AutoCleanupConfig",
    "_api.row_history": "RowChange RowHistory",
    "_api.scanner": "LanceScanner",
    "_api.scanner_builder": "ScannerBuilder",
    "_api.sql": "SqlQuery SqlQueryBuilder",
    "_api.stats": "LanceStats",
    "_api.table_indices": "TableIndices",
    "_api.tags": "Tags",
    "_api.vector_index_reader": "VectorIndexReader",
    "_format.index": "IndexFile",
    "_format.transaction": "LANCE_COMMIT_MESSAGE_KEY=COMMIT_MESSAGE Transaction",
    "_operations.index.coverage": "IndexCoverage Uncovered",
    "_operations.maintenance.deepen": "DeepenResult",
    "_operations.maintenance.inventory": "DataStatistics FieldStatistics",
    "_picture": "Picture",
    "_pipeline.diff.statistics": "ColumnStatistics",
    "progress": "IndexProgress",
    "_scan.order_by": "ColumnOrdering",
}

__getattr__: Callable[[str], object] = door(__name__, _HOMES)
