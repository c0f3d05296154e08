"""Centroids of vectors, by k-means, and which centroid is nearest to each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SAMPLED_ROWS", "clustered", "nearest_of"]

Vectors = npt.NDArray[Any]

#: rows of a sample for each partition that is to be made
SAMPLED_ROWS = 256
#: rounds at most, and by how much less of the loss another one is worth it
_ROUNDS, _GAIN = 50, 1e-4
#: numbers that are held at a time of how near rows are to centroids
_HELD = 1 << 22


def clustered(
    vectors: Vectors, count: int, rng: np.random.Generator, rounds: int = _ROUNDS
) -> tuple[Vectors, float]:
    """Return so many centroids of vectors, and the sum of the squares of their distances.

    Parameters
    ----------
    vectors
        Shape (rows, dimensions), of float32 or float64; not fewer rows than centroids.

    Examples
    --------
    >>> rows = np.array([[0, 0], [0, 1], [9, 9], [9, 8]], np.float32)
    >>> centroids, loss = clustered(rows, 2, np.random.default_rng(0))
    >>> sorted(centroids.tolist()), loss
    ([[0.0, 0.5], [9.0, 8.5]], 1.0)
    """
    centroids = vectors[rng.choice(len(vectors), count, replace=False)]
    before = np.inf
    for _ in range(rounds):
        owners, far = nearest_of(vectors, centroids, "l2")
        loss = float(far.sum(dtype=np.float64))
        if before - loss <= _GAIN * loss:
            break
        before = loss
        centroids = _means(vectors, owners, far, count)
    return centroids, loss


def _means(vectors: Vectors, owners: npt.NDArray[np.int64], far: Vectors, count: int) -> Vectors:
    """Return the means of the rows of each centroid; one without rows goes to a far row."""
    order = np.argsort(owners, kind="stable")
    sizes = np.bincount(owners, minlength=count)
    held = np.flatnonzero(sizes)
    starts = (np.cumsum(sizes) - sizes)[held]
    means = np.empty((count, vectors.shape[1]), vectors.dtype)
    means[held] = np.add.reduceat(vectors[order], starts, axis=0) / sizes[held, np.newaxis]
    empty = np.flatnonzero(sizes == 0)
    means[empty] = vectors[np.argsort(far, kind="stable")[::-1][: len(empty)]]
    return means


def nearest_of(
    vectors: Vectors, centroids: Vectors, metric: str
) -> tuple[npt.NDArray[np.int64], Vectors]:
    """Return the place of the centroid that is nearest to each vector, and how far it is.

    Parameters
    ----------
    metric
        ``"l2"`` or ``"dot"``.
    """
    owners = np.empty(len(vectors), np.int64)
    far = np.empty(len(vectors), vectors.dtype)
    squares = np.einsum("pd,pd->p", centroids, centroids)
    step = max(_HELD // max(len(centroids), 1), 1)
    for start in range(0, len(vectors), step):
        part = vectors[start : start + step]
        near = part @ centroids.T
        near = 1 - near if metric == "dot" else squares - 2 * near
        mine = near.argmin(axis=1)
        owners[start : start + step] = mine
        least = near[np.arange(len(part)), mine]
        if metric == "l2":
            least = np.maximum(least + np.einsum("rd,rd->r", part, part), 0)
        far[start : start + step] = least
    return owners, far
