"""Split-block Bloom filters of values: their size, and the bits that values set."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pyarrow as pa
from pyarrow import types

from lancekit.file.kernels.arrow_buffers import byte_width, fixed_bytes
from lancekit.format._xxh64 import hash_binary, hash_words
from lancekit.format.key_filter import add_hashes
from lancekit.index.build.word_order import Words

__all__ = ["filter_bytes", "filter_of", "hashed"]

#: a filter is one block at least, of so many words, in each of which a value sets a bit
_LEAST_BYTES, _WORDS, _WORD_BITS = 32, 8, 32
_LONG_BYTES = 8


def filter_bytes(items: int, probability: float) -> int:
    """Return the size of a filter that takes so many values for others this rarely.

    Examples
    --------
    >>> filter_bytes(8192, 0.00057), filter_bytes(64, 0.01)
    (32768, 128)
    """
    size = _LEAST_BYTES
    while _mistaken(items * _LEAST_BYTES / size) > probability:
        size *= 2
    return size


def _mistaken(items: float) -> float:
    """Return how often a value that is not there is taken for one, by the values of a block.

    How many values a block has is of a Poisson distribution.
    """
    many = np.arange(int(items + 12 * math.sqrt(items)) + 32)
    logs = many * math.log(items) - items - np.concatenate([[0], np.cumsum(np.log(many[1:]))])
    bit_is_set = 1 - (1 - 1 / _WORD_BITS) ** many
    return float((np.exp(logs) * bit_is_set**_WORDS).sum())


def hashed(values: pa.Array) -> Words:
    """Return the hashes of values without nulls: of their bytes, as wide as their type is."""
    kind = values.type
    width = byte_width(kind)
    if width is None:
        text = types.is_string(kind) or types.is_large_string(kind)
        plain = values.cast(pa.large_string()) if text else values
        return hash_binary(cast("pa.LargeBinaryArray", plain.cast(pa.large_binary())))
    raw = np.ascontiguousarray(fixed_bytes(values))
    if width == _LONG_BYTES:
        return hash_words(raw.view("<u8"))
    ends = np.arange(0, len(raw) + 1, width, dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(raw)]
    array = pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
    return hash_binary(cast("pa.LargeBinaryArray", array))


def filter_of(hashes: Words, size: int) -> bytes:
    """Return the filter of some values."""
    return add_hashes(bytes(size), hashes)
