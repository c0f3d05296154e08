"""`MemWalQuarantine`: rows that a merge of write-ahead logs set aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit.api._handle import Handle
from lancekit.api.frames import pandas_frame
from lancekit.checked import checked_methods
from lancekit.display import Displayed
from lancekit.format.extensions import resolved
from lancekit.legible import plural
from lancekit.operations.common.retry import RetryPolicy
from lancekit.operations.mem_wal.put_back import (
    Leaving,
    discarded,
    given_back,
    leave_quarantine,
)
from lancekit.operations.mem_wal.quarantine import Quarantined, read_quarantine
from lancekit.versions.listing import latest_snapshot

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MemWalQuarantine"]


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class MemWalQuarantine(Displayed):
    """Rows in quarantine, as they were when this was made; `mem_wal_quarantine` gives it.

    These rows are in no version and in no log: no read of the table shows them.

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

    def __len__(self) -> int:
        return self._found.rows.num_rows

    def _plain(self) -> str:
        return f"{plural(len(self), 'row')} in quarantine"

    @property
    def version(self) -> int:
        """The version of the table whose quarantine this is."""
        return self._found.snapshot.version

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell the rows: the primary key, or all columns without a key."""
        schema = self._found.snapshot.manifest.schema
        return tuple(field.name for field in schema.primary_key) or tuple(schema.names)

    def to_table(self) -> pa.Table:
        """Return the rows; of several rows of a key the newest row comes last.

        Returns
        -------
        pyarrow.Table
            The columns of the table, and ``_tombstone`` (the row deletes its key),
            ``_quarantine_shard``, ``_quarantine_generation``, ``_quarantine_reason``,
            ``_quarantine_time`` and ``_quarantine_row``, the number by which `put_back` and
            `discard` know the row.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://quarantine-rows", primary_key="id")
        >>> ds.mem_wal_quarantine().to_table().column_names[:2]
        ['id', '_tombstone']
        """
        return resolved(self._found.rows)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame, with the columns of `to_table`.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://quarantine-frame", primary_key="id")
        >>> len(ds.mem_wal_quarantine().to_pandas())
        0
        """
        return pandas_frame(self.to_table(), {})

    def put_back(self, rows: Any = None) -> int:
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

    def discard(self, rows: Any) -> int:
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
