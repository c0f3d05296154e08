"""From an operation to a committed version.

`conflicts` says how operations meet, `rebase` adapts one to what landed since, `build` makes the
next manifest, `protocol` puts it in place; `versions` and `refs` find what is there.
"""

from lancekit.errors import CommitConflictError

__all__ = ["CommitConflictError"]
