"""Tables of rows that a merge set aside: which a version has (docs/format/memwal.md, 10).

The MemWAL entry of a version marks each of these tables like a generation of a shard: 1 while its
rows wait, 2 once they were put back or discarded.  So the mark lands in the commit that merges the
generation, an overwrite drops it, and two commits that empty the same table exclude each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from lancekit._format.mem_wal.names import QUARANTINE, is_quarantine
from lancekit._operations.unmerged.marks import Marks
from lancekit._versions.ancestor import clone_of
from lancekit._versions.line import Line
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    FormatError,
    VersionNotFoundError,
)

__all__ = ["EMPTIED", "WAITING", "QuarantineTable", "quarantine_ids", "quarantined"]
__all__ += ["quarantine_table", "quarantined_rows"]

#: the mark of a table whose rows wait, and of one whose rows were put back or discarded
WAITING, EMPTIED = 1, 2


class QuarantineTable(NamedTuple):
    """A table of rows in quarantine."""

    id: UUID
    table: Snapshot


def quarantine_ids(snapshot: Snapshot) -> set[UUID]:
    """Return the ids of the tables whose rows wait, by the marks of a version."""
    marks = Marks(snapshot)
    found = {one for one, mark in marks.merged.items() if mark == WAITING and is_quarantine(one)}
    return found - marks.inherited.keys() if found else found


def quarantined(snapshot: Snapshot) -> list[QuarantineTable]:
    """Return the tables of rows that wait in the quarantine of a version, the oldest first.

    Raises
    ------
    CorruptFileError
        A table is missing or damaged.
    """
    found = list(_opened(snapshot))
    return sorted(found, key=lambda one: (one.table.manifest.timestamp, one.id))


def quarantined_rows(snapshot: Snapshot) -> int:
    """Count the rows that wait in the quarantine of a version; no file is read if none do.

    Raises
    ------
    CorruptFileError
        A table is missing or damaged.
    """
    return sum(one.table.manifest.num_rows for one in _opened(snapshot))


def _opened(snapshot: Snapshot) -> Iterator[QuarantineTable]:
    for id_ in quarantine_ids(snapshot):
        try:
            yield QuarantineTable(id_, quarantine_table(snapshot, id_))
        except CorruptFileError as error:
            is_own = snapshot.line.branch is None and clone_of(snapshot.line) is None
            if is_own or not error.context.get("missing"):
                raise
            # the mark is inherited, and the source cannot be read any more


def quarantine_table(snapshot: Snapshot, id_: UUID) -> Snapshot:
    """Open a table of the quarantine of a version.

    Raises
    ------
    CorruptFileError
        The table is missing or damaged.
    """
    store = snapshot.store.child(f"{QUARANTINE}/{id_}")
    kept = f"it has rows that {snapshot.called} keeps in quarantine"
    try:
        return load_snapshot(Line(root=store), 1)
    except (VersionNotFoundError, DatasetNotFoundError, FileNotFoundError) as error:
        raise CorruptFileError(
            f"{store.uri} is missing: {kept}.",
            hint="Restore the folder from a copy.",
            file=store.uri,
            missing=True,
        ) from error
    except (FormatError, ArithmeticError, LookupError, TypeError) as error:
        raise CorruptFileError(
            f"{store.uri} is damaged: {error}",
            hint=f"Restore the folder from a copy: {kept}.",
            file=store.uri,
        ) from error
