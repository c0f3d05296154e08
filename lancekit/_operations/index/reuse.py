"""The entry that tells what became of rows whose indices were left as they were.

A compaction may leave indices as they are, and say in an entry of its own where rows are now; as
soon as all indices have caught up, that is not needed any more.  See docs/format/indices.md, 15.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from pyroaring import BitMap

from lancekit._commit.rules.pending import Pending, ReuseEntry
from lancekit._format.fragment import Fragment
from lancekit._format.fragment_reuse import (
    INLINE_BYTES,
    REUSE_FILE,
    FragmentReuse,
    ReuseGroup,
    encode_fragment_reuse,
    external_reuse,
    inline_reuse,
)
from lancekit._format.index import FRAGMENT_REUSE, IndexMetadata, fragment_reuse_of
from lancekit._format.operation_parts import RewriteGroup
from lancekit._format.operations import CreateIndex
from lancekit._index.build.files import segment_folder
from lancekit._index.row_sets import SetForm, encoded_set
from lancekit._index.search.reuse import found_reuse, reuse_of
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.index.segments import live_addresses, removed_unless_committed
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CommitConflictError

__all__ = ["deferred", "trimmed"]


def deferred(snapshot: Snapshot, groups: Sequence[RewriteGroup], version: int) -> ReuseEntry | None:
    """Return what tells where rows are that move, ``None`` if there is no index that names them.

    The fragments of each group have the ids that they will have.  Indices of versions up to
    `version` name rows where they were.
    """
    if all(index.is_system for index in snapshot.indices):
        return None
    sources = {source.fragment.id: source for source in fragment_sources(snapshot)}
    added = tuple(
        ReuseGroup(
            version=version,
            old_digests=tuple(map(_digest, group.old_fragments)),
            new_digests=tuple(map(_digest, group.new_fragments)),
            survivors=encoded_set(
                np.sort(
                    np.concatenate([live_addresses(sources[f.id])[2] for f in group.old_fragments])
                ),
                SetForm.PLAIN,
            ),
        )
        for group in groups
    )
    reuse = reuse_of(snapshot)
    before = () if reuse is None else reuse.groups
    return ReuseEntry(
        new=_entry(snapshot, (*before, *added), version), old=fragment_reuse_of(snapshot.indices)
    )


def _digest(fragment: Fragment) -> tuple[int, int, int]:
    return fragment.id, fragment.physical_rows, fragment.num_deletions


def _entry(snapshot: Snapshot, groups: FragmentReuse, version: int) -> IndexMetadata:
    """Return an entry of some compactions, what is too much for a manifest in a file of its own."""
    uuid = uuids.uuid4()
    content = encode_fragment_reuse(groups)
    details = inline_reuse(content)
    if len(details.value) > INLINE_BYTES:
        details = external_reuse(len(content))
        sink = snapshot.store.create(f"{segment_folder(uuid)}/{REUSE_FILE}")
        try:
            sink.write(content)
            sink.close()
        finally:
            sink.abort()
    now = datetime.now(UTC)
    return IndexMetadata(
        uuid=uuid,
        name=FRAGMENT_REUSE,
        dataset_version=version,
        fragment_ids=BitMap(id_ for group in groups for id_, _ in group.new),
        index_version=0,
        created_at=now.replace(microsecond=now.microsecond // 1000 * 1000),
        index_details=details,
    )


def trimmed(snapshot: Snapshot) -> Snapshot:
    """Return the version without compactions that all indices have caught up with.

    Another writer may be at the same, or compact meanwhile: then it is left for the next time.
    """
    entry, reuse = fragment_reuse_of(snapshot.indices), found_reuse(snapshot)
    if entry is None or reuse is None:
        return snapshot
    needed = {
        group for index in snapshot.indices if not index.is_system for group in reuse.behind(index)
    }
    # rows that moved twice are found by both compactions
    first = next((n for n, group in enumerate(reuse.groups) if group in needed), None)
    left = () if first is None else reuse.groups[first:]
    if len(left) == len(reuse.groups):
        return snapshot
    new = (_entry(snapshot, left, entry.dataset_version),) if left else ()
    operation = CreateIndex(new_indices=new, removed_indices=(entry,))
    pending = Pending(operation=operation, uuid=str(uuids.uuid4()), doing="optimize_indices")
    try:
        with removed_unless_committed(snapshot, (one.uuid for one in new)):
            return commit(snapshot, pending)
    except CommitConflictError:
        return snapshot
