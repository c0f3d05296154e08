"""Conversion of pandas, Polars and NumPy data to Arrow, and of Arrow tables to pandas frames.

As in the reference, an index level of a pandas frame with a name becomes a column after the frame's
own columns. A level without a name, or with the name of a column, becomes ``__index_level_0__``, or
the next free name of this form. Two cases differ: a range with a name is a column, too; and
integers without a name are dropped with a warning, unless the rows' schema has a column for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._extras import install_hint
from lancekit._format.arrow_parts import flattened
from lancekit._legible import shown, warn
from lancekit._pipeline.casts.python_times import in_arrow_units
from lancekit._pipeline.casts.python_values import Guide, cast_if_exact, python_array
from lancekit.errors import InvalidTypeError, NotOfferedError, UnsupportedTypeError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from numpy.typing import NDArray
    from pandas.api.extensions import ExtensionArray

_LEFT_OUT = (
    "The frame's index has integers without a name, and is not written. To keep it as a column, "
    "name it: frame.rename_axis('key'). To drop it without this warning, use "
    "reset_index(drop=True)."
)


def frame_columns(
    frame: pd.DataFrame, known: Collection[str], *, only: bool
) -> Iterator[tuple[str, pd.Series]]:
    """Yield the names and the series of a frame's columns, index levels included.

    frame: a pandas DataFrame.
    known: the columns that the rows must have, or the columns of the table that they go to.
    only: whether to drop index levels that are not in `known`.

    Raises ValueError: columns have the same name.
    """
    names = [str(name) for name in frame.columns]
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise ValueError(f"Duplicate column names found: {repeated}")
    for at, name in enumerate(names):
        yield name, frame.iloc[:, at]
    for name, level in _levels(frame.index, set(names)):
        if name in known or (not only and _is_column(frame.index, level)):
            yield name, level.to_series()


def _levels(index: pd.Index, taken: set[str]) -> Iterator[tuple[str, pd.Index]]:
    for at in range(index.nlevels):
        level = index.get_level_values(at) if index.nlevels > 1 else index
        name = None if level.name is None else str(level.name)
        if name is None or name in taken:
            name = next(free for n in count(at) if (free := f"__index_level_{n}__") not in taken)
        taken.add(name)
        yield name, level


def _is_column(index: pd.Index, level: pd.Index) -> bool:
    """Return True if an index level becomes a column without being requested."""
    if level.name is not None or index.nlevels > 1 or level.dtype.kind not in "iu":
        return True
    counts_rows = type(level).__name__ == "RangeIndex" or np.array_equal(
        level.to_numpy(), np.arange(len(level))
    )
    if not counts_rows:
        warn(_LEFT_OUT)
    return False


def series_array(series: Any, guide: Guide) -> pa.Array | pa.ChunkedArray:
    """Convert a series to an Arrow array, without loss for Python objects.

    Raises LossError: the first value that does not fit the type of the others.
    Raises InvalidTypeError: Arrow has no type for the values.
    """
    if type(series.dtype).__name__ == "SparseDtype":
        series = series.sparse.to_dense()
    if isinstance(series.dtype, np.dtype):
        if series.dtype.kind == "c":
            return numpy_array(series.to_numpy())
        if not series.dtype.isnative:
            series = series.astype(series.dtype.newbyteorder("="))
    if str(series.dtype) == "object":
        return cast_if_exact(python_array(list(series), guide), guide)
    categories = getattr(getattr(series, "cat", None), "categories", None)
    if categories is None or str(categories.dtype) != "object":
        return pa.array(series, from_pandas=True)
    codes = series.cat.codes.to_numpy()
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, mask=codes < 0),
        python_array(list(categories), guide),
        ordered=bool(series.cat.ordered),
    )


# ---- NumPy arrays as Arrow arrays: matrices become vectors, structured arrays become structs


def numpy_array(values: NDArray[np.generic]) -> pa.Array:
    """Convert an array of one or more dimensions, without Python objects, to a column.

    Examples
    --------
    >>> numpy_array(np.ones((2, 3), "f4")).type
    FixedSizeListType(fixed_size_list<item: float>[3])

    Raises InvalidTypeError: Arrow has no type for the values.
    Raises LossError: the first moment or duration that is beyond the range of its type.
    """
    if isinstance(values, np.matrix):  # keeps two dimensions in every operation
        values = np.asarray(values)
    kind = values.dtype
    if values.ndim == 0:
        raise InvalidTypeError(
            f"Rows must be a list of values, got one value: {shown(values.item())}."
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
        records = cast("NDArray[np.void]", values)
        parts = [numpy_array(records[name].copy()) for name in kind.names]  # keeps masks
        return pa.StructArray.from_arrays(parts, names=list(kind.names))
    if kind.kind == "f" and kind.itemsize > 8:
        raise InvalidTypeError(
            f"Arrow has no floats of {8 * kind.itemsize} bits.", hint="Pass values.astype('f8')."
        )
    if not kind.isnative:
        values = values.astype(kind.newbyteorder("="))
    return pa.array(values)


def _vectors(values: NDArray[np.generic]) -> pa.Array:
    """Convert an array of two or more dimensions to nested fixed-size lists."""
    if 0 in values.shape[1:]:
        raise InvalidTypeError(
            f"an array of shape {values.shape} has empty vectors.",
            hint="Pass lists: values.tolist(), with schema= for their type.",
        )
    array = numpy_array(values.reshape(-1))
    fixed = not (pa.types.is_string(array.type) or pa.types.is_binary(array.type))
    for size in reversed(values.shape[1:]):
        if fixed:
            array = pa.FixedSizeListArray.from_arrays(array, size)
        else:  # vectors of text are not supported
            starts = pa.array(np.arange(0, len(array) + 1, size), pa.int32())
            array = pa.ListArray.from_arrays(starts, array)
    return array


# ---- Polars frames, whose types Arrow partly lacks


def polars_reader(frame: pl.DataFrame) -> pa.RecordBatchReader:
    """Return a reader of the rows of a Polars frame.

    Raises UnsupportedTypeError: Arrow has no type for a column.
    """
    for name, kind in frame.schema.items():
        if str(kind) == "Object":  # Arrow would get the addresses of the objects
            raise UnsupportedTypeError(
                f"column {name!r} of the Polars frame holds Python objects.",
                hint="Cast it to one of Polars' own types, or pass frame.to_dicts().",
                column=name,
            )
    try:
        table: pa.Table = frame.to_arrow()
        return table.to_reader()
    except pa.ArrowException as error:
        name = next((series.name for series in frame if _is_foreign(series)), "")
        kind = frame.schema.get(name)
        raise UnsupportedTypeError(
            f"column {name!r} of the Polars frame has type {kind}, which Arrow does not have.",
            hint="Cast it to an Arrow type, such as pl.Int64, or pl.Decimal(38, 0) for 128 bits: "
            f"frame.with_columns(pl.col({name!r}).cast(...)).",
            column=name,
            type=str(kind),
        ) from error


def _is_foreign(series: pl.Series) -> bool:
    try:
        series.to_arrow()
    except pa.ArrowException:
        return True
    return False


# ---- Arrow tables as pandas frames that keep every integer exactly
#
# pandas converts integers beside nulls to doubles, which hold 53 bits.

#: the largest integer below which every integer is exact as a double
_EXACT = 1 << 53


def exact_frame(table: pa.Table, options: Mapping[str, object]) -> pd.DataFrame:
    """Convert a table to a frame; ``options`` go to `pyarrow.Table.to_pandas`.

    Columns in which a double would change a number become ``Int64`` or ``UInt64``. Lists and
    structs with such numbers hold Python objects.
    """
    exact = {} if options.get("integer_object_nulls") else _exact_columns(table, options)
    index = set() if options.get("ignore_metadata") else _index_columns(table.schema)
    shown = [place for place, name in enumerate(table.column_names) if name not in index]
    frame: pd.DataFrame = table.to_pandas(**options)
    for place, column in enumerate(shown):
        if column in exact:
            frame.isetitem(place, exact[column])
    return frame


def _index_columns(schema: pa.Schema) -> set[str]:
    """Return the columns that pandas turns into an index, by the schema's pandas metadata."""
    index_columns = (schema.pandas_metadata or {}).get("index_columns", ())
    return {name for name in index_columns if isinstance(name, str)}


