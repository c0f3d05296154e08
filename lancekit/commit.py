"""pylance's `commit`, re-exported from `lancekit.errors`."""

from lancekit.errors import CommitConflictError

__all__ = ["CommitConflictError"]
