"""Adapting a delete or an update to deletions that landed since it read (operations, 3.2 a)."""

from __future__ import annotations

from dataclasses import replace

from pyroaring import BitMap

from lancekit.commit.deletions import write_deletions
from lancekit.commit.pending import Pending
from lancekit.commit.snapshot import Snapshot
from lancekit.format import transaction as ops
from lancekit.format.fragment import DeletionKind, Fragment

__all__ = ["Overlap", "rebase_deletions"]


class Overlap(Exception):  # noqa: N818  # a signal between two modules, never seen by a caller
    """A row that mine deletes or moves was deleted or moved by someone else."""

    def __init__(self, fragment_id: int, rows: BitMap) -> None:
        sample = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
        super().__init__(f"both changed rows {sample} of fragment {fragment_id}")


def rebase_deletions(pending: Pending, read: Snapshot, latest: Snapshot) -> Pending:
    """Merge my deletions with those that landed; a new file holds the rows of both.

    Raises
    ------
    Overlap
        A row was changed by both.
    """
    operation = pending.operation
    if pending.affected_rows is None or not isinstance(operation, ops.Delete | ops.Update):
        return pending
    before = {f.id: f.deletion_file for f in read.manifest.fragments}
    now = {f.id: f for f in latest.manifest.fragments}
    moved = [
        id_
        for id_ in pending.affected_rows
        if id_ in now and now[id_].deletion_file != before.get(id_)
    ]
    if not moved:
        return pending
    rewritten: dict[int, Fragment | None] = {}
    for fragment_id in moved:
        mine = pending.affected_rows[fragment_id]
        current = now[fragment_id]
        theirs = latest.deleted_rows(current)
        if both := mine & theirs:
            raise Overlap(fragment_id, both)
        rewritten[fragment_id] = _with_deletions(current, mine | theirs, latest)
    return replace(pending, operation=_replace_fragments(operation, rewritten))


def _with_deletions(fragment: Fragment, deleted: BitMap, latest: Snapshot) -> Fragment | None:
    if len(deleted) >= fragment.physical_rows:
        return None
    file = write_deletions(latest.store, fragment.id, latest.version, deleted, DeletionKind.BITMAP)
    return replace(fragment, deletion_file=file)


def _replace_fragments(
    operation: ops.Delete | ops.Update, rewritten: dict[int, Fragment | None]
) -> ops.Delete | ops.Update:
    kept = [f for f in operation.updated_fragments if f.id not in rewritten]
    updated = (*kept, *filter(None, rewritten.values()))
    emptied = tuple(id_ for id_, fragment in rewritten.items() if fragment is None)
    if isinstance(operation, ops.Delete):
        gone = tuple(dict.fromkeys(operation.deleted_fragment_ids + emptied))
        return replace(operation, updated_fragments=updated, deleted_fragment_ids=gone)
    gone = tuple(dict.fromkeys(operation.removed_fragment_ids + emptied))
    return replace(operation, updated_fragments=updated, removed_fragment_ids=gone)
