"""Adapting an operation to versions that landed since it was read (docs/format/operations.md, 3.2).

This module does what rules allow as `REBASED`: it merges deletions, narrows new indices, and keeps
the newest generations.  It reads only the changes of the other transactions, so that its cost does
not grow with the table.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from pyroaring import BitMap

from lancekit._commit.manifest.indices import pruned, rewritten_fields
from lancekit._commit.rules.effects import row_changes
from lancekit._commit.rules.pending import Pending
from lancekit._commit.rules.verdict import Verdict, listed, retry
from lancekit._format import operations as ops
from lancekit._format import row_address
from lancekit._format.deletions import choose_kind, encode_deletions
from lancekit._format.fragment import DeletionFile, DeletionKind, Fragment
from lancekit._format.index import FRAGMENT_REUSE, IndexMetadata, fragment_reuse_of
from lancekit._format.mem_wal.details import merged_generations, with_generations
from lancekit._format.mem_wal.names import MEM_WAL
from lancekit._format.transaction import Transaction
from lancekit._storage.base import Bytes, Store
from lancekit._versions.snapshot import Snapshot


class RowConflict(Exception):  # noqa: N818  # a signal between two modules that no caller sees
    """A conflict that the rules cannot detect, because they compare operations, not rows.

    Another commit, `version`, deleted or moved a row that mine deletes or moves.  Or it compacted,
    too: both would replace the one index entry that records moved rows.
    """

    def __init__(self, version: int, verdict: Verdict) -> None:
        super().__init__(version, verdict)
        self.version, self.verdict = version, verdict


def rebase(
    pending: Pending, read: Snapshot, latest: Snapshot, theirs: Sequence[Transaction]
) -> Pending:
    """Return my change, adapted to ``latest``.

    pending: my change; every rule allowed it.
    read: the version that it is based on.
    latest: the newest version.
    theirs: the transactions of every version from the one after ``read`` to ``latest``, in order.

    Raises RowConflict: both changed a row, or both recorded moved rows.
    """
    operation = pending.operation
    if pending.reuse is not None and pending.reuse.old != fragment_reuse_of(latest.indices):
        sentence = "both compacted, and a single index entry records the moved rows"
        raise RowConflict(latest.version, retry(sentence, indices=(FRAGMENT_REUSE,)))
    if isinstance(operation, ops.Delete | ops.Update) and pending.affected_rows is not None:
        changed = _merge_deletions(operation, pending.affected_rows, read, latest, theirs)
        return pending if changed is operation else replace(pending, operation=changed)
    if isinstance(operation, ops.CreateIndex) and operation.new_indices:
        indices = _narrow(operation.new_indices, read, latest, theirs)
        indices = tuple(_raise_generations(index, theirs) for index in indices)
        return replace(pending, operation=replace(operation, new_indices=indices))
    return pending


# ---- deletions


def _merge_deletions(
    operation: ops.Delete | ops.Update,
    affected: Mapping[int, BitMap],
    read: Snapshot,
    latest: Snapshot,
    theirs: Sequence[Transaction],
) -> ops.Delete | ops.Update:
    changes = [
        (version, row_changes(one.operation).ids)
        for version, one in enumerate(theirs, read.version + 1)
        if isinstance(one.operation, ops.Delete | ops.Update)
    ]
    touched: frozenset[int] = frozenset().union(*(ids for _, ids in changes))
    rewritten: dict[int, Fragment | None] = {}
    for fragment_id in [id_ for id_ in affected if id_ in touched]:
        before = read.manifest.fragments.get(fragment_id)
        current = latest.manifest.fragments.get(fragment_id)
        if before is None or current is None or current.deletion_file == before.deletion_file:
            continue
        mine, others = affected[fragment_id], latest.deleted_rows(current)
        if both := mine & others:
            version = max(version for version, ids in changes if fragment_id in ids)
            raise RowConflict(version, _rows_changed(fragment_id, both))
        rewritten[fragment_id] = _with_deletions(current, mine | others, latest)
    return _replace_fragments(operation, rewritten) if rewritten else operation


def _rows_changed(fragment_id: int, rows: BitMap) -> Verdict:
    which = f"row{'s' if len(rows) > 1 else ''} {listed(rows)}"
    addresses = tuple(row_address.joined(fragment_id, row) for row in rows[:5])
    sentence = f"both changed {which} of fragment {fragment_id}"
    return retry(sentence, fragments=(fragment_id,), rows=addresses)


def _with_deletions(fragment: Fragment, deleted: BitMap, latest: Snapshot) -> Fragment | None:
    if len(deleted) >= fragment.physical_rows:
        return None
    # as in the reference: merged deletions are a bitmap, however few they are
    file = write_deletions(latest.store, fragment.id, latest.version, deleted, DeletionKind.BITMAP)
    return replace(fragment, deletion_file=file)


def _replace_fragments(
    operation: ops.Delete | ops.Update, rewritten: dict[int, Fragment | None]
) -> ops.Delete | ops.Update:
    kept = [f for f in operation.updated_fragments if f.id not in rewritten]
    updated = (*kept, *filter(None, rewritten.values()))
    emptied = tuple(id_ for id_, fragment in rewritten.items() if fragment is None)
    if isinstance(operation, ops.Delete):
        removed = tuple(dict.fromkeys(operation.deleted_fragment_ids + emptied))
        return replace(operation, updated_fragments=updated, deleted_fragment_ids=removed)
    removed = tuple(dict.fromkeys(operation.removed_fragment_ids + emptied))
    return replace(operation, updated_fragments=updated, removed_fragment_ids=removed)


# ---- indices


def _narrow(
    indices: Sequence[IndexMetadata],
    read: Snapshot,
    latest: Snapshot,
    theirs: Sequence[Transaction],
) -> tuple[IndexMetadata, ...]:
    """Remove fragments with a rewritten indexed column from the coverage of new indices."""
    changed: dict[int, set[int]] = {}
    for transaction in theirs:
        operation = transaction.operation
        if isinstance(operation, ops.Update) and operation.fields_modified:
            for fragment in operation.updated_fragments:
                changed.setdefault(fragment.id, set()).update(operation.fields_modified)
        elif isinstance(operation, ops.DataReplacement):
            for group in operation.replacements:
                changed.setdefault(group.fragment_id, set()).update(group.new_file.fields)
        elif isinstance(operation, ops.Merge):
            for fragment in operation.fragments:
                before = read.manifest.fragments.get(fragment.id)
                if before is not None and (fields := rewritten_fields(before, fragment)):
                    changed.setdefault(fragment.id, set()).update(fields)
    if not changed:
        return tuple(indices)
    return pruned(indices, latest.manifest.schema, latest.manifest.fragments, changed)


def _raise_generations(index: IndexMetadata, theirs: Sequence[Transaction]) -> IndexMetadata:
    """Record the generations that were merged meanwhile in a new index of write-ahead logs."""
    if index.name != MEM_WAL:
        return index
    newest: dict[UUID, int] = merged_generations(index.index_details)
    for transaction in theirs:
        if isinstance(transaction.operation, ops.UpdateMemWalState):
            for one in transaction.operation.compacted_sstables:
                newest[one.shard_id] = max(one.generation, newest.get(one.shard_id, 0))
    return replace(index, index_details=with_generations(index.index_details, newest))


# ---- writing deletion files

#: upper 32 bits of a deletion file's id, if its lower 32 bits are a checksum
_CHECKED = 0x6C6B6372


def write_deletions(
    store: Store,
    fragment_id: int,
    read_version: int,
    deleted: BitMap,
    kind: DeletionKind | None = None,
    *,
    checked: bool = False,
) -> DeletionFile:
    """Write the complete set of a fragment's deleted offsets under a fresh name.

    With ``checked``, the file's id contains a checksum: the format has no field for one.
    """
    kind = kind or choose_kind(deleted)
    data = encode_deletions(deleted, kind)
    file = DeletionFile(
        file_type=kind,
        read_version=read_version,
        id=_checksum(data) if checked else secrets.randbits(64),
        num_deleted_rows=len(deleted),
    )
    store.put(file.name(fragment_id), data)
    return file


def is_other_file(file: DeletionFile, data: Bytes) -> bool:
    """Return True if the checksum in a deletion file's name differs from the file's checksum."""
    return file.id >> 32 == _CHECKED and file.id != _checksum(data)


def _checksum(data: Bytes) -> int:
    return _CHECKED << 32 | zlib.crc32(data)
