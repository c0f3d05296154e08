"""Rows of logs that have ended, in the folder of a table that begins to have logs again."""

from __future__ import annotations

from typing import NamedTuple

from lancekit.errors import ShardError
from lancekit.format.mem_wal.details import MemWalDetails, details_of
from lancekit.format.mem_wal.names import LOGS, QUARANTINE, mem_wal_entry
from lancekit.operations.unmerged.dropped import end_of_logs
from lancekit.operations.unmerged.rows_in_shards import rows_in_shards
from lancekit.versions.snapshot import Snapshot

__all__ = ["DroppedLogs", "dropped_logs", "left_rows"]


class DroppedLogs(NamedTuple):
    """The MemWAL that was dropped from a table whose folder has rows of shards or quarantines.

    Attributes
    ----------
    details
        Those of the last version that had the MemWAL.
    has_rows
        Whether shards have rows that this version lacks.
    """

    details: MemWalDetails
    has_rows: bool


def dropped_logs(snapshot: Snapshot) -> DroppedLogs | None:
    """Return the MemWAL that has to be taken up again with its rows; ``None`` if there is none.

    Raises
    ------
    ShardError
        The shards have rows, and the table that they were written for has ended.
    """
    if mem_wal_entry(snapshot.indices) is not None:
        return None
    has_rows = _has_rows(snapshot)
    if not has_rows and not snapshot.store.list_folders(QUARANTINE):
        return None
    before, ended_by = end_of_logs(snapshot)
    details = None if before is None else details_of(before.indices)
    if before is not None and details is not None:
        return DroppedLogs(details, _has_rows(before))
    if not has_rows:
        return None
    raise ShardError(
        f"{snapshot.line.uri} has rows in the logs of a table that has ended: {ended_by}.",
        hint=f"The rows of this folder would come into the new table: {snapshot.store.uri}/"
        f"{LOGS}. Move the folder to another place, or remove it, then do this again.",
        uri=snapshot.line.uri,
    )


def left_rows(snapshot: Snapshot) -> ShardError | None:
    """Return the error for rows that would come up in a table that they were not written for.

    The reference overwrites and restores tables whose shards have rows.  Where it only dropped the
    MemWAL, the shards go on.  A version with a MemWAL has no rows left.
    """
    try:
        dropped_logs(snapshot)
    except ShardError as error:
        return error
    return None


def _has_rows(snapshot: Snapshot) -> bool:
    waiting = rows_in_shards(snapshot)
    return bool(waiting.rows) or not waiting.complete
