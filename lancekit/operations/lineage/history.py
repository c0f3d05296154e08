"""What the commits between two versions did."""

from __future__ import annotations

from typing import Any

from lancekit.errors import VersionNotFoundError
from lancekit.format.operations import Restore
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["operations_between"]

#: a history longer than this is not read
_READ_COMMITS = 1000


def operations_between(old: Snapshot, new: Snapshot) -> list[Any] | None:
    """Return what the commits of a line between two versions did; ``None`` if nobody can tell.

    A restore takes back the commits since the version that it restores: they are among them.
    """
    low, high = sorted((old, new), key=lambda side: side.version)
    if low.line != high.line:
        return None
    first, at = low.version, high
    done = list[Any]()
    while at.version > first:
        if high.version - first > _READ_COMMITS or at.transaction is None:
            return None
        done.append(at.transaction.operation)
        if isinstance(done[-1], Restore):
            first = min(first, done[-1].version)
        try:
            at = load_snapshot(low.line, at.version - 1)
        except VersionNotFoundError:
            return None
    return done
