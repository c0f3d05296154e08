"""Bring indices up to date: rows that are in none yet, and segments that are to be one."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lancekit.commit.protocol import check_writable
from lancekit.commit.rules.pending import Pending
from lancekit.errors import (
    CorruptFileError,
    FormatError,
    NotOfferedError,
    UnsupportedFeatureError,
)
from lancekit.format.index import IndexMetadata
from lancekit.format.operations import CreateIndex
from lancekit.format.paths import paths_by_id
from lancekit.index.build.builders import builder_of
from lancekit.index.build.column import Content
from lancekit.index.build.full_text import has_other_blocks
from lancekit.index.build.read import OpenSegment
from lancekit.index.kinds import KINDS, IndexKind, kept_up_as
from lancekit.index.search.reuse import found_reuse
from lancekit.legible import warn
from lancekit.operations.cleanup.auto import commit
from lancekit.operations.common.retry import RetryPolicy, retried
from lancekit.operations.index.create import segments_of
from lancekit.operations.index.reuse import trimmed
from lancekit.operations.index.rows import covered_rows, live_fragments
from lancekit.operations.index.segments import (
    IndexedField,
    build_content,
    column_of,
    read_rows,
    removed_unless_committed,
    write_segment,
)
from lancekit.scan.fragments.reader import FragmentReader
from lancekit.scan.fragments.source import FragmentSource, fragment_sources
from lancekit.versions.snapshot import Snapshot

__all__ = [
    "OptimizeRequest",
    "column_of_index",
    "optimize_indices",
    "optimized_names",
    "stored_content",
]


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


@dataclass(frozen=True, slots=True)
class _Change:
    """New segments of an index, and those whose place they take."""

    new: IndexMetadata
    removed: tuple[IndexMetadata, ...]


def optimize_indices(snapshot: Snapshot, request: OptimizeRequest, policy: RetryPolicy) -> Snapshot:
    """Bring indices up to date; nothing to do makes no version.

    Raises
    ------
    IndexNotFoundError
        There is no index of a name.
    NotOfferedError
        One of a kind that is not made here.
    """

    def attempt(current: Snapshot) -> Snapshot:
        check_writable(current)
        return trimmed(_attempt(current, request))

    return retried(snapshot, attempt, policy)[0]


def _attempt(current: Snapshot, request: OptimizeRequest) -> Snapshot:
    changes: list[_Change] = []
    with removed_unless_committed(current, (change.new.uuid for change in changes)):
        for name in optimized_names(current, request):
            changes.extend(_optimized(current, segments_of(current, name), request))
        if not changes:
            return current
        operation = CreateIndex(
            new_indices=tuple(change.new for change in changes),
            removed_indices=tuple(old for change in changes for old in change.removed),
        )
        return commit(
            current,
            Pending(operation=operation, uuid=str(uuids.uuid4()), doing="optimize_indices"),
        )


def optimized_names(snapshot: Snapshot, request: OptimizeRequest) -> list[str]:
    """Return the names of the indices that are to be brought up to date.

    Raises
    ------
    IndexNotFoundError, NotOfferedError
        As `optimize_indices`.
    """
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


def _optimized(
    snapshot: Snapshot, segments: tuple[IndexMetadata, ...], request: OptimizeRequest
) -> Iterator[_Change]:
    newest = segments[-1]
    kind = kept_up_as(newest)
    if kind is None:
        return
    try:
        yield from _changes(snapshot, segments, kind, request)
    except (UnsupportedFeatureError, CorruptFileError) as error:
        if kind.name in KINDS:
            raise
        # what it was made with is not known, so it is not made anew either
        warn(
            f"Index {newest.name!r} stays as it is, and searches look at the rows that are not in "
            f"it: {error.message}"
        )


def _changes(
    snapshot: Snapshot,
    segments: tuple[IndexMetadata, ...],
    kind: IndexKind,
    request: OptimizeRequest,
) -> Iterator[_Change]:
    newest = segments[-1]
    column = column_of_index(snapshot, newest)
    live = [int(id_) for id_ in snapshot.manifest.fragments.ids]
    covered = {id_ for index in segments for id_ in live_fragments(index, snapshot)}
    fresh = [id_ for id_ in live if id_ not in covered]
    if request.retrain or any(index.fragment_ids is None for index in segments):
        content = _anew(snapshot, column, kind, segments, live)
        yield _Change(write_segment(snapshot, column, kind, newest.name, content, live), segments)
        return
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
    old = _joining(segments, request.merge, [*behind, *waiting, *other])
    if not fresh and not behind and len(old) < 2:
        return
    anew = behind if kind.zones else []
    contents, again = _kept(snapshot, old, kind, column, anew)
    again += fresh
    if again:
        like = contents[0] if contents else None
        if like is None and (newest not in old or newest in anew):  # it was not looked into
            like = stored_content(snapshot, newest, kind, column)
        contents.append(_more(snapshot, kind, column, like, again))
    content = builder_of(kind).merged(contents) if len(contents) > 1 else contents[0]
    if (beside := builder_of(kind).beside) is not None:
        staying = [index for index in segments if index not in old]
        content = beside(content, [_opened(snapshot, index, kind, column) for index in staying])
    kept = {*again, *(id_ for index in old for id_ in live_fragments(index, snapshot))}
    new = write_segment(
        snapshot,
        column,
        kind,
        newest.name,
        content,
        kept,
        # what names no row as it was before a compaction is of now
        dataset_version=None
        if reuse is not None and behind
        else min((index.dataset_version for index in old), default=None),
    )
    yield _Change(new, old)


def _kept(
    snapshot: Snapshot,
    segments: Sequence[IndexMetadata],
    kind: IndexKind,
    column: IndexedField,
    anew: Sequence[IndexMetadata],
) -> tuple[list[Content], list[int]]:
    """Return what segments hold that can be put together, and the fragments of the others."""
    contents: list[Content] = []
    again: list[int] = []
    for index in segments:
        found = None if index in anew else stored_content(snapshot, index, kind, column)
        if found is None or (contents and not builder_of(kind).alike(contents[0], found)):
            again += live_fragments(index, snapshot)
        else:
            contents.append(found.moved(covered_rows(index, kind, snapshot)))
    return contents, again


def _more(
    snapshot: Snapshot,
    kind: IndexKind,
    column: IndexedField,
    like: Content | None,
    fragments: Sequence[int],
) -> Content:
    """Build what is to be put together with a content, or is to go with it."""
    rows = read_rows(snapshot, column, kind, fragments)
    builder = builder_of(kind)
    return builder.made(rows, {}) if like is None else builder.extended(like, rows)


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


def _anew(
    snapshot: Snapshot,
    column: IndexedField,
    kind: IndexKind,
    segments: Sequence[IndexMetadata],
    fragments: Sequence[int],
) -> Content:
    content = stored_content(snapshot, segments[-1], kind, column)
    parameters = {} if content is None else content.parameters
    return build_content(snapshot, column, kind, parameters, fragments)


def column_of_index(snapshot: Snapshot, index: IndexMetadata) -> IndexedField:
    """Return the column that an index is of."""
    return column_of(snapshot, paths_by_id(snapshot.manifest.schema)[index.fields[0]])


def stored_content(
    snapshot: Snapshot, index: IndexMetadata, kind: IndexKind, column: IndexedField
) -> Content | None:
    """Return what a segment holds; ``None``, with a warning, if that cannot be read.

    Raises
    ------
    CorruptFileError, UnsupportedFeatureError
        It is of text or vectors, which are not made anew.
    """
    try:
        return builder_of(kind).read(_opened(snapshot, index, kind, column))
    except FormatError as error:
        if kind.name not in KINDS:
            raise
        warn(f"Index {index.name!r} cannot be read, and is made anew: {error.message}")
        return None


def _opened(
    snapshot: Snapshot, index: IndexMetadata, kind: IndexKind, column: IndexedField
) -> OpenSegment:
    return OpenSegment.open(snapshot.base_store(index.base_id), index, kind, column.type)
