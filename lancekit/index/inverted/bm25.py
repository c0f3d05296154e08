"""BM25: how well documents answer to some tokens.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit.index.ascending import among
from lancekit.index.inverted.partition import Partition
from lancekit.index.inverted.shared import shared

__all__ = ["Matches", "Statistics", "all_tokens", "any_token", "one_of_each", "weights"]

Numbers = npt.NDArray[np.uint32]
Scores = npt.NDArray[np.float32]

_K1, _B = np.float32(1.2), np.float32(0.75)
_ONE, _HALF = np.float32(1), np.float32(0.5)
#: scores are added up for all documents at once if one in so many has one
_DENSE = 8


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of all documents: how many there are, their tokens, and in how many some tokens are."""

    documents: int
    tokens: float
    frequencies: Mapping[str, int]

    @classmethod
    def of(cls, partitions: Sequence[Partition], tokens: Sequence[str]) -> Statistics:
        """Count, over partitions that are scored together."""
        return cls(
            sum(len(partition.lengths) for partition in partitions),
            sum(partition.num_tokens for partition in partitions),
            {
                token: sum(partition.frequency(token) for partition in partitions)
                for token in set(tokens)
            },
        )

    def __add__(self, other: Statistics) -> Statistics:
        both = {
            token: number + other.frequencies[token] for token, number in self.frequencies.items()
        }
        return Statistics(self.documents + other.documents, self.tokens + other.tokens, both)

    def rarity(self, token: str) -> np.float32:
        """Return what a token tells: the more, the fewer documents have it."""
        there = np.float32(self.frequencies[token])
        absent = np.float32(self.documents) - there
        told: np.float32 = np.log((absent + _HALF) / (there + _HALF) + _ONE)
        return told

    def shares(self, counts: Numbers | Scores, lengths: Numbers | Scores) -> Scores:
        """Return how much of a token's weight documents get that have it so often."""
        often = counts.astype(np.float32)
        norms = _K1 * (_ONE - _B + _B * lengths.astype(np.float32) / self.mean_length)
        return np.divide(often, often + norms, dtype=np.float32)

    @property
    def mean_length(self) -> np.float32:
        """The tokens of a document."""
        return np.float32(self.tokens) / np.float32(max(self.documents, 1))


@dataclass(frozen=True, eq=False, slots=True)
class Matches:
    """Documents, ascending, and their scores."""

    docs: Numbers
    scores: Scores


def any_token(partition: Partition, tokens: Sequence[str], statistics: Statistics) -> Matches:
    """Score the documents that have one of some tokens; one that is repeated counts again."""
    parts = [
        Matches(
            found.docs, _weight(token, times, statistics) * _shares(partition, token, statistics)
        )
        for token, times in Counter(tokens).items()
        if (found := partition.postings(token)) is not None
    ]
    return _sum(parts, len(partition.lengths))


def all_tokens(partition: Partition, tokens: Sequence[str], statistics: Statistics) -> Matches:
    """Score the documents that have all of some tokens."""
    found = shared(partition, Counter(tokens))
    total = np.zeros(len(found.docs), np.float32)
    for token, times in Counter(tokens).items() if len(total) else ():
        share = _shares(partition, token, statistics)[found.places[token]]
        np.add(total, _weight(token, times, statistics) * share, out=total)
    return Matches(found.docs, total)


def one_of_each(
    partition: Partition,
    tokens: Sequence[str],
    statistics: Statistics,
    groups: Sequence[Sequence[str]],
) -> Matches:
    """Score the documents that have a token of each of some groups, by all `tokens` that they have.

    A group without tokens is in no document.
    """
    found = any_token(partition, tokens, statistics)
    kept = np.ones(len(found.docs), bool)
    for group in groups:
        there = np.zeros(len(found.docs), bool)
        for token in set(group):
            postings = partition.postings(token)
            if postings is not None:
                there |= among(found.docs, postings.docs)
        kept &= there
    return Matches(found.docs[kept], found.scores[kept])


def weights(rarities: Scores, times: int) -> Scores:
    """Return what tokens add to a score at most, by their rarities."""
    found: Scores = rarities * (_K1 + _ONE) * np.float32(times)
    return found


def _weight(token: str, times: int, statistics: Statistics) -> Scores:
    return weights(np.array(statistics.rarity(token)), times)


def _shares(partition: Partition, token: str, statistics: Statistics) -> Scores:
    """Return of each document with a token how much of the token's weight it gets."""
    return partition.remembered(
        token,
        f"shares of {statistics.mean_length}",
        lambda found: statistics.shares(found.counts, partition.scored_lengths[found.docs]),
    )


def _sum(parts: Sequence[Matches], documents: int) -> Matches:
    if not parts:
        return _nothing()
    if len(parts) == 1:
        return parts[0]
    found = sum(len(part.docs) for part in parts)
    if found * _DENSE >= documents:
        total = np.zeros(documents, np.float32)
        total[parts[0].docs] = parts[0].scores
        for part in parts[1:]:
            total[part.docs] += part.scores
        docs = np.flatnonzero(total > 0).astype(np.uint32)
        return Matches(docs, total[docs])
    docs = np.concatenate([part.docs for part in parts])
    order = np.argsort(docs, kind="stable")  # merges what is in order already
    docs = docs[order]
    firsts = np.flatnonzero(np.append(True, docs[1:] != docs[:-1]))
    scores = np.concatenate([part.scores for part in parts])[order]
    return Matches(docs[firsts], np.add.reduceat(scores, firsts))


def _nothing() -> Matches:
    return Matches(np.empty(0, np.uint32), np.empty(0, np.float32))
