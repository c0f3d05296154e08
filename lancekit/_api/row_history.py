"""`RowHistory`: every version that made a row, changed it or deleted it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from lancekit import _arrow_compute as pc
from lancekit._api._changes import ChangesOf
from lancekit._api.history import describe_version
from lancekit._legible import plural
from lancekit._operations.lineage.row_history import Entry, history_of
from lancekit._versions.snapshot import Snapshot

__all__ = ["RowChange", "RowHistory", "row_history_of"]


@dataclass(frozen=True, slots=True)
class RowChange:
    """What a version did to a row.

    Attributes
    ----------
    kind
        ``"born"``, ``"updated"`` or ``"died"``; ``"found"`` in the oldest version that can be
        read, which has the row from versions that are gone, or from where a deep clone
        was made.
    version, timestamp, operation, message
        The version, and what its commit says of itself.
    branch
        The branch that the version is of: of what a branch took over, that of its parent.
    before
        The version that it was compared with, ``None`` if there is none.  Where that is not the
        version just before, those in between are gone, and one of them may have made the change.
    key
        What tells the row: the columns of its key, or its row id.
    cells
        (old, new) of each value that changed.  Of a row that was born the old values are ``None``,
        of one that died the new ones.
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
    """The changes of a row, or of a few, oldest first; `LanceDataset.row_history` makes it.

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
        """What tells the rows, each once."""
        found: list[dict[str, Any]] = []
        for change in self._changes:
            if change.key not in found:
                found.append(change.key)
        return found

    def _plain(self) -> str:
        return f"RowHistory({plural(len(self), 'change')} of {self.branch})"


def row_history_of(
    snapshot: Snapshot, rows: Mapping[str, object] | str | pc.Expression | int
) -> RowHistory:
    """Return the history of rows; see `LanceDataset.row_history`."""
    found = reversed(history_of(snapshot, rows))
    return RowHistory(snapshot.line.name, [_change(entry) for entry in found])


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
