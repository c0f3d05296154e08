"""The columns of a pandas frame, its index among them.

Names are the reference's: an index level that has a name is a column of that name, behind the
frame's own; one that has none, or the name of a column, is ``__index_level_0__`` or the next of
these that is free.  Two differ: a range with a name is a column, too; and whole numbers without a
name are left out, with a warning, unless the rows' schema has a place for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit.legible import warn
from lancekit.pipeline.casts.python_values import Guide, python_array, towards
from lancekit.pipeline.engine.numpy_arrays import numpy_array

__all__ = ["frame_columns", "series_array"]

_LEFT_OUT = (
    "The frame's index, whole numbers without a name, is not written. To keep it as a column, name "
    "it: frame.rename_axis('key'). reset_index(drop=True) leaves it out without this warning."
)


def frame_columns(frame: Any, known: Collection[str], *, only: bool) -> Iterator[tuple[str, Any]]:
    """Yield the names of a frame's columns, and each as a series.

    Parameters
    ----------
    frame
        A pandas DataFrame.
    known
        The columns that the rows are to have, or that the table has which they go to.
    only
        Whether an index level that is none of these is left out.

    Raises
    ------
    ValueError
        Columns have the same name.
    """
    names = [str(name) for name in frame.columns]
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise ValueError(f"Duplicate column names found: {repeated}")
    for at, name in enumerate(names):
        yield name, frame.iloc[:, at]
    for name, level in _levels(frame.index, set(names)):
        if name in known or (not only and _is_kept(frame.index, level)):
            yield name, level.to_series()


def _levels(index: Any, taken: set[str]) -> Iterator[tuple[str, Any]]:
    for at in range(index.nlevels):
        level = index.get_level_values(at) if index.nlevels > 1 else index
        name = None if level.name is None else str(level.name)
        if name is None or name in taken:
            name = next(free for n in count(at) if (free := f"__index_level_{n}__") not in taken)
        taken.add(name)
        yield name, level


def _is_kept(index: Any, level: Any) -> bool:
    """Tell whether an index level is a column of its own accord."""
    if level.name is not None or index.nlevels > 1 or level.dtype.kind not in "iu":
        return True
    if type(level).__name__ != "RangeIndex" and not _counts_rows(level):
        warn(_LEFT_OUT)
    return False


def _counts_rows(level: Any) -> bool:
    return bool(np.array_equal(level.to_numpy(), np.arange(len(level))))


def series_array(series: Any, guide: Guide) -> pa.Array | pa.ChunkedArray:
    """Return a series as an array; what it holds as Python objects is not cut.

    Raises
    ------
    LossError
        The first value that does not fit what the others are.
    InvalidTypeError
        Arrow has no type for the values.
    """
    if type(series.dtype).__name__ == "SparseDtype":
        series = series.sparse.to_dense()
    if isinstance(series.dtype, np.dtype):
        if series.dtype.kind == "c":
            return numpy_array(series.to_numpy())
        if not series.dtype.isnative:
            series = series.astype(series.dtype.newbyteorder("="))
    if str(series.dtype) == "object":
        return towards(python_array(list(series), guide), guide)
    categories = getattr(getattr(series, "cat", None), "categories", None)
    if categories is None or str(categories.dtype) != "object":
        return pa.array(series, from_pandas=True)
    codes = series.cat.codes.to_numpy()
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, mask=codes < 0),
        python_array(list(categories), guide),
        ordered=bool(series.cat.ordered),
    )
