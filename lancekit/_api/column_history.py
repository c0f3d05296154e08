"""`ColumnHistory`: every version that made a column, changed it as a whole, or dropped it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from lancekit._api._changes import ChangesOf
from lancekit._api.history import describe_version
from lancekit._api.scanner import scan_of
from lancekit._arguments.scan import ScanArguments
from lancekit._lazy import cached_property
from lancekit._legible import plural
from lancekit._operations.lineage.trace import ColumnEntry, ColumnKind, column_entries
from lancekit._pipeline.diff.statistics import ColumnStatistics, column_statistics
from lancekit._versions.snapshot import Snapshot

__all__ = ["ColumnChange", "ColumnHistory", "column_history_of"]


@dataclass(frozen=True, kw_only=True)
class ColumnChange:
    """What a version did to a column.

    Attributes
    ----------
    kind
        ``"added"``, ``"renamed"``, ``"cast"``, ``"rewritten"`` (other values for rows that were
        there, or an overwrite) or ``"dropped"``; ``"found"`` in the oldest version that can be
        read, which has it from versions that are gone, or from where a deep clone was made.
    version, timestamp, operation, message
        The version, and what its commit says of itself.
    branch
        The branch that the version is of: of what a branch took over, that of its parent.
    before
        The version that it was compared with, ``None`` if there is none.
    old_name, name
        What the column was called, and is; ``None`` where it was not, or is no more.
    old_type, type
        Its types.
    """

    kind: ColumnKind
    version: int
    timestamp: datetime
    operation: str | None
    message: str | None
    branch: str
    before: int | None
    old_name: str | None
    name: str | None
    old_type: pa.DataType | None
    type: pa.DataType | None
    _entry: ColumnEntry = field(repr=False, compare=False)

    @cached_property
    def statistics(self) -> ColumnStatistics | None:
        """What its values are like in that version: the column is read for it, once.

        ``None`` where it was dropped; `old_statistics` has what it was.
        """
        return _statistics(self._entry.version, self.name)

    @cached_property
    def old_statistics(self) -> ColumnStatistics | None:
        """What its values were like before; ``None`` where it was not."""
        return _statistics(self._entry.before, self.old_name)


class ColumnHistory(ChangesOf[ColumnChange]):
    """The changes of a column, oldest first; `LanceDataset.column_history` makes it.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://column-history-example")
    >>> _ = ds.add_columns({"v": "id * 10"})
    >>> added = ds.column_history("v")[0]
    >>> added.kind, added.version, added.statistics.max
    ('added', 2, 20)
    """

    def __init__(self, branch: str, column: str, changes: Sequence[ColumnChange]) -> None:
        super().__init__(branch, changes)
        self.column = column

    def _plain(self) -> str:
        return f"ColumnHistory({self.column!r}, {plural(len(self), 'change')} of {self.branch})"


def column_history_of(snapshot: Snapshot, column: str) -> ColumnHistory:
    """Return the history of a column; see `LanceDataset.column_history`."""
    found = reversed(column_entries(snapshot, column))
    return ColumnHistory(snapshot.line.name, column, [_change(entry) for entry in found])


def _change(entry: ColumnEntry) -> ColumnChange:
    commit = describe_version(entry.version)
    old, new = entry.old, entry.new
    return ColumnChange(
        kind=entry.kind,
        version=commit.version,
        timestamp=commit.timestamp,
        operation=commit.operation,
        message=commit.message,
        branch=commit.branch,
        before=None if entry.before is None else entry.before.version,
        old_name=None if old is None else old.name,
        name=None if new is None else new.name,
        old_type=None if old is None else old.to_arrow().type,
        type=None if new is None else new.to_arrow().type,
        _entry=entry,
    )


def _statistics(snapshot: Snapshot | None, name: str | None) -> ColumnStatistics | None:
    if snapshot is None or name is None:
        return None
    scan = scan_of(snapshot, ScanArguments(columns=[name], blob_handling="all_binary"))
    return column_statistics(batch.column(0) for batch in scan.to_batches())
