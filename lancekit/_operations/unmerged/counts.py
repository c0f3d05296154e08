"""Counts of rows that wait in a branch's shards to be merged, for cards, hints and results.

Most tables have no shards: the modules that count the rows are loaded only for the others.
"""

from __future__ import annotations

from dataclasses import replace

from lancekit._format.mem_wal.names import LOGS, mem_wal_entry
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from lancekit._storage.local import LocalStore
from lancekit._versions.snapshot import Snapshot

#: number of versions that are searched for a dropped MemWAL
_MOST_VERSIONS = 50


def waiting_rows(snapshot: Snapshot) -> WaitingRows:
    """Count the rows that wait in a branch's shards, and that a version does not have.

    A table without MemWAL costs no request.  Nothing is raised: a shard that cannot be read makes
    the count incomplete.
    """
    if mem_wal_entry(snapshot.indices) is None:
        return WaitingRows()
    from lancekit._operations.unmerged.waiting import rows_in_shards

    return rows_in_shards(snapshot)


def rows_without_logs(snapshot: Snapshot) -> WaitingRows:
    """Count the rows left in shards of a table whose MemWAL was dropped.

    The reference drops the MemWAL even while rows wait.  Object stores are not searched.
    """
    if not isinstance(snapshot.store, LocalStore) or mem_wal_entry(snapshot.indices) is not None:
        return WaitingRows()
    if LOGS not in snapshot.store.list_folders(""):
        return WaitingRows()
    from lancekit._operations.unmerged.marks import end_of_logs
    from lancekit._operations.unmerged.waiting import rows_in_shards

    before = end_of_logs(snapshot, _MOST_VERSIONS).before
    return replace(rows_in_shards(before or snapshot), without_logs=True)
