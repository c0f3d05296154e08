"""lancekit: a Jupyter-first toolkit for Lance datasets.

`write_dataset` and `dataset` give a `LanceDataset`: versions, time travel, tags, branches, clones,
deletes and merge-inserts, in this process or on Spark.  Names follow pylance, so
``import lancekit as lance`` works for what is offered.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from lancekit import errors, optimize, schema
from lancekit._version import __version__
from lancekit._wiring import connect as _connect
from lancekit.blobs import Blob, BlobFile, BlobType, blob_array, blob_field
from lancekit.commit.sqlite_manifests import SqliteManifestStore
from lancekit.dataset import LanceDataset, dataset, write_dataset
from lancekit.format.index import IndexFile
from lancekit.format.transaction import Transaction
from lancekit.fragment import FragmentMetadata, LanceFragment
from lancekit.history import History, Version
from lancekit.inventory import DataStatistics, FieldStatistics
from lancekit.merge import MergeInsertBuilder
from lancekit.not_offered import missing
from lancekit.operation import DatasetBasePath, Index, LanceOperation
from lancekit.operations.cleanup import CleanupExplanation
from lancekit.operations.cleanup_plan import CleanupStats
from lancekit.operations.explanation import Explanation
from lancekit.operations.preview import CellChange, MergePlan
from lancekit.operations.results import (
    CompactionMetrics,
    DeleteResult,
    MergeResult,
    UpdateResult,
)
from lancekit.options import options
from lancekit.progress import FragmentWriteProgress
from lancekit.references import Branches, Tags
from lancekit.scan.order import ColumnOrdering
from lancekit.scan.statistics import ScanStatistics
from lancekit.scanner import LanceScanner
from lancekit.scanner_builder import ScannerBuilder
from lancekit.schema import json_to_schema, schema_to_json
from lancekit.spark import session_info, spark_session, stop_spark, warm_up
from lancekit.streams import stream_sink
from lancekit.udf import BatchUDF, batch_udf

if _TYPE_CHECKING:
    from lancekit.notebook import plot_history

__all__ = [
    "BatchUDF",
    "Blob",
    "BlobFile",
    "BlobType",
    "Branches",
    "CellChange",
    "CleanupExplanation",
    "CleanupStats",
    "ColumnOrdering",
    "CompactionMetrics",
    "DataStatistics",
    "DatasetBasePath",
    "DeleteResult",
    "Explanation",
    "FieldStatistics",
    "FragmentMetadata",
    "FragmentWriteProgress",
    "History",
    "Index",
    "IndexFile",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "MergeInsertBuilder",
    "MergePlan",
    "MergeResult",
    "ScanStatistics",
    "ScannerBuilder",
    "SqliteManifestStore",
    "Tags",
    "Transaction",
    "UpdateResult",
    "Version",
    "__version__",
    "batch_udf",
    "blob_array",
    "blob_field",
    "dataset",
    "errors",
    "json_to_schema",
    "optimize",
    "options",
    "plot_history",
    "schema",
    "schema_to_json",
    "session_info",
    "spark_session",
    "stop_spark",
    "stream_sink",
    "warm_up",
    "write_dataset",
]

_connect()


def __getattr__(name: str) -> object:
    # the notebook room is loaded when something is first shown
    if name == "plot_history":
        from lancekit.notebook import plot_history

        return plot_history
    raise missing("lance", name)
