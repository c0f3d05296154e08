"""The order of text and bytes, by eight bytes of all values at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit.format.arrow_parts import viewed
from lancekit.index.build.word_order import Places, Words, stable_order

__all__ = ["text_order"]

_WORD = 8
#: values that are alike in more bytes than this many words have are not sorted here
_MOST_WORDS = 12


def text_order(values: pa.Array) -> Places | None:
    """Return the places of strings or binary without nulls in the order of their bytes.

    Of equal ones the first comes first.  ``None`` if long beginnings of them are alike.
    """
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, ends, data = values.buffers()
    bounds = viewed(ends, np.int64 if wide else np.int32)
    bounds = bounds[values.offset : values.offset + len(values) + 1].astype(np.int64)
    if not len(values):
        return np.arange(0)
    # a word that begins at the last byte has bytes behind it
    raw = np.concatenate([viewed(data)[bounds[0] : bounds[-1]], np.zeros(_WORD, np.uint8)])
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)
    words = np.ndarray((len(raw) - _WORD + 1,), ">u8", raw, strides=(1,))

    ranks = np.zeros(len(values), np.uint64)
    tied = np.arange(len(values))
    for at in range(0, _MOST_WORDS * _WORD, _WORD):
        left = np.clip(lengths[tied] - at, 0, _WORD)
        longest = int(left.max())
        if not longest:  # all bytes are alike but zeros at the end, which no word tells
            _refine(ranks, tied, lengths[tied].astype(np.uint64))
            return stable_order(ranks)
        places = np.minimum(starts[tied] + at, len(words) - 1)
        found = words[places].astype(np.uint64)
        # bytes of the next value are cut off
        found = found >> ((_WORD - left) * 8 % 64).astype(np.uint64)
        found = np.where(left == 0, 0, found << ((longest - left) * 8).astype(np.uint64))
        tied = _refine(ranks, tied, found)
        if not len(tied):
            return stable_order(ranks)
    return None


def _refine(ranks: Words, tied: Places, words: Words) -> Places:
    """Tell values of the same rank apart by words; return the places of those still alike.

    A rank is the number of values that come before.
    """
    before = ranks[tied]
    order = _order_by(before, words)
    before, words = before[order], words[order]
    first = np.flatnonzero(_changes(before))
    starts = np.flatnonzero(_changes(before) | _changes(words))
    sizes = np.diff(starts, append=len(order))
    # where the group of the old rank begins among those that are looked at
    begins = first[np.searchsorted(first, starts, "right") - 1]
    found = before[starts] + (starts - begins).astype(np.uint64)
    sorted_places = tied[order]
    ranks[sorted_places] = np.repeat(found, sizes)
    return sorted_places[np.repeat(sizes > 1, sizes)]


def _order_by(ranks: Words, words: Words) -> Places:
    """Return the places by rank, then word."""
    least = words.min()
    bits = int(words.max() - least).bit_length()
    if int(ranks.max()).bit_length() + bits > _WORD * 8:
        order = np.argsort(words)
        dense = np.empty(len(words), np.uint64)
        dense[order] = np.cumsum(_changes(words[order]), dtype=np.uint64)
        words, least, bits = dense, np.uint64(0), len(words).bit_length()
    # a whole word leaves no bit for ranks, which are all 0 then
    return stable_order(ranks << np.uint64(bits % (_WORD * 8)) | (words - least))


def _changes(ordered: Words) -> npt.NDArray[np.bool_]:
    """Return which numbers are not those before them."""
    found = np.ones(len(ordered), bool)
    found[1:] = ordered[1:] != ordered[:-1]
    return found
