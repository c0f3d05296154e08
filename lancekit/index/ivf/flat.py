"""The files of an index that holds vectors as they are, partition by partition.

See docs/format/indices.md, 13.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit.format.partitions import Partitions, encode_partitions
from lancekit.index.build.files import NewFile
from lancekit.index.ivf.clusters import SAMPLED_ROWS, clustered, nearest_of
from lancekit.index.ivf.codes import unit

__all__ = ["FlatVectors"]

Vectors = npt.NDArray[Any]

#: bytes of vectors that are put in order at a time
_BATCH_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, eq=False)
class FlatVectors:
    """Vectors in partitions.

    Attributes
    ----------
    vectors
        Shape (rows, dimensions), as they are compared: for cosines of length 1.
    ids
        Of their rows.
    owners
        The partition of each.
    """

    metric: str
    vectors: Vectors
    ids: npt.NDArray[np.uint64]
    owners: npt.NDArray[np.int64]
    centroids: Vectors
    loss: float

    @classmethod
    def build(
        cls,
        metric: str,
        vectors: Vectors,
        ids: npt.NDArray[np.uint64],
        partitions: int,
        centroids: Vectors | None = None,
    ) -> FlatVectors:
        """Put vectors into partitions, by centroids that are given, or found in a sample of them.

        Vectors with a NaN, and for cosines those of zeros, are left out.
        """
        kind, computed = vectors.dtype, np.promote_types(vectors.dtype, np.float32)
        wide = vectors.astype(computed, copy=False)
        wide = unit(wide) if metric == "cosine" else wide
        told = ~np.isnan(wide).any(axis=1)
        if not told.all():
            wide, ids = wide[told], ids[told]
        by = "dot" if metric == "dot" else "l2"
        loss = 0.0
        if centroids is None:
            rng = np.random.default_rng(0)
            partitions = min(partitions, len(wide))
            most = partitions * SAMPLED_ROWS
            sample = wide[rng.choice(len(wide), most, replace=False)] if len(wide) > most else wide
            centroids, loss = clustered(sample, partitions, rng) if partitions else (wide, 0.0)
        centroids = centroids.astype(computed)
        owners = np.zeros(0, np.int64)
        if len(wide):
            owners, far = nearest_of(wide, centroids, by)
            loss = float(far.sum(dtype=np.float64))
        stored = wide.astype(kind, copy=False)
        return cls(metric, stored, ids, owners, centroids.astype(kind, copy=False), loss)

    def files(self) -> Iterator[NewFile]:
        """Return what the files hold."""
        count = len(self.centroids)
        lengths = np.bincount(self.owners, minlength=count)
        rows = Partitions(None, np.cumsum(lengths) - lengths, lengths)
        none = np.zeros(count, np.int64)
        centroids = Partitions(self.centroids, none, none, self.loss)
        flag = pa.field("__flat_marker", pa.uint64(), nullable=False)
        yield NewFile(
            name="index.idx",
            schema=pa.schema([flag]),
            batches=(),
            metadata={
                "lance:index": json.dumps({"type": "IVF_FLAT", "distance_type": self.metric}),
                "lance:flat": json.dumps([""] * count),
            },
            buffers={"lance:ivf": encode_partitions(centroids)},
        )
        yield NewFile(
            name="auxiliary.idx",
            schema=self._schema,
            batches=self._batches(),
            metadata={
                "distance_type": self.metric,
                "storage_metadata": json.dumps([json.dumps({"dim": self.vectors.shape[1]})]),
            },
            buffers={"lance:ivf": encode_partitions(rows)},
        )

    @property
    def _schema(self) -> pa.Schema:
        value = pa.from_numpy_dtype(self.vectors.dtype)
        kind = pa.list_(value, self.vectors.shape[1])
        return pa.schema([pa.field("_rowid", pa.uint64()), pa.field("flat", kind, nullable=False)])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        order = np.argsort(self.owners, kind="stable")
        width = self.vectors.shape[1]
        step = max(_BATCH_BYTES // max(width * self.vectors.itemsize, 1), 1)
        for start in range(0, len(order), step):
            rows = order[start : start + step]
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(self.vectors[rows].ravel()), width)
            yield pa.record_batch([pa.array(self.ids[rows]), vectors], schema=self._schema)
