"""Bring indices up to date: rows that are in none yet, and segments that are to be one."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lancekit.commit.protocol import check_writable
from lancekit.commit.rules.pending import Pending
from lancekit.errors import FormatError, NotOfferedError
from lancekit.format.index import IndexMetadata, fragment_reuse_of
from lancekit.format.operations import CreateIndex
from lancekit.format.paths import paths_by_id
from lancekit.index.build.builders import builder_of
from lancekit.index.build.column import Content
from lancekit.index.build.read import OpenSegment
from lancekit.index.kinds import KINDS, IndexKind, kind_of
from lancekit.legible import warn
from lancekit.operations.cleanup.auto import commit
from lancekit.operations.common.retry import RetryPolicy, retried
from lancekit.operations.index.create import segments_of
from lancekit.operations.index.rows import covered_rows, live_fragments
from lancekit.operations.index.segments import (
    IndexedField,
    build_content,
    column_of,
    removed_unless_committed,
    write_segment,
)
from lancekit.versions.snapshot import Snapshot

__all__ = ["OptimizeRequest", "column_of_index", "optimize_indices", "stored_content"]


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
        changes: list[_Change] = []
        with removed_unless_committed(current, (change.new.uuid for change in changes)):
            for name in _names(current, request):
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

    return retried(snapshot, attempt, policy)[0]


def _names(snapshot: Snapshot, request: OptimizeRequest) -> list[str]:
    if request.names is None:
        ours = {index.name for index in snapshot.indices if kind_of(index) is not None}
        return sorted(ours)
    for name in request.names:
        for index in segments_of(snapshot, name):
            if kind_of(index) is None:
                raise NotOfferedError(
                    f"Index {name!r} is of kind {index.kind}, which lancekit does not make.",
                    hint="There are " + ", ".join(KINDS) + ".",
                    index=name,
                )
    return list(dict.fromkeys(request.names))


def _optimized(
    snapshot: Snapshot, segments: tuple[IndexMetadata, ...], request: OptimizeRequest
) -> Iterator[_Change]:
    newest = segments[-1]
    kind, column = kind_of(newest), column_of_index(snapshot, newest)
    if kind is None:
        return
    live = [int(id_) for id_ in snapshot.manifest.fragments.ids]
    covered = {id_ for index in segments for id_ in live_fragments(index, snapshot)}
    fresh = [id_ for id_ in live if id_ not in covered]
    unknown = any(index.fragment_ids is None for index in segments)
    # addresses in an index may be those of before a compaction
    reused = bool(fresh) and fragment_reuse_of(snapshot.indices) is not None
    if request.retrain or unknown or reused:
        content = _anew(snapshot, column, kind, segments, live)
        new = write_segment(snapshot, column, kind, newest.name, content, live)
        yield _Change(new, segments)
        return
    old = _joining(snapshot, segments, kind, request.merge)
    if not fresh and len(old) < 2:
        return
    contents, again = [], list(fresh)
    for index in old:
        found = stored_content(snapshot, index, kind, column)
        if found is None:
            again += live_fragments(index, snapshot)
        else:
            contents.append(found.moved(covered_rows(index, kind, snapshot)))
    parameters = contents[0].parameters if contents else _parameters(snapshot, newest, kind, column)
    if again:
        contents.append(build_content(snapshot, column, kind, parameters, again))
    content = builder_of(kind).merged(contents) if len(contents) > 1 else contents[0]
    kept = {*again, *(id_ for index in old for id_ in live_fragments(index, snapshot))}
    new = write_segment(
        snapshot,
        column,
        kind,
        newest.name,
        content,
        kept,
        dataset_version=min((index.dataset_version for index in old), default=None),
    )
    yield _Change(new, old)


def _joining(
    snapshot: Snapshot, segments: tuple[IndexMetadata, ...], kind: IndexKind, merge: int
) -> tuple[IndexMetadata, ...]:
    """Return the segments that new rows join: the newest, and those that name rows that moved.

    With stable row ids an updated row keeps its id: a segment that has it from before is to forget
    it, as soon as it is in another.
    """
    wanted = {index.uuid for index in segments[len(segments) - min(merge, len(segments)) :]}
    if snapshot.manifest.has_stable_row_ids and not kind.zones:
        for index in segments:
            fragments = (snapshot.fragment(id_) for id_ in live_fragments(index, snapshot))
            if any(fragment is not None and fragment.num_deletions for fragment in fragments):
                wanted.add(index.uuid)
    return tuple(index for index in segments if index.uuid in wanted)


def _parameters(
    snapshot: Snapshot, index: IndexMetadata, kind: IndexKind, column: IndexedField
) -> dict[str, object]:
    """Return what was asked of an index when it was made."""
    content = stored_content(snapshot, index, kind, column)
    return {} if content is None else content.parameters


def _anew(
    snapshot: Snapshot,
    column: IndexedField,
    kind: IndexKind,
    segments: Sequence[IndexMetadata],
    fragments: Sequence[int],
) -> Content:
    parameters = _parameters(snapshot, segments[-1], kind, column)
    return build_content(snapshot, column, kind, parameters, fragments)


def column_of_index(snapshot: Snapshot, index: IndexMetadata) -> IndexedField:
    """Return the column that an index is of."""
    return column_of(snapshot, paths_by_id(snapshot.manifest.schema)[index.fields[0]])


def stored_content(
    snapshot: Snapshot, index: IndexMetadata, kind: IndexKind, column: IndexedField
) -> Content | None:
    """Return what a segment holds; ``None``, with a warning, if that cannot be read."""
    try:
        store = snapshot.base_store(index.base_id)
        return builder_of(kind).read(OpenSegment.open(store, index, kind, column.type))
    except FormatError as error:
        warn(f"Index {index.name!r} cannot be read, and is made anew: {error.message}")
        return None
