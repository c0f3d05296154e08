"""BM25 scores of documents.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lancekit._index.inverted.analyzer import Token
from lancekit._index.inverted.partition import Partition
from lancekit._index.inverted.postings import Postings
from lancekit._index.row_sets import among

Numbers = npt.NDArray[np.uint32]
Scores = npt.NDArray[np.float32]

_K1, _B = np.float32(1.2), np.float32(0.75)
_ONE, _HALF = np.float32(1), np.float32(0.5)
#: scores are summed in an array of all documents if at least one document in this many matches
_DENSE = 8


@dataclass(frozen=True, slots=True)
class Statistics:
    """The number of documents and tokens, and the number of documents with each of some tokens."""

    documents: int
    tokens: float
    frequencies: Mapping[str, int]

    @classmethod
    def of(cls, partitions: Sequence[Partition], tokens: Sequence[str]) -> Statistics:
        """Return the statistics of partitions that are scored together."""
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
        """Return the inverse document frequency of a token."""
        there = np.float32(self.frequencies[token])
        absent = np.float32(self.documents) - there
        idf: np.float32 = np.log((absent + _HALF) / (there + _HALF) + _ONE)
        return idf

    def shares(self, counts: Numbers | Scores, lengths: Numbers | Scores) -> Scores:
        """Return the share of a token's weight for documents with given counts and lengths."""
        often = counts.astype(np.float32)
        norms = _K1 * (_ONE - _B + _B * lengths.astype(np.float32) / self.mean_length)
        return np.divide(often, often + norms, dtype=np.float32)

    @property
    def mean_length(self) -> np.float32:
        """The mean number of tokens of a document."""
        return np.float32(self.tokens) / np.float32(max(self.documents, 1))


@dataclass(frozen=True, eq=False, slots=True)
class Matches:
    """Ascending documents, and their scores."""

    docs: Numbers
    scores: Scores


def any_token(partition: Partition, tokens: Sequence[str], statistics: Statistics) -> Matches:
    """Score the documents that have any of some tokens; a repeated token counts again."""
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
    """Score the documents that have a token of each group, by all `tokens` that they have.

    A group without tokens matches no document.
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
    """Return the upper bounds of tokens' scores, given their rarities."""
    found: Scores = rarities * (_K1 + _ONE) * np.float32(times)
    return found


def _weight(token: str, times: int, statistics: Statistics) -> Scores:
    return weights(np.array(statistics.rarity(token)), times)


def _shares(partition: Partition, token: str, statistics: Statistics) -> Scores:
    """Return each document's share of a token's weight."""
    return partition.remembered(
        token,
        f"shares of {statistics.mean_length}",
        lambda found: statistics.shares(found.counts, partition.scored_lengths[found.docs]),
    )


def _sum(parts: Sequence[Matches], documents: int) -> Matches:
    """Add the scores of several results, given the number of documents in the partition."""
    if not parts:
        return Matches(np.empty(0, np.uint32), np.empty(0, np.float32))
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
    order = np.argsort(docs, kind="stable")  # merges sorted runs
    docs = docs[order]
    firsts = np.flatnonzero(np.append(True, docs[1:] != docs[:-1]))
    scores = np.concatenate([part.scores for part in parts])[order]
    return Matches(docs[firsts], np.add.reduceat(scores, firsts))


# ---- documents that have all of some tokens, and their indices in the posting lists

Places = npt.NDArray[np.intp]

#: a list is searched by bisection if it is more than this many times as long as the other
_LONGER = 16


@dataclass(frozen=True, eq=False, slots=True)
class _Shared:
    """Ascending documents, and their indices in each token's posting list."""

    docs: Numbers
    places: Mapping[str, Places]


def shared(partition: Partition, tokens: Iterable[str]) -> _Shared:
    """Return the documents that have all of some tokens."""
    lists: dict[str, Postings] = {}
    for token in tokens:
        found = partition.postings(token)
        if found is None:
            return _Shared(np.empty(0, np.uint32), {})
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
    return _Shared(np.empty(0, np.uint32) if docs is None else docs, places)


def _common(few: Numbers, many: Numbers, documents: int) -> tuple[Places, Places]:
    """Return the indices of the common documents in each of two lists."""
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
    """Return the indices of some documents in a list; both ascend.

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


# ---- phrases: tokens one after the other

Keys = npt.NDArray[np.int64]


def with_phrase(
    partition: Partition, docs: Numbers, *, phrase: Sequence[Token], slop: int
) -> npt.NDArray[np.bool_]:
    """Return a mask of documents that have a phrase, given documents with all its tokens.

    docs: ascending.
    slop: the most other words between a token and the next.
    """
    reached = _keys(partition, phrase[0].text, docs)
    for before, token in pairwise(phrase):
        # the nearest earlier position that leaves room for the words between; it may be too far
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


#: the shift of the document's index: a position takes 32 bits, and an addition one more
_DOCUMENT = 33


def _keys(partition: Partition, token: str, docs: Numbers) -> Keys:
    """Return the ascending positions of a token, with the document's index in the upper bits."""
    postings = partition.postings(token)
    if postings is None:
        return np.empty(0, np.int64)
    positions = partition.positions(token)
    ends = partition.remembered(token, "ends", lambda one: np.cumsum(one.counts, dtype=np.int64))
    places = places_of(docs, postings.docs, len(partition.lengths))
    counts, last = postings.counts[places].astype(np.int64), ends[places]
    owners = np.repeat(np.arange(len(places), dtype=np.int64), counts)
    # the last position of a document, minus the number of its positions that follow
    at = np.arange(len(owners)) + np.repeat(last - np.cumsum(counts), counts)
    keys: Keys = (owners << _DOCUMENT) + positions[at]
    return keys
