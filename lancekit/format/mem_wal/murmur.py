"""The hash of 32 bits by which rows are given to buckets (docs/format/memwal.md, 5).

It is Murmur3's, but for the bytes behind the last whole word of a text: each of them is a word.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit.compiled.kernel import kernel
from lancekit.format.arrow_parts import viewed

__all__ = ["hash_long", "hash_short", "hash_texts"]

_Words: TypeAlias = NDArray[np.uint32]

#: values at a time: the temporaries then stay in the processor's cache
_BLOCK = 1 << 13

# The same numbers, wide: products of two do not leave 64 bits.
_FIRST, _SECOND, _ADDED = np.uint64(0xCC9E2D51), np.uint64(0x1B873593), np.uint64(0xE6546B64)
_THIRD, _FOURTH = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
_LOW, _SIGN = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFF00)


@kernel("u1 i8 =u4", saves=100)
def murmur(data: Any, offsets: Any, out: Any) -> int:
    """Do what `_hash_block` does, text by text."""
    for value in range(out.size):
        at, stop = offsets[np.uint64(value)], offsets[np.uint64(value + 1)]
        length = stop - at
        if at < 0 or length < 0 or stop > data.size:
            return -1
        state = np.uint64(0)
        while at < stop:
            word = np.uint64(data[np.uint64(at)])
            if stop - at >= 4:
                word |= np.uint64(data[np.uint64(at + 1)]) << np.uint64(8)
                word |= np.uint64(data[np.uint64(at + 2)]) << np.uint64(16)
                word |= np.uint64(data[np.uint64(at + 3)]) << np.uint64(24)
                at += 4
            else:
                if word >= np.uint64(128):
                    word |= _SIGN
                at += 1
            word = (word * _FIRST) & _LOW
            word = ((word << np.uint64(15)) | (word >> np.uint64(17))) & _LOW
            state ^= (word * _SECOND) & _LOW
            state = ((state << np.uint64(13)) | (state >> np.uint64(19))) & _LOW
            state = (state * np.uint64(5) + _ADDED) & _LOW
        state ^= np.uint64(length) & _LOW
        state = ((state ^ (state >> np.uint64(16))) * _THIRD) & _LOW
        state = ((state ^ (state >> np.uint64(13))) * _FOURTH) & _LOW
        out[np.uint64(value)] = state ^ (state >> np.uint64(16))
    return 0


def _mixed(state: _Words, words: _Words) -> _Words:
    """Take one word more into each state."""
    words = words * np.uint32(0xCC9E2D51)
    words = (words << np.uint32(15)) | (words >> np.uint32(17))
    state = state ^ (words * np.uint32(0x1B873593))
    state = (state << np.uint32(13)) | (state >> np.uint32(19))
    return state * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(state: _Words, lengths: Any) -> _Words:
    state = state ^ lengths
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


def _blocks(count: int) -> list[slice]:
    return [slice(at, at + _BLOCK) for at in range(0, count, _BLOCK)]


def hash_short(numbers: NDArray[Any]) -> _Words:
    """Hash numbers of at most 32 bits, each as one word."""
    out = np.empty(len(numbers), np.uint32)
    for part in _blocks(len(out)):
        words = numbers[part].astype(np.int64).astype(np.uint32)
        out[part] = _finished(_mixed(np.zeros(len(words), np.uint32), words), np.uint32(4))
    return out


def hash_long(numbers: NDArray[Any]) -> _Words:
    """Hash numbers of 64 bits, each as two words."""
    halves = np.ascontiguousarray(numbers).view(np.uint32).reshape(-1, 2)
    out = np.empty(len(halves), np.uint32)
    for part in _blocks(len(out)):
        low = _mixed(np.zeros(len(halves[part]), np.uint32), halves[part, 0])
        out[part] = _finished(_mixed(low, halves[part, 1]), np.uint32(8))
    return out


def hash_texts(texts: pa.Array) -> _Words:
    """Hash the bytes of each value of an array of `large_binary` without nulls."""
    _, places, data = texts.buffers()
    offsets = viewed(places, "<i8")[texts.offset : texts.offset + len(texts) + 1]
    octets = viewed(data)
    out = np.zeros(len(texts), np.uint32)
    call = murmur.ready(len(texts))
    if call is None or call(octets, offsets, out) < 0:
        for part in _blocks(len(out)):
            out[part] = _hash_block(octets, offsets[part.start : part.stop + 1])
    return out


def _hash_block(octets: NDArray[np.uint8], offsets: NDArray[np.int64]) -> _Words:
    starts, lengths = offsets[:-1], np.diff(offsets)
    state = np.zeros(len(lengths), np.uint32)
    # a word begins at any byte
    words: _Words = np.ndarray((max(len(octets) - 3, 0),), "<u4", octets, strides=(1,))
    # one word of all texts that have it, and so on: few texts are long
    place, texts = 0, np.flatnonzero(lengths >= 4)
    while len(texts):
        state[texts] = _mixed(state[texts], words[starts[texts] + place])
        place += 4
        texts = texts[lengths[texts] >= place + 4]
    behind = starts + (lengths & ~3)
    for trailing in range(3):
        texts = np.flatnonzero(lengths & 3 > trailing)
        # unlike Murmur's own: each of them is a word, with its sign
        single = octets[behind[texts] + trailing].view(np.int8)
        state[texts] = _mixed(state[texts], single.astype(np.int32).view(np.uint32))
    return _finished(state, lengths.astype(np.uint32))
