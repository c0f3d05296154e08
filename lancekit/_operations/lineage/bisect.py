"""Between which two of many versions an answer changes: found by halves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

__all__ = ["turning_point"]


def turning_point(versions: Sequence[int], answer: Callable[[int], bool | None]) -> tuple[int, int]:
    """Return the last version that is known to be good, and the first that is known to be bad.

    Parameters
    ----------
    versions
        Ascending; the first is good, the last is bad, and neither is asked about.
    answer
        Whether a version is good; ``None`` where nobody can tell: then others are asked, far from
        it at first, because what is beside it may have the same fault.  Between the two versions
        that are returned are none but such.

    Examples
    --------
    >>> turning_point(range(1, 1001), lambda version: version < 700)
    (699, 700)
    >>> turning_point(range(1, 9), lambda version: version < 5 if version not in {4, 5} else None)
    (3, 6)
    """
    low, high = 0, len(versions) - 1
    silent: set[int] = set()
    while (place := _middle(low, high, silent)) is not None:
        match answer(versions[place]):
            case None:
                silent.add(place)
            case True:
                low = place
            case False:
                high = place
    return versions[low], versions[high]


def _middle(low: int, high: int, silent: Collection[int]) -> int | None:
    """Return the middle of the longest stretch between two places that has not been asked about."""
    edges = sorted({low, high, *(place for place in silent if low < place < high)})
    first, last = max(pairwise(edges), key=lambda ends: ends[1] - ends[0], default=(low, high))
    return (first + last) // 2 if last - first > 1 else None
