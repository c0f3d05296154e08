"""The files of a vector index segment, and search in some of its partitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._format.partitions import Partitions, parse_partitions
from lancekit._index.distances import Vectors, distances
from lancekit._index.ivf.codes import Codes, Compared, Ready, codes_of, unit
from lancekit._index.segment import IndexFileReader, array_bytes
from lancekit.errors import CorruptFileError


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Rows of a partition, by their ids in the index, with their distances."""

    ids: npt.NDArray[np.uint64]
    compared: Compared


@dataclass(frozen=True, slots=True, eq=False)
class _CachedPartition:
    """A partition in the cache: its row ids, and their stored data."""

    ids: npt.NDArray[np.uint64]
    ready: Ready

    @property
    def nbytes(self) -> int:
        """The size of the partition in bytes."""
        lengths = self.ready.lengths
        return array_bytes(self.ids, self.ready.stored, *([] if lengths is None else [lengths]))

    def owned(self) -> _CachedPartition:
        """Return a copy in separate memory."""
        return _CachedPartition(self.ids.copy(), self.ready.owned())


@dataclass(frozen=True, slots=True, eq=False)
class VectorSegment:
    """One segment of a vector index: its type and metric, partitions, and stored vectors."""

    label: str
    metric: str
    centroids: Vectors
    loss: float
    rows: Partitions
    codes: Codes
    file: IndexFileReader

    @classmethod
    def open(cls, index: IndexFileReader, vectors: IndexFileReader) -> VectorSegment:
        """Read the partitions and settings of a segment, from the cache if possible.

        Raises CorruptFileError, UnsupportedFeatureError: a file is damaged, or this release does
            not read such files.
        """
        known = index.remembered("partitions", lambda: _partitions(index), _size)
        rows = vectors.remembered("rows", lambda: _partitions(vectors), _size)
        kind, metric = _kind(index)
        count = len(rows.lengths)
        inside = (rows.offsets >= 0) & (rows.offsets + rows.lengths <= vectors.num_rows)
        if known.centroids is None or len(known.centroids) != count or not inside.all():
            raise CorruptFileError(f"{vectors.where} and {index.where} have different partitions.")
        settings = _required(vectors, "storage_metadata")
        codes = vectors.remembered(
            "codes",
            lambda: codes_of(kind, metric, settings, vectors.buffer, vectors.where),
            lambda made: 2 * len(made.codebook),
        )
        return cls(kind, metric, known.centroids, known.loss or 0.0, rows, codes, vectors)

    def comparable(self, query: npt.NDArray[np.generic]) -> Vectors:
        """Return a query in the form that it is compared in: for cosine with length 1."""
        prepared = cast("Vectors", query)
        return unit(prepared) if self.metric == "cosine" else prepared

    def by_distance(self, query: npt.NDArray[np.generic]) -> npt.NDArray[np.intp]:
        """Return the partitions in the order of their distances, nearest first."""
        metric = "l2" if self.metric == "cosine" else self.metric
        far = distances(metric, self.centroids, self.comparable(query))
        return np.argsort(far, kind="stable")

    def search(
        self, query: npt.NDArray[np.generic], partitions: npt.NDArray[np.intp]
    ) -> Iterator[Neighbours]:
        """Yield all rows of some partitions with their distances, partition by partition."""
        prepared = self.comparable(query)
        for one in partitions.tolist():
            if self.rows.lengths[one]:
                partition = self._cached(one)
                yield Neighbours(
                    partition.ids,
                    self.codes.compared(partition.ready, prepared, self.centroids[one]),
                )

    def partition(self, number: int) -> tuple[npt.NDArray[np.uint64], Vectors]:
        """Return the row ids of a partition, and the stored data of each row's vector."""
        ids, stored = self._read(self._range(number))
        # with product quantization, the partition has the first number of all rows first
        return ids, stored.reshape(stored.shape[::-1]).T if self.codes.by_parts else stored

    def all_rows(self) -> tuple[npt.NDArray[np.uint64], Vectors]:
        """Return all row ids and stored data, partition by partition."""
        filled = self.rows.lengths > 0
        starts, lengths = self.rows.offsets[filled], self.rows.lengths[filled]
        if not np.array_equal(starts, np.cumsum(lengths) - lengths):
            raise CorruptFileError(f"{self.file.where} has unordered partitions.")
        return self._read(range(int(lengths.sum())))

    def _cached(self, number: int) -> _CachedPartition:
        """Return a partition, cached from its second use on."""
        where = self._range(number)

        def read() -> _CachedPartition:
            ids, stored = self._read(where)
            return _CachedPartition(ids, self.codes.ready(stored))

        # the size is an upper bound: codes take less than their vectors
        return self.file.kept(f"partition {number}", read, len(where) * self.centroids[0].nbytes)

    def _range(self, number: int) -> range:
        start = int(self.rows.offsets[number])
        return range(start, start + int(self.rows.lengths[number]))

    def _read(self, where: range) -> tuple[npt.NDArray[np.uint64], Vectors]:
        """Return the row ids and stored data of a range of the file."""
        ids = self.file.read("_rowid", where).to_numpy(zero_copy_only=False)
        stored = _rows(self.file.read(self.codes.column, where), self.file.where)
        return ids.astype(np.uint64, copy=False), stored


def _rows(stored: pa.Array, where: str) -> Vectors:
    if not isinstance(stored, pa.FixedSizeListArray):
        raise CorruptFileError(f"{where} has {stored.type} instead of vectors.")
    size = stored.type.list_size
    flat = stored.values.slice(stored.offset * size, len(stored) * size)
    return flat.to_numpy(zero_copy_only=False).reshape(len(stored), size)


def _partitions(file: IndexFileReader) -> Partitions:
    return parse_partitions(file.buffer(_required(file, "lance:ivf")), file.where)


def _size(found: Partitions) -> int:
    arrays = [found.offsets, found.lengths]
    return array_bytes(*arrays, *([] if found.centroids is None else [found.centroids]))


def _kind(index: IndexFileReader) -> tuple[str, str]:
    try:
        stated = json.loads(_required(index, "lance:index"))
        return str(stated["type"]), str(stated["distance_type"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFileError(f"{index.where} has invalid metadata: {error}.") from error


def _required(file: IndexFileReader, key: str) -> str:
    text = file.metadata.get(key)
    if text is None:
        raise CorruptFileError(f"{file.where} lacks the metadata {key}.")
    return text
