"""Distances between vectors, by metric.

Vectors are compared in small batches, so that intermediate arrays stay in the processor's cache.
Float16 is computed as float32. Distances are float32, as in the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.floating | np.uint8]
Distances = npt.NDArray[np.float32]
Number = TypeVar("Number", bound=np.generic)

#: bytes of vectors that are compared at a time; larger batches would allocate new memory each time
_NEAR_BYTES = 1 << 17


def _l2(rows: Vectors, query: Vectors) -> object:
    apart = rows - query
    return np.einsum("ij,ij->i", apart, apart)


def _cosine(rows: Vectors, query: Vectors) -> object:
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * np.sqrt(np.einsum("j,j", query, query))
    return 1 - np.einsum("ij,j->i", rows, query) / lengths


def _hamming(rows: npt.NDArray[Any], query: npt.NDArray[Any]) -> object:
    differ = rows ^ query
    if differ.shape[1] % 8 == 0:
        differ = differ.view(np.uint64)  # bits are counted eight bytes at a time
    return np.bitwise_count(differ).sum(axis=1, dtype=np.uint32)


_MEASURES: Mapping[str, Callable[[Vectors, Vectors], object]] = {
    "l2": _l2,
    "cosine": _cosine,
    "dot": lambda rows, query: 1 - np.einsum("ij,j->i", rows, query),
    "hamming": _hamming,
}
#: aliases of metrics
ALIASES = {"euclidean": "l2"}
#: the metrics for each type of values; the first is the default
METRICS_OF: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(["halffloat", "float", "double"], ("l2", "cosine", "dot")),
    "uint8": ("hamming",),
}
#: the type that distances are computed in, for each type of values
COMPUTED_AS: Mapping[str, type[np.generic]] = {
    "halffloat": np.float32,
    "float": np.float32,
    "double": np.float64,
    "uint8": np.uint8,
}


def distances(metric: str, rows: Vectors, query: Vectors) -> Distances:
    """Return the distance of each row from a query.

    ``l2`` is the square of the distance, ``cosine`` is 1 minus the cosine, ``dot`` is 1 minus the
    product, and ``hamming`` is the number of different bits. Undefined distances (the cosine of
    zeros, or of NaN) are NaN.

    rows: shape (rows, dimensions).
    query: shape (dimensions,), in a type of `COMPUTED_AS`.

    Examples
    --------
    >>> query = np.array([1, 0], np.float32)
    >>> distances("l2", np.array([[1, 0], [3, 1]], np.float32), query).tolist()
    [0.0, 5.0]
    """
    measure = _MEASURES[metric]
    with np.errstate(all="ignore"):  # infinite and undefined distances are results, too
        return _of_rows(rows, query.dtype, np.dtype(np.float32), lambda part: measure(part, query))


def estimated(
    metric: str, rows: Vectors, lengths: Vectors, query: Vectors
) -> tuple[Distances, float]:
    """Return an estimate of each row's distance from a query, and the largest error.

    It uses precomputed squares of lengths, and takes a third of the time of `distances`.

    metric: ``l2`` or ``cosine``.
    rows, query: as in `distances`.
    lengths: the `squares` of the rows.

    Examples
    --------
    >>> rows, query = np.array([[1, 0], [3, 1]], np.float32), np.array([1, 0], np.float32)
    >>> far, error = estimated("l2", rows, squares(rows), query)
    >>> far.round(3).tolist(), error < 0.001
    ([0.0, 5.0], True)
    """
    with np.errstate(all="ignore"):
        own, most = query @ query, lengths.max(initial=0)
        if metric == "l2":
            far = lengths - 2 * products(rows, query) + own
            size = (np.sqrt(most) + np.sqrt(own)) ** 2
        else:
            far = 1 - products(rows, query) / np.sqrt(lengths * own)
            size = 1 if len(rows) and lengths.min() > 0 < own else np.nan
        # each term of a sum can be off by the last bit
        error = float(size * (rows.shape[1] + 8) * 2 * np.finfo(np.float32).eps)
    return far.astype(np.float32, copy=False), error


def products(rows: Vectors, query: Vectors) -> Vectors:
    """Return the dot product of each row and a query, in the query's type."""
    kind = query.dtype
    if rows.dtype == kind:
        found: Vectors = np.einsum("ij,j->i", rows, query)  # in one thread, which is as fast
        return found
    return _of_rows(rows, kind, kind, lambda part: np.einsum("ij,j->i", part, query))


def squares(rows: Vectors) -> Vectors:
    """Return the dot product of each row and itself: float64 for float64 rows, else float32."""
    wide: type[np.floating] = np.float64 if rows.dtype == np.float64 else np.float32
    kind = np.dtype(wide)
    with np.errstate(over="ignore"):
        return _of_rows(rows, kind, kind, lambda part: np.einsum("ij,ij->i", part, part))


def _of_rows(
    rows: Vectors, kind: np.dtype, made: np.dtype[Number], work: Callable[[Vectors], object]
) -> npt.NDArray[Number]:
    """Apply a function to batches of rows, cast to a type, and return all results."""
    out = np.empty(len(rows), made)
    step = max(_NEAR_BYTES // max(rows.shape[1] * kind.itemsize, 1), 1)
    for start in range(0, len(rows), step):
        out[start : start + step] = work(rows[start : start + step].astype(kind, copy=False))
    return out
