"""Matching of the rows of two sides, by digests of their keys or of whole rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit._compiled.kernel import kernel
from lancekit._pipeline.diff.values import Digests

Places = npt.NDArray[np.int64]

#: the compiled kernel takes numbers of this many bytes or more; narrower columns are short
_KERNEL_BYTES = 4


@dataclass(frozen=True, slots=True)
class Rest:
    """Positions of unmatched rows on each side."""

    old: Places
    new: Places


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs of rows with a unique key on each side, rows on one side only, and repeated keys.

    old, new: the positions of the paired rows.
    alone: rows whose unique key is on one side only.
    repeated: all other rows.
    """

    old: Places
    new: Places
    alone: Rest
    repeated: Rest


@dataclass(frozen=True, slots=True)
class _Runs:
    """The sorted rows of both sides, old rows first among equal ones, as runs of equal digests.

    starts: the first position of each run in `order`.
    old, new: the number of rows from each side in each run.
    """

    order: Places
    starts: Places
    old: Places
    new: Places
    split: int

    def rows(self, runs: npt.NDArray[np.bool_]) -> Rest:
        """Return the positions of all rows in some runs."""
        return self.sides(self.order[np.repeat(runs, self.old + self.new)])

    def sides(self, selected: Places) -> Rest:
        """Split some of the sorted rows into positions on each side."""
        return _sides(np.sort(selected), self.split)


def _runs(old: Digests, new: Digests) -> _Runs:
    first = np.concatenate([old.first, new.first])
    second = np.concatenate([old.second, new.second])
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    starts = np.flatnonzero(begins)
    sizes = np.diff(np.append(starts, len(order)))
    of_new = np.concatenate([[0], np.cumsum(order >= len(old))])
    new_counts = of_new[starts + sizes] - of_new[starts]
    return _Runs(order, starts, sizes - new_counts, new_counts, len(old))


def _first_found(old: Digests, new: Digests) -> Matches:
    """Pair digests that are unique on each side; `repeated` gets all other cases.

    Positions replace the lowest bits of the digests: sorting these numbers takes a quarter of the
    time of an argsort.
    """
    split, count = len(old), len(old) + len(new)
    bits = np.uint64(count.bit_length())
    packed = np.concatenate([old.first, new.first]) >> bits << bits
    packed |= np.arange(count, dtype=np.uint64)
    packed.sort()
    order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).view(np.int64)
    packed >>= bits
    #: True if a row equals the previous one; False before the first and after the last row
    like = np.zeros(count + 1, bool)
    like[1:-1] = packed[1:] == packed[:-1]
    two = like[1:-1] & ~like[:-2] & ~like[2:]
    left, right = order[:-1][two], order[1:][two]
    across = (left < split) & (right >= split)
    of_new = np.full(len(new), -1)  # in the order of the new side
    of_new[right[across] - split] = left[across]
    rights = np.flatnonzero(of_new >= 0)
    lefts = of_new[rights]
    equal = old.second[lefts] == new.second[rights]
    lefts, rights = lefts[equal], rights[equal]
    alone = np.zeros(count, bool)
    alone[order[~(like[:-1] | like[1:])]] = True
    others = ~alone
    others[lefts] = others[rights + split] = False
    return Matches(
        lefts, rights, _sides(np.flatnonzero(alone), split), _sides(np.flatnonzero(others), split)
    )


def _sides(rows: Places, split: int) -> Rest:
    cut = np.searchsorted(rows, split)
    return Rest(rows[:cut], rows[cut:] - split)


def match_ascending(old: npt.NDArray[np.generic], new: npt.NDArray[np.generic]) -> Matches:
    """Pair rows by numbers that ascend and are unique on each side.

    Examples
    --------
    >>> import numpy as np
    >>> found = match_ascending(np.array([1, 3, 5]), np.array([3, 4, 5, 6]))
    >>> found.old.tolist(), found.new.tolist(), found.alone.old.tolist(), found.alone.new.tolist()
    ([1, 2], [0, 2], [0], [1, 3])
    """
    none = Rest(np.empty(0, np.int64), np.empty(0, np.int64))
    if np.array_equal(old, new):
        return Matches(np.arange(len(old)), np.arange(len(new)), none, none)
    left, right = _common(old, new)
    return Matches(left, right, Rest(_others(left, len(old)), _others(right, len(new))), none)


