"""lancekit: a Jupyter-first toolkit for Lance datasets.

`write_dataset` and `dataset` give a `LanceDataset`: versions, time travel, tags, branches, clones,
deletes and merge-inserts, in this process or on Spark.  Names follow pylance, so
``import lancekit as lance`` works for what is offered.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from lancekit import blob, errors, fragment, optimize, schema, udf, vector
from lancekit._version import __version__
from lancekit._wiring import connect as _connect
from lancekit.api.batch_udf import BatchUDF, batch_udf
from lancekit.api.blob_values import Blob, BlobFile, BlobType, blob_array, blob_field
from lancekit.api.fragment import FragmentMetadata, LanceFragment
from lancekit.api.history import History, Version
from lancekit.api.lance_operation import DatasetBasePath, Index, LanceOperation
from lancekit.api.lance_schema import json_to_schema, schema_to_json
from lancekit.api.merge_builder import MergeInsertBuilder
from lancekit.api.pylance.not_offered import missing
from lancekit.api.scanner import LanceScanner
from lancekit.api.scanner_builder import ScannerBuilder
from lancekit.api.stream_sink import stream_sink
from lancekit.api.tags_and_branches import Branches, Tags
from lancekit.dataset import LanceDataset, dataset, write_dataset
from lancekit.format.index import IndexFile
from lancekit.format.transaction import Transaction
from lancekit.operations.cleanup.plan import CleanupStats
from lancekit.operations.cleanup.run import CleanupExplanation
from lancekit.operations.common.results import (
    CompactionMetrics,
    DeleteResult,
    MergeResult,
    UpdateResult,
)
from lancekit.operations.explain.explanation import Explanation
from lancekit.operations.maintenance.inventory import DataStatistics, FieldStatistics
from lancekit.operations.merge.preview import CellChange, MergePlan
from lancekit.options import options
from lancekit.progress import FragmentWriteProgress
from lancekit.scan.order_by import ColumnOrdering
from lancekit.scan.statistics import ScanStatistics
from lancekit.spark import session_info, spark_session, stop_spark, warm_up
from lancekit.versions.sqlite_manifests import SqliteManifestStore

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
# pylance's modules, which are found as attributes there too
_DOORS = (blob, fragment, udf, vector)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    # the notebook room is loaded when something is first shown
    if name == "plot_history":
        from lancekit.notebook import plot_history

        return plot_history
    raise missing("lance", name)
