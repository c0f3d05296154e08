"""lancekit: a Jupyter-first toolkit for Lance datasets.

`write_dataset` and `dataset` return a `LanceDataset` with versions, time travel, tags, branches,
clones, deletes and merge-inserts, in this process or on Spark.  Names follow pylance, so
``import lancekit as lance`` works for everything that lancekit supports.
"""

from importlib import import_module as _import_module
from sys import modules as _imported
from typing import TYPE_CHECKING

from lancekit import errors
from lancekit._version import __version__
from lancekit._wiring import connect as _connect
from lancekit.options import options

if TYPE_CHECKING:
    from lancekit import (  # noqa: F401
        arrow,
        blob,
        commit,
        debug,
        file,
        fragment,
        indices,
        lance,
        log,
        mem_wal,
        optimize,
        progress,
        query,
        sampler,
        schema,
        spark,
        udf,
        util,
        vector,
    )
    from lancekit._api.blob_type import BlobType
    from lancekit._api.blob_values import Blob, BlobColumn, BlobFile, blob_array, blob_field
    from lancekit._api.branch_comparison import BranchComparison
    from lancekit._api.branches import Branches
    from lancekit._api.diff import diff
    from lancekit._api.exports import read_csv, read_parquet, scan_polars
    from lancekit._api.fragment import FragmentMetadata, LanceFragment
    from lancekit._api.fulltext import FtsToken, tokenize
    from lancekit._api.history import History, Version
    from lancekit._api.lance_dataset import LanceDataset, dataset, unpack, write_dataset
    from lancekit._api.lance_operation import DatasetBasePath, Index, LanceOperation
    from lancekit._api.lance_schema import json_to_schema, schema_to_json
    from lancekit._api.lsm_scanner import LsmScanner, ShardSnapshot
    from lancekit._api.merge_builder import MergeInsertBuilder
    from lancekit._api.plots import plot_history
    from lancekit._api.pylance_session import Session
    from lancekit._api.scanner import LanceScanner
    from lancekit._api.shard_writer import ShardWriter, evaluate_sharding_spec
    from lancekit._api.sinks import mem_wal_sink, stream_sink
    from lancekit._api.tags import Tags
    from lancekit._cache import CacheInfo, cache_info, clear_cache
    from lancekit._format.index import IndexFile
    from lancekit._format.mem_wal.details import ShardingField, ShardingSpec
    from lancekit._format.operation_parts import CompactedSsTable
    from lancekit._format.transaction import Transaction
    from lancekit._operations.cleanup.plan import CleanupStats
    from lancekit._operations.cleanup.run import CleanupExplanation
    from lancekit._operations.common.results import (
        ApplyResult,
        CompactionMetrics,
        DeleteResult,
        MergeResult,
        UpdateResult,
    )
    from lancekit._operations.explain.explanation import Explanation
    from lancekit._operations.explain.merge import CellChange, MergePlan
    from lancekit._operations.lineage.branch_merge import BranchMergePlan
    from lancekit._operations.lineage.conflicts import ConflictedRow, Conflicts, Sides
    from lancekit._operations.maintenance.inventory import DataStatistics, FieldStatistics
    from lancekit._pipeline.udf_checkpoint import BatchUDF, batch_udf
    from lancekit._pylance.debug import set_logger
    from lancekit._pylance.lsm_planners import (
        ExecutionPlan,
        LsmPointLookupPlanner,
        LsmVectorSearchPlanner,
    )
    from lancekit._pylance.scanner_builder import ScannerBuilder
    from lancekit._scan.expressions.objects import Expression
    from lancekit._scan.expressions.texts import col, lit, source, target
    from lancekit._scan.order_by import ColumnOrdering
    from lancekit._scan.statistics import ScanStatistics
    from lancekit._statements.run import sql
    from lancekit._statements.select import SqlResult
    from lancekit._statements.tables import register
    from lancekit._versions.manifest_writers import SqliteManifestStore
    from lancekit.progress import FragmentWriteProgress, IndexProgress
    from lancekit.spark import session_info, spark_session, stop_spark, warm_up

__all__ = [
    "ApplyResult",
    "BatchUDF",
    "Blob",
    "BlobColumn",
    "BlobFile",
    "BlobType",
    "BranchComparison",
    "BranchMergePlan",
    "Branches",
    "CacheInfo",
    "CellChange",
    "CleanupExplanation",
    "CleanupStats",
    "ColumnOrdering",
    "CompactedSsTable",
    "CompactionMetrics",
    "ConflictedRow",
    "Conflicts",
    "DataStatistics",
    "DatasetBasePath",
    "DeleteResult",
    "ExecutionPlan",
    "Explanation",
    "Expression",
    "FieldStatistics",
    "FragmentMetadata",
    "FragmentWriteProgress",
    "FtsToken",
    "History",
    "Index",
    "IndexFile",
    "IndexProgress",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LsmPointLookupPlanner",
    "LsmScanner",
    "LsmVectorSearchPlanner",
    "MergeInsertBuilder",
    "MergePlan",
    "MergeResult",
    "ScanStatistics",
    "ScannerBuilder",
    "Session",
    "ShardSnapshot",
    "ShardWriter",
    "ShardingField",
    "ShardingSpec",
    "Sides",
    "SqlResult",
    "SqliteManifestStore",
    "Tags",
    "Transaction",
    "UpdateResult",
    "Version",
    "__version__",
    "batch_udf",
    "blob_array",
    "blob_field",
    "cache_info",
    "clear_cache",
    "col",
    "dataset",
    "diff",
    "errors",
    "evaluate_sharding_spec",
    "json_to_schema",
    "lit",
    "mem_wal_sink",
    "optimize",
    "options",
    "plot_history",
    "read_csv",
    "read_parquet",
    "register",
    "scan_polars",
    "schema",
    "schema_to_json",
    "session_info",
    "set_logger",
    "source",
    "spark_session",
    "sql",
    "stop_spark",
    "stream_sink",
    "target",
    "tokenize",
    "unpack",
    "warm_up",
    "write_dataset",
]

