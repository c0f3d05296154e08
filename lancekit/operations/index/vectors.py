"""Make an index of a column of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from lancekit.commit.protocol import check_writable
from lancekit.errors import InvalidArgumentError, InvalidTypeError
from lancekit.format.index import IndexDetails, vector_details
from lancekit.index.build.column import IndexedColumn
from lancekit.index.ivf.flat import FlatVectors
from lancekit.index.kinds import VECTORS
from lancekit.operations.common.retry import RetryPolicy, retried
from lancekit.operations.index.create import check_name, commit_segments
from lancekit.operations.index.segments import column_of, new_segment, read_column
from lancekit.versions.snapshot import Snapshot

__all__ = ["VectorIndexRequest", "create_vector_index"]

#: rows of a partition, if nobody says how many partitions there are to be
_PARTITION_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorIndexRequest:
    """An index of vectors that is to be made.

    Without `partitions` there is one for so many rows as `partition_rows`; with `centroids` there
    are as many as these.
    """

    column: str
    name: str | None = None
    metric: str = "l2"
    replace: bool = False
    partitions: int | None = None
    partition_rows: int | None = None
    centroids: npt.NDArray[Any] | None = None
    train: bool = True
    uuid: UUID | None = None


def create_vector_index(
    snapshot: Snapshot, request: VectorIndexRequest, policy: RetryPolicy
) -> Snapshot:
    """Make an index; return the version that has it.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidTypeError
        It holds no vectors, or not such as are indexed.
    InvalidArgumentError
        There are centroids of another size.
    IndexExistsError
        Another index has the name, or this one is not to be replaced.
    """

    def attempt(current: Snapshot) -> Snapshot:
        check_writable(current)
        column = column_of(current, request.column)
        if not VECTORS.fits(column.type):
            raise InvalidTypeError(
                f"Column {column.path!r} is of type {column.type}, of which no index of vectors is "
                "made.",
                hint="Indices are made of fixed-size lists of float16, float32 or float64.",
                column=column.path,
            )
        name = f"{column.path}_idx" if request.name is None else request.name
        check_name(current, column, name, replace=request.replace)
        ids = [int(id_) for id_ in current.manifest.fragments.ids] if request.train else []
        addresses = not current.manifest.has_stable_row_ids
        found = _vectors(read_column(current, column, ids, addresses=addresses))
        segment = new_segment(
            current,
            column,
            name,
            _built(request, *found).files(),
            ids,
            index_version=VECTORS.written,
            details=IndexDetails(VECTORS.type_url, vector_details(request.metric)),
            uuid=request.uuid,
        )
        return commit_segments(current, name, [segment])

    return retried(snapshot, attempt, policy)[0]


def _vectors(column: IndexedColumn) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint64]]:
    """Return vectors that are not null, shape (rows, dimensions), and their rows."""
    values: Any = column.values
    rows = column.rows
    if values.null_count:
        there = values.is_valid()
        rows = rows[there.to_numpy(zero_copy_only=False)]
        values = values.filter(there)
    size = values.type.list_size
    flat = values.values.slice(values.offset * size, len(values) * size)
    if flat.null_count:
        flat = flat.fill_null(0)  # as a search takes it
    return flat.to_numpy(zero_copy_only=False).reshape(len(values), size), rows


def _built(
    request: VectorIndexRequest, vectors: npt.NDArray[Any], ids: npt.NDArray[np.uint64]
) -> FlatVectors:
    centroids = request.centroids
    if centroids is not None and (centroids.ndim != 2 or centroids.shape[1] != vectors.shape[1]):
        raise InvalidArgumentError(
            f"ivf_centroids have the shape {centroids.shape}; the vectors of the column have "
            f"{vectors.shape[1]} dimensions.",
            hint="Pass a row for each partition.",
            argument="ivf_centroids",
        )
    size = request.partition_rows or _PARTITION_ROWS
    partitions = request.partitions or max(len(vectors) // size, 1)
    return FlatVectors.build(request.metric, vectors, ids, partitions, centroids)
