"""Rows of logs that have ended, in the folder of a table that begins to have logs again."""

from __future__ import annotations

from lancekit.errors import ShardError, VersionNotFoundError
from lancekit.format.mem_wal.details import mem_wal_entry
from lancekit.format.mem_wal.names import LOGS
from lancekit.format.operations import Overwrite, Restore
from lancekit.operations.unmerged.waiting_rows import rows_in_shards
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["check_no_left_rows", "left_rows"]


def left_rows(snapshot: Snapshot) -> ShardError | None:
    """Return the error for rows that would come up in a table that they were not written for.

    The reference overwrites and restores tables whose shards have rows.  Where it only dropped the
    MemWAL, the shards go on.  A version with a MemWAL has no rows left.
    """
    if mem_wal_entry(snapshot.indices) is not None:
        return None
    left = rows_in_shards(snapshot)
    ended = _ended_by(snapshot) if left.rows or not left.complete else ""
    if not ended:
        return None
    return ShardError(
        f"{snapshot.line.uri} has rows in the logs of a table that has ended: {ended}.",
        hint=f"The rows of this folder would come into the new table: {snapshot.store.uri}/"
        f"{LOGS}. Move the folder to another place, or remove it, then do this again.",
        uri=snapshot.line.uri,
    )


def check_no_left_rows(snapshot: Snapshot) -> None:
    """Refuse to begin logs in a folder that has rows of logs that ended.

    Raises
    ------
    ShardError
        The shards have rows, and the table that they were written for has ended.
    """
    error = left_rows(snapshot)
    if error is not None:
        raise error


def _ended_by(snapshot: Snapshot) -> str:
    """Return what ended the logs of a version without a MemWAL; empty if that was dropped."""
    later = snapshot
    while True:
        operation = later.transaction.operation if later.transaction else None
        if isinstance(operation, Overwrite | Restore):
            return f"version {later.version} is of {type(operation).__name__.lower()!r}"
        try:
            older = load_snapshot(snapshot.line, later.version - 1)
        except VersionNotFoundError:
            return f"no version before {later.version} is there that has these logs"
        if mem_wal_entry(older.indices) is not None:
            return ""
        later = older
