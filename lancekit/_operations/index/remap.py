"""Remapping of indices by a compaction: segments by address are rewritten for the new fragments.

See docs/format/indices.md, 3.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterator, Sequence

import numpy as np

from lancekit._commit.manifest.indices import follows_row_ids
from lancekit._format import row_address
from lancekit._format.index import IndexMetadata
from lancekit._format.operation_parts import RewriteGroup, RewrittenIndex
from lancekit._index.build.builders import builder_of
from lancekit._index.build.column import Content, IndexedColumn, RowMap
from lancekit._index.build.files import write_files
from lancekit._index.build.full_text import has_other_blocks
from lancekit._index.kinds import KINDS, IndexKind, kept_up_as
from lancekit._index.search.reuse import found_reuse
from lancekit._legible import warn
from lancekit._operations.index.optimize import stored_content
from lancekit._operations.index.segments import (
    IndexTarget,
    address_map,
    composed,
    details_of,
    in_fragments,
    live_addresses,
    live_fragments,
    read_column,
    target_of,
)
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, UnsupportedFeatureError


def blocks_compaction(index: IndexMetadata, snapshot: Snapshot) -> bool:
    """Return True if a compaction of a segment's fragments would lose the segment."""
    if snapshot.manifest.has_stable_row_ids and follows_row_ids(index):
        return index.fragment_ids is None
    kind = kept_up_as(index)
    known = kind is not None and (index.index_version or 0) <= kind.newest
    # the segment may have addresses from before an earlier compaction
    reuse = found_reuse(snapshot)
    return index.fragment_ids is None or not known or bool(reuse and reuse.behind(index))


def rewritten_indices(
    snapshot: Snapshot, groups: Sequence[RewriteGroup]
) -> Iterator[RewrittenIndex]:
    """Write and yield the remapped segments of a compaction.

    groups: their new fragments have their final ids.
    """
    affected = list(_affected(snapshot, groups))
    if not affected:
        return
    moved = _moved(snapshot, groups)
    gone = [fragment.id for group in groups for fragment in group.old_fragments]
    for index, kind in affected:
        try:
            content, version = _content(target_of(snapshot, index, kind), index, gone, moved)
        except (UnsupportedFeatureError, CorruptFileError) as error:
            if kind.name in KINDS:
                raise
            warn(
                f"Index {index.name!r} lost the compacted rows, so searches scan these rows until "
                f"the index is rebuilt: {error.message}"
            )
            continue
        new_id = uuids.uuid4()
        files = write_files(snapshot.store, new_id, content.files())
        yield RewrittenIndex(
            index.uuid,
            new_id,
            details=details_of(kind, content),
            new_index_version=version,
            files=files,
        )


def _affected(
    snapshot: Snapshot, groups: Sequence[RewriteGroup]
) -> Iterator[tuple[IndexMetadata, IndexKind]]:
    """Yield the segments by address that cover all fragments of a group."""
    stable = snapshot.manifest.has_stable_row_ids
    old = [[fragment.id for fragment in group.old_fragments] for group in groups]
    for index in snapshot.indices:
        kind, covered = kept_up_as(index), index.fragment_ids
        if kind is None or covered is None or blocks_compaction(index, snapshot):
            continue
        if not kind.has_addresses(index.index_version, stable):
            continue
        touched = [ids for ids in old if any(id_ in covered for id_ in ids)]
        if touched and all(id_ in covered for ids in touched for id_ in ids):
            yield index, kind


def _moved(snapshot: Snapshot, groups: Sequence[RewriteGroup]) -> RowMap:
    """Return the address map from rows of old fragments to rows of new fragments."""
    sources = {source.fragment.id: source for source in fragment_sources(snapshot)}
    old, new = [], []
    for group in groups:
        old += [live_addresses(sources[f.id])[2] for f in group.old_fragments if f.id in sources]
        for fragment in group.new_fragments:
            rows = np.arange(fragment.physical_rows, dtype=np.uint64)
            new.append(row_address.addresses(fragment.id, rows))
    gone = [fragment.id for group in groups for fragment in group.old_fragments]
    nothing = np.empty(0, np.uint64)
    return address_map(np.concatenate([*old, nothing]), np.concatenate([*new, nothing]), gone)


def _content(
    target: IndexTarget, index: IndexMetadata, gone: Sequence[int], moved: RowMap
) -> tuple[Content, int | None]:
    """Return the remapped content of a segment, and its index version."""
    snapshot, kind = target.snapshot, target.kind
    if has_other_blocks(index) and sum(one.name == index.name for one in snapshot.indices) > 1:
        raise UnsupportedFeatureError(
            "Its posting lists have large blocks, and the index has other segments."
        )
    builder, covered = builder_of(kind), live_fragments(index, snapshot)
    found = stored_content(target, index)
    if found is not None and not kind.zones:
        version = kind.written if kind.addresses_from is None else index.index_version
        return found.moved(composed(in_fragments(covered), moved)), version
    reread = covered if found is None else [id_ for id_ in covered if id_ in set(gone)]
    rows = read_column(snapshot, target.column, reread, addresses=True)
    fresh = builder.made(
        IndexedColumn(rows.kind, rows.values, moved(rows.rows)[0]),
        {} if found is None else found.parameters,
    )
    if found is None:
        # a segment by address on a table with row ids keeps its index version
        by_address = snapshot.manifest.has_stable_row_ids and not kind.zones
        return fresh, index.index_version if by_address else kind.written
    kept = found.moved(in_fragments([id_ for id_ in covered if id_ not in set(gone)]))
    return builder.merged([kept, fresh]), index.index_version
