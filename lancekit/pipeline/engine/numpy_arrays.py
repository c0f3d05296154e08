"""NumPy arrays as Arrow arrays: matrices become vectors, records become structs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lancekit.errors import InvalidTypeError
from lancekit.legible import shown
from lancekit.pipeline.casts.numpy_times import in_arrow_units

__all__ = ["numpy_array"]


def numpy_array(values: np.ndarray[Any, Any]) -> pa.Array:
    """Return an array of any number of dimensions, but of no Python objects, as a column.

    Examples
    --------
    >>> numpy_array(np.ones((2, 3), "f4")).type
    FixedSizeListType(fixed_size_list<item: float>[3])

    Raises
    ------
    InvalidTypeError
        Arrow has no type for the values.
    LossError
        The first moment or span that is beyond the range of its type.
    """
    if isinstance(values, np.matrix):  # has two dimensions whatever becomes of it
        values = np.asarray(values)
    kind = values.dtype
    if values.ndim == 0:
        raise InvalidTypeError(
            f"{shown(values.item())} is one value.", hint="Pass a list of values."
        )
    if kind.kind == "c":
        raise InvalidTypeError(
            "complex numbers have no Arrow type.",
            hint="Store both parts: {'re': values.real, 'im': values.imag}, or vectors of two: "
            "np.stack([values.real, values.imag], axis=1).",
        )
    if kind.kind in "mM":
        values = in_arrow_units(values)
        kind = values.dtype
    if values.ndim > 1:
        return _vectors(values)
    if kind.names:
        parts = [numpy_array(values[name].copy()) for name in kind.names]  # masks stay
        return pa.StructArray.from_arrays(parts, names=list(kind.names))
    if kind.kind == "f" and kind.itemsize > 8:
        raise InvalidTypeError(
            f"Arrow has no floats of {8 * kind.itemsize} bits.", hint="Pass values.astype('f8')."
        )
    if not kind.isnative:
        values = values.astype(kind.newbyteorder("="))
    return pa.array(values)


def _vectors(values: np.ndarray[Any, Any]) -> pa.Array:
    """Return a matrix, or an array of more dimensions, as nested lists of a fixed size."""
    if 0 in values.shape[1:]:
        raise InvalidTypeError(
            f"an array of shape {values.shape} has vectors without items.",
            hint="Pass lists: values.tolist(), with schema= for their type.",
        )
    array = numpy_array(values.reshape(-1))
    fixed = not (pa.types.is_string(array.type) or pa.types.is_binary(array.type))
    for size in reversed(values.shape[1:]):
        if fixed:
            array = pa.FixedSizeListArray.from_arrays(array, size)
        else:  # of texts there are no vectors
            starts = pa.array(np.arange(0, len(array) + 1, size), pa.int32())
            array = pa.ListArray.from_arrays(starts, array)
    return array
