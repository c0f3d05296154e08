"""Arrow tables as pandas frames that keep every whole number.

pandas makes doubles of whole numbers beside nulls, and a double holds 53 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import flattened

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["exact_frame"]

#: the largest whole number up to which doubles hold each one
_EXACT = 1 << 53


def exact_frame(table: pa.Table, options: Mapping[str, object]) -> pd.DataFrame:
    """Return a frame of a table; ``options`` are those of `pyarrow.Table.to_pandas`.

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
    """Return the columns that pandas makes an index of, by what the schema says of pandas."""
    told = (schema.pandas_metadata or {}).get("index_columns", ())
    return {name for name in told if isinstance(name, str)}


def _exact_columns(table: pa.Table, options: Mapping[str, Any]) -> dict[int, Any]:
    """Return the columns that doubles would change, by their places in the table."""
    mapped = options.get("types_mapper") or (lambda _kind: None)
    found: dict[int, Any] = {}
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
    """Return what pandas gets of a column: of an extension type without a dtype the storage."""
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
    """Return True if numbers that do not fit a double may stand beside nulls, in any chunks.

    In lists and structs nulls are not looked for: Arrow also counts those that nobody sees.
    """
    leaves = [leaf for chunk in column.chunks for leaf in _leaves(chunk)]
    numbers = [leaf for leaf in leaves if pt.is_int64(leaf.type) or pt.is_uint64(leaf.type)]
    nulls = pt.is_nested(column.type) or any(map(ak.null_count, numbers))
    return nulls and any(map(_is_large, numbers))


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
