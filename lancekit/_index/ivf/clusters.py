"""Centroids of vectors, by k-means, and which centroid is nearest to each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lancekit.progress import step

__all__ = ["SAMPLED_ROWS", "bits_of", "clustered", "nearest_of"]

Vectors = npt.NDArray[Any]

#: rows of a sample for each partition that is to be made
SAMPLED_ROWS = 256
#: rounds at most, and by how much less of the loss another one is worth it
_ROUNDS, _GAIN = 50, 1e-4
#: numbers that are held at a time of how near rows are to centroids
_HELD = 1 << 18


def clustered(
    vectors: Vectors,
    count: int,
    rng: np.random.Generator,
    *,
    rounds: int = _ROUNDS,
    gain: float = _GAIN,
) -> tuple[Vectors, float]:
    """Return so many centroids of vectors, and the sum of the squares of their distances.

    Of bytes, whose bits are compared, it is the sum of the bits that differ, about.

    Parameters
    ----------
    vectors
        Shape (rows, dimensions), of float32, float64 or uint8; not fewer rows than centroids.

    Examples
    --------
    >>> rows = np.array([[0, 0], [0, 1], [9, 9], [9, 8]], np.float32)
    >>> centroids, loss = clustered(rows, 2, np.random.default_rng(0))
    >>> sorted(centroids.tolist()), loss
    ([[0.0, 0.5], [9.0, 8.5]], 1.0)
    """
    if vectors.dtype == np.uint8:
        bits, loss = clustered(bits_of(vectors), count, rng, rounds=rounds, gain=gain)
        return np.packbits(bits >= 0.5, axis=1), loss  # most of the rows have such a bit
    centroids = vectors[rng.choice(len(vectors), count, replace=False)]
    before = np.inf
    for _ in range(rounds):
        owners, far = nearest_of(vectors, centroids, "l2")
        loss = float(far.sum(dtype=np.float64))
        if before - loss <= gain * loss:
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
        ``"l2"``, ``"dot"``, or ``"hamming"`` of bytes.
    """
    if metric == "hamming":
        centroids = bits_of(centroids)
    wide = np.promote_types(centroids.dtype, np.float32)
    owners = np.empty(len(vectors), np.int64)
    far = np.empty(len(vectors), wide)
    count, size = centroids.shape
    # what is added to a product comes of the product itself: a column of ones meets it
    table = np.empty((size + 1, count), wide)
    table[:size] = centroids.T if metric == "dot" else 2 * centroids.T
    table[size] = -1 if metric == "dot" else -np.einsum("pd,pd->p", centroids, centroids)
    rows_held = max(_HELD // max(count, 1), 1)
    held = np.ones((min(rows_held, len(vectors)), size + 1), wide)
    near = np.empty((len(held), count), wide)
    for start in range(0, len(vectors), rows_held):
        step()
        part = vectors[start : start + rows_held]
        rows = held[: len(part)]
        rows[:, :size] = bits_of(part) if metric == "hamming" else part
        found = np.matmul(rows, table, out=near[: len(part)])
        mine = found.argmax(axis=1)
        owners[start : start + rows_held] = mine
        best = -np.take_along_axis(found, mine[:, np.newaxis], axis=1)[:, 0]
        if metric != "dot":
            best += np.einsum("rd,rd->r", rows[:, :size], rows[:, :size])
            np.maximum(best, 0, out=best)
        far[start : start + rows_held] = best
    return owners, far


def bits_of(vectors: Vectors) -> Vectors:
    """Return the bits of bytes as numbers: the square of their distance is how many differ."""
    return np.unpackbits(vectors, axis=1).astype(np.float32)
