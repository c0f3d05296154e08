"""Values for rows that nobody will see."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as pt

__all__ = ["blank"]


def blank(field: pa.Field, rows: int) -> pa.Array:
    """Return nulls, or zeros and empty values where a field has no nulls."""
    return pa.nulls(rows, field.type) if field.nullable else _zeros(field.type, rows)


def _zeros(kind: pa.DataType, rows: int) -> pa.Array:
    if pt.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays([blank(f, rows) for f in fields], fields=fields)
    if pt.is_fixed_size_list(kind):
        items = blank(kind.value_field, rows * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(items, type=kind)
    if pt.is_dictionary(kind):
        values = _zeros(kind.value_type, 1)
        return pa.DictionaryArray.from_arrays(_zeros(kind.index_type, rows), values)
    offsets = pa.py_buffer(bytes(8 * (rows + 1)))
    if pt.is_map(kind) or pt.is_list(kind) or pt.is_large_list(kind):
        items = pa.nulls(0, kind.field(0).type)
        return pa.Array.from_buffers(kind, rows, [None, offsets], children=[items])
    try:
        width = kind.bit_width
    except ValueError:  # text and bytes
        return pa.Array.from_buffers(kind, rows, [None, offsets, pa.py_buffer(b"")])
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(bytes(width * rows // 8 + 8))])
