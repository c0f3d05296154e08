"""Whether the log of a shard, to which a writer adds entries, is still there.

The folder of a shard, or of all logs, can be removed or replaced while the table stays.  A put
would make a folder again, with an entry that no manifest knows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from lancekit._format.mem_wal.names import WAL, entry_name, manifest_name
from lancekit._format.mem_wal.shard_manifest import ShardManifest
from lancekit._shards.manifests import change, fenced, latest
from lancekit._shards.shard import Shard
from lancekit.errors import CorruptFileError, LancekitError

__all__ = ["LogWatch"]


class LogWatch:
    """Follows the log of a shard for one epoch: by its last entry, or by a manifest if it has none.

    Parameters
    ----------
    shard
        The shard.
    epoch
        The epoch of its writer.
    version
        The version of the shard's manifest that the writer put last.
    last
        The position of the last entry; 0 if there is none.
    """

    def __init__(self, shard: Shard, epoch: int, version: int, last: int) -> None:
        self._shard = shard
        self._epoch = epoch
        # replaced as wholes: the threads that put and that flush share the watch
        self._manifest = version, shard.store.look(manifest_name(version))
        self._entry = last, shard.store.look(entry_name(last)) if last else None
        self._is_cut = False

    @property
    def name(self) -> str:
        """The file that the next check looks at."""
        last, _ = self._entry
        return entry_name(last) if last else manifest_name(self._manifest[0])

    def wrote(self, position: int) -> None:
        """Follow the log by an entry that the writer put just now."""
        name = entry_name(position)
        self._entry = position, self._shard.store.mark_of_put(name) or self._shard.store.look(name)
        self._is_cut = False
        if position == 1:
            self._tell_of_first()

    def _tell_of_first(self) -> None:
        """Have a manifest tell of the first entry: without its entries the log would look new.

        Later writers tell of the entries that they find, and flushes of those that they have.
        """

        def told(newest: ShardManifest) -> ShardManifest | None:
            return None if newest.last_seen else replace(newest, last_seen=1)

        with suppress(LancekitError):  # the entry is there: a writer that took the shard tells more
            self.flushed(change(self._shard, self._epoch, told).version)

    def flushed(self, version: int) -> None:
        """Follow the manifests by one that a flush put."""
        self._manifest = version, self._shard.store.look(manifest_name(version))

    def check(self, mark: str | None) -> str:
        """Compare the mark that the file `name` has now; return how the log ended, empty if not.

        Raises
        ------
        FencedError
            Another writer has the shard.
        """
        _, known = self._entry if self._entry[0] else self._manifest
        return "" if mark == known else self._look()

    def check_whole(self) -> None:
        """Raise if the last entry was missing at the last check; this reads nothing.

        Raises
        ------
        CorruptFileError
            It was; the rows are in the memory of the writer, or in a generation.
        """
        if self._is_cut:
            where, last = f"{self._shard.store.uri}/{WAL}", self._entry[0]
            raise CorruptFileError(
                f"The end of the write-ahead log {where} is missing: its writer put entry {last}, "
                "and it is gone. These rows were not written.",
                hint="Close the writer: it has the rows of the log in memory, and makes a "
                "generation of them. Then open another writer, and put these rows again. Close it "
                "before ds.repair_mem_wal(), which would give the lost rows up.",
                file=where,
                shard=str(self._shard.id),
                position=last,
                unwritten=True,
                cut=True,
            )

    def is_sealed(self) -> bool:
        """Look whether the shard was sealed since the writer claimed it."""
        store, (version, known) = self._shard.store, self._manifest
        following = manifest_name(version + 1)
        if store.look(manifest_name(version)) == known and not store.exists(following):
            return False
        newest = latest(self._shard)
        return newest is not None and newest.sealed

    def _look(self) -> str:
        try:
            newest = latest(self._shard)
        except CorruptFileError as error:
            if not error.context.get("lost"):
                raise
            return "has lost the log of the shard"
        if newest is None:
            return "has no log of the shard any more"
        version, known = self._manifest
        mark = self._shard.store.look(manifest_name(version))
        if newest.writer_epoch < self._epoch or mark not in {None, known}:
            return "has another copy of the shard's log"
        if newest.writer_epoch > self._epoch:
            raise fenced(self._shard, self._epoch, newest.writer_epoch)
        if mark is None:  # old manifests are collected
            self.flushed(newest.version)
        last, _ = self._entry
        if last:
            self._entry = last, self._shard.store.look(entry_name(last))
            self._is_cut = self._entry[1] is None
        return ""
