"""A door: pylance's `commit`, whose errors are in `lancekit.errors`."""

from lancekit.errors import CommitConflictError

__all__ = ["CommitConflictError"]
