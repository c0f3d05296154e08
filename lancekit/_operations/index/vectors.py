"""What is in indices of vectors: their partitions, and what is told of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from lancekit._format.index import IndexMetadata
from lancekit._format.paths import find_field
from lancekit._index.inverted.segment import open_segment
from lancekit._index.ivf.segment import VectorSegment
from lancekit._index.kinds import INVERTED, VECTORS, IndexKind, first_of, kept_up_as
from lancekit._index.search.asked import ASKED
from lancekit._index.segment import Segment, open_index_file
from lancekit._operations.index.create import segments_of
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import IndexNotFoundError, InvalidArgumentError

__all__ = [
    "name_of_vectors",
    "open_vectors",
    "prewarm_index",
    "read_partition",
    "vector_segments",
    "vector_statistics",
]

#: what the statistics of codes leave out of their settings: where other things are in the file
_PLACES = ("codebook_position", "codebook_tensor")


def vector_segments(snapshot: Snapshot, name: str) -> list[VectorSegment]:
    """Return the segments of an index that have vectors.

    Raises
    ------
    IndexNotFoundError
        There is no index of the name.
    InvalidArgumentError
        It is none of vectors.
    """
    found = segments_of(snapshot, name)
    if not all(map(VECTORS.describes, found)):
        raise InvalidArgumentError(
            f"Index {name} is not vector index: it is of type {found[0].kind}.",
            hint="Name an index of vectors.",
            index=name,
        )
    opened = (open_vectors(snapshot, index) for index in found)
    return [segment for segment in opened if segment is not None]


def name_of_vectors(snapshot: Snapshot, path: str) -> str:
    """Return the name of the first index of vectors that a column has.

    Raises
    ------
    IndexNotFoundError
        It has none.
    """
    found = first_of(VECTORS, snapshot.indices, find_field(snapshot.manifest.schema, path)[-1].id)
    if not found:
        raise IndexNotFoundError(f"Column {path!r} has no index of vectors.", column=path)
    return found[0].name


def vector_statistics(snapshot: Snapshot, index: IndexMetadata) -> dict[str, Any]:
    """Return what is told of a segment; nothing of one that has no vectors yet."""
    segment = open_vectors(snapshot, index)
    if segment is None:
        return {}
    kind = segment.label.rpartition("_")[2]
    # codes of a product are compared by l2 also for cosines
    by = "l2" if (kind, segment.metric) == ("PQ", "cosine") else segment.metric
    settings = {key: value for key, value in segment.codes.settings.items() if key not in _PLACES}
    folder = f"{snapshot.store.uri}/_indices/{index.uuid}"
    return {
        "index_type": segment.label,
        "uuid": str(index.uuid),
        "uri": f"{folder}/index.idx",
        "metric_type": segment.metric,
        "num_partitions": len(segment.centroids),
        "sub_index": {**settings, "index_type": kind, "metric_type": by},
        "partitions": [{"size": size} for size in segment.rows.lengths.tolist()],
        "centroids": segment.centroids.tolist(),
        "loss": segment.loss,
        "index_file_version": "V3",
    }


def read_partition(
    snapshot: Snapshot, name: str, partition: int, *, with_vector: bool = False
) -> pa.Table:
    """Return the rows of a partition, of all segments, by what the index calls them.

    Parameters
    ----------
    with_vector
        Whether what stands for their vectors is read, too: for each row the codes of its parts.
    """
    parts = []
    for segment in vector_segments(snapshot, name):
        if partition >= len(segment.centroids):
            continue
        ids, stored = segment.partition(partition)
        columns = {"_rowid": pa.array(ids)}
        if with_vector:
            values = pa.array(np.ascontiguousarray(stored).ravel())
            width = stored.shape[1]
            columns[segment.codes.column] = pa.FixedSizeListArray.from_arrays(values, width)
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def open_vectors(snapshot: Snapshot, index: IndexMetadata) -> VectorSegment | None:
    """Open a segment; ``None`` of one that has no vectors yet."""
    if not index.files and not index.fragment_ids:
        return None
    store, kept = snapshot.base_store(index.base_id), snapshot.line.open_files
    files = (open_index_file(store, index, name, kept) for name in VECTORS.files)
    return VectorSegment.open(*files)


# ---- indices read before they are asked, so that the first question takes no longer than others


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
