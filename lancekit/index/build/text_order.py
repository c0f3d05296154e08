"""The order of text and bytes, by some bytes of all values at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit.format.arrow_parts import viewed
from lancekit.index.build.word_order import Places, Words, stable_order

__all__ = ["text_order"]

_WORD = 8
#: values that are alike in more bytes than this are not sorted here
_MOST_BYTES = 96
#: of a number that is sorted, so many bits say how many bytes are left of the value
_LEFT_BITS = 4
_LEFT = np.uint64((1 << _LEFT_BITS) - 1)
#: keeps the first 0, 1, ... 8 bytes of a word
_FIRST = np.array([(1 << 64) - (1 << 8 * (_WORD - n)) for n in range(_WORD + 1)], np.uint64)


def text_order(values: pa.Array) -> Places | None:
    """Return the places of strings or binary without nulls in the order of their bytes.

    Of equal ones the first comes first.  ``None`` if long beginnings of them are alike.
    """
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, ends, data = values.buffers()
    bounds = viewed(ends, np.int64 if wide else np.int32)
    bounds = bounds[values.offset : values.offset + len(values) + 1].astype(np.int64)
    # a word that begins at the last byte has bytes behind it
    raw = np.concatenate([viewed(data)[bounds[0] : bounds[-1]], np.zeros(_WORD, np.uint8)])
    words = np.ndarray((len(raw) - _WORD + 1,), ">u8", raw, strides=(1,))
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)

    # a rank is the number of values that come before, of those alike before the first of them
    ranks = np.zeros(len(values), np.uint64)
    tied, groups, at = np.arange(len(values)), np.zeros(len(values), np.uint64), 0
    while len(tied):
        if at >= _MOST_BYTES:
            return None
        size = min(_WORD * 8 - _LEFT_BITS - int(groups[-1]).bit_length(), 56) // 8
        left = np.minimum(lengths[tied] - at, size + 1)
        kept = words[starts[tied] + at] & _FIRST[np.minimum(left, size)]
        # those that end are told from those with zeros behind by what is left of them
        keys = kept.astype(np.uint64) >> np.uint64(8 * (_WORD - size) - _LEFT_BITS)
        keys |= left.view(np.uint64) | groups << np.uint64(8 * size + _LEFT_BITS)
        order = np.argsort(keys)
        tied, keys = tied[order], keys[order]
        # they are still in order of their groups
        firsts = np.flatnonzero(_changes(groups))
        news = np.flatnonzero(_changes(keys))
        sizes = np.diff(news, append=len(keys))
        found = ranks[tied[news]] + (news - firsts[groups[news]]).astype(np.uint64)
        ranks[tied] = np.repeat(found, sizes)
        alike = (sizes > 1) & (keys[news] & _LEFT > size)
        tied = tied[np.repeat(alike, sizes)]
        groups = np.repeat(np.arange(alike.sum(), dtype=np.uint64), sizes[alike])
        at += size
    return stable_order(ranks)


def _changes(ordered: Words) -> npt.NDArray[np.bool_]:
    """Return which numbers are not those before them."""
    found = np.ones(len(ordered), bool)
    found[1:] = ordered[1:] != ordered[:-1]
    return found
