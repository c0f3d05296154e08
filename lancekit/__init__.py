"""lancekit: a Jupyter-first toolkit for Lance datasets.

`write_dataset` and `dataset` give a `LanceDataset`: versions, time travel, tags, branches, clones,
deletes and merge-inserts, in this process or on Spark.  Names follow pylance, so
``import lancekit as lance`` works for what is offered.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lancekit import errors
from lancekit._version import __version__
from lancekit._wiring import connect as _connect
from lancekit.options import options

if _TYPE_CHECKING:
    from lancekit import (  # noqa: F401
        arrow,
        blob,
        commit,
        debug,
        file,
        fragment,
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
    from lancekit.api.batch_udf import BatchUDF, batch_udf
    from lancekit.api.blob_type import BlobType
    from lancekit.api.blob_values import Blob, BlobColumn, BlobFile, blob_array, blob_field
    from lancekit.api.branch_comparison import BranchComparison
    from lancekit.api.branches import Branches
    from lancekit.api.diff import diff
    from lancekit.api.execution_plan import ExecutionPlan
    from lancekit.api.fragment import FragmentMetadata, LanceFragment
    from lancekit.api.history import History, Version
    from lancekit.api.lance_dataset import LanceDataset
    from lancekit.api.lance_operation import DatasetBasePath, Index, LanceOperation
    from lancekit.api.lance_schema import json_to_schema, schema_to_json
    from lancekit.api.lsm_planners import LsmPointLookupPlanner, LsmVectorSearchPlanner
    from lancekit.api.lsm_scanner import LsmScanner
    from lancekit.api.mem_wal_sink import mem_wal_sink
    from lancekit.api.merge_builder import MergeInsertBuilder
    from lancekit.api.open import dataset, write_dataset
    from lancekit.api.plots import plot_history
    from lancekit.api.pylance.log import set_logger
    from lancekit.api.pylance.session import Session
    from lancekit.api.scanner import LanceScanner
    from lancekit.api.scanner_builder import ScannerBuilder
    from lancekit.api.shard_snapshot import ShardSnapshot
    from lancekit.api.shard_writer import ShardWriter
    from lancekit.api.sharding import evaluate_sharding_spec
    from lancekit.api.stream_sink import stream_sink
    from lancekit.api.tags import Tags
    from lancekit.api.tokens import FtsToken, tokenize
    from lancekit.cache import CacheInfo, cache_info, clear_cache
    from lancekit.format.index import IndexFile
    from lancekit.format.mem_wal.details import ShardingField, ShardingSpec
    from lancekit.format.operation_parts import CompactedSsTable
    from lancekit.format.transaction import Transaction
    from lancekit.operations.cleanup.plan import CleanupStats
    from lancekit.operations.cleanup.run import CleanupExplanation
    from lancekit.operations.common.results import (
        ApplyResult,
        CompactionMetrics,
        DeleteResult,
        MergeResult,
        UpdateResult,
    )
    from lancekit.operations.explain.explanation import Explanation
    from lancekit.operations.lineage.branch_merge import BranchMergePlan
    from lancekit.operations.lineage.conflicts import ConflictedRow, Conflicts
    from lancekit.operations.lineage.sides import Sides
    from lancekit.operations.maintenance.inventory import DataStatistics, FieldStatistics
    from lancekit.operations.merge.preview import CellChange, MergePlan
    from lancekit.progress import FragmentWriteProgress, IndexProgress
    from lancekit.scan.order_by import ColumnOrdering
    from lancekit.scan.statistics import ScanStatistics
    from lancekit.spark import session_info, spark_session, stop_spark, warm_up
    from lancekit.statements.results import SqlResult
    from lancekit.statements.run import sql
    from lancekit.statements.tables import register
    from lancekit.versions.sqlite_manifests import SqliteManifestStore

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
    "dataset",
    "diff",
    "errors",
    "evaluate_sharding_spec",
    "json_to_schema",
    "mem_wal_sink",
    "optimize",
    "options",
    "plot_history",
    "register",
    "schema",
    "schema_to_json",
    "session_info",
    "set_logger",
    "spark_session",
    "sql",
    "stop_spark",
    "stream_sink",
    "tokenize",
    "warm_up",
    "write_dataset",
]

#: the same to Python: which module has a name, so that importing lancekit loads next to nothing
_HOMES = {
    "api.batch_udf": "BatchUDF batch_udf",
    "api.blob_type": "BlobType",
    "api.blob_values": "Blob BlobColumn BlobFile blob_array blob_field",
    "api.branch_comparison": "BranchComparison",
    "api.diff": "diff",
    "api.fragment": "FragmentMetadata LanceFragment",
    "api.history": "History Version",
    "api.lance_dataset": "LanceDataset",
    "api.lance_operation": "DatasetBasePath Index LanceOperation",
    "api.lance_schema": "json_to_schema schema_to_json",
    "api.execution_plan": "ExecutionPlan",
    "api.lsm_scanner": "LsmScanner",
    "api.lsm_planners": "LsmPointLookupPlanner LsmVectorSearchPlanner",
    "api.shard_snapshot": "ShardSnapshot",
    "api.shard_writer": "ShardWriter",
    "api.mem_wal_sink": "mem_wal_sink",
    "api.merge_builder": "MergeInsertBuilder",
    "api.open": "dataset write_dataset",
    "api.plots": "plot_history",
    "api.pylance.log": "set_logger",
    "api.pylance.session": "Session",
    "api.scanner": "LanceScanner",
    "api.scanner_builder": "ScannerBuilder",
    "api.sharding": "evaluate_sharding_spec",
    "api.stream_sink": "stream_sink",
    "api.branches": "Branches",
    "api.tags": "Tags",
    "api.tokens": "FtsToken tokenize",
    "cache": "CacheInfo cache_info clear_cache",
    "format.index": "IndexFile",
    "format.mem_wal.details": "ShardingField ShardingSpec",
    "format.operation_parts": "CompactedSsTable",
    "format.transaction": "Transaction",
    "operations.cleanup.plan": "CleanupStats",
    "operations.cleanup.run": "CleanupExplanation",
    "operations.common.results": "ApplyResult CompactionMetrics DeleteResult MergeResult "
    "UpdateResult",
    "operations.explain.explanation": "Explanation",
    "operations.lineage.branch_merge": "BranchMergePlan",
    "operations.lineage.conflicts": "ConflictedRow Conflicts",
    "operations.lineage.sides": "Sides",
    "operations.maintenance.inventory": "DataStatistics FieldStatistics",
    "operations.merge.preview": "CellChange MergePlan",
    "progress": "FragmentWriteProgress IndexProgress",
    "scan.order_by": "ColumnOrdering",
    "scan.statistics": "ScanStatistics",
    "spark": "session_info spark_session stop_spark warm_up",
    "statements.results": "SqlResult",
    "statements.run": "sql",
    "statements.tables": "register",
    "versions.sqlite_manifests": "SqliteManifestStore",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
#: pylance's modules, which are found as attributes there too, and Spark's room
_MODULES = {"blob", "commit", "file", "fragment", "optimize", "progress", "schema", "spark"}
_MODULES |= {"query", "udf", "vector", "arrow", "debug", "lance", "log", "sampler", "util"}
_MODULES |= {"mem_wal"}

_connect()
# Importing a module puts it into its package under its name.  The module `lancekit.dataset` is
# imported and taken away before anybody can, so that `lancekit.dataset` stays the function.
_import_module("lancekit.dataset")
globals().pop("dataset", None)  # it is not there when a notebook reloads the extension


def load_ipython_extension(shell: object) -> None:
    """Give a notebook ``%%lance``, ``%lance`` and errors as cards: ``%load_ext lancekit``."""
    from lancekit.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Take back what `load_ipython_extension` gave: ``%unload_ext lancekit``."""
    from lancekit.notebook.extension import unload

    unload(shell)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return _import_module(f"lancekit.{name}")
    if name not in _HOME:
        from lancekit.api.pylance.not_offered import missing

        raise missing("lance", name)
    found = getattr(_import_module(f"lancekit.{_HOME[name]}"), name)
    globals()[name] = found  # next time without this detour
    return found
