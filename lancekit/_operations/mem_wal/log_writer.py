"""Entries of a log, put one after the other: what is durable, what others have, what is open.

See docs/format/memwal.md, 9.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.mem_wal.names import entry_name
from lancekit._interrupts import pause
from lancekit._operations.mem_wal.table_watch import TableWatch
from lancekit._shards.entry import encode_entry, read_entry
from lancekit._shards.log import put_entry
from lancekit._shards.manifests import fenced
from lancekit._shards.shard import Shard
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    CommitUnknownError,
    CorruptFileError,
    ShardError,
    StorageError,
)

__all__ = ["LogWriter"]

#: batches of an entry are joined up to this many bytes: that is cheaper than to write each
_JOINED_BYTES = 1 << 20


class LogWriter:
    """Puts the entries of one epoch.  Not for several threads at once.

    Parameters
    ----------
    shard
        The shard.
    schema
        That of its log.
    epoch
        The writer's.
    position
        Where the next entry goes.
    table
        Looks whether the table still has its logs.
    retries, base_delay
        How often an entry is put again that could not be stored, and after how many seconds at
        first; each time it is twice as long.
    """

    def __init__(
        self,
        shard: Shard,
        schema: pa.Schema,
        *,
        epoch: int,
        position: int,
        table: TableWatch,
        retries: int,
        base_delay: float,
    ) -> None:
        self._shard = shard
        self._schema = schema
        self._table = table
        self._retries = retries
        self._base_delay = base_delay
        self.epoch = epoch
        self.position: int = position

    def encode(self, batches: Sequence[pa.RecordBatch], size: int, generation: int) -> bytes:
        """Return the entry of rows, of so many bytes, that are to be in a generation."""
        if len(batches) > 1 and size <= _JOINED_BYTES:
            batches = [ak.concat_batches(batches)]
        return encode_entry(self._schema, batches, self.epoch, generation)

    def decode(self, entry: bytes) -> list[pa.RecordBatch]:
        """Return the rows of an entry.

        What the caller does to the memory of what was put does not reach them.
        """
        with pa.ipc.open_stream(entry) as reader:
            return [
                pa.RecordBatch.from_arrays(batch.columns, schema=self._schema) for batch in reader
            ]

    def check_rows(self, *, look: bool = False) -> None:
        """Raise if rows could not be put at the last look, as `put` raises; `look` looks now."""
        if look:
            self._table.check()
        self._table.check_rows()

    @property
    def seen(self) -> Snapshot:
        """The newest version of the table that was looked at."""
        return self._table.seen

    def is_sealed(self) -> bool:
        """Look whether the shard was sealed since it was claimed."""
        return self._table.log is not None and self._table.log.is_sealed()

    def put(self, entry: bytes, *, again: bool = False, owed: bool = False) -> None:
        """Put an entry durably, and go on to the next position.

        Parameters
        ----------
        entry
            What `encode` returned.
        again
            True if an interrupt left the same call before: the entry may be there.
        owed
            True if rows of the entry were acknowledged: they are written whatever columns the
            table has now.

        Raises
        ------
        FencedError
            Another writer has the shard, or the logs of the table ended.
        SchemaMismatchError
            The table has other columns now.
        CorruptFileError
            The entry before is missing; ``context`` has ``unwritten``.
        CommitUnknownError
            The entry may be there or not.
        ShardError
            Something else is at its position.
        """
        while not (self._try(entry, again, owed) or self._is_there(entry)):
            self._pass_by()
        if self._table.is_cheap:  # they may have ended while the entry was written
            name = entry_name(self.position)
            self._table.check_written(lambda: self._shard.store.delete(name))
        if self._table.log is not None:
            self._table.log.wrote(self.position)
        self.position += 1

    def _try(self, entry: bytes, again: bool, owed: bool) -> bool:
        """Put an entry, several times if it has to be; ``False`` if its position is taken."""
        for attempt in range(self._retries + 1):
            try:
                self._table.check()
                if not (attempt or owed):
                    self._table.check_rows()
                free = put_entry(self._shard, self.position, entry)
                if (attempt or again) and not free and self._is_there(entry):
                    # an attempt that failed or was interrupted left it, perhaps in memory alone
                    self._shard.store.put(entry_name(self.position), entry)
            except StorageError as error:
                if attempt == self._retries:
                    raise self._unknown(error) from error
                pause(self._base_delay * 2**attempt)
            else:
                return free
        raise AssertionError("there is one attempt at least")

    def _is_there(self, entry: bytes) -> bool:
        """Tell whether this very entry is at its position: nobody else has the epoch."""
        try:
            return bytes(self._shard.store.read(entry_name(self.position))) == entry
        except FileNotFoundError:
            return False

    def _pass_by(self) -> None:
        """Go past the sentinel of a writer that was stopped while it took the shard before us."""
        try:
            other = read_entry(self._shard, self.position)
        except (CorruptFileError, FileNotFoundError) as error:
            raise self._foreign("something that cannot be read") from error
        if other.epoch > self.epoch:
            raise fenced(self._shard, self.epoch, other.epoch)
        if not other.sentinel:
            raise self._foreign(f"an entry of epoch {other.epoch}")
        self.position += 1

    def _foreign(self, what: str) -> ShardError:
        return ShardError(
            f"Position {self.position} of the log of shard {self._shard.id}, where the next entry "
            f"of epoch {self.epoch} goes, has {what}. The rows were not written.",
            hint="Open the writer again: it reads what the log has.",
            shard=str(self._shard.id),
            position=self.position,
        )

    def _unknown(self, error: StorageError) -> CommitUnknownError:
        return CommitUnknownError(
            f"Entry {self.position} of the log of shard {self._shard.id} could not be written: "
            f"{error.message} Its rows may be there or not.",
            hint="Open the writer again when the storage works, and put the rows again: with a "
            "primary key they count once.",
            shard=str(self._shard.id),
            position=self.position,
        )
