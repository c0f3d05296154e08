"""The MemWAL that a table had before it was dropped (docs/format/memwal.md, 6).

The reference drops the entry while rows wait in shards or in quarantine.  The entry of the version
before has the marks and the sharding of these rows.
"""

from __future__ import annotations

from typing import NamedTuple

from lancekit.errors import VersionNotFoundError
from lancekit.format.mem_wal.details import mem_wal_entry
from lancekit.format.mem_wal.names import QUARANTINE
from lancekit.format.operations import Overwrite, Restore
from lancekit.operations.unmerged.quarantined import quarantined_rows
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["EndOfLogs", "dropped_quarantine", "end_of_logs"]


class EndOfLogs(NamedTuple):
    """Why a version has no MemWAL.

    Attributes
    ----------
    before
        The newest version that had a MemWAL, if the MemWAL was dropped after it.
    ended_by
        What else ended the logs, for a message; empty if they were dropped.
    """

    before: Snapshot | None
    ended_by: str = ""


def end_of_logs(snapshot: Snapshot, most: int | None = None) -> EndOfLogs:
    """Return why a version has no MemWAL, by the versions before it.

    Parameters
    ----------
    snapshot
        The version.
    most
        How many versions to look at; all by default.
    """
    later, looked = snapshot, 0
    while True:
        operation = later.transaction.operation if later.transaction else None
        if isinstance(operation, Overwrite | Restore):
            kind = type(operation).__name__.lower()
            return EndOfLogs(None, f"version {later.version} is of {kind!r}")
        unknown = EndOfLogs(None, f"no version before {later.version} is there that has these logs")
        if looked == most:
            return unknown
        try:
            older = load_snapshot(snapshot.line, later.version - 1)
        except VersionNotFoundError:
            return unknown
        if mem_wal_entry(older.indices) is not None:
            return EndOfLogs(older)
        later, looked = older, looked + 1


def dropped_quarantine(snapshot: Snapshot, most: int | None = None) -> int:
    """Count the rows that waited in quarantine when the MemWAL of a version was dropped.

    Parameters
    ----------
    snapshot, most
        As of `end_of_logs`.

    Raises
    ------
    CorruptFileError
        A table of the quarantine is missing or damaged.
    """
    if mem_wal_entry(snapshot.indices) or not snapshot.store.list_folders(QUARANTINE):
        return 0
    before, _ = end_of_logs(snapshot, most)
    return 0 if before is None else quarantined_rows(before)
