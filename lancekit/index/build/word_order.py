"""Numbers in ascending order, of equal ones the first first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Places", "Words", "stable_order"]

Places = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

#: of so many bits, a number and the place that it comes from are sorted as one number
_BITS = 64


def stable_order(words: Words) -> Places:
    """Return the places of numbers in ascending order; of equal ones, the first comes first."""
    count = len(words)
    if count < 2 or (words[1:] >= words[:-1]).all():
        return np.arange(count)
    least = words.min()
    bits = (count - 1).bit_length()
    if int(words.max() - least).bit_length() + bits <= _BITS:
        return _packed(words - least, bits)
    order = np.argsort(words)
    ranks = np.zeros(count, np.uint64)
    ordered = words[order]
    np.cumsum(ordered[1:] != ordered[:-1], out=ranks[1:])
    if int(ranks[-1]) == count - 1:
        return order
    by_place = np.empty(count, np.uint64)
    by_place[order] = ranks
    return _packed(by_place, bits)


def _packed(words: Words, bits: int) -> Places:
    """Sort numbers that leave so many bits to their places, as one number each."""
    packed = words << np.uint64(bits) | np.arange(len(words), dtype=np.uint64)
    packed.sort()
    packed &= np.uint64((1 << bits) - 1)
    return packed.view(np.int64)
