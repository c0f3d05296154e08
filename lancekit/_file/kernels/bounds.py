"""Limits on the memory that decoding a page may allocate, and size estimates of Arrow types.

The size of numbers follows from count and width.  The size of strings is unknown in advance, and a
few stored bytes can expand to gigabytes: compressed strings, a dictionary item that every row
repeats, levels without bytes.  Code that allocates memory for such data calls `claim` first.
"""

from __future__ import annotations

import threading

import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._file.kernels.faults import TooLarge
from lancekit.options import DEFAULT_PAGE_MEMORY, options

#: A page may always expand to this many times its stored bytes.
MOST_TIMES = 64

#: Rows with more bytes than this are claimed even if their number is correct.
_WIDE = 1 << 10

#: Number of buffers of a string array: validity, offsets and bytes.
_STRING_BUFFERS = 3

_current = threading.local()


class allowance:  # noqa: N801  # used as if it were a function
    """Memory limit of this thread while it decodes a page of `encoded` bytes; at least `floor`.

    A plain class, because it is entered for every page that is read.
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
    """Return the bytes that this thread may claim at once, and the value of the option."""
    limits: tuple[int, int] | None = getattr(_current, "limits", None)
    return limits or (options.page_memory_bytes, options.page_memory_bytes)


def allowed() -> int:
    """Return the number of bytes that this thread may claim at once."""
    return _limits()[0]


def claim(size: int, what: str) -> None:
    """Raise `TooLarge` if an allocation of `size` bytes exceeds the page's limit."""
    most, option = _limits()
    if size > most:
        raise TooLarge(
            f"{what} would take {size:,} bytes, but a page of its size may take {most:,}: "
            f"lancekit.options.page_memory_bytes is {option:,}",
            size,
        )


def written() -> int:
    """Return the bytes that a written page may expand to, so that default settings can read it.

    A higher option in this process does not count, because readers may not have it.
    """
    limit: int = min(options.page_memory_bytes, DEFAULT_PAGE_MEMORY)
    return limit


def is_readable(size: int, encoded: int, most: int) -> bool:
    """Return True if a page of `encoded` bytes may expand to `size` bytes; ``most`` always may."""
    return size <= max(encoded * MOST_TIMES, most)


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Return an array of nulls; claim memory first if its rows are wide."""
    width = null_bytes(kind)
    if width > _WIDE:
        claim(width * count, f"{count:,} nulls of type {kind}")
    return pa.nulls(count, kind)


def look_up(items: pa.Array, index: pa.Array) -> pa.Array:
    """Return the items at the positions in `index`; claim memory first if the rows are large."""
    if items.type.num_buffers == _STRING_BUFFERS:
        if items.nbytes * len(index) > allowed():  # an upper bound, cheaper than the lengths
            sizes = pc.binary_length(items)
            if (pc.max(sizes).as_py() or 0) * len(index) > allowed():
                size = pc.sum(ak.take(sizes, index)).as_py() or 0
                claim(size, f"{len(index):,} rows of a few strings")
    elif (width := null_bytes(items.type)) > _WIDE:
        claim(width * len(index), f"{len(index):,} rows of a few values")
    return ak.take(items, index)


# ---- estimates of the bytes of one value in memory, from its type

#: assumed bytes of a variable-length value
_VARIABLE_BYTES = 64
#: assumed items of a list or map
_ITEMS = 4
#: an offset: all that a null of variable length takes
_OFFSET_BYTES = 8


def value_bytes(kind: pa.DataType) -> int:
    """Estimate the bytes of one value; exact for fixed-width types.

    Examples
    --------
    >>> value_bytes(pa.list_(pa.float32(), 8)), value_bytes(pa.string())
    (32, 64)
    >>> value_bytes(pa.fixed_shape_tensor(pa.float32(), [2, 3]))
    24
    """
    return _bytes(kind, _VARIABLE_BYTES, _ITEMS)


def null_bytes(kind: pa.DataType) -> int:
    """Estimate the bytes of a null: the full width for fixed-width types, else an offset.

    Examples
    --------
    >>> null_bytes(pa.list_(pa.float32(), 8)), null_bytes(pa.string())
    (32, 8)
    """
    return _bytes(kind, _OFFSET_BYTES, 0)


#: bytes of numbers by type id: the most frequent types, and faster than Arrow's attributes
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
    if pa.types.is_fixed_size_binary(kind):  # its number of bits can overflow Arrow's integer
        return max(int(kind.byte_width), 1)
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return variable
