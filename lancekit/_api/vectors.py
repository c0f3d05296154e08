"""Conversion of vectors to Arrow columns.  Names follow ``lance.vector``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit._checked import checked
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError, LancekitError, type_name


@checked
def vec_to_table(
    data: Mapping[Any, Any] | Sequence[Any] | np.ndarray[Any, Any],
    names: str | Sequence[str] | None = None,
    ndim: int | None = None,
    check_ndim: bool = True,
) -> pa.Table:
    """Convert vectors to a table, one float32 vector a row.

    Parameters
    ----------
    data
        Vectors in a list or an array, or in a dictionary by id.
    names
        The column name, ``"vector"`` by default; for a dictionary two names: ``["id", "vector"]``.
    ndim
        The length of each vector; by default the length of the first.
    check_ndim
        Whether to compare the lengths.  If not, the total number of values must fill whole vectors.

    Returns
    -------
    pyarrow.Table
        The vectors as a fixed-size list column, after the ids if there are any.

    Raises
    ------
    InvalidArgumentError
        The vectors differ in length, a value is no number, or the number of names is wrong.

    Examples
    --------
    >>> vec_to_table({"a": [1, 2], "b": [3, 4]})["vector"].to_pylist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    if not isinstance(data, Mapping | Sequence | np.ndarray) or isinstance(data, str | bytes):
        raise InvalidTypeError(f"data must be a list, an array or a dict, got {type_name(data)}.")
    keyed = isinstance(data, Mapping)
    wanted = ["id", "vector"] if keyed else ["vector"]
    titles = [names] if isinstance(names, str) else list(names or wanted)
    if len(titles) != len(wanted):
        raise InvalidArgumentError(f"names must be {len(wanted)} names, got {shown(names)}.")
    vectors = list(data.values()) if isinstance(data, Mapping) else list(data)
    try:
        column = _column(vectors, ndim, check=check_ndim)
        ids = [pa.array(list(data))] if isinstance(data, Mapping) else []
    except LancekitError:
        raise
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{shown(data)} cannot be converted to vectors: {error}.",
            hint="Pass vectors of numbers, and ids of one type.",
        ) from error
    return pa.table([*ids, column], names=titles)


def _column(vectors: Sequence[Any], ndim: int | None, *, check: bool) -> pa.Array:
    if ndim is None and not vectors:
        raise InvalidArgumentError("There are no vectors.", hint="Pass ndim for an empty table.")
    size = len(vectors[0]) if ndim is None else ndim
    other = next((v for v in vectors if check and len(v) != size), None)
    if other is not None:
        raise InvalidArgumentError(
            f"Vectors must have the same length: some have {size} values, one has {len(other)}: "
            f"{shown(other)}."
        )
    values = np.concatenate([np.empty(0, np.float32), *(np.ravel(v) for v in vectors)])
    if size < 1 or len(values) % size:
        raise InvalidArgumentError(f"{len(values)} values cannot be split into vectors of {size}.")
    return pa.FixedSizeListArray.from_arrays(pa.array(values.astype(np.float32)), size)


def centroids_of(given: object) -> NDArray[np.floating | np.uint8]:
    """Convert centroids to an array of shape (partitions, dimensions).

    Raises InvalidTypeError: the argument has no rows of numbers.
    """
    numbers = _numbers("ivf_centroids", given)
    if numbers.ndim != 2:
        raise _no_numbers("ivf_centroids", given)
    return numbers


def codebook_of(given: object, parts: int, words: int) -> NDArray[np.floating | np.uint8]:
    """Convert a codebook to an array of shape (subvectors, words, dimensions of a subvector).

    Raises InvalidTypeError: the argument has no rows of numbers.
    """
    numbers = _numbers("pq_codebook", given)
    if isinstance(given, pa.Array) and numbers.size % (parts * words) == 0:
        return numbers.reshape(parts, words, -1)  # rows of a `PqModel` have the length of a vector
    return numbers


def _numbers(argument: str, given: object) -> NDArray[np.floating | np.uint8]:
    found = given.storage if isinstance(given, pa.ExtensionArray) else given
    try:
        if isinstance(found, pa.FixedSizeListArray):
            found = found.flatten().to_numpy(zero_copy_only=False).reshape(len(found), -1)
        numbers = np.asarray(found)
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise _no_numbers(argument, given) from error
    if numbers.ndim < 2 or numbers.dtype.kind not in "iuf" or not numbers.size:
        raise _no_numbers(argument, given)
    is_stored = numbers.dtype.kind == "f" or numbers.dtype == np.uint8
    return numbers if is_stored else numbers.astype(np.float32)


def _no_numbers(argument: str, given: object) -> InvalidTypeError:
    return InvalidTypeError(
        f"{argument} must be an array with rows of numbers, got {type_name(given)}.",
        hint="Pass a row for each partition, or for each codeword of each part.",
        argument=argument,
    )
