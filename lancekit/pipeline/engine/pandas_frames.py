"""Arrow tables as pandas frames that keep every whole number.

pandas makes doubles of whole numbers beside nulls, and a double holds 53 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lancekit import arrow_kernels as ak
from lancekit.format.arrow_parts import flattened

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["exact_frame"]

#: the largest whole number up to which doubles hold each one
_EXACT = 1 << 53


def exact_frame(table: pa.Table, options: Mapping[str, Any]) -> pd.DataFrame:
    """Return a frame of a table; ``options`` are those of `pyarrow.Table.to_pandas`.

    Columns in which a double would change a number become ``Int64`` or ``UInt64``. Lists and
    structs with such numbers hold Python objects.
    """
    exact = {} if options.get("integer_object_nulls") else _exact_columns(table, options)
    frame: pd.DataFrame = table.to_pandas(**options)
    for place, name in enumerate(frame.columns):
        if name in exact:
            frame.isetitem(place, exact[name])
    return frame


def _exact_columns(table: pa.Table, options: Mapping[str, Any]) -> dict[str, Any]:
    mapped = options.get("types_mapper") or (lambda _kind: None)
    found = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not _may_be_rounded(column.type) or mapped(column.type) is not None:
            continue
        if not any(map(_is_rounded, column.chunks)):
            continue
        if pt.is_nested(column.type):
            keeping = {**options, "integer_object_nulls": True, "self_destruct": False}
            found[name] = pa.table([column], [name]).to_pandas(**keeping)[name].array
        else:
            import pandas as pd

            kind: Any = pd.UInt64Dtype() if pt.is_uint64(column.type) else pd.Int64Dtype()
            found[name] = kind.__from_arrow__(column)
    return found


def _may_be_rounded(kind: pa.DataType) -> bool:
    if pt.is_nested(kind):
        return any(_may_be_rounded(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pt.is_int64(kind) or pt.is_uint64(kind))


def _is_rounded(values: pa.Array) -> bool:
    """Return True if numbers beside nulls do not fit a double."""
    return any(
        ak.null_count(array) and _is_large(array)
        for array in _leaves(values)
        if pt.is_int64(array.type) or pt.is_uint64(array.type)
    )


def _is_large(numbers: pa.Array) -> bool:
    ends: Any = pc.min_max(numbers).as_py()
    return ends["min"] is not None and (ends["max"] > _EXACT or ends["min"] < -_EXACT)


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
