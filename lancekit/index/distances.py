"""Distances between vectors: what the metrics are, and what they are asked of.

Vectors are compared a few at a time, so that what is made for them stays near the processor.
Float16 is computed as float32; what is told is a float32, as in the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ALIASES", "COMPUTED_AS", "METRICS_OF", "Distances", "distances"]

Vectors = npt.NDArray[Any]
Distances = npt.NDArray[np.float32]

#: bytes of vectors that are compared at a time
_NEAR_BYTES = 1 << 18


def _l2(rows: Vectors, query: Vectors) -> Any:
    apart = rows - query
    return np.einsum("ij,ij->i", apart, apart)


def _dot(rows: Vectors, query: Vectors) -> Any:
    return 1 - np.einsum("ij,j->i", rows, query)


def _cosine(rows: Vectors, query: Vectors) -> Any:
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * np.sqrt(np.einsum("j,j", query, query))
    return 1 - np.einsum("ij,j->i", rows, query) / lengths


def _hamming(rows: Vectors, query: Vectors) -> Any:
    differ = rows ^ query
    if differ.shape[1] % 8 == 0:
        differ = differ.view(np.uint64)  # bits are counted eight bytes at a time
    return np.bitwise_count(differ).sum(axis=1, dtype=np.uint32)


_MEASURES: Mapping[str, Callable[[Vectors, Vectors], Any]] = {
    "l2": _l2,
    "cosine": _cosine,
    "dot": _dot,
    "hamming": _hamming,
}
#: other names of metrics
ALIASES = {"euclidean": "l2"}
#: by the type of the values: the metrics, the first of which is taken if none is asked for
METRICS_OF: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(["halffloat", "float", "double"], ("l2", "cosine", "dot")),
    "uint8": ("hamming",),
}
#: by the type of the values: what they are compared as
COMPUTED_AS: Mapping[str, type[np.generic]] = {
    "halffloat": np.float32,
    "float": np.float32,
    "double": np.float64,
    "uint8": np.uint8,
}


def distances(metric: str, rows: Vectors, query: Vectors) -> Distances:
    """Return how far each row is from a query.

    ``l2`` is the square of the distance, ``cosine`` 1 less the cosine, ``dot`` 1 less the product,
    ``hamming`` the number of bits.  What cannot be told (a cosine of zeros, of NaN) is NaN.

    Parameters
    ----------
    rows
        Shape (rows, dimensions).
    query
        Shape (dimensions,), of a type of `COMPUTED_AS`.

    Examples
    --------
    >>> query = np.array([1, 0], np.float32)
    >>> distances("l2", np.array([[1, 0], [3, 1]], np.float32), query).tolist()
    [0.0, 5.0]
    """
    out = np.empty(len(rows), np.float32)
    step = max(_NEAR_BYTES // max(rows.shape[1] * query.itemsize, 1), 1)
    measure = _MEASURES[metric]
    with np.errstate(all="ignore"):  # infinite and undefined distances are distances, too
        for start in range(0, len(rows), step):
            part = rows[start : start + step].astype(query.dtype, copy=False)
            out[start : start + step] = measure(part, query)
    return out
