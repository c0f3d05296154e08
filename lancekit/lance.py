"""pylance's compiled module `lance.lance`, re-exported for code that imports from it."""

from lancekit._api.lance_operation import DatasetBasePath
from lancekit._api.lance_schema import LanceSchema
from lancekit._api.optimizer import Compaction, CompactionPlan, CompactionTask
from lancekit._file.file_metadata import LanceFileMetadata
from lancekit._file.lance_file import stable_version
from lancekit._format.data_file import DeletionFile, RowDatasetVersionMeta, RowIdMeta
from lancekit._operations.cleanup.plan import CleanupStats
from lancekit._operations.cleanup.run import CleanupExplanation
from lancekit._operations.common.results import CompactionMetrics
from lancekit._operations.maintenance.compact import RewriteResult
from lancekit._pylance.bfloat16 import BFloat16, bfloat16_array
from lancekit._pylance.debug import (
    format_fragment,
    format_manifest,
    format_schema,
    list_transactions,
    manifest_needs_migration,
)
from lancekit._pylance.row_id_sequence import RowIdSequence
from lancekit._scan.statistics import ScanStatistics

__all__ = [
    "BFloat16",
    "CleanupExplanation",
    "CleanupStats",
    "Compaction",
    "CompactionMetrics",
    "CompactionPlan",
    "CompactionTask",
    "DatasetBasePath",
    "DeletionFile",
    "LanceFileMetadata",
    "LanceSchema",
    "RewriteResult",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "RowIdSequence",
    "ScanStatistics",
    "bfloat16_array",
    "format_fragment",
    "format_manifest",
    "format_schema",
    "list_transactions",
    "manifest_needs_migration",
    "stable_version",
]
