"""The entry that tells what became of rows whose indices were left as they were.

A compaction may leave indices as they are, and say in an entry of its own where rows are now; as
soon as all indices have caught up, that is not needed any more.  See docs/format/indices.md, 15.
"""

from __future__ import annotations

import uuid as uuids
from dataclasses import replace
from datetime import UTC, datetime

from pyroaring import BitMap

from lancekit.commit.rules.pending import Pending
from lancekit.errors import CommitConflictError
from lancekit.format.fragment_reuse import (
    INLINE_BYTES,
    REUSE_FILE,
    FragmentReuse,
    encode_fragment_reuse,
    external_reuse,
    inline_reuse,
)
from lancekit.format.index import FRAGMENT_REUSE, IndexMetadata, fragment_reuse_of
from lancekit.format.operations import CreateIndex
from lancekit.index.build.files import segment_folder
from lancekit.index.search.reuse import reuse_of
from lancekit.operations.cleanup.auto import commit
from lancekit.versions.snapshot import Snapshot

__all__ = ["reuse_entry", "trimmed"]


def reuse_entry(snapshot: Snapshot, groups: FragmentReuse) -> IndexMetadata:
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
        dataset_version=snapshot.version,
        fragment_ids=BitMap(id_ for group in groups for id_, _ in group.new),
        index_version=0,
        created_at=now.replace(microsecond=now.microsecond // 1000 * 1000),
        index_details=details,
    )


def trimmed(snapshot: Snapshot) -> Snapshot:
    """Return the version without compactions that all indices have caught up with.

    Another writer may be at the same, or compact meanwhile: then it is left for the next time.
    """
    entry, reuse = fragment_reuse_of(snapshot.indices), reuse_of(snapshot)
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
    new = () if not left else (reuse_entry(snapshot, left),)
    kept = tuple(replace(one, dataset_version=entry.dataset_version) for one in new)
    operation = CreateIndex(new_indices=kept, removed_indices=(entry,))
    try:
        return commit(
            snapshot,
            Pending(operation=operation, uuid=str(uuids.uuid4()), doing="optimize_indices"),
        )
    except CommitConflictError:
        return snapshot
