"""`MemWalSetAside`: rows that a repair of write-ahead logs moved aside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from lancekit.api._handle import Handle
from lancekit.api.frames import pandas_frame
from lancekit.checked import checked_methods
from lancekit.display import Displayed
from lancekit.errors import InvalidArgumentError
from lancekit.format.extensions import resolved
from lancekit.lazy import cached_property
from lancekit.legible import plural
from lancekit.operations.mem_wal.aside.back import (
    JudgedRows,
    MemWalPutBack,
    discard_aside,
    judged_rows,
    put_back_aside,
)
from lancekit.operations.mem_wal.shard_rows import opened_rows
from lancekit.operations.mem_wal.shards import chosen_shards
from lancekit.shards.schema import primary_key
from lancekit.shards.shard import Shard
from lancekit.versions.listing import latest_snapshot
from lancekit.versions.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MemWalSetAside"]

_FACTS = pa.schema(
    {
        "_set_aside_shard": pa.string(),
        "_set_aside_generation": pa.int64(),
        "_set_aside_position": pa.int64(),
        "_set_aside_file": pa.string(),
        "_set_aside_row": pa.int64(),
        "_set_aside_state": pa.string(),
        "_set_aside_reason": pa.string(),
    }
)
#: what tells a row from all others
_PLACE = ("_set_aside_file", "_set_aside_row")


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class MemWalSetAside(Displayed):
    """Rows that a repair moved aside, as they were then; `mem_wal_set_aside` gives it.

    No read of the table shows these rows.  Each row has a state:

    - ``"newest"``: no newer row of the key is there.
    - ``"older"``: a newer row of the key is there, or the table had merged the row.
    - ``"unsure"``: nothing tells whether one is there, or the file is damaged.

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
        for name in _FACTS.names:
            if name in newest.manifest.schema:
                raise InvalidArgumentError(
                    f"The table has a column {name!r}, which rows that were moved aside need.",
                    hint="Rename the column.",
                    column=name,
                )
        found = (judged_rows(newest, shard) for shard in chosen_shards(newest, shards, lost=True))
        return cls(handle, newest, tuple(one for one in found if one.aside.files))

    def __len__(self) -> int:
        return sum(one.aside.rows.num_rows for one in self._found)

    def _plain(self) -> str:
        states = [state for one in self._found for state, _ in one.verdicts]
        told = f"{plural(len(self), 'row')} moved aside by a repair"
        shown = [f"{states.count(name)} {name}" for name in dict.fromkeys(states)]
        unread = [f"{uri} cannot be read: {fault}" for uri, fault in self.unreadable.items()]
        return "\n".join([f"{told}: {', '.join(shown)}" if shown else told, *unread])

    @property
    def version(self) -> int:
        """The version of the table that the rows were compared with."""
        return self._snapshot.version

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell the rows: the primary key, or all columns without a key."""
        schema = self._snapshot.manifest.schema
        return tuple(field.name for field in schema.primary_key) or tuple(schema.names)

    @property
    def unreadable(self) -> dict[str, str]:
        """Files of which no row can be read, by their URIs, and what is wrong with each."""
        files = (file for one in self._found for file in one.aside.files)
        return {file.uri: file.fault for file in files if file.fault and not file.rows}

    def to_table(self) -> pa.Table:
        """Return the rows; of several rows of a key in a shard the newest row comes last.

        This changes nothing: it shows what `put_back` would do.

        Returns
        -------
        pyarrow.Table
            The columns of the table, and ``_tombstone`` (the row deletes its key),
            ``_set_aside_shard``, ``_set_aside_generation``, ``_set_aside_position`` (in the log;
            null for a row of a generation), ``_set_aside_file``, ``_set_aside_row`` (the place in
            the file), ``_set_aside_state`` (``"newest"``, ``"older"`` or ``"unsure"``) and
            ``_set_aside_reason``.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://set-aside-rows", primary_key="id")
        >>> ds.mem_wal_set_aside().to_table().column_names[:3]
        ['id', '_tombstone', '_set_aside_shard']
        """
        return resolved(self._rows)

    @cached_property
    def _rows(self) -> pa.Table:
        tables = [_with_facts(one) for one in self._found]
        if tables:
            return pa.concat_tables(tables)
        form = self._snapshot.manifest.schema.to_arrow()
        mark = pa.field("_tombstone", pa.bool_())
        return pa.schema([*form, mark, *_FACTS]).empty_table()

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame, with the columns of `to_table`.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://set-aside-frame", primary_key="id")
        >>> len(ds.mem_wal_set_aside().to_pandas())
        0
        """
        return pandas_frame(self.to_table(), {})

    def put_back(self, rows: Any = None, *, unsure: bool = False) -> MemWalPutBack:
        """Put rows into the log of their shard again, where no newer row of the key is there.

        This claims each shard that has such rows, which fences its writer.  It then judges the
        rows again, so that rows that were put since `to_table` count.  A row whose ``_tombstone``
        is true deletes its key.  A second call puts no row over the first one's.

        Parameters
        ----------
        rows
            What names the rows: some rows of `to_table`, or ``{"id": [7]}`` with the columns of the
            primary key.  The values are those of the file.  By default all rows.
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
            The rows do not say which rows they name, or are some rows of a table without a primary
            key.
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
        named = self._named(rows)
        line, done = self._handle._line, MemWalPutBack()
        for shard in self._shards:
            done += put_back_aside(line, shard, named, unsure=unsure)
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

    def _named(self, rows: Any) -> Any:
        """Return what tells of judged rows which of them the caller names."""
        if rows is None:
            return _all
        schema = self._snapshot.manifest.schema
        keys = [field.name for field in primary_key(schema)]
        if not keys:
            raise InvalidArgumentError(
                "rows names some rows of a table without a primary key.",
                hint="Call put_back() without rows: nothing would tell the others later.",
                argument="rows",
            )
        reader = opened_rows(rows, None, self._rows.schema)
        by = next((by for by in (_PLACE, keys) if {*by} <= {*reader.schema.names}), None)
        if by is None:
            raise InvalidArgumentError(
                "rows does not say which rows it names.",
                hint="Pass rows of to_table(), or the columns of the key: "
                f"{', '.join(map(repr, keys))}.",
                argument="rows",
            )
        form = pa.schema([self._rows.schema.field(name) for name in by])
        found = pa.Table.from_batches([batch.select([*by]) for batch in reader]).cast(form)
        wanted = set(zip(*(column.to_pylist() for column in found.columns), strict=True))
        return partial(_among, tuple(by), wanted)


def _all(judged: JudgedRows) -> Any:
    return np.ones(judged.aside.rows.num_rows, bool)


def _among(by: tuple[str, ...], wanted: set[Any], judged: JudgedRows) -> Any:
    columns = _with_facts(judged).select([*by]).columns
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return np.array([row in wanted for row in rows], bool)


def _with_facts(judged: JudgedRows) -> pa.Table:
    """Add to rows where they come from and what was found out about them."""
    aside = judged.aside
    files = [aside.files[place] for place in aside.file.tolist()]
    facts: dict[str, Any] = {
        "_set_aside_shard": [str(aside.shard.id)] * len(files),
        "_set_aside_generation": [file.generation or None for file in files],
        "_set_aside_position": [file.aside.position for file in files],
        "_set_aside_file": [file.uri for file in files],
        "_set_aside_row": aside.offsets,
        "_set_aside_state": [one.state for one in judged.verdicts],
        "_set_aside_reason": [one.reason for one in judged.verdicts],
    }
    rows = aside.rows
    for field in _FACTS:
        rows = rows.append_column(field, pa.array(facts[field.name], field.type))
    return rows
