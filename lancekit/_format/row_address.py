"""Row addresses: a fragment's id in the upper 32 bits, a row's offset in its files in the lower."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

Numbers = TypeVar("Numbers", bound=npt.NDArray[np.integer])

_OFFSET_BITS = 32

_OFFSET_MASK = (1 << _OFFSET_BITS) - 1

#: how many rows of one fragment have addresses, and the last fragment's id that goes into one
MOST_ROWS = 1 << _OFFSET_BITS
LAST_FRAGMENT = (1 << 32) - 1


def joined(fragment_id: int, offset: int) -> int:
    """Return the address of one row."""
    return fragment_id << _OFFSET_BITS | offset


def parts(address: int) -> tuple[int, int]:
    """Return the fragment's id and the offset of one address."""
    return address >> _OFFSET_BITS, address & _OFFSET_MASK


def addresses(fragment_id: int, offsets: Numbers) -> Numbers:
    """Return the addresses of rows of one fragment, as numbers of the offsets' type."""
    return cast(Numbers, offsets | offsets.dtype.type(fragment_id << _OFFSET_BITS))


def fragment_ids(addresses: Numbers) -> Numbers:
    """Return the ids of the fragments that rows are in."""
    return cast(Numbers, addresses >> addresses.dtype.type(_OFFSET_BITS))


def offsets(addresses: Numbers) -> Numbers:
    """Return the offsets of rows in their fragments."""
    return cast(Numbers, addresses & addresses.dtype.type(_OFFSET_MASK))


def by_fragment(addresses: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Yield each fragment's id with the offsets of its rows, of addresses that ascend.

    Examples
    --------
    >>> import numpy as np
    >>> [(id_, found.tolist()) for id_, found in by_fragment(np.array([1, 3, (1 << 32) + 2]))]
    [(0, [1, 3]), (1, [2])]
    """
    start = 0
    while start < len(addresses):
        id_ = int(fragment_ids(addresses[start : start + 1])[0])
        last = addresses.dtype.type(id_ << _OFFSET_BITS | _OFFSET_MASK)
        stop = int(np.searchsorted(addresses, last, "right"))
        yield id_, cast(Numbers, offsets(addresses[start:stop]))
        start = stop
