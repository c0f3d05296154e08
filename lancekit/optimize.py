"""pylance's `optimize`, re-exported from `lancekit._api.optimizer`."""

from lancekit._api.optimizer import (
    Compaction,
    CompactionMetrics,
    CompactionOptions,
    CompactionPlan,
    CompactionTask,
    Covered,
    DatasetOptimizer,
    RewriteResult,
)

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
