"""A door: pylance's `dataset`, which is `lancekit.api.lance_dataset` and `lancekit.api.open`.

It is opened before anybody asks (see the package), so what is behind it comes when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lancekit.api.lance_dataset import (
        LANCE_COMMIT_MESSAGE_KEY,
        AlterColumn,
        AutoCleanupConfig,
        Bin,
        Bisection,
        Branches,
        ChangedRow,
        ChangeFeed,
        ChangeStep,
        ColumnChange,
        ColumnHistory,
        ColumnOrdering,
        ColumnStatistics,
        ColumnSummary,
        Constraint,
        ConstraintResult,
        ConstraintRun,
        Constraints,
        DatasetColumn,
        DatasetDelta,
        DatasetDiff,
        DataStatistics,
        DeepenResult,
        DiffCounts,
        Duplicates,
        Evaluation,
        Explainer,
        FieldStatistics,
        Flip,
        FragmentMetadata,
        Index,
        IndexCoverage,
        LanceDataset,
        LanceFragment,
        LanceOperation,
        LanceScanner,
        LanceStats,
        MergeInsertBuilder,
        Picture,
        Plots,
        RowChange,
        RowHistory,
        ScannerBuilder,
        SchemaChanges,
        SqlQuery,
        SqlQueryBuilder,
        TableIndices,
        Tags,
        Transaction,
        Uncovered,
    )
    from lancekit.api.open import dataset, write_dataset
    from lancekit.api.vector_index_reader import VectorIndexReader
    from lancekit.format.index import IndexFile
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


#: where names are that are not where the class of datasets is
_HOMES = {
    "IndexFile": "format.index",
    "IndexProgress": "progress",
    "VectorIndexReader": "api.vector_index_reader",
    "dataset": "api.open",
    "write_dataset": "api.open",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "api.lance_dataset")
    return getattr(import_module(f"lancekit.{home}"), name)
