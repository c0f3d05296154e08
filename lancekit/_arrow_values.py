"""Conversion between Python values, NumPy arrays and Arrow, without pandas.

`pyarrow.scalar`, `pyarrow.array` and `to_numpy` import pandas at the first call, which takes half a
second and tens of megabytes.  This module writes values to buffers, and views buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Buffer

#: Arrow's type for a Python value if none is specified
_NATURAL = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    type(None): pa.null(),
}
#: `pyarrow.array` converts longer lists faster, in spite of the import of pandas
_FEW = 10_000


def scalar_of(value: object, kind: pa.DataType | None = None) -> pa.Scalar:
    """Return a value as a scalar, like `pyarrow.scalar`.

    >>> scalar_of(7, pa.int8())
    <pyarrow.Int8Scalar: 7>
    """
    kind = kind if kind is not None else _NATURAL.get(type(value))
    if kind is None:
        return pa.scalar(value)
    if value is None:
        return pa.nulls(1, kind)[0]
    buffers = _buffers([value], kind)
    return pa.scalar(value, kind) if buffers is None else _array(1, kind, buffers)[0]


def array_of(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Return values as an array, like `pyarrow.array`.

    >>> array_of(["a", None, "bc"], pa.string()).to_pylist()
    ['a', None, 'bc']
    """
    null = [value is None for value in values]
    if all(null):
        return pa.nulls(len(values), kind)
    some = next(value for value in values if value is not None)
    filled = [some if value is None else value for value in values]
    buffers = _buffers(filled, kind) if len(values) <= _FEW else None
    return pa.array(values, kind) if buffers is None else _array(len(values), kind, buffers, null)


def arrow_of(values: NDArray[np.generic], null: NDArray[np.bool_] | None = None) -> pa.Array:
    """View numbers as an Arrow array."""
    stored = np.ascontiguousarray(values)
    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    kind = pa.from_numpy_dtype(stored.dtype)
    return pa.Array.from_buffers(kind, len(stored), [valid, pa.py_buffer(stored)])


def booleans_of(flags: NDArray[np.bool_]) -> pa.BooleanArray:
    """Convert flags to an Arrow array."""
    bits = pa.py_buffer(np.packbits(flags, bitorder="little"))
    return cast("pa.BooleanArray", pa.Array.from_buffers(pa.bool_(), len(flags), [None, bits]))


def numbers_of(array: pa.Array) -> NDArray[Any]:
    """View an Arrow array of integers or floats without nulls as a NumPy array."""
    dtype = array.type.to_pandas_dtype()
    values: NDArray[np.generic] = np.frombuffer(array.buffers()[1] or b"", dtype)
    return values[array.offset : array.offset + len(array)]


def flags_of(booleans: pa.Array) -> NDArray[np.bool_]:
    """Convert booleans without nulls to a NumPy array, one byte each."""
    data = np.frombuffer(booleans.buffers()[1] or b"", np.uint8)
    first = booleans.offset
    flags = np.unpackbits(data, count=first + len(booleans), bitorder="little")
    return flags[first:].view(bool)


def _array(
    count: int, kind: pa.DataType, data: Sequence[Buffer | None], null: Sequence[bool] = ()
) -> pa.Array:
    valid = np.packbits(np.logical_not(null), bitorder="little") if any(null) else None
    buffers = [None if part is None else pa.py_buffer(part) for part in (valid, *data)]
    return pa.Array.from_buffers(kind, count, buffers)


def _buffers(values: Sequence[Any], kind: pa.DataType) -> list[Buffer] | None:
    """Return an array's buffers, or ``None`` unless each value is of the matching Python type."""
    kinds = {type(value) for value in values}
    if kinds == {str} and kind == pa.string():
        texts = [value.encode() for value in values]
        return [np.array([0, *accumulate(map(len, texts))], np.int32), b"".join(texts)]
    if kinds == {bool} and pt.is_boolean(kind):
        return [np.packbits(values, bitorder="little")]
    if kinds == {float} and pt.is_float64(kind):
        return [np.array(values)]
    if kinds == {int} and pt.is_integer(kind):
        dtype = np.dtype(kind.to_pandas_dtype())
        bounds = np.iinfo(dtype)
        within = bounds.min <= min(values) and max(values) <= bounds.max
        return [np.array(values, dtype)] if within else None
    return None
