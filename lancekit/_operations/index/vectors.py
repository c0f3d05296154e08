"""Contents of vector indices, prewarming of indices, and the single steps of vector indexing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast
from uuid import UUID

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import flattened
from lancekit._format.index import IndexMetadata, VectorSettings, vector_details
from lancekit._format.paths import find_field
from lancekit._index.build.files import NewFile, write_file
from lancekit._index.build.vectors import VectorRows, comparable
from lancekit._index.distances import Vectors
from lancekit._index.inverted.segment import open_segment
from lancekit._index.ivf.codes import product_codes
from lancekit._index.ivf.segment import VectorSegment
from lancekit._index.ivf.training import trained_centroids, trained_words
from lancekit._index.kinds import INVERTED, VECTORS, IndexKind, first_of, kept_up_as
from lancekit._index.search.registry import REGISTRY
from lancekit._index.segment import Segment, open_index_file
from lancekit._operations.index.create import check_name, commit_segments, default_name, segments_of
from lancekit._operations.index.segments import IndexTarget, indexed_field, read_rows, write_segment
from lancekit._storage.base import Store
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import IndexNotFoundError, InvalidArgumentError

#: settings that statistics of codes leave out: positions of other data in the file
_PLACES = ("codebook_position", "codebook_tensor")


def vector_segments(snapshot: Snapshot, name: str) -> list[VectorSegment]:
    """Return the segments of a vector index that have vectors.

    Raises IndexNotFoundError: no index has the name.
    Raises InvalidArgumentError: the index is not a vector index.
    """
    found = segments_of(snapshot, name)
    if not all(map(VECTORS.describes, found)):
        raise InvalidArgumentError(
            f"Index {name} is not vector index: its type is {found[0].kind}.",
            hint="Pass the name of a vector index.",
            index=name,
        )
    opened = (open_vectors(snapshot, index) for index in found)
    return [segment for segment in opened if segment is not None]


def name_of_vectors(snapshot: Snapshot, path: str) -> str:
    """Return the name of a column's first vector index.

    Raises IndexNotFoundError: the column has no vector index.
    """
    found = first_of(VECTORS, snapshot.indices, find_field(snapshot.manifest.schema, path)[-1].id)
    if not found:
        raise IndexNotFoundError(f"Column {path!r} has no vector index.", column=path)
    return found[0].name


def vector_statistics(snapshot: Snapshot, index: IndexMetadata) -> dict[str, object]:
    """Return the statistics of a vector index segment; empty if it has no vectors yet."""
    segment = open_vectors(snapshot, index)
    if segment is None:
        return {}
    kind = segment.label.rpartition("_")[2]
    # product codes are compared by l2 for cosine, too
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
    """Return the row ids of a partition in all segments, as the index stores them.

    with_vector: also return the stored form of their vectors: for each row the codes of its parts.
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
    """Open a vector index segment; return ``None`` if it has no vectors yet."""
    if not index.files and not index.fragment_ids:
        return None
    store, kept = snapshot.base_store(index.base_id), snapshot.location.open_files
    files = (open_index_file(store, index, name, kept) for name in VECTORS.files)
    return VectorSegment.open(*files)


# ---- prewarming: indices are read before the first query, so that it takes no longer than others


def prewarm_index(
    snapshot: Snapshot, name: str, *, with_position: bool, uuids: Collection[UUID] | None
) -> int:
    """Cache the data of an index that searches need, or of some of its segments.

    Kinds that lancekit does not read are skipped.  Return the number of cached segments.

    Raises IndexNotFoundError: no index has the name, or it does not have a requested segment.
    Raises InvalidArgumentError: positions are requested of an index without positions.
    Raises FormatError: a file of the index cannot be read.
    """
    segments = segments_of(snapshot, name)
    if with_position and not all(_has_positions(snapshot, index) for index in segments):
        raise InvalidArgumentError(
            f"Index {name!r} of type {segments[0].kind} has no token positions.",
            hint="Leave with_position out, or use a full-text index that has positions.",
            index=name,
        )
    known = {index.uuid: index for index in segments}
    if missing := sorted(str(uuid) for uuid in uuids or () if uuid not in known):
        raise IndexNotFoundError(
            f"Index {name!r} has no segment {', '.join(missing)} (index not found).",
            hint="describe_indices() lists the segments.",
            index=name,
        )
    return sum(_load(snapshot, known[uuid]) for uuid in (known if uuids is None else uuids))


def _has_positions(snapshot: Snapshot, index: IndexMetadata) -> bool:
    found = _segment(snapshot, index, INVERTED)
    return INVERTED.describes(index) and open_segment(found).has_positions


def _segment(snapshot: Snapshot, index: IndexMetadata, kind: IndexKind) -> Segment:
    return Segment(index, kind, snapshot.base_store(index.base_id), snapshot.location.open_files)


def _load(snapshot: Snapshot, index: IndexMetadata) -> bool:
    """Cache a segment's data; return False for a kind that lancekit does not read."""
    kind = kept_up_as(index)
    if kind is None or (index.index_version or 0) > kind.newest:
        return False
    if kind is VECTORS:
        open_vectors(snapshot, index)
        return True
    load = _load_texts if kind is INVERTED else REGISTRY[kind.name].load()
    load(_segment(snapshot, index, kind))
    return True


