"""The vectors that are asked for, given as anything that holds numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._index.distances import COMPUTED_AS
from lancekit._legible import shown
from lancekit._scan.nearest.vectors import VectorType
from lancekit.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["query_vectors"]

_WHAT = "Pass a list or an array of numbers; several vectors as a list of them."


def query_vectors(q: object, column: str, kind: VectorType) -> tuple[npt.NDArray[Any], bool]:
    """Return queries, and whether there may be several, each of which has rows of its own.

    Parameters
    ----------
    q
        A vector, or several: for a column of vectors each is a query; for one of lists of vectors
        all of them are one.

    Returns
    -------
    array
        Shape (queries, vectors of a query, dimensions), of the type that values are compared as.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        It holds no numbers, or not as many as the vectors of the column, or such as they cannot
        hold.
    """
    numbers = _numbers(q)
    if numbers.shape[-1] != kind.dimension:
        raise InvalidArgumentError(
            f"q has {numbers.shape[-1]} values, which does not match index column size: the "
            f"vectors of the column {column!r} have {kind.dimension}.",
            hint="Pass a vector of the same model.",
            argument="q",
        )
    vectors = _as_stored(np.atleast_2d(numbers), kind)
    if kind.in_lists:
        return vectors[np.newaxis], False
    return vectors[:, np.newaxis], numbers.ndim == 2


def _numbers(q: object) -> npt.NDArray[Any]:
    """Return numbers in one or two dimensions, none of which is empty."""
    try:
        found = np.asarray(_plain(q))
        if found.dtype == object:  # of numbers and None, which is no number
            found = found.astype(np.float64)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InvalidTypeError(
            f"q is {shown(q)}, which is no vector: {error}.", hint=_WHAT, argument="q"
        ) from error
    if found.dtype.kind not in "biuf" or found.ndim not in (1, 2) or not found.size:
        raise InvalidTypeError(f"q is {shown(q)}, which is no vector.", hint=_WHAT, argument="q")
    return found


def _plain(q: object) -> Any:
    """Return what Arrow and bytes hold as what NumPy takes."""
    if isinstance(q, bytes | bytearray | memoryview):
        return np.frombuffer(q, np.uint8)
    if isinstance(q, pa.Scalar | pa.Array | pa.ChunkedArray):
        return q.as_py() if isinstance(q, pa.Scalar) else q.to_pylist()
    if isinstance(q, list | tuple):
        return [_plain(one) for one in q]
    if isinstance(q, str | dict | set):
        raise TypeError("it holds no numbers in order")
    return q


def _as_stored(numbers: npt.NDArray[Any], kind: VectorType) -> npt.NDArray[Any]:
    """Return numbers as the column could hold them."""
    compared = COMPUTED_AS[kind.value]
    if compared is np.uint8:
        whole = (numbers >= 0) & (numbers <= 255) & (np.floor(numbers) == numbers)
        if not whole.all():
            raise InvalidArgumentError(
                f"q holds {numbers[~whole][0]}, the vectors of the column are of uint8.",
                hint="Pass whole numbers from 0 to 255.",
                argument="q",
            )
    with np.errstate(over="ignore"):  # what is too large is infinite
        if kind.value == "halffloat":
            numbers = numbers.astype(np.float16)
        return numbers.astype(compared)
