"""Tokens that are spelt almost as others.

What is counted is how many letters are put in, left out or exchanged; the first tokens by their
code points are taken, of all that are near enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak

__all__ = ["Spelling", "alternatives", "near"]

#: code points that are compared at a time
_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True)
class Spelling:
    """How far tokens may be from those that are asked for.

    Attributes
    ----------
    edits
        How many letters may differ.
    prefix
        How many bytes at the beginning may not.
    most
        How many tokens are looked for in the place of all that are asked for.
    """

    edits: int
    prefix: int = 0
    most: int = 50


def alternatives(
    tokens: Sequence[str], vocabularies: Sequence[pa.Array], spelling: Spelling
) -> list[list[str]]:
    """Return for each token those that count for it, as long as there may be more.

    Examples
    --------
    >>> words = pa.array(["bellow", "hallo", "hello", "help"])
    >>> alternatives(["hello", "help"], [words], Spelling(1, most=3))
    [['hallo', 'hello'], ['help']]
    """
    found: list[list[str]] = []
    left = spelling.most
    for token in tokens:
        each = [near(words, token, spelling) for words in vocabularies] if left else []
        found.append(list(islice(dict.fromkeys(merge(*each)), left)))
        left -= len(found[-1])
    return found


def near(words: pa.Array, token: str, spelling: Spelling) -> list[str]:
    """Return which of some words are spelt almost as a token, ascending."""
    sizes = pc.utf8_length(words).to_numpy(zero_copy_only=False)
    chosen = ak.filter(words, np.abs(sizes - len(token)) <= spelling.edits)
    prefix = token.encode()[: spelling.prefix]
    if prefix:
        chosen = ak.filter(chosen, pc.starts_with(chosen.cast(pa.binary()), prefix))
    step = max(_AT_ONCE // max(len(token), 1), 1)
    parts = (chosen.slice(at, step) for at in range(0, len(chosen), step))
    kept = [ak.filter(part, _distances(part, token) <= spelling.edits) for part in parts]
    return sorted(text for part in kept for text in part.to_pylist())


def _distances(words: pa.Array, token: str) -> npt.NDArray[np.int32]:
    """Return how many letters of some words have to be changed to get a token."""
    sizes = pc.utf8_length(words).to_numpy(zero_copy_only=False)
    width = int(sizes.max(initial=0))
    if not width:
        return np.full(len(words), len(token), np.int32)
    texts = np.array(words.to_pylist(), f"U{width}")
    letters = np.ascontiguousarray(texts.view(np.uint32).reshape(-1, width).T)
    # row j: what the first j letters of each word cost, for the letters of the token so far
    count = np.arange(width + 1, dtype=np.int32)[:, np.newaxis]
    costs = np.broadcast_to(count, (width + 1, len(words)))
    for letter in map(ord, token):
        best = np.empty_like(costs)
        best[0] = costs[0] + 1
        np.minimum(costs[:-1] + (letters != letter), costs[1:] + 1, out=best[1:])
        costs = np.minimum.accumulate(best - count) + count
    found: npt.NDArray[np.int32] = costs[sizes, np.arange(len(words))]
    return found
