"""Bring indices up to date: rows that are in none yet, moved rows, segments that become one."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeRequest:
    """What to do with indices.

    Rows that are in none go to the newest `merge` segments, put together; to a new one if that is
    0.  With `retrain` each index is made anew, of all rows.  `names` are all that can be made here
    if there are none.
    """

    merge: int = 1
    names: Collection[str] | None = None
    retrain: bool = False


@dataclass(frozen=True, kw_only=True)
class IndexUpkeep(IndexTarget):
    """What brings one index up to date: one new segment takes the place of others.

    segments: all segments of the index, the oldest first.
    fresh: the fragments that are in none of them; of an index that is made anew, all.
    joined: the segments whose place the new one takes.
    anew: whether the index is made anew, and nothing of its segments is kept.
    behind: those of the joined segments that may name rows as they were before a change.
    reuse: tells where compactions moved rows, if indices were not told.
    """

    segments: tuple[IndexMetadata, ...]
    fresh: tuple[int, ...]
    joined: tuple[IndexMetadata, ...]
    anew: bool = False
    behind: tuple[IndexMetadata, ...] = ()
    reuse: Reuse | None = None

    def run(self) -> IndexMetadata:
        """Write the new segment, which no version refers to yet."""
        return _anew(self) if self.anew else _joined(self)


def optimize_indices(snapshot: Snapshot, request: OptimizeRequest, policy: RetryPolicy) -> Snapshot:
    """Bring indices up to date; nothing to do makes no version.

    Raises IndexNotFoundError: there is no index of a name.
    Raises NotOfferedError: one of a kind that is not made here.
    """
    return retried_writing(snapshot, lambda at: _trimmed(_attempt(at, request)), policy)[0]


def _attempt(current: Snapshot, request: OptimizeRequest) -> Snapshot:
    new: list[IndexMetadata] = []
    removed: list[IndexMetadata] = []
    with removed_unless_committed(current, (index.uuid for index in new)):
        for name in _names(current, request):
            segments = segments_of(current, name)
            with _left_as_it_is(segments[-1]):
                if (upkeep := _planned(current, segments, request)) is not None:
                    new.append(upkeep.run())
                    removed += upkeep.joined
        if not new:
            return current
        operation = CreateIndex(new_indices=tuple(new), removed_indices=tuple(removed))
        return commit(current, Pending(operation=operation, doing="optimize_indices"))


def plan_upkeep(snapshot: Snapshot, request: OptimizeRequest) -> list[IndexUpkeep]:
    """Plan what brings indices up to date, for each that is not; no rows are read.

    Raises IndexNotFoundError, NotOfferedError: as `optimize_indices`.
    """
    planned = []
    for name in _names(snapshot, request):
        segments = segments_of(snapshot, name)
        with _left_as_it_is(segments[-1]):
            planned.append(_planned(snapshot, segments, request))
    return [upkeep for upkeep in planned if upkeep is not None]


def _names(snapshot: Snapshot, request: OptimizeRequest) -> list[str]:
    """Return the names of the indices that are to be brought up to date."""
    if request.names is None:
        ours = {index.name for index in snapshot.indices if kept_up_as(index) is not None}
        return sorted(ours)
    for name in request.names:
        for index in segments_of(snapshot, name):
            if kept_up_as(index) is None:
                raise NotOfferedError(
                    f"Index {name!r} is of kind {index.kind}, which lancekit does not keep up.",
                    hint=f"It keeps up {', '.join(KINDS)}, INVERTED and indices of vectors.",
                    index=name,
                )
    return list(dict.fromkeys(request.names))


@contextmanager
def _left_as_it_is(newest: IndexMetadata) -> Iterator[None]:
    """Warn where an index of text or vectors cannot be read: it cannot be made anew either.

    What it was made with is not known.
    """
    try:
        yield
    except (UnsupportedFeatureError, CorruptFileError) as error:
        kind = kept_up_as(newest)
        if kind is None or kind.name in KINDS:
            raise
        warn(
            f"Index {newest.name!r} stays as it is, and searches look at the rows that are not in "
            f"it: {error.message}"
        )


def _planned(
    snapshot: Snapshot, segments: tuple[IndexMetadata, ...], request: OptimizeRequest
) -> IndexUpkeep | None:
    """Return what brings an index up to date; ``None`` if it is, or is not kept up here."""
    newest = segments[-1]
    kind = kept_up_as(newest)
    if kind is None:
        return None
    live = tuple(int(id_) for id_ in snapshot.manifest.fragments.ids)
    planned = partial(IndexUpkeep, **vars(target_of(snapshot, newest, kind)), segments=segments)
    if request.retrain or any(index.fragment_ids is None for index in segments):
        return planned(fresh=live, joined=segments, anew=True)
    covered = {id_ for index in segments for id_ in live_fragments(index, snapshot)}
    fresh = tuple(id_ for id_ in live if id_ not in covered)
    reuse = found_reuse(snapshot)
    behind = [index for index in segments if reuse is not None and reuse.behind(index)]
    if snapshot.manifest.has_stable_row_ids and not kind.zones:
        behind = [*behind, *_stale(snapshot, segments, fresh)]
        if fresh and request.merge:  # as in the reference: 0 leaves all segments as they are
            behind += [index for index in segments if _has_deleted_rows(snapshot, index)]
    # one that waits for its first vectors has no files, which readers would miss beside others
    waiting = [index for index in segments if not index.files and not index.fragment_ids]
    # nor do readers search segments whose posting lists differ
    other = [index for index in segments if fresh and has_other_blocks(index)]
    joined = _joining(segments, request.merge, [*behind, *waiting, *other])
    if not fresh and not behind and len(joined) < 2:
        return None
    return planned(fresh=fresh, joined=joined, behind=tuple(behind), reuse=reuse)


def _joined(plan: IndexUpkeep) -> IndexMetadata:
    """Write one segment of what some hold, and of the rows that are in none."""
    builder, old, newest = builder_of(plan.kind), plan.joined, plan.segments[-1]
    anew = plan.behind if plan.kind.zones else ()
    contents, again = _kept(plan, anew)
    again += plan.fresh
    if again:
        like = contents[0] if contents else None
        if like is None and (newest not in old or newest in anew):  # it was not looked into
            like = stored_content(plan, newest)
        rows = read_rows(plan, again)
        contents.append(builder.made(rows, {}) if like is None else builder.extended(like, rows))
    content = builder.merged(contents) if len(contents) > 1 else contents[0]
    if (beside := builder.adapted) is not None:
        staying = [index for index in plan.segments if index not in old]
        content = beside(content, [opened_segment(plan, index) for index in staying])
    return write_segment(
        plan,
        content,
        {*again, *(id_ for index in old for id_ in live_fragments(index, plan.snapshot))},
        # what names no row as it was before a compaction is of now
        dataset_version=None
        if plan.reuse is not None and plan.behind
        else min((index.dataset_version for index in old), default=None),
    )


def _kept(plan: IndexUpkeep, anew: Sequence[IndexMetadata]) -> tuple[list[Content], list[int]]:
    """Return what segments hold that can be put together, and the fragments of the others."""
    contents: list[Content] = []
    again: list[int] = []
    for index in plan.joined:
        found = None if index in anew else stored_content(plan, index)
        if found is None or (contents and not builder_of(plan.kind).mergeable(contents[0], found)):
            again += live_fragments(index, plan.snapshot)
        else:
            contents.append(found.moved(covered_rows(index, plan)))
    return contents, again


def _joining(
    segments: tuple[IndexMetadata, ...], merge: int, behind: Sequence[IndexMetadata]
) -> tuple[IndexMetadata, ...]:
    """Return the segments that new rows join: the newest, and those that are behind."""
    newest = segments[len(segments) - min(merge, len(segments)) :]
    wanted = {index.uuid for index in (*newest, *behind)}
    return tuple(index for index in segments if index.uuid in wanted)


def _stale(
    snapshot: Snapshot, segments: tuple[IndexMetadata, ...], fresh: Sequence[int]
) -> tuple[IndexMetadata, ...]:
    """Return the segments that may hold rows as they were before an update.

    With stable row ids an updated row keeps its id, and moves to a fragment that the segment does
    not cover.  The reference finds the old value, too, once another segment covers that fragment.
    A deleted row is no reason: nothing has its id any more.
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
    """Return False if no row of a fragment was updated; True, too, where nobody recorded it."""
    if source.fragment.last_updated_at is None:
        return True
    reader = FragmentReader(source)
    rows = np.arange(reader.physical_rows) if reader.live is None else reader.live
    return not np.array_equal(reader.created_at(rows), reader.last_updated_at(rows))