def _exact_columns(table: pa.Table, options: Mapping[str, Any]) -> dict[int, ExtensionArray]:
    """Return the columns that doubles would change, by their positions in the table."""
    mapped = options.get("types_mapper") or (lambda _kind: None)
    found: dict[int, ExtensionArray] = {}
    for place, column in enumerate(map(_converted, table.columns)):
        if not _may_be_rounded(column.type) or mapped(column.type) is not None:
            continue
        if not _is_rounded(column):
            continue
        if pt.is_nested(column.type):
            keeping = {**options, "integer_object_nulls": True, "self_destruct": False}
            found[place] = pa.table([column], ["x"]).to_pandas(**keeping)["x"].array
        else:
            import pandas as pd

            kind: Any = pd.UInt64Dtype() if pt.is_uint64(column.type) else pd.Int64Dtype()
            found[place] = kind.__from_arrow__(column)
    return found


def _converted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as pandas gets it: the storage of an extension type without a dtype."""
    while isinstance(column.type, pa.BaseExtensionType):
        try:
            column.type.to_pandas_dtype()
        except NotImplementedError:
            storage = [chunk.storage for chunk in column.chunks]  # type: ignore[attr-defined]
            column = pa.chunked_array(storage, column.type.storage_type)
        else:
            break
    return column


def _may_be_rounded(kind: pa.DataType) -> bool:
    if pt.is_nested(kind):
        return any(_may_be_rounded(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pt.is_int64(kind) or pt.is_uint64(kind))


def _is_rounded(column: pa.ChunkedArray) -> bool:
    """Return True if integers that do not fit a double may be beside nulls, in any chunk.

    Lists and structs always count as having nulls, because Arrow also counts unreachable nulls.
    """
    leaves = [leaf for chunk in column.chunks for leaf in _leaves(chunk)]
    numbers = [leaf for leaf in leaves if pt.is_int64(leaf.type) or pt.is_uint64(leaf.type)]
    nulls = pt.is_nested(column.type) or any(map(ak.null_count, numbers))
    return nulls and any(map(_is_large, numbers))


def _is_large(numbers: pa.Array) -> bool:
    ends = pc.min_max(numbers).as_py()
    return bool(ends["min"] is not None and (ends["max"] > _EXACT or ends["min"] < -_EXACT))


def _leaves(values: pa.Array) -> Iterator[pa.Array]:
    if isinstance(values, pa.MapArray):
        yield from _leaves(values.keys)
        yield from _leaves(values.items)
    elif isinstance(values, pa.StructArray):
        for child in values.flatten():
            yield from _leaves(child)
    elif pt.is_nested(values.type):
        yield from _leaves(flattened(values))
    else:
        yield values


def optional_module(name: str, extra: str, what: str) -> ModuleType:
    """Import a package; ``NotOfferedError`` with the install command if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise NotOfferedError(
            f"{what} needs the package {name}, which is not installed.",
            hint=f"{install_hint(extra)}.",
        ) from error


def polars_frame(table: pa.Table) -> pl.DataFrame:
    """Convert a table to a Polars frame.

    Raises NotOfferedError: the package ``polars`` is not installed.
    Raises UnsupportedTypeError: Polars has no type for a column.
    """
    polars = optional_module("polars", "polars", "A Polars frame")
    for at, field in enumerate(table.schema):
        if "fixed_size_list" in str(field.type):  # Polars takes no slice of one with nulls
            whole = ak.take(table.column(at), np.arange(table.num_rows))
            table = table.set_column(at, field, whole)
        if "decimal256" in str(field.type):
            raise UnsupportedTypeError(
                f"Polars has no type for column {field.name!r} ({field.type}).",
                hint="Leave it out with columns=[...], or read the rows with to_table().",
                column=field.name,
            )
    frame: pl.DataFrame = polars.from_arrow(table)
    return frame