def _common(old: npt.NDArray[np.generic], new: npt.NDArray[np.generic]) -> tuple[Places, Places]:
    """Return the positions of common numbers on each side; both sides must ascend."""
    shorter = min(len(old), len(new))
    is_wide = old.dtype.itemsize >= _KERNEL_BYTES
    call = common_places.ready(len(old) + len(new)) if is_wide else None
    if call is not None:
        left, right = np.empty(shorter, np.int64), np.empty(shorter, np.int64)
        count = call(old, new, left, right)
        return left[:count], right[:count]
    # searches for ascending numbers visit neighbouring places, which stay in the cache
    at = np.searchsorted(new, old)
    found = at < len(new)
    found[found] = new[at[found]] == old[found]
    return np.flatnonzero(found), at[found]


@kernel("T T =i8 =i8", over="i4 i8 u4 u8", saves=15)
def common_places(
    old: npt.NDArray[np.integer], new: npt.NDArray[np.integer], left: Places, right: Places
) -> int:
    """Write the positions of common numbers on each side; return their count, or -1 if too many."""
    at = place = count = 0
    while at < old.size and place < new.size:
        one, other = old[np.uint64(at)], new[np.uint64(place)]
        if one == other:
            if count >= left.size or count >= right.size:
                return -1
            left[np.uint64(count)] = at
            right[np.uint64(count)] = place
            count += 1
        at += one <= other
        place += other <= one
    return count


def _others(places: Places, count: int) -> Places:
    left = np.ones(count, bool)
    left[places] = False
    return np.flatnonzero(left)


def match_keys(old: Digests, new: Digests) -> Matches:
    """Pair rows by their keys."""
    found = _first_found(old, new)
    left, right = found.repeated.old, found.repeated.new
    if not len(left) + len(right):
        return found
    runs = _runs(old.at(left), new.at(right))
    pairs = (runs.old == 1) & (runs.new == 1)
    once = runs.old + runs.new == 1
    at = runs.starts[pairs]
    alone, repeated = runs.rows(once), runs.rows(~pairs & ~once)
    return Matches(
        np.concatenate([found.old, left[runs.order[at]]]),
        np.concatenate([found.new, right[runs.order[at + 1] - runs.split]]),
        Rest(
            np.sort(np.concatenate([found.alone.old, left[alone.old]])),
            np.sort(np.concatenate([found.alone.new, right[alone.new]])),
        ),
        Rest(left[repeated.old], right[repeated.new]),
    )


def cancelled(old: Digests, new: Digests) -> tuple[Matches, Rest]:
    """Pair equal rows one to one; return the pairs, and the rows that are left over.

    Three old rows that equal two new rows make two pairs.
    """
    found = _first_found(old, new)
    left, right = found.repeated.old, found.repeated.new
    runs = _runs(old.at(left), new.at(right))
    both = np.minimum(runs.old, runs.new)
    sizes = runs.old + runs.new
    rank = np.arange(len(runs.order)) - np.repeat(runs.starts, sizes)
    is_new = runs.order >= runs.split
    rank = np.where(is_new, rank - np.repeat(runs.old, sizes), rank)
    paired = rank < np.repeat(both, sizes)
    rest = runs.sides(runs.order[~paired])
    none = Rest(np.empty(0, np.int64), np.empty(0, np.int64))
    pairs = Matches(
        np.concatenate([found.old, left[runs.order[paired & ~is_new]]]),
        np.concatenate([found.new, right[runs.order[paired & is_new] - runs.split]]),
        none,
        none,
    )
    return pairs, Rest(
        np.sort(np.concatenate([found.alone.old, left[rest.old]])),
        np.sort(np.concatenate([found.alone.new, right[rest.new]])),
    )


def contained_in(keys: Digests, others: Digests) -> npt.NDArray[np.bool_]:
    """Return a mask of the digests that also occur among others."""
    runs = _runs(keys, others)
    found = np.zeros(len(keys), bool)
    found[runs.rows((runs.old > 0) & (runs.new > 0)).old] = True
    return found
