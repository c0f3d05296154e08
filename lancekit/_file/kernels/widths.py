"""How many bytes a value of a type takes in memory, as far as the type tells."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["null_bytes", "value_bytes"]

#: assumed bytes of a value of variable length
_VARIABLE_BYTES = 64
#: assumed items of a list or map
_ITEMS = 4
#: an offset, which is all that a null of variable length has
_OFFSET_BYTES = 8


def value_bytes(kind: pa.DataType) -> int:
    """Estimate the bytes of one value; those of a type of fixed width are known.

    Examples
    --------
    >>> value_bytes(pa.list_(pa.float32(), 8)), value_bytes(pa.string())
    (32, 64)
    >>> value_bytes(pa.fixed_shape_tensor(pa.float32(), [2, 3]))
    24
    """
    return _bytes(kind, _VARIABLE_BYTES, _ITEMS)


def null_bytes(kind: pa.DataType) -> int:
    """Return about how many bytes a null of a type takes: all, unless its length varies.

    Examples
    --------
    >>> null_bytes(pa.list_(pa.float32(), 8)), null_bytes(pa.string())
    (32, 8)
    """
    return _bytes(kind, _OFFSET_BYTES, 0)


#: the numbers, by their types' ids: most columns are some, and asking a type takes long
_NUMBERS = {
    kind.id: kind.bit_width // 8
    for kind in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
    )
}


def _bytes(kind: pa.DataType, variable: int, items: int) -> int:
    known = _NUMBERS.get(kind.id)
    if known is not None:
        return known
    if isinstance(kind, pa.BaseExtensionType):
        return _bytes(kind.storage_type, variable, items)
    if pa.types.is_fixed_size_list(kind):
        return max(int(kind.list_size) * _bytes(kind.value_type, variable, items), 1)
    if pa.types.is_nested(kind):
        times = 1 if pa.types.is_struct(kind) else items
        children = (kind.field(place).type for place in range(kind.num_fields))
        least = 1 if pa.types.is_struct(kind) else _OFFSET_BYTES
        return max(times * sum(_bytes(child, variable, items) for child in children), least)
    if pa.types.is_fixed_size_binary(kind):  # its number of bits may be more than Arrow counts
        return max(int(kind.byte_width), 1)
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return variable
