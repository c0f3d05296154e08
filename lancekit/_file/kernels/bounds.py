"""How much memory the bytes of a page may ask for, and how much a value of a type takes.

Numbers take what their count and width come to.  Of strings nobody knows that beforehand, and a few
bytes can stand for gigabytes: compressed ones, items of a dictionary that every row repeats, levels
without bytes.  Whoever sets memory aside for such claims it first.
"""

from __future__ import annotations

import threading

import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._file.kernels.faults import TooLarge
from lancekit.options import DEFAULT_PAGE_MEMORY, options

#: A page may always take so many times its bytes.
MOST_TIMES = 64

#: Wider rows are claimed even where there are as many as there should be.
_WIDE = 1 << 10

#: Validity, offsets and bytes.
_STRING_BUFFERS = 3

_current = threading.local()


class allowance:  # noqa: N801  # used as if it were a function
    """Within the block, this thread decodes pages of so many bytes, with at least ``floor``.

    Entered for every page that is read, so it costs nothing.
    """

    __slots__ = ("_before", "_now")

    def __init__(self, encoded: int, floor: int) -> None:
        self._now = (max(encoded * MOST_TIMES, floor), floor)

    def __enter__(self) -> None:
        self._before = getattr(_current, "limits", None)
        _current.limits = self._now

    def __exit__(self, *error: object) -> None:
        _current.limits = self._before


def _limits() -> tuple[int, int]:
    """Return the bytes that this thread may claim at once, and what the option says of them."""
    limits: tuple[int, int] | None = getattr(_current, "limits", None)
    return limits or (options.page_memory_bytes, options.page_memory_bytes)


def allowed() -> int:
    """Return the bytes that this thread may claim at once."""
    return _limits()[0]


def claim(size: int, what: str) -> None:
    """Raise `TooLarge` if what is to be set aside is more than the page may ask for."""
    most, option = _limits()
    if size > most:
        raise TooLarge(
            f"{what} would take {size:,} bytes, and a page of its size may take {most:,}: "
            f"lancekit.options.page_memory_bytes is {option:,}",
            size,
        )


def written() -> int:
    """Return what a page may expand to that is written: what is read without being asked to.

    The option may be set higher here, but not where the file will be read.
    """
    limit: int = min(options.page_memory_bytes, DEFAULT_PAGE_MEMORY)
    return limit


def is_readable(size: int, encoded: int, most: int) -> bool:
    """Return whether a page expands to no more than ``most``, or to what its bytes allow."""
    return size <= max(encoded * MOST_TIMES, most)


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Return an array of nulls, unless its rows are so wide that they must not be made."""
    width = null_bytes(kind)
    if width > _WIDE:
        claim(width * count, f"{count:,} nulls of type {kind}")
    return pa.nulls(count, kind)


def look_up(items: pa.Array, index: pa.Array) -> pa.Array:
    """Return items by their places, unless all rows together are more than the page may take."""
    if items.type.num_buffers == _STRING_BUFFERS:
        if items.nbytes * len(index) > allowed():  # else none is that long
            sizes = pc.binary_length(items)
            if (pc.max(sizes).as_py() or 0) * len(index) > allowed():
                size = pc.sum(ak.take(sizes, index)).as_py() or 0
                claim(size, f"{len(index):,} rows of a few strings")
    elif (width := null_bytes(items.type)) > _WIDE:
        claim(width * len(index), f"{len(index):,} rows of a few values")
    return ak.take(items, index)


# ---- how many bytes a value of a type takes in memory, as far as the type tells

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
