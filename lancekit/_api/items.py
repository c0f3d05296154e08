"""Items of a dataset: the rows and columns that ``ds[...]`` reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lancekit._api.not_offered import no_item


class Readable(Protocol):
    """The methods of `LanceDataset` that read an item."""

    def __len__(self) -> int: ...
    @property
    def to_table(self) -> Callable[..., pa.Table]: ...
    @property
    def take(self) -> Callable[..., pa.Table]: ...


def read_item(ds: Readable, item: object) -> pa.Table:
    """Read the rows or columns of an item: a slice, a condition, a mask, positions or names.

    Raises InvalidTypeError: the item has another type, and the hint has the right line.
    """
    if isinstance(item, slice):
        return _slice(ds, item)
    if type(item).__name__ == "Expression":  # of lancekit or of pyarrow
        return ds.to_table(filter=item)
    values, listed = _listed(item)
    if values.dtype == bool:
        if len(values) == len(ds) and _is_in_order(item):
            return ds.take(np.flatnonzero(values).tolist())
    elif listed and all(isinstance(one, str) for one in listed):
        return ds.to_table(columns=listed)
    elif values.dtype.kind in "iu" and not any(isinstance(one, bool) for one in listed):
        return ds.take(listed)
    raise no_item(item, ds)


def _slice(ds: Readable, rows: slice) -> pa.Table:
    try:
        found = range(*rows.indices(len(ds)))
    except TypeError as error:
        raise no_item(rows, ds) from error
    if found.step == 1:
        return ds.to_table(offset=found.start, limit=len(found))
    return ds.take(list(found))


def _listed(item: object) -> tuple[np.ndarray, list[Any]]:
    """Return the values of a list or an array with one dimension, as an array and as a list.

    A mask is an array of booleans.  Other items are empty text, which selects nothing.
    """
    if isinstance(item, list) and all(map(np.isscalar, item)):
        values, listed = np.asarray(item), item
    else:
        values = np.asarray(item) if hasattr(item, "__array__") else np.array(None)
        if values.ndim != 1:
            return np.empty(0, str), []
        listed = values.tolist()
    kinds = {type(one).__name__ for one in listed}
    is_mask = "bool" in kinds and kinds <= {"bool", "NoneType", "NAType"}
    if is_mask or not (listed or values.dtype.kind in "iu"):  # a null selects no row
        values = np.array([isinstance(one, bool | np.bool_) and bool(one) for one in listed], bool)
    return values, listed


def _is_in_order(mask: object) -> bool:
    """Return True for a mask of all rows, except a series of pandas with another index."""
    index = getattr(mask, "index", None)
    return index is None or callable(index) or np.array_equal(index, np.arange(len(index)))