def _load_texts(segment: Segment) -> None:
    """Cache words and document lengths; posting lists are read later, word by word."""
    for partition in open_segment(segment).partitions:
        for name in ("row_ids", "lengths", "num_tokens"):
            getattr(partition, name)
        partition.words()


# ---- the single steps of vector indexing, for very large tables
#
# Models are trained on a sample.  Vectors are encoded as partitions and codes, in their own files.
# These are sorted by partition, and the index is built from them.


#: the columns of encoded vectors: row ids, partitions, codes
ROW, PARTITION, CODE = "_rowid", "__ivf_part_id", "__pq_code"


def train_centroids(
    snapshot: Snapshot,
    path: str,
    fragment_ids: Collection[int],
    metric: str,
    count: int,
    *,
    sampled: int,
    rounds: int,
) -> Vectors:
    """Train and return the centroids of partitions, in the type of the vectors."""
    wide, stored = comparable(metric, read_rows(_target(snapshot, path), fragment_ids))
    centroids = trained_centroids(wide, count, metric, sampled=sampled, rounds=rounds)[0]
    return centroids.astype(stored)


def train_words(
    snapshot: Snapshot,
    path: str,
    fragment_ids: Collection[int],
    settings: VectorSettings,
    centroids: Vectors,
    *,
    sampled: int,
    rounds: int,
) -> Vectors:
    """Train and return a codebook of shape (parts, words, numbers), in the type of the vectors."""
    wide, stored = comparable(settings.metric, read_rows(_target(snapshot, path), fragment_ids))
    if not len(wide):
        raise InvalidArgumentError(f"Column {path!r} has no vectors to train a codebook with.")
    return trained_words(settings, wide, centroids, sampled=sampled, rounds=rounds).astype(stored)


def _target(snapshot: Snapshot, path: str) -> IndexTarget:
    column = indexed_field(snapshot, path, VECTORS)
    return IndexTarget(snapshot=snapshot, column=column, kind=VECTORS)


def transformed(
    snapshot: Snapshot,
    path: str,
    fragment_ids: Collection[int],
    settings: VectorSettings,
    centroids: Vectors,
    words: Vectors,
) -> Iterator[pa.Table]:
    """Yield a table of encoded vectors for each fragment."""
    target = _target(snapshot, path)
    for id_ in fragment_ids:
        rows = read_rows(target, [id_])
        found = VectorRows.build(rows, settings, centroids=centroids, words=words)
        codes = pa.array(np.ascontiguousarray(found.stored).ravel())
        yield pa.table(
            {
                ROW: pa.array(found.rows),
                PARTITION: pa.array(found.owners, pa.uint32()),
                CODE: pa.FixedSizeListArray.from_arrays(codes, found.stored.shape[1]),
            }
        )


def write_codes(store: Store, name: str, tables: Iterable[pa.Table]) -> None:
    """Write encoded vectors to a file; replace an existing file."""
    first, *others = tables
    batches = (batch for table in (first, *others) for batch in table.to_batches())
    write_file(store.create_over(name), NewFile(name=name, schema=first.schema, batches=batches))


def in_order(parts: Sequence[pa.Table], partitions: int) -> pa.Table:
    """Sort encoded vectors by partition.

    Raises InvalidArgumentError: a partition number is not below ``partitions``.
    """
    table = ak.sort_by(pa.concat_tables(parts), PARTITION)
    _check_models(table, partitions)
    return table


def _check_models(table: pa.Table, partitions: int, width: int | None = None) -> None:
    most = table.column(PARTITION)[-1].as_py() if len(table) else 0
    kind = cast("pa.FixedSizeListType", table.schema.field(CODE).type)
    if most >= partitions or width not in (None, kind.list_size):
        raise InvalidArgumentError(
            "The vectors were encoded with different models.", hint="Pass the models of the files."
        )


def load_vectors(
    snapshot: Snapshot,
    path: str,
    parts: Sequence[pa.Table],
    settings: VectorSettings,
    centroids: Vectors,
    words: Vectors,
    name: str | None,
) -> Snapshot:
    """Commit a vector index of the encoded vectors of all fragments, from `transformed`.

    Raises InvalidArgumentError: a partition or a code does not fit the models.
    Raises IndexExistsError: an index of another column has the name.
    """
    target = _target(snapshot, path)
    name = name or default_name(snapshot, target.column, VECTORS)
    check_name(snapshot, target.column, name, replace=True)
    table, width = in_order(parts, len(centroids)), settings.parts * settings.bits // 8
    _check_models(table, len(centroids), width)
    codes = ak.combine_chunks(table.column(CODE))
    content = VectorRows(
        settings=settings,
        codes=product_codes(settings.metric, words),
        centroids=centroids,
        loss=0.0,
        rows=table.column(ROW).to_numpy(),
        owners=table.column(PARTITION).to_numpy().astype(np.int64),
        stored=flattened(codes).to_numpy().reshape(-1, width),
        details=vector_details(settings),
    )
    ids = [int(id_) for id_ in snapshot.manifest.fragments.ids]
    made: IndexMetadata = write_segment(replace(target, name=name), content, ids)
    return commit_segments(snapshot, name, [made])
