"""A door: pylance's `lance.lance`, its compiled part, where code has imported from there."""

from lancekit.api.bfloat16 import BFloat16, bfloat16_array
from lancekit.api.debug import (
    format_fragment,
    format_manifest,
    format_schema,
    list_transactions,
    manifest_needs_migration,
)
from lancekit.api.fragment import DeletionFile, RowDatasetVersionMeta, RowIdMeta
from lancekit.api.lance_operation import DatasetBasePath
from lancekit.api.lance_schema import LanceSchema
from lancekit.api.optimizer import (
    Compaction,
    CompactionMetrics,
    CompactionPlan,
    CompactionTask,
    RewriteResult,
)
from lancekit.api.row_id_sequence import RowIdSequence
from lancekit.file.file_metadata import LanceFileMetadata
from lancekit.file.lance_file import stable_version
from lancekit.operations.cleanup.plan import CleanupStats
from lancekit.operations.cleanup.run import CleanupExplanation
from lancekit.scan.statistics import ScanStatistics

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
