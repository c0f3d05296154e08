"""Phrases: tokens one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lancekit.index.inverted.analyzer import Token
from lancekit.index.inverted.partition import Partition
from lancekit.index.inverted.shared import places_of

__all__ = ["with_phrase"]

Keys = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint32]


def with_phrase(
    partition: Partition, docs: Numbers, *, phrase: Sequence[Token], slop: int
) -> npt.NDArray[np.bool_]:
    """Return which of some documents, that have all tokens of a phrase, have the phrase.

    Parameters
    ----------
    docs
        Ascending.
    slop
        How many words more there may be between a token and the next.
    """
    reached = _keys(partition, phrase[0].text, docs)
    for before, token in pairwise(phrase):
        # the last place from which the token is not too near; it may be too far
        least = reached + (token.position - before.position)
        here = _keys(partition, token.text, docs)
        at = np.searchsorted(least, here, side="right") - 1
        gap = here - least[np.maximum(at, 0)]
        reached = here[(at >= 0) & (gap <= slop)]
        if not len(reached):
            break
    kept = np.zeros(len(docs), bool)
    kept[reached >> _DOCUMENT] = True
    return kept


#: a place in a text takes 32 bits, and there is room for what is added to it
_DOCUMENT = 33


def _keys(partition: Partition, token: str, docs: Numbers) -> Keys:
    """Return where a token is: in which of the documents, and below it the place; ascending."""
    postings = partition.postings(token)
    if postings is None:
        return np.empty(0, np.int64)
    positions = partition.positions(token)
    ends = partition.remembered(token, "ends", lambda one: np.cumsum(one.counts, dtype=np.int64))
    places = places_of(docs, postings.docs, len(partition.lengths))
    counts, last = postings.counts[places].astype(np.int64), ends[places]
    owners = np.repeat(np.arange(len(places), dtype=np.int64), counts)
    # the last place of a document, less how many of its own are still to come
    at = np.arange(len(owners)) + np.repeat(last - np.cumsum(counts), counts)
    keys: Keys = (owners << _DOCUMENT) + positions[at]
    return keys
