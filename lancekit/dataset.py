"""A door: pylance's `dataset`, whose functions are those of `lancekit.api.open`.

It is opened before anybody asks (see the package), so what is behind it comes when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lancekit.api.bisect import Bisection, Evaluation, Flip
    from lancekit.api.branches import Branches
    from lancekit.api.changes import ChangeFeed, ChangeStep
    from lancekit.api.column import Bin, ColumnSummary, DatasetColumn
    from lancekit.api.column_history import ColumnChange, ColumnHistory
    from lancekit.api.constraints import Constraint, ConstraintResult, ConstraintRun, Constraints
    from lancekit.api.delta import DatasetDelta
    from lancekit.api.diff import ChangedRow, DatasetDiff, DiffCounts, SchemaChanges
    from lancekit.api.duplicates import Duplicates
    from lancekit.api.explainer import Explainer
    from lancekit.api.fragment import FragmentMetadata, LanceFragment
    from lancekit.api.lance_dataset import LanceDataset
    from lancekit.api.lance_operation import Index, LanceOperation
    from lancekit.api.merge_builder import MergeInsertBuilder
    from lancekit.api.open import dataset, write_dataset
    from lancekit.api.plots import Plots
    from lancekit.api.pylance.typed_dicts import AlterColumn, AutoCleanupConfig
    from lancekit.api.row_history import RowChange, RowHistory
    from lancekit.api.scanner import LanceScanner
    from lancekit.api.scanner_builder import ScannerBuilder
    from lancekit.api.sql import SqlQuery, SqlQueryBuilder
    from lancekit.api.stats import LanceStats
    from lancekit.api.table_indices import TableIndices
    from lancekit.api.tags import Tags
    from lancekit.api.vector_index_reader import VectorIndexReader
    from lancekit.format.index import IndexFile
    from lancekit.format.transaction import COMMIT_MESSAGE as LANCE_COMMIT_MESSAGE_KEY
    from lancekit.format.transaction import Transaction
    from lancekit.operations.index.coverage import IndexCoverage, Uncovered
    from lancekit.operations.maintenance.deepen import DeepenResult
    from lancekit.operations.maintenance.inventory import DataStatistics, FieldStatistics
    from lancekit.picture import Picture
    from lancekit.pipeline.diff.statistics import ColumnStatistics
    from lancekit.progress import IndexProgress
    from lancekit.scan.order_by import ColumnOrdering

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
    "api.bisect": "Bisection Evaluation Flip",
    "api.branches": "Branches",
    "api.changes": "ChangeFeed ChangeStep",
    "api.column": "Bin ColumnSummary DatasetColumn",
    "api.column_history": "ColumnChange ColumnHistory",
    "api.constraints": "Constraint ConstraintResult ConstraintRun Constraints",
    "api.delta": "DatasetDelta",
    "api.diff": "ChangedRow DatasetDiff DiffCounts SchemaChanges",
    "api.duplicates": "Duplicates",
    "api.explainer": "Explainer",
    "api.fragment": "FragmentMetadata LanceFragment",
    "api.lance_dataset": "LanceDataset",
    "api.lance_operation": "Index LanceOperation",
    "api.merge_builder": "MergeInsertBuilder",
    "api.open": "dataset write_dataset",
    "api.plots": "Plots",
    "api.pylance.typed_dicts": "AlterColumn AutoCleanupConfig",
    "api.row_history": "RowChange RowHistory",
    "api.scanner": "LanceScanner",
    "api.scanner_builder": "ScannerBuilder",
    "api.sql": "SqlQuery SqlQueryBuilder",
    "api.stats": "LanceStats",
    "api.table_indices": "TableIndices",
    "api.tags": "Tags",
    "api.vector_index_reader": "VectorIndexReader",
    "format.index": "IndexFile",
    "format.transaction": "LANCE_COMMIT_MESSAGE_KEY Transaction",
    "operations.index.coverage": "IndexCoverage Uncovered",
    "operations.maintenance.deepen": "DeepenResult",
    "operations.maintenance.inventory": "DataStatistics FieldStatistics",
    "picture": "Picture",
    "pipeline.diff.statistics": "ColumnStatistics",
    "progress": "IndexProgress",
    "scan.order_by": "ColumnOrdering",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
#: the name that it has there, if it is another one
_NAMES = {"LANCE_COMMIT_MESSAGE_KEY": "COMMIT_MESSAGE"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"lancekit.{_HOME[name]}"), _NAMES.get(name, name))
