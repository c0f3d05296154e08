"""Indices read before they are asked, so that the first question takes no longer than others."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from lancekit.errors import IndexNotFoundError, InvalidArgumentError
from lancekit.format.index import IndexMetadata
from lancekit.index.inverted.segment import open_segment
from lancekit.index.kinds import INVERTED, VECTORS, IndexKind, kept_up_as
from lancekit.index.search.asked import ASKED
from lancekit.index.segment import Segment
from lancekit.operations.index.create import segments_of
from lancekit.operations.index.vectors import open_vectors
from lancekit.versions.snapshot import Snapshot

__all__ = ["prewarm_index"]


def prewarm_index(
    snapshot: Snapshot, name: str, *, with_position: bool, uuids: Collection[UUID] | None
) -> None:
    """Remember what searches need of an index, or of some of its segments.

    Of kinds that are not read, nothing is.

    Raises
    ------
    IndexNotFoundError
        There is no index of the name, or no such segment of it.
    InvalidArgumentError
        Positions are asked for of an index that has none.
    FormatError
        A file of it cannot be read.
    """
    segments = segments_of(snapshot, name)
    if with_position and not all(_has_positions(snapshot, index) for index in segments):
        raise InvalidArgumentError(
            f"Index {name!r} of type {segments[0].kind} has no positions of words.",
            hint="Leave with_position out, or make an index of text with it.",
            index=name,
        )
    known = {index.uuid: index for index in segments}
    if missing := sorted(str(uuid) for uuid in uuids or () if uuid not in known):
        raise IndexNotFoundError(
            f"Index {name!r} has no segment {', '.join(missing)} (index not found).",
            hint="describe_indices() has them.",
            index=name,
        )
    for uuid in known if uuids is None else uuids:
        _load(snapshot, known[uuid])


def _has_positions(snapshot: Snapshot, index: IndexMetadata) -> bool:
    found = _segment(snapshot, index, INVERTED)
    return INVERTED.describes(index) and open_segment(found).has_positions


def _segment(snapshot: Snapshot, index: IndexMetadata, kind: IndexKind) -> Segment:
    return Segment(index, kind, snapshot.base_store(index.base_id), snapshot.line.open_files)


def _load(snapshot: Snapshot, index: IndexMetadata) -> None:
    kind = kept_up_as(index)
    if kind is None or (index.index_version or 0) > kind.newest:
        return
    if kind is VECTORS:
        open_vectors(snapshot, index)
        return
    load = _load_texts if kind is INVERTED else ASKED[kind.name].load()
    load(_segment(snapshot, index, kind))


def _load_texts(segment: Segment) -> None:
    """Remember the words and the lengths of documents; posting lists are read word by word."""
    for partition in open_segment(segment).partitions:
        for name in ("row_ids", "lengths", "num_tokens"):
            getattr(partition, name)
        partition.words()
