"""The MemWAL that a table had before it was dropped (docs/format/memwal.md, 6).

The reference drops the entry while rows wait in shards or in quarantine.  The entry of the version
before has the marks and the sharding of these rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from lancekit._format.mem_wal.names import QUARANTINE, mem_wal_entry
from lancekit._format.operations import Overwrite, Restore
from lancekit._operations.unmerged.quarantined import quarantined_rows
from lancekit._versions.at_once import at_once, timed
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import VersionNotFoundError

__all__ = ["EndOfLogs", "dropped_quarantine", "end_of_logs"]


#: versions that are read at the same time
_GROUP = 16


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
    later = snapshot
    for older in _older(snapshot, most):
        if ended := _ended_by(later):
            return EndOfLogs(None, ended)
        if mem_wal_entry(older.indices) is not None:
            return EndOfLogs(older)
        later = older
    none = f"no version before {later.version} is there that has these logs"
    return EndOfLogs(None, _ended_by(later) or none)


def _ended_by(snapshot: Snapshot) -> str:
    operation = snapshot.transaction.operation if snapshot.transaction else None
    if not isinstance(operation, Overwrite | Restore):
        return ""
    return f"version {snapshot.version} is of {type(operation).__name__.lower()!r}"


def _older(snapshot: Snapshot, most: int | None) -> Iterator[Snapshot]:
    """Yield the versions before one that are there, the newest first.

    There may be thousands: where each takes long to come, several are read at the same time.
    """

    def read(version: int) -> Snapshot | None:
        try:
            found = load_snapshot(snapshot.line, version)
        except VersionNotFoundError:
            return None
        _ = found.indices, found.transaction  # which are kept
        return found

    first = 1 if most is None else max(1, snapshot.version - most)
    newest, group = snapshot.version - 1, 1
    while newest >= first:
        last = max(first, newest - group + 1)
        found, is_slow = timed(partial(at_once, read), range(newest, last - 1, -1))
        for one in found:
            if one is None:
                return
            yield one
        newest, group = last - 1, _GROUP if is_slow else 1


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
