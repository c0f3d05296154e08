"""Rows of write-ahead logs that no read of the table shows: in quarantine, or moved aside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import pyarrow as pa

from lancekit._api.frames import pandas_frame
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._format.extensions import resolved
from lancekit._versions.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MemWalRows"]


@checked_methods
class MemWalRows(Displayed, ABC):
    """Rows beside a table, as they were when this was made.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1]}, "memory://rows-example", primary_key="id")
    >>> [len(rows) for rows in (ds.mem_wal_quarantine(), ds.mem_wal_set_aside())]
    [0, 0]
    """

    @property
    @abstractmethod
    def _at(self) -> Snapshot:
        """The version of the table."""

    @property
    @abstractmethod
    def _rows(self) -> pa.Table:
        """The columns of the version, and what is told of each row."""

    def __len__(self) -> int:
        return self._rows.num_rows

    @property
    def version(self) -> int:
        """The version of the table, whose columns the rows have."""
        return self._at.version

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell the rows: the primary key, or all columns without a key."""
        schema = self._at.manifest.schema
        return tuple(field.name for field in schema.primary_key) or tuple(schema.names)

    def to_table(self) -> pa.Table:
        """Return the rows; of several rows of a key the newest row comes last.

        This changes nothing.

        Returns
        -------
        pyarrow.Table
            The columns of the table, ``_tombstone`` (the row deletes its key), and what is told of
            each row.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://rows-table", primary_key="id")
        >>> ds.mem_wal_quarantine().to_table().column_names[:3]
        ['id', '_tombstone', '_quarantine_shard']
        """
        return resolved(self._rows)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame, with the columns of `to_table`.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://rows-frame", primary_key="id")
        >>> len(ds.mem_wal_quarantine().to_pandas())
        0
        """
        return pandas_frame(self.to_table(), {})
