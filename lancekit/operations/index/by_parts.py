"""Indices made in parts: segments of some fragments each, which are committed together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import UUID

from lancekit.commit.protocol import check_writable
from lancekit.errors import InvalidArgumentError
from lancekit.format.index import IndexMetadata
from lancekit.index.kinds import KINDS, IndexKind, kept_up_as
from lancekit.operations.checks.indices import check_indices
from lancekit.operations.index.create import check_name, put_segments
from lancekit.operations.index.optimize import column_of_index
from lancekit.operations.index.segments import (
    build_segment,
    check_readable,
    column_of,
    indexed_field,
    joined_segments,
)
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["check_fragments", "commit_parts", "make_part", "merge_parts"]


def make_part(
    snapshot: Snapshot,
    path: str,
    kind: IndexKind,
    fragment_ids: Collection[int],
    *,
    name: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    uuid: UUID | None = None,
) -> IndexMetadata:
    """Index some fragments; nothing refers to the files before `commit_parts`.

    Raises
    ------
    InvalidArgumentError
        A fragment is not there, or none is named.
    ColumnNotFoundError, InvalidTypeError
        As `create_index`.
    """
    check_readable(kind, snapshot)
    column = indexed_field(snapshot, path, kind)
    check_fragments(snapshot, fragment_ids)
    return build_segment(
        snapshot,
        column,
        kind,
        name or f"{column.path}_idx",
        parameters=parameters,
        fragment_ids=fragment_ids,
        uuid=uuid,
    )


def check_fragments(snapshot: Snapshot, fragment_ids: Collection[int]) -> None:
    """Raise ``InvalidArgumentError`` if a fragment is not there, or none is named."""
    missing = [id_ for id_ in fragment_ids if snapshot.fragment(id_) is None]
    if missing or not fragment_ids:
        told = f"has no fragment {missing[0]}" if missing else "is asked for no fragment"
        raise InvalidArgumentError(
            f"{snapshot.called} {told}.".capitalize(),
            hint="Pass fragment_ids that ds.fragment_ids() has.",
            argument="fragment_ids",
        )


def merge_parts(snapshot: Snapshot, segments: Sequence[IndexMetadata]) -> IndexMetadata:
    """Put segments together that are not committed yet; their own files stay.

    Raises
    ------
    InvalidArgumentError
        They are not of one column and kind, or cover a fragment twice.
    """
    kind = _of_one_kind(segments)
    return joined_segments(snapshot, column_of_index(snapshot, segments[0]), kind, segments)


def commit_parts(
    snapshot: Snapshot, name: str, path: str, segments: Sequence[IndexMetadata]
) -> Snapshot:
    """Commit an index of segments that were made before; it takes the place of one of its name.

    Raises
    ------
    InvalidArgumentError
        They are not of this column and of one kind, cover a fragment twice, or have no files.
    IndexExistsError
        An index of another column has the name.
    CommitConflictError
        Fragments that they cover were changed since they were made.
    """
    check_writable(snapshot)
    kind, column = _of_one_kind(segments), column_of(snapshot, path)
    if segments[0].fields != (column.field.id,):
        raise InvalidArgumentError(
            f"The segments are not of column {path!r}.",
            hint="Pass the column that they were made of.",
            column=path,
        )
    check_name(snapshot, column, name, replace=True)
    check_readable(kind, snapshot)
    named = [replace(index, name=name) for index in segments]
    check_indices(named, snapshot)
    # what landed since the oldest one was made may have changed what it covers
    oldest = min(index.dataset_version for index in segments)
    read = snapshot
    if oldest < snapshot.version:
        read = load_snapshot(snapshot.line, oldest, snapshot.naming)
    return put_segments(read, name, named, snapshot.indices)


def _of_one_kind(segments: Sequence[IndexMetadata]) -> IndexKind:
    kinds = [kept_up_as(index) for index in segments]
    kind = kinds[0] if kinds else None
    if kind is None or any(other is not kind for other in kinds):
        told = "The segments are not all of one kind" if segments else "There is no segment"
        raise InvalidArgumentError(
            f"{told}.",
            hint=f"Pass segments of one kind: {', '.join(KINDS)}, INVERTED or IVF_FLAT.",
        )
    if len({index.fields for index in segments}) > 1:
        raise InvalidArgumentError(
            "The segments are of several columns.", hint="Pass those of one column."
        )
    if any(index.fragment_ids is None for index in segments):
        raise InvalidArgumentError("A segment does not say which fragments it covers.")
    covered = sorted(id_ for index in segments for id_ in index.fragment_ids or ())
    if twice := [id_ for id_, other in pairwise(covered) if id_ == other]:
        raise InvalidArgumentError(
            f"Fragment {twice[0]} is in two of the segments.",
            hint="Pass segments that share no fragment.",
            fragment=twice[0],
        )
    return kind
