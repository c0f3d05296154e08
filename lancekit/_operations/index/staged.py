"""Full-text indices that several processes build in one folder, and that the user commits.

Each process builds a part of some fragments.  One process merges the parts, and commits an index
with the folder's UUID.  Parts of pylance and of lancekit have the same form.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from uuid import UUID

from lancekit._commit.protocol import check_writable
from lancekit._format.index import IndexFile, IndexMetadata
from lancekit._format.operations import CreateIndex, Operation
from lancekit._index.build.builders import parsed_parameters
from lancekit._index.build.files import add_files, segment_folder
from lancekit._index.build.full_text import STAGING, TextRows, read_staged
from lancekit._index.kinds import INVERTED, KINDS, IndexKind, kept_up_as
from lancekit._index.segment import Segment
from lancekit._operations.checks.files import check_indices
from lancekit._operations.index.create import check_name, put_segments
from lancekit._operations.index.segments import (
    IndexTarget,
    build_segment,
    check_readable,
    column_of,
    indexed_field,
    joined_segments,
    read_rows,
    target_of,
)
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError

#: the number of a part has its first fragment id in the upper 32 bits
_FRAGMENT = 32


def stage_part(
    snapshot: Snapshot,
    path: str,
    fragment_ids: Collection[int],
    parameters: Mapping[str, object],
    uuid: UUID | None,
) -> None:
    """Build a part of a full-text index, of some fragments.

    Raises InvalidArgumentError: a fragment does not exist, or no fragment is given.
    Raises ColumnNotFoundError, InvalidTypeError: the column does not exist, or has no text.
    """
    column = indexed_field(snapshot, path, INVERTED)
    _check_fragments(snapshot, fragment_ids)
    target = IndexTarget(snapshot=snapshot, column=column, kind=INVERTED)
    rows = read_rows(target, fragment_ids)
    content = TextRows.build(rows, **parsed_parameters(INVERTED, parameters))
    number = min(fragment_ids) << _FRAGMENT
    for _ in add_files(snapshot.store, uuid or uuids.uuid4(), content.staged(number), over=True):
        pass


def merge_staged(snapshot: Snapshot, uuid: UUID) -> None:
    """Merge the staged parts of an index; do nothing if they are merged already.

    Raises InvalidArgumentError: there are no parts, or they were built with different parameters.
    """
    store, folder = snapshot.store, segment_folder(uuid)
    there = {info.name for info in store.list_tree(folder)}
    names = [name.rpartition("/")[2] for name in there if f"/{STAGING}" in name]
    if not names and any(name.endswith(f"/{file}") for file in INVERTED.files for name in there):
        return
    found = read_staged(Segment(IndexMetadata(uuid, ""), INVERTED, store), names)
    for _ in add_files(store, uuid, found.files(), over=True):
        pass
    with suppress(OSError):  # a cleanup removes them
        store.delete_tree(f"{folder}/{STAGING.rstrip('/')}")


def with_files(operation: Operation, read: Snapshot) -> Operation:
    """Return an operation whose new indices list their files, which are looked up if missing."""
    if not isinstance(operation, CreateIndex):
        return operation
    return replace(
        operation, new_indices=tuple(_listed(one, read) for one in operation.new_indices)
    )


def _listed(index: IndexMetadata, read: Snapshot) -> IndexMetadata:
    if index.files or index.is_system:
        return index
    folder = segment_folder(index.uuid)
    found = read.base_store(index.base_id).list_tree(folder)
    names = ((info.name.rpartition(f"{folder}/")[2], info.size) for info in found)
    files = tuple(IndexFile(name, size) for name, size in sorted(names) if "/" not in name)
    if not files:
        raise InvalidArgumentError(
            f"The parts of index {index.name!r} are not merged yet.",
            hint="Call merge_index_metadata() before the commit.",
            index=index.name,
        )
    return replace(index, files=files)


# ---- indices built in parts: segments of some fragments each, which are committed together


def make_part(
    snapshot: Snapshot,
    path: str,
    kind: IndexKind,
    fragment_ids: Collection[int],
    *,
    name: str | None = None,
    parameters: Mapping[str, object] | None = None,
    uuid: UUID | None = None,
) -> IndexMetadata:
    """Write a segment of some fragments, for `commit_parts`.

    Raises InvalidArgumentError: a fragment does not exist, or no fragment is given.
    Raises ColumnNotFoundError, InvalidTypeError: as `create_index`.
    """
    check_readable(kind, snapshot)
    column = indexed_field(snapshot, path, kind)
    _check_fragments(snapshot, fragment_ids)
    name = name or f"{column.path}_idx"
    target = IndexTarget(snapshot=snapshot, column=column, kind=kind, name=name)
    return build_segment(target, parameters=parameters, fragment_ids=fragment_ids, uuid=uuid)


def _check_fragments(snapshot: Snapshot, fragment_ids: Collection[int]) -> None:
    """Raise ``InvalidArgumentError`` if a fragment does not exist, or no fragment is given."""
    missing = [id_ for id_ in fragment_ids if snapshot.fragment(id_) is None]
    if missing or not fragment_ids:
        where = f"Version {snapshot.version} of {snapshot.location.name}"
        raise InvalidArgumentError(
            f"{where} has no fragment {missing[0]}." if missing else "No fragments.",
            hint="Pass fragment_ids from ds.fragment_ids().",
            argument="fragment_ids",
        )


def merge_parts(snapshot: Snapshot, segments: Sequence[IndexMetadata]) -> IndexMetadata:
    """Merge uncommitted segments; their own files stay.

    Raises InvalidArgumentError: they have different columns or kinds, or cover a fragment twice.
    """
    return joined_segments(target_of(snapshot, segments[0], _of_one_kind(segments)), segments)


def commit_parts(
    snapshot: Snapshot, name: str, path: str, segments: Sequence[IndexMetadata]
) -> Snapshot:
    """Commit an index of segments that were built before; it replaces an index of its name.

    Raises InvalidArgumentError: they have another column or different kinds, cover a fragment
        twice, or have no files.
    Raises IndexExistsError: an index of another column has the name.
    Raises CommitConflictError: fragments that they cover changed since they were built.
    """
    check_writable(snapshot)
    kind, column = _of_one_kind(segments), column_of(snapshot, path)
    if segments[0].fields != (column.field.id,):
        raise InvalidArgumentError(
            f"The segments are not on column {path!r}.",
            hint="Pass the column that they index.",
            column=path,
        )
    check_name(snapshot, column, name, replace=True)
    check_readable(kind, snapshot)
    named = [replace(index, name=name) for index in segments]
    check_indices(named, snapshot)
    # commits since the oldest segment was built may have changed its fragments
    oldest = min(index.dataset_version for index in segments)
    read = snapshot
    if oldest < snapshot.version:
        read = load_snapshot(snapshot.location, oldest, snapshot.naming)
    return put_segments(read, name, named, snapshot.indices)


def _of_one_kind(segments: Sequence[IndexMetadata]) -> IndexKind:
    kinds = [kept_up_as(index) for index in segments]
    kind = kinds[0] if kinds else None
    if kind is None or any(other is not kind for other in kinds):
        problem = "The segments are not all of one kind" if segments else "No segments were given"
        raise InvalidArgumentError(
            f"{problem}.",
            hint=f"Pass segments of one kind: {', '.join(KINDS)}, INVERTED or IVF_FLAT.",
        )
    if len({index.fields for index in segments}) > 1:
        raise InvalidArgumentError(
            "The segments are on several columns.", hint="Pass segments of one column."
        )
    if any(index.fragment_ids is None for index in segments):
        raise InvalidArgumentError("A segment does not list the fragments that it covers.")
    covered = sorted(id_ for index in segments for id_ in index.fragment_ids or ())
    if twice := [id_ for id_, other in pairwise(covered) if id_ == other]:
        raise InvalidArgumentError(
            f"Two segments cover fragment {twice[0]}.",
            hint="Pass segments that share no fragment.",
            fragment=twice[0],
        )
    return kind
