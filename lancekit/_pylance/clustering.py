"""`KMeans`, and a check that an index finds its vectors.  Names follow ``lance.util``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit._api.index_requests import metric_named
from lancekit._api.lance_dataset import LanceDataset
from lancekit._arguments.checks import check_count
from lancekit._checked import checked, checked_methods
from lancekit._index.distances import Vectors
from lancekit._index.ivf.codes import nearest_of, unit
from lancekit._index.ivf.training import ROUNDS, trained_centroids
from lancekit.errors import InvalidArgumentError


@checked_methods
class KMeans:
    """K-means clustering of float32 vectors.

    Parameters
    ----------
    k
        The number of clusters.
    metric_type
        ``"l2"``, ``"cosine"`` or ``"dot"``.
    max_iters
        The highest number of iterations.
    centroids
        The centroids, if they are known, as fixed-size lists.

    Examples
    --------
    >>> import numpy as np
    >>> from lancekit.util import KMeans
    >>> rows = np.array([[0, 0], [9, 9], [0, 1]], np.float32)
    >>> clusters = KMeans(2)
    >>> clusters.fit(rows)
    >>> clusters.predict(rows[[0, 2]]).to_pylist() == clusters.predict(rows[[2, 0]]).to_pylist()
    True
    """

    def __init__(
        self,
        k: int,
        metric_type: str = "l2",
        max_iters: int = ROUNDS,
        centroids: pa.FixedSizeListArray | None = None,
    ) -> None:
        self.k: int = check_count("k", k, least=1)
        self._metric = metric_named(metric_type)
        self._rounds = check_count("max_iters", max_iters, least=1)
        self._centroids: Vectors | None = None
        if centroids is not None:
            self._centroids = _vectors(centroids)

    def __repr__(self) -> str:
        return f"KMeans(k={self.k}, metric_type={self._metric})"

    @property
    def centroids(self) -> pa.FixedShapeTensorArray | None:
        """The centroids of the clusters, or ``None`` before `fit`."""
        found = self._centroids
        return None if found is None else pa.FixedShapeTensorArray.from_numpy_ndarray(found)

    def fit(self, data: object) -> None:
        """Compute the clusters.

        Parameters
        ----------
        data
            Fixed-size lists, tensors or a two-dimensional array, of float32.

        Raises
        ------
        InvalidArgumentError
            The data has another type, or fewer rows than clusters.
        """
        rows = self._as_compared(_vectors(data))
        if len(rows) < self.k:
            raise InvalidArgumentError(f"{len(rows)} rows are too few for {self.k} clusters.")
        some = -(-len(rows) // self.k)  # the whole data is the sample
        self._centroids = trained_centroids(
            rows, self.k, self._metric, sampled=some, rounds=self._rounds
        )[0]

    def predict(self, data: object) -> pa.Array:
        """Return the number of the cluster of each row.

        Raises
        ------
        InvalidArgumentError
            There are no clusters yet, or ``data`` has no vectors.
        """
        if self._centroids is None:
            raise InvalidArgumentError("There are no clusters yet.", hint="Call fit() first.")
        by = "dot" if self._metric == "dot" else "l2"
        sides = self._as_compared(_vectors(data)), self._as_compared(self._centroids)
        owners = nearest_of(*sides, by)[0]
        return pa.array(owners, pa.uint32())

    def _as_compared(self, rows: Vectors) -> Vectors:
        return unit(rows) if self._metric == "cosine" else rows


def _vectors(data: object) -> NDArray[np.float32]:
    if isinstance(data, pa.FixedShapeTensorArray):
        if len(data.type.shape) != 1:
            raise InvalidArgumentError(
                f"Tensors must be a 1-D array each; these have {len(data.type.shape)} dimensions."
            )
        data = data.storage
    if isinstance(data, pa.FixedSizeListArray):
        if data.type.value_type != pa.float32():
            raise InvalidArgumentError(f"Array must be float32 type, got: {data.type.value_type}.")
        return data.flatten().to_numpy(zero_copy_only=False).reshape(-1, data.type.list_size)
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.dtype != np.float32:
        raise InvalidArgumentError("Vectors must be a 2-D array of float32, lists or tensors.")
    return data


# ---- a check that an index finds the vectors of its column; a name of ``lance.util``


@checked
def validate_vector_index(
    dataset: LanceDataset,
    column: str,
    refine_factor: int = 5,
    sample_size: int | None = None,
    pass_threshold: float = 1.0,
) -> None:
    """Search for vectors of a column, and check that each finds itself or one at distance 0.

    Parameters
    ----------
    dataset, column
        The vectors.  Nulls and vectors with NaN are left out.
    refine_factor
        As in a search; each search visits one partition.
    sample_size
        The number of vectors, sampled at random; all by default.
    pass_threshold
        The smallest fraction of the vectors that must be found.

    Raises
    ------
    InvalidArgumentError
        The searches find a smaller fraction.

    Examples
    --------
    >>> import lancekit as lk, numpy as np, pyarrow as pa
    >>> from lancekit.util import validate_vector_index
    >>> values = pa.array(np.arange(64, dtype="float32"))
    >>> rows = {"v": pa.FixedSizeListArray.from_arrays(values, 4)}
    >>> ds = lk.write_dataset(rows, "memory://validate-index-example")
    >>> validate_vector_index(ds.create_index("v", "IVF_FLAT", num_partitions=2), "v")
    """
    rows = (
        dataset.to_table([column]) if sample_size is None else dataset.sample(sample_size, [column])
    )
    vectors = [np.asarray(vector) for vector in rows[column].to_pylist() if vector is not None]
    queries = [vector for vector in vectors if not np.isnan(vector).any()]
    search = {"column": column, "k": 1, "nprobes": 1, "refine_factor": refine_factor}
    found = 0
    for vector in queries:
        nearest = dataset.to_table([column], nearest={**search, "q": vector})
        found += any(abs(distance) < 1e-6 for distance in nearest["_distance"].to_pylist())
    if found < pass_threshold * len(queries):
        raise InvalidArgumentError(
            f"Vector index failed sanity check: only {found} of {len(queries)} vectors were "
            "found by a search for themselves.",
            hint="Search more partitions, or rebuild the index.",
            found=found,
            searched=len(queries),
        )
