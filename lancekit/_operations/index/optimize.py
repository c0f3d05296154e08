"""Upkeep of indices: add new rows, follow moved rows, merge segments."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

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
from lancekit._index.build.builders import builder_of
from lancekit._index.build.column import Content
from lancekit._index.build.files import segment_folder
from lancekit._index.build.full_text import has_other_blocks
from lancekit._index.kinds import KINDS, kept_up_as
from lancekit._index.row_sets import SetForm, encoded_set
from lancekit._index.search.reuse import Reuse, found_reuse, reuse_of
from lancekit._legible import warn
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.retry import RetryPolicy, retried_writing
from lancekit._operations.index.create import segments_of
from lancekit._operations.index.segments import (
    IndexTarget,
    build_content,
    covered_rows,
    live_addresses,
    live_fragments,
    opened_segment,
    read_rows,
    removed_unless_committed,
    target_of,
    write_segment,
)
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    CommitConflictError,
    CorruptFileError,
    FormatError,
    NotOfferedError,
    UnsupportedFeatureError,
)
from lancekit.progress import tracking


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeRequest:
    """Request to bring indices up to date.

    merge: how many of the newest segments to merge with new rows; 0 for a new segment.
    names: the indices, by default all kinds that lancekit keeps up.
    retrain: rebuild each index from all rows.
    """

    merge: int = 1
    names: Collection[str] | None = None
    retrain: bool = False


@dataclass(frozen=True, kw_only=True)
class IndexUpkeep(IndexTarget):
    """Plan to bring one index up to date: one new segment replaces others.

    segments: all segments of the index, the oldest first.
    fresh: the fragments that no segment covers; all fragments if the index is rebuilt.
    joined: the segments that the new one replaces.
    rebuild: the index is rebuilt from all rows, without its old segments.
    behind: the replaced segments that may refer to rows from before a change.
    reuse: the moves of rows by compactions that did not remap indices.
    """

    segments: tuple[IndexMetadata, ...]
    fresh: tuple[int, ...]
    joined: tuple[IndexMetadata, ...]
    rebuild: bool = False
    behind: tuple[IndexMetadata, ...] = ()
    reuse: Reuse | None = None

    def run(self) -> IndexMetadata:
        """Write the new segment, without a commit."""
        return _rebuilt_segment(self) if self.rebuild else _merged_segment(self)


@tracking("indexing")
def optimize_indices(snapshot: Snapshot, request: OptimizeRequest, policy: RetryPolicy) -> Snapshot:
    """Bring indices up to date; make no version if there is nothing to do.

    Raises IndexNotFoundError: no index has a requested name.
    Raises NotOfferedError: lancekit does not keep up an index of this kind.
    """
    return retried_writing(snapshot, lambda at: _pruned_reuse(_attempt(at, request)), policy)[0]


def _attempt(current: Snapshot, request: OptimizeRequest) -> Snapshot:
    new: list[IndexMetadata] = []
    removed: list[IndexMetadata] = []
    with removed_unless_committed(current, (index.uuid for index in new)):
        for name in _names(current, request):
            segments = segments_of(current, name)
            with _warn_if_unreadable(segments[-1]):
                if (upkeep := _upkeep_of(current, segments, request)) is not None:
                    new.append(upkeep.run())
                    removed += upkeep.joined
        if not new:
            return current
        operation = CreateIndex(new_indices=tuple(new), removed_indices=tuple(removed))
        return commit(current, Pending(operation=operation, doing="optimize_indices"))


def plan_upkeep(snapshot: Snapshot, request: OptimizeRequest) -> list[IndexUpkeep]:
    """Plan the upkeep of each index that is not up to date; no rows are read.

    Raises IndexNotFoundError, NotOfferedError: as `optimize_indices`.
    """
    planned = []
    for name in _names(snapshot, request):
        segments = segments_of(snapshot, name)
        with _warn_if_unreadable(segments[-1]):
            planned.append(_upkeep_of(snapshot, segments, request))
    return [upkeep for upkeep in planned if upkeep is not None]


def _names(snapshot: Snapshot, request: OptimizeRequest) -> list[str]:
    if request.names is None:
        ours = {index.name for index in snapshot.indices if kept_up_as(index) is not None}
        return sorted(ours)
    for name in request.names:
        for index in segments_of(snapshot, name):
            if kept_up_as(index) is None:
                raise NotOfferedError(
                    f"lancekit cannot update index {name!r} of kind {index.kind}.",
                    hint=f"It updates {', '.join(KINDS)}, INVERTED and vector indices.",
                    index=name,
                )
    return list(dict.fromkeys(request.names))


@contextmanager
def _warn_if_unreadable(newest: IndexMetadata) -> Iterator[None]:
    """Turn an error into a warning if an index of text or vectors cannot be read.

    Such an index cannot be rebuilt either, because its parameters are unknown.
    """
    try:
        yield
    except (UnsupportedFeatureError, CorruptFileError) as error:
        kind = kept_up_as(newest)
        if kind is None or kind.name in KINDS:
            raise
        warn(
            f"Index {newest.name!r} was not updated, so searches scan the rows that it lacks: "
            f"{error.message}"
        )


def _upkeep_of(
    snapshot: Snapshot, segments: tuple[IndexMetadata, ...], request: OptimizeRequest
) -> IndexUpkeep | None:
    """Return the upkeep of an index; ``None`` if it is up to date, or not kept up by lancekit."""
    newest = segments[-1]
    kind = kept_up_as(newest)
    if kind is None:
        return None
    live = tuple(int(id_) for id_ in snapshot.manifest.fragments.ids)
    planned = partial(IndexUpkeep, **vars(target_of(snapshot, newest, kind)), segments=segments)
    if request.retrain or any(index.fragment_ids is None for index in segments):
        return planned(fresh=live, joined=segments, rebuild=True)
    covered = {id_ for index in segments for id_ in live_fragments(index, snapshot)}
    fresh = tuple(id_ for id_ in live if id_ not in covered)
    reuse = found_reuse(snapshot)
    behind = [index for index in segments if reuse is not None and reuse.behind(index)]
    if snapshot.manifest.has_stable_row_ids and not kind.zones:
        behind = [*behind, *_stale(snapshot, segments, fresh)]
        if fresh and request.merge:  # as in the reference: 0 leaves all segments unchanged
            behind += [index for index in segments if _has_deleted_rows(snapshot, index)]
    # a segment that waits for its first vectors has no files; beside others, readers miss them
    waiting = [index for index in segments if not index.files and not index.fragment_ids]
    # readers do not search segments with different posting lists
    other = [index for index in segments if fresh and has_other_blocks(index)]
    joined = _segments_to_merge(segments, request.merge, [*behind, *waiting, *other])
    if not fresh and not behind and len(joined) < 2:
        return None
    return planned(fresh=fresh, joined=joined, behind=tuple(behind), reuse=reuse)


def _merged_segment(plan: IndexUpkeep) -> IndexMetadata:
    """Write one segment from the contents of others, and from rows that none covers."""
    builder, old, newest = builder_of(plan.kind), plan.joined, plan.segments[-1]
    stale = plan.behind if plan.kind.zones else ()
    contents, reindexed = _contents(plan, stale)
    reindexed += plan.fresh
    if reindexed:
        model = contents[0] if contents else None
        if model is None and (newest not in old or newest in stale):  # not read yet
            model = stored_content(plan, newest)
        rows = read_rows(plan, reindexed)
        contents.append(builder.made(rows, {}) if model is None else builder.extended(model, rows))
    content = builder.merged(contents) if len(contents) > 1 else contents[0]
    if (beside := builder.adapted) is not None:
        staying = [index for index in plan.segments if index not in old]
        content = beside(content, [opened_segment(plan, index) for index in staying])
    return write_segment(
        plan,
        content,
        {*reindexed, *(id_ for index in old for id_ in live_fragments(index, plan.snapshot))},
        # a segment with all moves applied is as new as the snapshot
        dataset_version=None
        if plan.reuse is not None and plan.behind
        else min((index.dataset_version for index in old), default=None),
    )


def _contents(plan: IndexUpkeep, stale: Sequence[IndexMetadata]) -> tuple[list[Content], list[int]]:
    """Return the contents of segments that can be merged, and the fragments of the others."""
    contents: list[Content] = []
    reindexed: list[int] = []
    for index in plan.joined:
        found = None if index in stale else stored_content(plan, index)
        if found is None or (contents and not builder_of(plan.kind).mergeable(contents[0], found)):
            reindexed += live_fragments(index, plan.snapshot)
        else:
            contents.append(found.moved(covered_rows(index, plan)))
    return contents, reindexed


def _segments_to_merge(
    segments: tuple[IndexMetadata, ...], merge: int, behind: Sequence[IndexMetadata]
) -> tuple[IndexMetadata, ...]:
    """Return the segments to merge with new rows: the newest, and the segments in `behind`."""
    newest = segments[len(segments) - min(merge, len(segments)) :]
    wanted = {index.uuid for index in (*newest, *behind)}
    return tuple(index for index in segments if index.uuid in wanted)


def _stale(
    snapshot: Snapshot, segments: tuple[IndexMetadata, ...], fresh: Sequence[int]
) -> tuple[IndexMetadata, ...]:
    """Return the segments that may have old values of updated rows.

    With stable row ids an updated row keeps its id, and moves to a fragment that the segment does
    not cover.  The reference finds the old value, too, once another segment covers that fragment.
    Deleted rows do not matter, because no row has their id any more.
    """
    if not fresh:
        return ()
    covered = {index.uuid: set(live_fragments(index, snapshot)) for index in segments}
    in_all = set.intersection(*covered.values())
    updated = {
        source.fragment.id
        for source in fragment_sources(snapshot)
        if source.fragment.id not in in_all and _has_updated_rows(source)
    }
    return tuple(index for index in segments if updated - covered[index.uuid])


def _has_deleted_rows(snapshot: Snapshot, index: IndexMetadata) -> bool:
    fragments = (snapshot.fragment(id_) for id_ in live_fragments(index, snapshot))
    return any(one is not None and one.num_deletions for one in fragments)


def _has_updated_rows(source: FragmentSource) -> bool:
    """Return True if rows of a fragment were updated, or if updates are not recorded."""
    if source.fragment.last_updated_at is None:
        return True
    reader = FragmentReader(source)
    rows = np.arange(reader.physical_rows) if reader.live is None else reader.live
    return not np.array_equal(reader.created_at(rows), reader.last_updated_at(rows))


def _rebuilt_segment(plan: IndexUpkeep) -> IndexMetadata:
    """Write one segment of all rows, with the parameters of the newest segment."""
    stored = stored_content(plan, plan.segments[-1])
    content = build_content(plan, {} if stored is None else stored.parameters, plan.fresh)
    return write_segment(plan, content, plan.fresh)


def stored_content(target: IndexTarget, index: IndexMetadata) -> Content | None:
    """Return the content of a segment; ``None``, with a warning, if it cannot be read.

    Raises CorruptFileError, UnsupportedFeatureError: an unreadable segment is of text or vectors,
        and cannot be rebuilt.
    """
    try:
        return builder_of(target.kind).read(opened_segment(target, index))
    except FormatError as error:
        if target.kind.name not in KINDS:
            raise
        warn(f"Index {index.name!r} cannot be read and is rebuilt: {error.message}")
        return None


# ---- the fragment reuse entry: moves of rows by compactions that did not remap indices
#
# A compaction may leave indices unchanged, and record in this entry where it moved rows.  The
# record is removed as soon as all indices have caught up.  See docs/format/indices.md, 15.


def deferred(snapshot: Snapshot, groups: Sequence[RewriteGroup], version: int) -> ReuseEntry | None:
    """Return a fragment reuse entry with the moves of a compaction; ``None`` without an index.

    groups: their new fragments have their final ids.
    version: indices up to this version refer to rows by their old addresses.
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
    """Return the reuse entry of some compactions, with a file if too large for a manifest."""
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


def _pruned_reuse(snapshot: Snapshot) -> Snapshot:
    """Commit a reuse entry without the compactions that all indices have caught up with.

    On a conflict with another writer, the entry stays for the next time.
    """
    entry, reuse = fragment_reuse_of(snapshot.indices), found_reuse(snapshot)
    if entry is None or reuse is None:
        return snapshot
    needed = {
        group for index in snapshot.indices if not index.is_system for group in reuse.behind(index)
    }
    # rows that moved twice need both compactions
    first = next((n for n, group in enumerate(reuse.groups) if group in needed), None)
    left = () if first is None else reuse.groups[first:]
    if len(left) == len(reuse.groups):
        return snapshot
    new = (_entry(snapshot, left, entry.dataset_version),) if left else ()
    operation = CreateIndex(new_indices=new, removed_indices=(entry,))
    pending = Pending(operation=operation, doing="optimize_indices")
    try:
        with removed_unless_committed(snapshot, (one.uuid for one in new)):
            return commit(snapshot, pending)
    except CommitConflictError:
        return snapshot
