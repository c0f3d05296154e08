"""How many bytes a decoded value takes, as far as its type tells."""

from __future__ import annotations

import pyarrow as pa

from lancekit.errors import CorruptFileError
from lancekit.options import options

__all__ = ["nulls_of", "value_bytes"]

#: assumed bytes of a value of variable length
_VARIABLE_BYTES = 64
#: assumed items of a list or map
_ITEMS = 4


def value_bytes(kind: pa.DataType) -> int:
    """Estimate the bytes of one value; those of a type of fixed width are known.

    Examples
    --------
    >>> value_bytes(pa.list_(pa.float32(), 8)), value_bytes(pa.string())
    (32, 64)
    """
    if pa.types.is_fixed_size_list(kind):
        return value_bytes(kind.value_type) * int(kind.list_size)
    if pa.types.is_nested(kind):
        items = 1 if pa.types.is_struct(kind) else _ITEMS
        return items * sum(value_bytes(kind.field(at).type) for at in range(kind.num_fields))
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return _VARIABLE_BYTES


def nulls_of(field: pa.Field, rows: int) -> pa.Array:
    """Return the nulls of a column that nobody has values of.

    Raises
    ------
    CorruptFileError
        One of them would take more than a page may: a schema can say so of any field.
    """
    each = value_bytes(field.type)
    if rows and each > options.page_memory_bytes:
        raise CorruptFileError(
            f"One value of column {field.name!r} of {field.type} takes {each} bytes, and there "
            "are none.",
            hint="Leave the column alone; if it is known to be well, raise "
            "lancekit.options.page_memory_bytes.",
            column=field.name,
        )
    return pa.nulls(rows, field.type)
