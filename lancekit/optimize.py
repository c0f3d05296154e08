"""A door: pylance's `optimize`, which is `lancekit.api.optimizer`."""

from lancekit.api.optimizer import (
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
