"""Phrases: tokens one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lancekit.index.inverted.analyzer import Token
from lancekit.index.inverted.partition import Partition

__all__ = ["with_phrase"]

Numbers = npt.NDArray[np.uint32]
Keys = npt.NDArray[np.int64]


def with_phrase(
    partition: Partition, phrase: Sequence[Token], docs: Numbers, slop: int
) -> npt.NDArray[np.bool_]:
    """Return which of some documents, that have all tokens of a phrase, have the phrase.

    Parameters
    ----------
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
    found = np.zeros(len(docs), bool)
    found[reached >> _DOCUMENT] = True
    return found


#: a place in a text takes 32 bits, and there is room for what is added to it
_DOCUMENT = 33


def _keys(partition: Partition, token: str, docs: Numbers) -> Keys:
    """Return where a token is: which of ``docs``, and below it the place; ascending."""
    postings = partition.postings(token)
    if postings is None:
        return np.empty(0, np.int64)
    positions = partition.positions(token)
    at = np.searchsorted(docs, postings.docs)
    wanted = docs[np.minimum(at, len(docs) - 1)] == postings.docs
    kept = np.repeat(wanted, postings.counts)
    owners = np.repeat(at, postings.counts)[kept].astype(np.int64)
    keys: Keys = (owners << _DOCUMENT) + positions[kept]
    return keys
