"""Building of vector indices: stored vectors or codes, partition by partition.

See docs/format/indices.md, 13.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.index import VectorSettings, parse_vector_details, vector_details
from lancekit._format.partitions import Partitions, encode_partitions
from lancekit._index.build.column import IndexedColumn, RowMap
from lancekit._index.build.files import NewFile
from lancekit._index.build.read import OpenSegment
from lancekit._index.build.sorting import Places, Words
from lancekit._index.distances import Vectors
from lancekit._index.ivf.codes import Codes, nearest_of, unit, whole_vectors
from lancekit._index.ivf.segment import VectorSegment
from lancekit._index.ivf.training import trained_centroids, trained_codes
from lancekit.errors import InvalidArgumentError, UnsupportedFeatureError

#: rows of a partition, by default
PARTITION_ROWS = {"IVF_FLAT": 4096, "IVF_PQ": 8192, "IVF_SQ": 8192}
#: bytes of vectors that are encoded and written at a time
_BATCH_BYTES = 16 << 20
#: the numbers of the global buffers with the partitions and with the codebook
_CODEBOOK = {"lance:ivf": 1, "codebook": 2}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class VectorRows:
    """The content of a vector index.

    settings: the settings that it is built with.
    rows, owners: row ids or addresses, and the partition of each.
    stored: the stored form of their vectors, shape (rows, numbers).
    details: the details of the index for the manifest.
    """

    settings: VectorSettings
    codes: Codes
    centroids: Vectors
    loss: float = 0.0
    rows: Words = field(default_factory=lambda: np.empty(0, np.uint64))
    owners: Places = field(default_factory=lambda: np.empty(0, np.int64))
    stored: Vectors
    details: bytes

    @classmethod
    def build(
        cls,
        column: IndexedColumn,
        settings: VectorSettings,
        partitions: int | None = None,
        centroids: Vectors | None = None,
        words: Vectors | None = None,
    ) -> VectorRows:
        """Assign vectors to partitions, by centroids that are given or trained on a sample.

        Without `partitions`, their number follows from the number of rows. Nulls, vectors with a
        NaN or an infinite number, and for cosine also zero vectors, are left out.

        words: a codebook, shape (parts, words, numbers), instead of a trained one.

        Raises InvalidArgumentError: centroids, words or parts do not fit the vectors, or the metric
            does not fit their type.
        """
        empty, wide, own = cls._trained(column, None, settings, partitions, centroids, words)
        return empty._with(wide, own) if len(empty.centroids) else empty

    @classmethod
    def model(
        cls,
        sample: IndexedColumn,
        rows: int,
        settings: VectorSettings,
        partitions: int | None = None,
        centroids: Vectors | None = None,
        words: Vectors | None = None,
    ) -> VectorRows | None:
        """Return a trained index without vectors; ``None`` if the sample has no vector.

        sample: some of the vectors to index.
        rows: the number of all vectors.
        """
        found, _, _ = cls._trained(sample, rows, settings, partitions, centroids, words)
        return found if len(found.centroids) else None

    @classmethod
    def _trained(
        cls,
        column: IndexedColumn,
        count: int | None,
        settings: VectorSettings,
        partitions: int | None,
        centroids: Vectors | None,
        words: Vectors | None,
    ) -> tuple[VectorRows, Vectors, Words]:
        """Return an index without vectors, with partitions and codes that are given or trained.

        The vectors, in the form that they are compared in, and their rows are returned, too.

        count: the number of all vectors, if these are a sample.
        """
        vectors, rows = _vectors(column)
        _check_fit(settings, vectors, centroids, words)
        wide, rows = _compared(settings.metric, vectors, rows)
        loss = 0.0
        if centroids is None:
            wanted = partitions or _partitions(settings, len(vectors) if count is None else count)
            centroids, loss = trained_centroids(wide, wanted, settings.metric)
        stored = vectors.dtype
        centroids = centroids.astype(stored)
        codes = trained_codes(settings, wide, centroids, words)
        size = wide.shape[1]
        none = np.empty((0, size), stored)
        found = cls(
            settings=settings,
            codes=codes or whole_vectors(settings.metric, size),
            centroids=centroids if codes else none,
            loss=loss,
            stored=none,
            details=vector_details(settings),
        )
        return found, wide, rows

    @classmethod
    def merged(cls, parts: Sequence[VectorRows]) -> VectorRows:
        """Merge several segments with the same centroids and codes."""
        parts = [part for part in parts if len(part.centroids)] or parts[:1]
        return replace(
            parts[0],
            loss=sum(part.loss for part in parts),
            rows=np.concatenate([part.rows for part in parts]),
            owners=np.concatenate([part.owners for part in parts]),
            stored=np.concatenate([part.stored for part in parts]),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that it was built with."""
        return {"settings": self.settings, "partitions": len(self.centroids) or None}

    def is_mergeable_with(self, other: VectorRows) -> bool:
        """Return True if both can be merged without rebuilding."""
        return (
            (self.settings.label, self.codes.metric) == (other.settings.label, other.codes.metric)
            and _without_place(self.codes) == _without_place(other.codes)
            and self.codes.codebook == other.codes.codebook
            and np.array_equal(self.centroids, other.centroids)
        )

    def more(self, column: IndexedColumn) -> VectorRows:
        """Return the content of other vectors in the same partitions, with the same codes."""
        if not len(self.centroids):
            return VectorRows.build(column, **self.parameters)
        return self._with(*_compared(self.codes.metric, *_vectors(column)))

    def moved(self, row_map: RowMap) -> VectorRows:
        """Return the content with new row addresses, without rows that no longer exist."""
        rows, kept = row_map(self.rows)
        return replace(self, rows=rows[kept], owners=self.owners[kept], stored=self.stored[kept])

    def _with(self, wide: Vectors, rows: Words) -> VectorRows:
        """Return the index with other vectors, which are in the form that they are compared in."""
        metric = self.codes.metric
        by = "l2" if metric == "cosine" else metric
        owners, far = nearest_of(wide, self.centroids.astype(wide.dtype), by)
        size = max(_BATCH_BYTES // max(wide.shape[1] * wide.itemsize, 1), 1)
        some = [slice(start, start + size) for start in range(0, len(wide), size)]
        parts = [self.codes.encoded(wide[part], self.centroids[owners[part]]) for part in some]
        parts = parts or [self.codes.encoded(wide, self.centroids[owners])]
        stored = np.concatenate(parts)
        loss = float(far.sum(dtype=np.float64))
        return replace(self, loss=loss, rows=rows, owners=owners, stored=stored)

    def files(self) -> Iterator[NewFile]:
        """Yield the files to write; no file before the first vector."""
        count = len(self.centroids)
        if not count:
            return  # the settings are in the manifest
        lengths = np.bincount(self.owners, minlength=count)
        rows = Partitions(None, np.cumsum(lengths) - lengths, lengths)
        none = np.zeros(count, np.int64)
        centroids = Partitions(self.centroids, none, none, self.loss)
        flag = pa.field("__flat_marker", pa.uint64(), nullable=False)
        metric, settings = self.codes.metric, dict(self.codes.settings)
        buffers = {"lance:ivf": encode_partitions(rows)}
        if self.codes.codebook:
            buffers["codebook"] = self.codes.codebook
            settings["codebook_position"] = _CODEBOOK["codebook"]
        yield NewFile(
            name="index.idx",
            schema=pa.schema([flag]),
            batches=(),
            metadata={
                "lance:index": json.dumps({"type": self.settings.label, "distance_type": metric}),
                "lance:flat": json.dumps([""] * count),
            },
            buffers={"lance:ivf": encode_partitions(centroids)},
        )
        yield NewFile(
            name="auxiliary.idx",
            schema=self._schema,
            batches=self._batches(lengths),
            metadata={
                "distance_type": metric,
                "storage_metadata": json.dumps([json.dumps(settings)]),
            },
            buffers=buffers,
        )

    @property
    def _schema(self) -> pa.Schema:
        kind = pa.list_(pa.from_numpy_dtype(self.stored.dtype), self.stored.shape[1])
        stored = pa.field(self.codes.column, kind, nullable=False)
        return pa.schema([pa.field("_rowid", pa.uint64()), stored])

    def _batches(self, lengths: Places) -> Iterator[pa.RecordBatch]:
        order = np.argsort(self.owners, kind="stable")
        width = self.stored.shape[1]
        by_parts = _by_parts(self.stored[order], lengths) if self.codes.by_parts else None
        step = max(_BATCH_BYTES // max(width * self.stored.itemsize, 1), 1)
        for start in range(0, len(order), step):
            rows = order[start : start + step]
            stored = self.stored[rows] if by_parts is None else by_parts[start : start + step]
            values = pa.FixedSizeListArray.from_arrays(pa.array(stored.ravel()), width)
            yield pa.record_batch([pa.array(self.rows[rows]), values], schema=self._schema)


def _partitions(settings: VectorSettings, rows: int) -> int:
    return max(rows // (settings.partition_rows or PARTITION_ROWS[settings.label]), 1)


def read_vectors(found: OpenSegment) -> VectorRows:
    """Read a vector index.

    Raises UnsupportedFeatureError: it has more than codes of the vectors (a graph), or its column
        does not hold vectors of a fixed size.
    """
    if not pa.types.is_fixed_size_list(found.column):
        raise UnsupportedFeatureError(f"A vector index in {found.column} cannot be updated.")
    if not found.files:
        return _planned(found)
    segment = _opened(found)
    if segment.label not in PARTITION_ROWS:
        raise UnsupportedFeatureError(
            f"An index of type {segment.label} with metric {segment.metric} cannot be updated."
        )
    rows, stored = segment.all_rows()
    lengths = segment.rows.lengths
    return replace(
        bare_vectors(found),
        loss=segment.loss,
        rows=rows,
        owners=np.repeat(np.arange(len(lengths)), lengths),
        stored=_by_rows(stored, lengths) if segment.codes.by_parts else stored,
    )


def bare_vectors(found: OpenSegment) -> VectorRows:
    """Return an empty vector index with the partitions and codes of another one.

    If the other one has a graph over its vectors, the new one stores whole vectors.
    """
    if not found.files:
        return _planned(found)
    segment = _opened(found)
    metric, codes, dimensions = segment.metric, segment.codes, segment.centroids.shape[1]
    settings, details = VectorSettings(metric=metric), found.details
    if segment.label in PARTITION_ROWS:
        parts, bits = codes.settings.get("num_sub_vectors", 0), codes.settings.get("nbits", 8)
        settings = replace(settings, label=segment.label, parts=parts, bits=bits)
    else:
        codes, details = whole_vectors(metric, dimensions), vector_details(settings)
    return VectorRows(
        settings=settings,
        codes=codes,
        centroids=segment.centroids,
        stored=segment.centroids[:0],
        details=details,
    )


def _opened(found: OpenSegment) -> VectorSegment:
    return VectorSegment.open(*(found.files[name] for name in ("index.idx", "auxiliary.idx")))


def _planned(found: OpenSegment) -> VectorRows:
    """Return an index without vectors and files, from the settings in the manifest."""
    settings = parse_vector_details(found.details, f"Details of {found.segment.index.name!r}")
    kind = found.column
    none = IndexedColumn(kind, pa.array([], kind), np.empty(0, np.uint64))
    return replace(VectorRows.build(none, settings), details=found.details)


def _by_parts(codes: Vectors, lengths: Places) -> Vectors:
    """Return codes in stored order: of each partition, the first numbers of all rows come first."""
    parts = np.split(codes, np.cumsum(lengths)[:-1])
    return np.concatenate([part.T.reshape(part.shape) for part in parts])


def _by_rows(codes: Vectors, lengths: Places) -> Vectors:
    parts = np.split(codes, np.cumsum(lengths)[:-1])
    return np.concatenate([part.reshape(part.shape[::-1]).T for part in parts])


def _without_place(codes: Codes) -> dict[str, object]:
    """Return the settings of codes, without file-specific settings."""
    return {key: value for key, value in codes.settings.items() if key != "codebook_position"}


def comparable(metric: str, column: IndexedColumn) -> tuple[Vectors, np.dtype[np.generic]]:
    """Return vectors in the form that they are compared in, and their stored type."""
    vectors, rows = _vectors(column)
    return _compared(metric, vectors, rows)[0], vectors.dtype


def _vectors(column: IndexedColumn) -> tuple[Vectors, Words]:
    """Return vectors that are not null, shape (rows, dimensions), and their rows."""
    values = cast("pa.FixedSizeListArray", column.values)
    rows = column.rows
    if ak.null_count(values):
        there = values.is_valid()
        rows = rows[there.to_numpy(zero_copy_only=False)]
        values = ak.filter(values, there)
    size = values.type.list_size
    flat = values.values.slice(values.offset * size, len(values) * size)
    if ak.null_count(flat):
        flat = flat.fill_null(0)  # as in a search
    return flat.to_numpy(zero_copy_only=False).reshape(len(values), size), rows


def _compared(metric: str, vectors: Vectors, rows: Words) -> tuple[Vectors, Words]:
    """Return comparable vectors, in the form that they are compared in, and their rows."""
    if metric == "hamming":
        return vectors, rows
    wide = vectors.astype(np.promote_types(vectors.dtype, np.float32), copy=False)
    wide = unit(wide) if metric == "cosine" else wide
    finite = np.isfinite(wide).all(axis=1)
    return (wide, rows) if finite.all() else (wide[finite], rows[finite])


def _check_fit(
    settings: VectorSettings, vectors: Vectors, centroids: Vectors | None, words: Vectors | None
) -> None:
    """Raise `InvalidArgumentError` if settings, centroids or words do not fit the vectors."""
    size, parts = vectors.shape[1], settings.parts
    if (settings.metric == "hamming") != (vectors.dtype == np.uint8):
        raise InvalidArgumentError(
            f"Metric {settings.metric} does not support vectors of {vectors.dtype}.",
            hint="Use hamming for uint8, and l2, cosine or dot for other types.",
            argument="metric",
        )
    if settings.label != "IVF_FLAT" and settings.metric == "hamming":
        raise InvalidArgumentError(
            f"{settings.label} indices do not support vectors of uint8.",
            hint="Create an IVF_FLAT index.",
            argument="index_type",
        )
    if parts and size % parts:
        raise InvalidArgumentError(
            f"dimension ({size}) must be divisible by num_sub_vectors ({parts}).",
            hint="Pass a number that divides it.",
            argument="num_sub_vectors",
        )
    if centroids is not None and (centroids.ndim != 2 or centroids.shape[1] != size):
        raise InvalidArgumentError(
            f"ivf_centroids must have {size} dimensions like the vectors, got the shape "
            f"{centroids.shape}.",
            hint="Pass a row for each partition.",
            argument="ivf_centroids",
        )
    if words is not None and words.shape != (wanted := (parts, 1 << settings.bits, size // parts)):
        raise InvalidArgumentError(
            f"pq_codebook must have the shape {wanted}, got {words.shape}: PQ codebook must be 3D "
            "array: (sub_vectors, words, dim).",
            hint="Pass the codewords of each sub-vector.",
            argument="pq_codebook",
        )
