"""`MemWalSetAside`: rows that a repair of write-ahead logs moved aside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.mem_wal_rows import MemWalRows
from lancekit._checked import checked_methods
from lancekit._lazy import cached_property
from lancekit._legible import plural
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
from lancekit._shards.shard import Shard
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot

__all__ = ["MemWalSetAside"]


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class MemWalSetAside(MemWalRows):
    """Rows that a repair moved aside, as they were then; `mem_wal_set_aside` gives it.

    No read of the table shows these rows.  Each row has a state:

    - ``"newest"``: no newer row of the key is there.
    - ``"older"``: a newer row of the key is there, or the table had merged the row.
    - ``"unsure"``: nothing tells whether one is there, or the file is damaged.

    `to_table` shows what `put_back` would do.  Beside the columns of the table and ``_tombstone``
    it has ``_set_aside_shard``, ``_set_aside_generation``, ``_set_aside_position`` (in the log;
    null for a row of a generation), ``_set_aside_file``, ``_set_aside_row`` (the place in the
    file), ``_set_aside_state`` and ``_set_aside_reason``.

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
        newest = latest_snapshot(handle._line)
        listed_schema(newest.manifest.schema)
        found = (judged_rows(newest, shard) for shard in chosen_shards(newest, shards, lost=True))
        return cls(handle, newest, tuple(one for one in found if one.aside.files))

    def _plain(self) -> str:
        states = [state for one in self._found for state, _ in one.verdicts]
        told = f"{plural(len(self), 'row')} moved aside by a repair"
        shown = [f"{states.count(name)} {name}" for name in dict.fromkeys(states)]
        unread = [f"{uri} cannot be read: {fault}" for uri, fault in self.unreadable.items()]
        return "\n".join([f"{told}: {', '.join(shown)}" if shown else told, *unread])

    @property
    def unreadable(self) -> dict[str, str]:
        """Files of which no row can be read, by their URIs, and what is wrong with each."""
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
        """Put rows into the log of their shard again, where no newer row of the key is there.

        The rows are put as the files have them, or as they were corrected.

        This claims each shard that has such rows, which fences its writer.  It then judges the
        rows again, so that rows that were put since `to_table` count.  A row whose ``_tombstone``
        is true deletes its key.  A second call puts no row over the first one's.

        Parameters
        ----------
        rows
            Some rows of `to_table` or `to_pandas`, corrected or not; or rows with all columns of
            the table, which stand for the rows of their keys.  ``{"id": [7]}``, with the columns of
            the primary key alone, names rows whose values are those of the files.  By default all
            rows as the files have them.
        unsure
            Put back rows with the state ``"unsure"``, too.  The table may have a newer row of the
            key, which this row replaces then.  Choose them with `rows`.

        Returns
        -------
        MemWalPutBack
            ``put_back``, ``tombstones``, ``older`` and ``unsure``: the numbers of rows that went
            back, of keys that were deleted, and of rows that were left out for each reason.

        Raises
        ------
        InvalidArgumentError
            The rows do not say which rows they name, lack some columns of the table, or have
            another key than in the files; or the table has no primary key.
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
        line, done = self._handle._line, MemWalPutBack()
        for shard in self._shards:
            done += put_back_aside(line, shard, given, unsure=unsure)
        return done

    def discard(self) -> None:
        """Take all these rows out of the list for good, with the files that cannot be read.

        The files stay where they are.

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
