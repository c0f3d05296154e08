"""Whether the table for which a writer was opened is still there, and still has its logs.

An overwrite, a restore to before the logs began, a drop of the MemWAL index, and whoever deletes or
replaces a branch or a folder ends the logs without a word to their writers.  A writer looks before
it acknowledges rows: nobody would read them, or they would come up in another table.
"""

from __future__ import annotations

from lancekit.errors import DatasetNotFoundError, FencedError, VersionNotFoundError
from lancekit.format.mem_wal.details import mem_wal_entry
from lancekit.format.names import VERSIONS, manifest_name
from lancekit.shards.shard import Shard
from lancekit.versions.listing import latest_snapshot
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["TableWatch"]


class TableWatch:
    """Follows the versions of a table for the writer of a shard.  Not for several threads at once.

    Parameters
    ----------
    snapshot
        The version of the table for which the writer is opened.
    shard
        The shard of the writer.
    """

    def __init__(self, snapshot: Snapshot, shard: Shard) -> None:
        self._shard = shard
        self._follow(snapshot)

    def _follow(self, snapshot: Snapshot) -> None:
        self._seen = snapshot
        self._file = f"{VERSIONS}/{snapshot.manifest_name}"
        self._next = f"{VERSIONS}/{manifest_name(snapshot.version + 1, snapshot.naming)}"
        #: of a local file; an object store would have to be asked
        self._mark = snapshot.store.mark(self._file)

    @property
    def is_cheap(self) -> bool:
        """Whether a check takes no request."""
        return self._mark is not None

    def check(self) -> None:
        """Raise if the logs have ended.

        This reads the newest version if the table has another one than at the last check.

        Raises
        ------
        FencedError
            The table, its branch or its MemWAL index is gone, or is another one.
        """
        store = self._seen.store
        is_there = (
            store.mark(self._file) == self._mark if self.is_cheap else store.exists(self._file)
        )
        if not is_there or store.exists(self._next):
            self._look()

    def _look(self) -> None:
        seen, entry = self._seen, mem_wal_entry(self._seen.indices)
        try:
            newest = latest_snapshot(seen.line)
            known = None if seen.version > newest.version else self._loaded(seen.version)
        except (DatasetNotFoundError, VersionNotFoundError) as error:
            raise self._ended("is not there any more") from error
        if seen.version > newest.version or (known and _differ(known, seen)):
            raise self._ended("is another one")
        now = mem_wal_entry(newest.indices)
        if now is None or entry is None:
            raise self._ended("has no MemWAL any more")
        if now.uuid != entry.uuid and now.created_at != entry.created_at:
            # made anew, perhaps by an overwrite; the reference makes it anew at each merge, too
            for version in range(seen.version + 1, newest.version):
                between = self._loaded(version)
                if between is None or mem_wal_entry(between.indices) is None:
                    raise self._ended("got another MemWAL")
        self._follow(newest)

    def _loaded(self, version: int) -> Snapshot | None:
        """Return a version; ``None`` if it was cleaned up."""
        try:
            return load_snapshot(self._seen.line, version, self._seen.naming)
        except VersionNotFoundError:
            return None

    def _ended(self, what: str) -> FencedError:
        return FencedError(
            f"{self._seen.line.uri} {what} since the writer of shard {self._shard.id} was opened: "
            "the writer cannot write any more. These rows were not written.",
            hint="Put the rows into the table that is there now: open it with lancekit.dataset(), "
            "and call ds.mem_wal_upsert(rows) or open a writer with ds.mem_wal_writer(shard).",
            shard=str(self._shard.id),
            uri=self._seen.line.uri,
            ended=True,
        )


def _differ(one: Snapshot, other: Snapshot) -> bool:
    """Tell whether two versions of one number are of different tables."""
    return (one.manifest.timestamp, one.transaction_uuid) != (
        other.manifest.timestamp,
        other.transaction_uuid,
    )
