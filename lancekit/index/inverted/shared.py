"""The documents that have all of some tokens, and where the posting list of each has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit.index.inverted.partition import Partition
from lancekit.index.inverted.postings import Postings

__all__ = ["Shared", "places_of", "shared"]

Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.intp]

#: a list is marked as a whole unless it is so many times as long as the other
_LONGER = 16


@dataclass(frozen=True, eq=False, slots=True)
class Shared:
    """Documents, ascending, and of each of their tokens where its list has them."""

    docs: Numbers
    places: Mapping[str, Places]


def shared(partition: Partition, tokens: Iterable[str]) -> Shared:
    """Return the documents that have all of some tokens."""
    lists: dict[str, Postings] = {}
    for token in tokens:
        found = partition.postings(token)
        if found is None:
            return Shared(np.empty(0, np.uint32), {})
        lists[token] = found
    docs: Numbers | None = None
    places: dict[str, Places] = {}
    for token, found in sorted(lists.items(), key=lambda pair: len(pair[1].docs)):
        if docs is None:
            docs, places[token] = found.docs, np.arange(len(found.docs))
            continue
        mine, theirs = _common(docs, found.docs, len(partition.lengths))
        docs = docs[mine]
        places = {known: at[mine] for known, at in places.items()}
        places[token] = theirs
    return Shared(np.empty(0, np.uint32) if docs is None else docs, places)


def _common(few: Numbers, many: Numbers, documents: int) -> tuple[Places, Places]:
    """Return where each of two lists has what is in both."""
    if not len(few):
        return np.empty(0, np.intp), np.empty(0, np.intp)
    if len(few) * _LONGER < len(many):
        at = np.minimum(np.searchsorted(many, few), len(many) - 1)
        mine = np.flatnonzero(many[at] == few)
        return mine, at[mine]
    marks = _marks(few, documents)
    theirs = np.flatnonzero(marks[many])
    marks[few] = False
    marks[many[theirs]] = True
    return np.flatnonzero(marks[few]), theirs


def places_of(some: Numbers, many: Numbers, documents: int) -> Places:
    """Return where a list of documents has some of them; both ascend.

    Examples
    --------
    >>> places_of(np.array([2, 7], np.uint32), np.array([2, 3, 7], np.uint32), 9).tolist()
    [0, 2]
    """
    if len(some) * _LONGER < len(many):
        return np.searchsorted(many, some)
    return np.flatnonzero(_marks(some, documents)[many])


def _marks(docs: Numbers, documents: int) -> npt.NDArray[np.bool_]:
    marks = np.zeros(documents, bool)
    marks[docs] = True
    return marks
