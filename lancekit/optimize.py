"""pylance's `optimize`, re-exported from `lancekit._api.optimizer`."""

from lancekit._api.optimizer import Compaction, CompactionPlan, CompactionTask, DatasetOptimizer
from lancekit._operations.common.results import CompactionMetrics
from lancekit._operations.maintenance.compact import RewriteResult
from lancekit._operations.maintenance.compact_plan import CompactionOptions, Covered

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "Covered",
    "DatasetOptimizer",
    "RewriteResult",
]
