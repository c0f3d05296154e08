"""Which texts hold a given one: looked for in all of them at once, as the bytes that they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import arrow_compute as pc
from lancekit import arrow_kernels as ak
from lancekit.arrow_values import scalar_of
from lancekit.file.kernels import bits
from lancekit.format.arrow_parts import viewed

__all__ = ["contains"]

#: The first bytes are compared at every place, the others where these were found.
_EVERYWHERE = 4

#: More places than one in so many bytes are sooner found text by text.
_RARE = 32


def contains(texts: pa.Array, wanted: str) -> pa.Array:
    """Tell for each text whether it holds another one; null for null.

    Examples
    --------
    >>> contains(pa.array(["abc", "b", None, ""]), "b").to_pylist()
    [True, True, None, False]
    """
    needle = wanted.encode()
    if not needle or not len(texts) or texts.buffers()[2] is None:
        return pc.match_substring(texts, wanted)
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    borders = viewed(texts.buffers()[1], kind)[texts.offset :][: len(texts) + 1]
    first, last = int(borders[0]), int(borders[-1])
    found = _places(viewed(texts.buffers()[2])[first:last], needle)
    if found is None:
        return pc.match_substring(texts, wanted)
    places = found + first
    owners = np.searchsorted(borders, places, "right") - 1
    flags = np.zeros(len(texts), bool)
    # what begins in one text may end in the next
    flags[owners[places + len(needle) <= borders[owners + 1]]] = True
    bitmap = pa.py_buffer(bits.pack(flags))
    whole = pa.Array.from_buffers(pa.bool_(), len(texts), [None, bitmap])
    if not ak.null_count(texts):
        return whole
    return pc.if_else(texts.is_valid(), whole, scalar_of(None, pa.bool_()))


def _places(data: NDArray[np.uint8], needle: bytes) -> NDArray[Any] | None:
    """Return where bytes occur; ``None`` if their beginning is not rare."""
    last = len(data) - len(needle) + 1
    if last <= 0:
        return np.empty(0, np.int64)
    same = data[:last] == needle[0]
    for place, byte in enumerate(needle[1:_EVERYWHERE], start=1):
        same &= data[place : place + last] == byte
    if np.count_nonzero(same) > last // _RARE:
        return None
    places = np.flatnonzero(same)
    for place, byte in enumerate(needle[_EVERYWHERE:], start=_EVERYWHERE):
        places = places[data[places + place] == byte]
    return places