#: lazy imports: the module of each name, so that importing lancekit loads almost nothing
_HOMES = {
    "_pipeline.udf_checkpoint": "BatchUDF batch_udf",
    "_api.blob_type": "BlobType",
    "_api.blob_values": "Blob BlobColumn BlobFile blob_array blob_field",
    "_api.branch_comparison": "BranchComparison",
    "_api.branches": "Branches",
    "_pylance.debug": "set_logger",
    "_api.diff": "diff",
    "_api.exports": "read_csv read_parquet scan_polars",
    "_api.fragment": "FragmentMetadata LanceFragment",
    "_api.fulltext": "FtsToken tokenize",
    "_api.history": "History Version",
    "_api.lance_dataset": "LanceDataset dataset unpack write_dataset",
    "_api.lance_operation": "DatasetBasePath Index LanceOperation",
    "_api.lance_schema": "json_to_schema schema_to_json",
    "_pylance.lsm_planners": "ExecutionPlan LsmPointLookupPlanner LsmVectorSearchPlanner",
    "_api.lsm_scanner": "LsmScanner ShardSnapshot",
    "_api.sinks": "mem_wal_sink stream_sink",
    "_api.merge_builder": "MergeInsertBuilder",
    "_api.plots": "plot_history",
    "_api.pylance_session": "Session",
    "_api.scanner": "LanceScanner",
    "_pylance.scanner_builder": "ScannerBuilder",
    "_api.shard_writer": "ShardWriter evaluate_sharding_spec",
    "_api.tags": "Tags",
    "_cache": "CacheInfo cache_info clear_cache",
    "_format.index": "IndexFile",
    "_format.mem_wal.details": "ShardingField ShardingSpec",
    "_format.operation_parts": "CompactedSsTable",
    "_format.transaction": "Transaction",
    "_operations.cleanup.plan": "CleanupStats",
    "_operations.cleanup.run": "CleanupExplanation",
    "_operations.common.results": "ApplyResult CompactionMetrics DeleteResult MergeResult "
    "UpdateResult",
    "_operations.explain.explanation": "Explanation",
    "_operations.lineage.branch_merge": "BranchMergePlan",
    "_operations.lineage.conflicts": "ConflictedRow Conflicts Sides",
    "_operations.maintenance.inventory": "DataStatistics FieldStatistics",
    "_operations.explain.merge": "CellChange MergePlan",
    "_scan.expressions.objects": "Expression",
    "_scan.expressions.texts": "col lit source target",
    "_scan.order_by": "ColumnOrdering",
    "_scan.statistics": "ScanStatistics",
    "_statements.run": "sql",
    "_statements.select": "SqlResult",
    "_statements.tables": "register",
    "_versions.manifest_writers": "SqliteManifestStore",
    "progress": "FragmentWriteProgress IndexProgress",
    "spark": "session_info spark_session stop_spark warm_up",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
#: pylance's modules, which are attributes of its package, too, and the Spark module
_MODULES = {"blob", "commit", "file", "fragment", "optimize", "progress", "schema", "spark"}
_MODULES |= {"query", "udf", "vector", "arrow", "debug", "lance", "log", "sampler", "util"}
_MODULES |= {"mem_wal", "indices"}

_connect()
# Importing a module makes it an attribute of its package.  The module `lancekit.dataset` is
# imported and removed first, so that `lancekit.dataset` stays the function.
_import_module("lancekit.dataset")
globals().pop("dataset", None)  # missing when a notebook reloads the extension
if "IPython" in _imported:
    from lancekit._ipython import at_import as _at_import

    _at_import()


def load_ipython_extension(shell: object) -> None:
    """Register with IPython again: ``%load_ext lancekit``.  Importing lancekit does it, too."""
    from lancekit._ipython import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Remove magics, completion, cards of errors and tables: ``%unload_ext lancekit``."""
    from lancekit._ipython import unload

    unload(shell)


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # type checkers report unknown names

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return _import_module(f"lancekit.{name}")
        if name.startswith("_"):  # Python looks here for modules to import, too
            raise AttributeError(f"module 'lancekit' has no attribute {name!r}")
        if name not in _HOME:
            from lancekit._api.not_offered import missing

            raise missing("lance", name)
        found = getattr(_import_module(f"lancekit.{_HOME[name]}"), name)
        globals()[name] = found  # later accesses skip this function
        return found
