"""Histories of rows and columns (the versions that changed them), and blame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, Self, TypeVar, overload

import numpy as np
import pyarrow as pa

from lancekit._api.history import describe_version
from lancekit._api.scanner import scan_of
from lancekit._arguments.scan import ScanArguments
from lancekit._display import Displayed
from lancekit._format.transaction import TransactionSummary
from lancekit._lazy import cached_property
from lancekit._legible import plural
from lancekit._operations.lineage.row_history import Entry, history_of
from lancekit._operations.lineage.trace import ColumnEntry, ColumnKind, column_entries, last_changes
from lancekit._pipeline.diff.statistics import ColumnStatistics, column_statistics
from lancekit._scan.expressions.objects import Filter
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

# ---- the common base of both histories: changes on a branch, oldest first

Change = TypeVar("Change")


class ChangesOf(Displayed, Sequence[Change]):
    """A sequence of changes; a slice has the same type and subject."""

    def __init__(self, branch: str, changes: Sequence[Change]) -> None:
        self.branch = branch
        self._changes = tuple(changes)

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Change | Self:
        if isinstance(index, slice):
            part = copy(self)
            part._changes = self._changes[index]
            return part
        return self._changes[index]

    def __iter__(self) -> Iterator[Change]:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, type(self)):
            return self.__dict__ == other.__dict__
        return NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # unhashable, like a list


@dataclass(frozen=True, slots=True)
class RowChange:
    """The change of a row by one version.

    Attributes
    ----------
    kind
        ``"born"``, ``"updated"`` or ``"died"``.  ``"found"`` in the oldest readable version, which
        has the row from removed versions or from the source of a deep clone.
    version, timestamp, operation, message
        The version, and its commit.
    branch
        The branch of the version; inherited versions belong to the parent branch.
    before
        The version it was compared with, or ``None``.  If it is not the previous version, the
        versions in between were cleaned up, and each may have made the change.
    key
        The identity of the row: its key columns, or its row id.
    cells
        (old, new) of each changed value.  For a born row the old values are ``None``, for a died
        row the new values.
    """

    kind: Literal["born", "updated", "died", "found"]
    version: int
    timestamp: datetime
    operation: str | None
    message: str | None
    branch: str
    before: int | None
    key: dict[str, Any]
    cells: dict[str, tuple[Any, Any]]


class RowHistory(ChangesOf[RowChange]):
    """The changes of one or several rows, oldest first; `LanceDataset.row_history` makes it.

    Examples
    --------
    >>> import lancekit as lk
    >>> rows = {"id": [1, 2], "v": ["a", "b"]}
    >>> ds = lk.write_dataset(rows, "memory://row-history-example", primary_key="id")
    >>> _ = ds.update({"v": "'B'"}, where="id = 2")
    >>> [(change.version, change.kind, change.cells) for change in ds.row_history({"id": 2})]
    [(1, 'born', {'v': (None, 'b')}), (2, 'updated', {'v': ('b', 'B')})]
    """

    @property
    def keys(self) -> list[dict[str, Any]]:
        """The distinct keys of the rows."""
        found = []
        for change in self._changes:
            if change.key not in found:
                found.append(change.key)
        return found

    def _plain(self) -> str:
        return f"RowHistory({plural(len(self), 'change')} of {self.branch})"


def row_history_of(snapshot: Snapshot, rows: Mapping[str, object] | Filter | int) -> RowHistory:
    """Return the history of rows; see `LanceDataset.row_history`."""
    found = reversed(history_of(snapshot, rows))
    return RowHistory(snapshot.location.name, [_change(entry) for entry in found])


def _change(entry: Entry) -> RowChange:
    commit = describe_version(entry.version)
    return RowChange(
        kind=entry.kind,
        version=commit.version,
        timestamp=commit.timestamp,
        operation=commit.operation,
        message=commit.message,
        branch=commit.branch,
        before=None if entry.before is None else entry.before.version,
        key=entry.key,
        cells=entry.cells,
    )


# ---- blame: rows with the version that last changed each

#: the columns that describe the version that last changed a row
_FIELDS = (
    pa.field("_changed_in", pa.uint64()),
    pa.field("_changed_branch", pa.string()),
    pa.field("_changed_at", pa.timestamp("us", "UTC")),
    pa.field("_changed_by", pa.string()),
    pa.field("_changed_message", pa.string()),
    pa.field("_changed_from", pa.string()),
)


def _origin(commit: TransactionSummary) -> str | None:
    return str(commit.provenance) if commit.provenance else None


def blame_of(
    snapshot: Snapshot, condition: Filter | None, columns: Sequence[str] | None
) -> pa.Table:
    """Return rows, each with the version that last changed it; see `LanceDataset.blame`."""
    schema = snapshot.manifest.schema
    names = [field.name for field in schema.fields] if columns is None else [*columns]
    for name in names:
        schema.field(name)
    taken = {field.name for field in _FIELDS}.intersection(names)
    if taken:
        raise InvalidArgumentError(
            f"Column {min(taken)!r} clashes with a column of blame().",
            hint="Pass the other columns in `columns`.",
            column=min(taken),
        )
    arguments = ScanArguments(columns=names, filter=condition, with_row_address=True)
    rows = scan_of(snapshot, arguments).to_table()
    addresses = rows["_rowaddr"].to_numpy().astype(np.uint64)
    found = last_changes(snapshot, addresses, columns)
    commits = {number: at.transaction_summary for number, at in found.by_number.items()}
    facts: tuple[dict[int, object], ...] = (
        {number: number for number in commits},
        {number: at.location.name for number, at in found.by_number.items()},
        {number: at.manifest.timestamp for number, at in found.by_number.items()},
        {number: commit and commit.operation for number, commit in commits.items()},
        {number: commit and commit.message for number, commit in commits.items()},
        {number: commit and _origin(commit) for number, commit in commits.items()},
    )
    table = rows.select(names)
    for column, values in zip(_FIELDS, facts, strict=True):
        table = table.append_column(column, found.column(values, column.type))
    return table


# ---- `ColumnHistory`: the versions that added, changed or dropped a column


@dataclass(frozen=True, kw_only=True)
class ColumnChange:
    """The change of a column by one version.

    Attributes
    ----------
    kind
        ``"added"``, ``"renamed"``, ``"cast"``, ``"rewritten"`` (new values for existing rows, or an
        overwrite) or ``"dropped"``.  ``"found"`` in the oldest readable version, which has the
        column from removed versions or from the source of a deep clone.
    version, timestamp, operation, message
        The version, and its commit.
    branch
        The branch of the version; inherited versions belong to the parent branch.
    before
        The version it was compared with, or ``None``.
    old_name, name
        The old and the new name; ``None`` where the column did not exist.
    old_type, type
        The old and the new type.
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
        """The statistics of the values in the version; the column is read once.

        ``None`` if the column was dropped; see `old_statistics`.
        """
        return _statistics(self._entry.version, self.name)

    @cached_property
    def old_statistics(self) -> ColumnStatistics | None:
        """The statistics of the old values, or ``None`` if the column did not exist."""
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
    return ColumnHistory(snapshot.location.name, column, [_column_change(entry) for entry in found])


def _column_change(entry: ColumnEntry) -> ColumnChange:
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
