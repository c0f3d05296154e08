"""Rows of write-ahead logs that reads do not return: in quarantine, or set aside by a repair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.frames import pandas_frame
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._format.extensions import resolved
from lancekit._lazy import cached_property
from lancekit._legible import plural
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.mem_wal.put_back import Leaving, discarded, given_back, leave_quarantine
from lancekit._operations.mem_wal.quarantine import Quarantined, read_quarantine
from lancekit._operations.mem_wal.reader.set_aside import (
    JudgedRows,
    MemWalPutBack,
    discard_aside,
    given_rows,
    judged_rows,
    listed_schema,
    put_back_aside,
    with_facts,
)
from lancekit._operations.mem_wal.shards import chosen_shards
from lancekit._shards.schema import Shard
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd

# ---- the common base of rows in quarantine and rows set aside


@checked_methods
class _MemWalRows(Displayed, ABC):
    """Rows that are not in the table, as of the creation of this object.

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
        """The columns of the version, and the columns that describe each row."""

    def __len__(self) -> int:
        return self._rows.num_rows

    @property
    def version(self) -> int:
        """The version of the table; the rows have its columns."""
        return self._at.version

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row: the primary key, or all columns if there is none."""
        schema = self._at.manifest.schema
        return tuple(field.name for field in schema.primary_key) or tuple(schema.names)

    def to_table(self) -> pa.Table:
        """Return the rows; the newest row of a key comes last.  Nothing is changed.

        Returns
        -------
        pyarrow.Table
            The table's columns, ``_tombstone`` (the row deletes its key), and columns that describe
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


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class MemWalQuarantine(_MemWalRows):
    """The rows in quarantine, as of the creation of this object; see `mem_wal_quarantine`.

    These rows are in no version and in no log: no read of the table returns them.  The quarantine
    belongs to `version` of the table.

    After the columns of the table and ``_tombstone``, `to_table` has ``_quarantine_shard``,
    ``_quarantine_generation``, ``_quarantine_reason``, ``_quarantine_time`` and
    ``_quarantine_row``: the number that identifies the row in `put_back` and `discard`.

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
        snapshot = handle._snapshot if handle._read_only else latest_snapshot(handle._location)
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
        """Upsert rows into the table by primary key, and remove them from the quarantine.

        One commit does both; the handle moves.  Of several rows of a key the newest is used: the
        last one by ``_quarantine_row``, or by order without that column.  All rows of the key leave
        the quarantine.  A row whose ``_tombstone`` is true deletes the key.  Without a primary key
        rows are appended.

        Parameters
        ----------
        rows
            Corrected rows with all columns of the table: a DataFrame of `to_pandas`, a table, a
            dictionary.  A row with ``_quarantine_row`` replaces the row of that number, so even its
            key can be corrected.  A row without it replaces the rows of its key.  By default all
            rows are put back unchanged.

        Returns
        -------
        int
            The number of rows that left the quarantine.

        Raises
        ------
        InvalidArgumentError
            A row is not in the quarantine, or has neither a number nor a key.  Or it has a number,
            and the newest row of its key was not passed.  Or several keys were corrected to one.
        ConstraintViolationError, SchemaMismatchError, NullKeyError
            The table refuses a row.  Nothing is changed.
        IncompatibleConflictError
            The quarantine, or the columns of the table, changed since this object was created.
        RetriesExhaustedError
            Other writers changed the same rows before every attempt.
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
        """Remove rows from the quarantine for good; the handle moves.

        Parameters
        ----------
        rows
            The rows, as for `put_back`: ``{"id": [7]}`` with the columns of the primary key, or
            ``{"_quarantine_row": [0]}``.  Other columns are ignored.  All rows of a key leave.

        Returns
        -------
        int
            The number of rows that left the quarantine.

        Raises
        ------
        InvalidArgumentError
            A row is not in the quarantine, or has neither a number nor a key.  Or it has a number,
            and the newest row of its key was not passed.
        IncompatibleConflictError
            The quarantine, or the columns of the table, changed since this object was created.
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


# ---- `MemWalSetAside`: rows that a repair of write-ahead logs has set aside


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class MemWalSetAside(_MemWalRows):
    """The rows that a repair has set aside, as of that time; see `mem_wal_set_aside`.

    No read of the table returns these rows.  Each row has a state:

    - ``"newest"``: there is no newer row of the key.
    - ``"older"``: there is a newer row of the key, or the table had merged the row.
    - ``"unsure"``: it is unknown if there is a newer row, or the file is damaged.

    `to_table` shows what `put_back` would do.  After the columns of the table and ``_tombstone`` it
    has ``_set_aside_shard``, ``_set_aside_generation``, ``_set_aside_position`` (in the log; null
    for a row of a generation), ``_set_aside_file``, ``_set_aside_row`` (the position in the file),
    ``_set_aside_state`` and ``_set_aside_reason``.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1]}, "memory://set-aside-example", primary_key="id")
    >>> len(ds.mem_wal_set_aside())
    0
    """

    _handle: Handle
    _snapshot: Snapshot
    _found: tuple[JudgedRows, ...]

    @classmethod
    def _of(cls, handle: Handle, shards: Iterable[str | UUID] | None) -> MemWalSetAside:
        newest = latest_snapshot(handle._location)
        listed_schema(newest.manifest.schema)
        found = (judged_rows(newest, shard) for shard in chosen_shards(newest, shards, lost=True))
        return cls(handle, newest, tuple(one for one in found if one.aside.files))

    def _plain(self) -> str:
        states = [state for one in self._found for state, _ in one.verdicts]
        summary = f"{plural(len(self), 'row')} moved aside by a repair"
        shown = [f"{states.count(name)} {name}" for name in dict.fromkeys(states)]
        unread = [f"{uri} cannot be read: {fault}" for uri, fault in self.unreadable.items()]
        return "\n".join([f"{summary}: {', '.join(shown)}" if shown else summary, *unread])

    @property
    def unreadable(self) -> dict[str, str]:
        """The fault of each completely unreadable file, by URI."""
        files = (file for one in self._found for file in one.aside.files)
        return {file.uri: file.fault for file in files if file.fault and not file.rows}

    @property
    def _at(self) -> Snapshot:
        return self._snapshot

    @cached_property
    def _rows(self) -> pa.Table:
        form = listed_schema(self._snapshot.manifest.schema)
        return pa.concat_tables([form.empty_table(), *map(with_facts, self._found)])

    def put_back(self, rows: object = None, *, unsure: bool = False) -> MemWalPutBack:
        """Put rows into the log of their shard again, unless there is a newer row of the key.

        The rows are put as in the files, or as corrected.

        Each shard with such rows is claimed, which fences its writer.  Then the states are computed
        again, so that rows put since `to_table` count.  A row whose ``_tombstone`` is true deletes
        its key.  A second call does not overwrite rows of the first.

        Parameters
        ----------
        rows
            Some rows of `to_table` or `to_pandas`, corrected or not; or rows with all columns of
            the table, which replace the rows of their keys.  ``{"id": [7]}``, with only the columns
            of the primary key, selects rows as in the files.  By default all rows of the files.
        unsure
            Also put back rows with the state ``"unsure"``.  If the table has a newer row of the
            key, it is replaced.  Select them with `rows`.

        Returns
        -------
        MemWalPutBack
            ``put_back``, ``tombstones``, ``older`` and ``unsure``: the numbers of rows put back, of
            deleted keys, and of rows left out for each reason.

        Raises
        ------
        InvalidArgumentError
            The rows do not identify rows of the files, lack columns of the table, or have another
            key than in the files.  Or the table has no primary key.
        ConstraintViolationError, SchemaMismatchError, NullKeyError
            The table refuses a row.  No row of its shard is put back.
        FencedError
            Other writers took the shard at each attempt.
        ReadOnlyError
            The handle is pinned to a version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://set-aside-back", primary_key="id")
        >>> ds.mem_wal_set_aside().put_back()
        MemWalPutBack(put_back=0, tombstones=0, older=0, unsure=0)
        """
        self._handle._check_movable()
        given = given_rows(self._snapshot.manifest.schema, rows)
        for one in self._found:
            given.check_keys(one)
        location, done = self._handle._location, MemWalPutBack()
        for shard in self._shards:
            done += put_back_aside(location, shard, given, unsure=unsure)
        return done

    def discard(self) -> None:
        """Never list these rows and the unreadable files again.

        No file is removed.

        Raises
        ------
        ReadOnlyError
            The handle is pinned to a version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://set-aside-discard", primary_key="id")
        >>> ds.mem_wal_set_aside().discard()
        """
        self._handle._check_movable()
        for one in self._found:
            discard_aside(one.aside.shard, [file.aside for file in one.aside.files])

    @property
    def _shards(self) -> list[Shard]:
        return [one.aside.shard for one in self._found]