def _anew(plan: IndexUpkeep) -> IndexMetadata:
    """Write one segment of all rows, with the parameters that the newest was made with."""
    stored = stored_content(plan, plan.segments[-1])
    content = build_content(plan, {} if stored is None else stored.parameters, plan.fresh)
    return write_segment(plan, content, plan.fresh)


def stored_content(target: IndexTarget, index: IndexMetadata) -> Content | None:
    """Return what a segment holds; ``None``, with a warning, if that cannot be read.

    Raises CorruptFileError, UnsupportedFeatureError: it is of text or vectors, which are not made
        anew.
    """
    try:
        return builder_of(target.kind).read(opened_segment(target, index))
    except FormatError as error:
        if target.kind.name not in KINDS:
            raise
        warn(f"Index {index.name!r} cannot be read, and is made anew: {error.message}")
        return None


# ---- the entry that tells what became of rows whose indices were left as they were
#
# A compaction may leave indices as they are, and say in an entry of its own where rows are now; as
# soon as all indices have caught up, that is not needed any more.  See docs/format/indices.md, 15.


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


def _trimmed(snapshot: Snapshot) -> Snapshot:
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
    pending = Pending(operation=operation, doing="optimize_indices")
    try:
        with removed_unless_committed(snapshot, (one.uuid for one in new)):
            return commit(snapshot, pending)
    except CommitConflictError:
        return snapshot
