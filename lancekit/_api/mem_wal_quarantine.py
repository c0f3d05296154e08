"""`MemWalQuarantine`: rows that a merge of write-ahead logs set aside."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.mem_wal_rows import MemWalRows
from lancekit._checked import checked_methods
from lancekit._legible import plural
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.mem_wal.put_back import (
    Leaving,
    discarded,
    given_back,
    leave_quarantine,
)
from lancekit._operations.mem_wal.quarantine import Quarantined, read_quarantine
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot

__all__ = ["MemWalQuarantine"]


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class MemWalQuarantine(MemWalRows):
    """Rows in quarantine, as they were when this was made; `mem_wal_quarantine` gives it.

    These rows are in no version and in no log: no read of the table shows them.  `version` is that
    of the table whose quarantine this is.

    Beside the columns of the table and ``_tombstone``, `to_table` has ``_quarantine_shard``,
    ``_quarantine_generation``, ``_quarantine_reason``, ``_quarantine_time`` and
    ``_quarantine_row``, the number by which `put_back` and `discard` know the row.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1]}, "memory://quarantine-example", primary_key="id")
    >>> len(ds.mem_wal_quarantine())
    0
    """

    _handle: Handle
    _found: Quarantined

    @classmethod
    def _of(cls, handle: Handle) -> MemWalQuarantine:
        snapshot = handle._snapshot if handle._read_only else latest_snapshot(handle._line)
        return cls(handle, read_quarantine(snapshot))

    def _plain(self) -> str:
        return f"{plural(len(self), 'row')} in quarantine"

    @property
    def _at(self) -> Snapshot:
        return self._found.snapshot

    @property
    def _rows(self) -> pa.Table:
        return self._found.rows

    def put_back(self, rows: object = None) -> int:
        """Bring rows into the table, by the primary key, and take them out of the quarantine.

        One commit does both; the handle moves.  Of several rows of a key the newest row counts, by
        ``_quarantine_row``, or the last row without that column.  All rows of the key leave the
        quarantine.  A row whose ``_tombstone`` is true deletes the key.  Without a primary key rows
        are appended.

        Parameters
        ----------
        rows
            Corrected rows with all columns of the table: a DataFrame of `to_pandas`, a table, a
            dictionary.  A row with ``_quarantine_row`` stands for the row of that number, so that
            its key may be corrected, too; a row without it stands for the rows of its key.  By
            default all rows as they are.

        Returns
        -------
        int
            How many rows left the quarantine.

        Raises
        ------
        InvalidArgumentError
            A row is not in the quarantine, or does not say for which row it stands; or it has a
            number, and the newest row of its key is not among the rows; or rows of several keys
            were corrected to one key.
        ConstraintViolationError, SchemaMismatchError, NullKeyError
            The table refuses a row.  Nothing is changed.
        IncompatibleConflictError
            The quarantine, or the columns of the table, changed since this was made.
        RetriesExhaustedError
            Others changed the same rows before every attempt.
        ReadOnlyError
            The handle is pinned to a version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://quarantine-back", primary_key="id")
        >>> ds.mem_wal_quarantine().put_back()
        0
        """
        return self._leave(given_back(self._found, rows))

    def discard(self, rows: object) -> int:
        """Take rows out of the quarantine for good; the handle moves.

        Parameters
        ----------
        rows
            What names the rows, as for `put_back`: ``{"id": [7]}`` with the columns of the primary
            key, or ``{"_quarantine_row": [0]}``; other columns do not matter.  All rows of a key
            leave.

        Returns
        -------
        int
            How many rows left the quarantine.

        Raises
        ------
        InvalidArgumentError
            A row is not in the quarantine, or does not say for which row it stands; or it has a
            number, and the newest row of its key is not among the rows.
        IncompatibleConflictError
            The quarantine, or the columns of the table, changed since this was made.
        ReadOnlyError
            The handle is pinned to a version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://quarantine-discard", primary_key="id")
        >>> quarantine = ds.mem_wal_quarantine()
        >>> quarantine.discard(quarantine.to_table())
        0
        """
        return self._leave(discarded(self._found, rows))

    def _leave(self, leaving: Leaving) -> int:
        return self._handle._move(lambda read: leave_quarantine(read, leaving, RetryPolicy()))
