"""Row addresses: fragment id in the upper 32 bits, row offset in the lower 32 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

Numbers = TypeVar("Numbers", bound=npt.NDArray[np.integer])

_OFFSET_BITS = 32

_OFFSET_MASK = (1 << _OFFSET_BITS) - 1

#: maximum number of addressable rows in a fragment, and the highest addressable fragment id
MOST_ROWS = 1 << _OFFSET_BITS
LAST_FRAGMENT = (1 << 32) - 1


def joined(fragment_id: int, offset: int) -> int:
    """Return the address of a row."""
    return fragment_id << _OFFSET_BITS | offset


def parts(address: int) -> tuple[int, int]:
    """Return fragment id and row offset of an address."""
    return address >> _OFFSET_BITS, address & _OFFSET_MASK


def addresses(fragment_id: int, offsets: Numbers) -> Numbers:
    """Return the addresses of rows in one fragment, with the offsets' type."""
    return cast(Numbers, offsets | offsets.dtype.type(fragment_id << _OFFSET_BITS))


def fragment_ids(addresses: Numbers) -> Numbers:
    """Return the fragment ids of row addresses."""
    return cast(Numbers, addresses >> addresses.dtype.type(_OFFSET_BITS))


def offsets(addresses: Numbers) -> Numbers:
    """Return the row offsets of row addresses."""
    return cast(Numbers, addresses & addresses.dtype.type(_OFFSET_MASK))


def by_fragment(addresses: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Yield (fragment id, row offsets) of each fragment in ascending addresses.

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
