"""How much memory the bytes of a page may ask for, where its counts do not say.

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
from lancekit._file.kernels.widths import null_bytes
from lancekit.options import DEFAULT_PAGE_MEMORY, options

__all__ = [
    "MOST_TIMES",
    "allowance",
    "allowed",
    "claim",
    "is_readable",
    "look_up",
    "nulls",
    "written",
]

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
