"""The files of a segment of an index of vectors, and a search in some of its partitions."""

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
from lancekit._index.segment import IndexFileReader, held_bytes
from lancekit.errors import CorruptFileError


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Rows of a partition, by what the index calls them, and how far they are."""

    ids: npt.NDArray[np.uint64]
    compared: Compared


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A partition: its rows, and what is stored of them."""

    ids: npt.NDArray[np.uint64]
    ready: Ready

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        lengths = self.ready.lengths
        return held_bytes(self.ids, self.ready.stored, *([] if lengths is None else [lengths]))

    def owned(self) -> _Held:
        """Return the same in memory of its own."""
        return _Held(self.ids.copy(), self.ready.owned())


@dataclass(frozen=True, slots=True, eq=False)
class VectorSegment:
    """One segment: what it compares by, its partitions, and what it stores."""

    label: str
    metric: str
    centroids: Vectors
    loss: float
    rows: Partitions
    codes: Codes
    file: IndexFileReader

    @classmethod
    def open(cls, index: IndexFileReader, vectors: IndexFileReader) -> VectorSegment:
        """Read what leads to the vectors; of a file that was looked at before from memory.

        Raises CorruptFileError, UnsupportedFeatureError: its files are none, or such as this
            release does not read.
        """
        known = index.remembered("partitions", lambda: _partitions(index), _size)
        rows = vectors.remembered("rows", lambda: _partitions(vectors), _size)
        kind, metric = _kind(index)
        count = len(rows.lengths)
        inside = (rows.offsets >= 0) & (rows.offsets + rows.lengths <= vectors.num_rows)
        if known.centroids is None or len(known.centroids) != count or not inside.all():
            raise CorruptFileError(
                f"{vectors.where} does not have the partitions of {index.where}."
            )
        settings = _said(vectors, "storage_metadata")
        codes = vectors.remembered(
            "codes",
            lambda: codes_of(kind, metric, settings, vectors.buffer, vectors.where),
            lambda made: 2 * len(made.codebook),
        )
        return cls(kind, metric, known.centroids, known.loss or 0.0, rows, codes, vectors)

    def as_asked(self, query: npt.NDArray[np.generic]) -> Vectors:
        """Return a query as it is compared: for cosines of length 1."""
        asked = cast("Vectors", query)
        return unit(asked) if self.metric == "cosine" else asked

    def by_distance(self, query: npt.NDArray[np.generic]) -> npt.NDArray[np.intp]:
        """Return the partitions, the nearest first."""
        metric = "l2" if self.metric == "cosine" else self.metric
        far = distances(metric, self.centroids, self.as_asked(query))
        return np.argsort(far, kind="stable")

    def search(
        self, query: npt.NDArray[np.generic], partitions: npt.NDArray[np.intp]
    ) -> Iterator[Neighbours]:
        """Yield all rows of partitions with their distances, one partition after the other."""
        asked = self.as_asked(query)
        for one in partitions.tolist():
            if self.rows.lengths[one]:
                held = self._held(one)
                yield Neighbours(
                    held.ids, self.codes.compared(held.ready, asked, self.centroids[one])
                )

    def partition(self, number: int) -> tuple[npt.NDArray[np.uint64], Vectors]:
        """Return the rows of a partition and what is stored of the vector of each."""
        ids, stored = self._read(self._range(number))
        # of codes of products the partition has the first number of all its rows first
        return ids, stored.reshape(stored.shape[::-1]).T if self.codes.by_parts else stored

    def all_rows(self) -> tuple[npt.NDArray[np.uint64], Vectors]:
        """Return all rows and what is stored of their vectors, one partition after the other."""
        filled = self.rows.lengths > 0
        starts, lengths = self.rows.offsets[filled], self.rows.lengths[filled]
        if not np.array_equal(starts, np.cumsum(lengths) - lengths):
            raise CorruptFileError(f"{self.file.where} has partitions in no order.")
        return self._read(range(int(lengths.sum())))

    def _held(self, number: int) -> _Held:
        """Return a partition, kept if it was wanted before."""
        where = self._range(number)

        def read() -> _Held:
            ids, stored = self._read(where)
            return _Held(ids, self.codes.ready(stored))

        # codes take less than the vectors that they stand for
        return self.file.kept(f"partition {number}", read, len(where) * self.centroids[0].nbytes)

    def _range(self, number: int) -> range:
        start = int(self.rows.offsets[number])
        return range(start, start + int(self.rows.lengths[number]))

    def _read(self, where: range) -> tuple[npt.NDArray[np.uint64], Vectors]:
        """Return rows as they lie in the file, with what is stored there."""
        ids = self.file.read("_rowid", where).to_numpy(zero_copy_only=False)
        stored = _rows(self.file.read(self.codes.column, where), self.file.where)
        return ids.astype(np.uint64, copy=False), stored


def _rows(stored: pa.Array, where: str) -> Vectors:
    if not isinstance(stored, pa.FixedSizeListArray):
        raise CorruptFileError(f"{where} has {stored.type} for vectors.")
    size = stored.type.list_size
    flat = stored.values.slice(stored.offset * size, len(stored) * size)
    return flat.to_numpy(zero_copy_only=False).reshape(len(stored), size)


def _partitions(file: IndexFileReader) -> Partitions:
    return parse_partitions(file.buffer(_said(file, "lance:ivf")), file.where)


def _size(found: Partitions) -> int:
    arrays = [found.offsets, found.lengths]
    return held_bytes(*arrays, *([] if found.centroids is None else [found.centroids]))


def _kind(index: IndexFileReader) -> tuple[str, str]:
    try:
        said = json.loads(_said(index, "lance:index"))
        return str(said["type"]), str(said["distance_type"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFileError(f"{index.where} does not say what it is: {error}.") from error


def _said(file: IndexFileReader, key: str) -> str:
    text = file.metadata.get(key)
    if text is None:
        raise CorruptFileError(f"{file.where} says nothing of {key}.")
    return text
