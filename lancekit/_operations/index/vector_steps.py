"""The steps in which an index of vectors is made, each for itself: for very large tables.

Models are found in a sample; vectors become partitions and codes, in files of their own; these are
put in order; then the index is made of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.index import IndexMetadata, VectorSettings, vector_details
from lancekit._index.build.files import NewFile, write_file
from lancekit._index.build.vectors import VectorRows, comparable
from lancekit._index.ivf.codes import product_codes
from lancekit._index.ivf.training import trained_centroids, trained_words
from lancekit._index.kinds import VECTORS
from lancekit._operations.index.create import check_name, commit_segments, default_name
from lancekit._operations.index.segments import (
    IndexedField,
    indexed_field,
    read_rows,
    write_segment,
)
from lancekit._storage.base import Store
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

__all__ = [
    "in_order",
    "load_vectors",
    "train_centroids",
    "train_words",
    "transformed",
    "write_codes",
]

Vectors = npt.NDArray[Any]

#: the columns of what stands for vectors: rows, partitions, codes
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
    """Return the middles of so many partitions, of the type of the vectors."""
    column = indexed_field(snapshot, path, VECTORS)
    wide, stored = _compared(snapshot, column, fragment_ids, metric)
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
    """Return a codebook, shape (parts, words, numbers), of the type of the vectors."""
    column = indexed_field(snapshot, path, VECTORS)
    wide, stored = _compared(snapshot, column, fragment_ids, settings.metric)
    if not len(wide):
        raise InvalidArgumentError(f"Column {path!r} has no vectors to make a codebook of.")
    words = trained_words(settings, wide, centroids, sampled=sampled, rounds=rounds)
    return words.astype(stored)


def _compared(
    snapshot: Snapshot, column: IndexedField, fragment_ids: Collection[int], metric: str
) -> tuple[Vectors, np.dtype[Any]]:
    return comparable(metric, read_rows(snapshot, column, VECTORS, fragment_ids))


def transformed(
    snapshot: Snapshot,
    path: str,
    fragment_ids: Collection[int],
    settings: VectorSettings,
    centroids: Vectors,
    words: Vectors,
) -> Iterator[pa.Table]:
    """Yield what stands for the vectors of each of some fragments."""
    column = indexed_field(snapshot, path, VECTORS)
    given: dict[str, Any] = {"settings": settings, "centroids": centroids, "words": words}
    for id_ in fragment_ids:
        found = VectorRows.build(read_rows(snapshot, column, VECTORS, [id_]), **given)
        codes = pa.array(np.ascontiguousarray(found.stored).ravel())
        yield pa.table(
            {
                ROW: pa.array(found.rows),
                PARTITION: pa.array(found.owners, pa.uint32()),
                CODE: pa.FixedSizeListArray.from_arrays(codes, found.stored.shape[1]),
            }
        )


def write_codes(store: Store, name: str, tables: Iterable[pa.Table]) -> None:
    """Write what stands for vectors into a file, in the place of one that is there."""
    first, *others = tables
    batches = (batch for table in (first, *others) for batch in table.to_batches())
    write_file(store.create_over(name), NewFile(name=name, schema=first.schema, batches=batches))


def in_order(parts: Sequence[pa.Table], partitions: int) -> pa.Table:
    """Put what `transformed` gave in the order of its partitions.

    Raises
    ------
    InvalidArgumentError
        It has more partitions than there are.
    """
    table = ak.sort_by(pa.concat_tables(parts), PARTITION)
    _check_models(table, partitions)
    return table


def _check_models(table: pa.Table, partitions: int, width: int | None = None) -> None:
    most = table.column(PARTITION)[-1].as_py() if len(table) else 0
    kind: Any = table.schema.field(CODE).type
    if most >= partitions or width not in (None, kind.list_size):
        raise InvalidArgumentError("The files were made with other models.", hint="Pass these.")


def load_vectors(
    snapshot: Snapshot,
    path: str,
    parts: Sequence[pa.Table],
    settings: VectorSettings,
    centroids: Vectors,
    words: Vectors,
    name: str | None,
) -> Snapshot:
    """Commit an index of what `transformed` gave of all fragments.

    Raises
    ------
    InvalidArgumentError
        A partition or a code is none of the models.
    IndexExistsError
        An index of another column has the name.
    """
    column = indexed_field(snapshot, path, VECTORS)
    name = name or default_name(snapshot, column, VECTORS)
    check_name(snapshot, column, name, replace=True)
    table, width = in_order(parts, len(centroids)), settings.parts * settings.bits // 8
    _check_models(table, len(centroids), width)
    codes: Any = ak.combine_chunks(table.column(CODE))
    content = VectorRows(
        settings=settings,
        codes=product_codes(settings.metric, words),
        centroids=centroids,
        loss=0.0,
        rows=table.column(ROW).to_numpy(),
        owners=table.column(PARTITION).to_numpy().astype(np.int64),
        stored=codes.flatten().to_numpy().reshape(-1, width),
        details=vector_details(settings),
    )
    ids = [int(id_) for id_ in snapshot.manifest.fragments.ids]
    made: IndexMetadata = write_segment(snapshot, column, VECTORS, name, content, ids)
    return commit_segments(snapshot, name, [made])
