"""Whether strings are text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit._compiled.kernel import kernel
from lancekit._file.kernels.memory import Bytes

__all__ = ["is_text"]


@kernel("u1 T", over="i4 i8", saves=1.1)
def are_characters(data: Any, offsets: Any) -> int:
    """Return 0 if strings are UTF-8, seen as one in which none of them begins in a character.

    What a byte has to be follows from the three before it, so that many are looked at at once.
    """
    begin, end = offsets[np.uint64(0)], offsets[np.uint64(offsets.size - 1)]
    if begin < 0 or end < begin or end > data.size:
        return -1
    bad = False
    first = min(begin + 3, end)
    for at in range(begin, first):
        one = data[np.uint64(at)]
        before, second = 0, 0
        if at > begin:
            before = int(data[np.uint64(at - 1)])
        if at > begin + 1:
            second = int(data[np.uint64(at - 2)])
        bad |= ((one & 0xC0) == 0x80) != ((before >= 0xC0) | (second >= 0xE0))
        bad |= (one == 0xC0) | (one == 0xC1) | (one >= 0xF5)
        bad |= ((before == 0xE0) & (one < 0xA0)) | ((before == 0xED) & (one > 0x9F))
        bad |= ((before == 0xF0) & (one < 0x90)) | ((before == 0xF4) & (one > 0x8F))
    for at in range(first, end):
        one = data[np.uint64(at)]
        last, second, third = (
            data[np.uint64(at - 1)],
            data[np.uint64(at - 2)],
            data[np.uint64(at - 3)],
        )
        # follows a byte that says so, and only then
        bad |= ((one & 0xC0) == 0x80) != ((last >= 0xC0) | (second >= 0xE0) | (third >= 0xF0))
        bad |= (one == 0xC0) | (one == 0xC1) | (one >= 0xF5)
        # longer than it needs to be, a surrogate, or beyond the last character
        bad |= ((last == 0xE0) & (one < 0xA0)) | ((last == 0xED) & (one > 0x9F))
        bad |= ((last == 0xF0) & (one < 0x90)) | ((last == 0xF4) & (one > 0x8F))
    for back in range(1, 4):  # what the last bytes say must follow does not
        if end - back >= begin:
            bad |= data[np.uint64(end - back)] >= 256 - (128 >> back)
    for value in range(offsets.size - 1):
        at = offsets[np.uint64(value)]
        if at < begin or at > end:
            return -1
        if at < end:
            bad |= (data[np.uint64(at)] & 0xC0) == 0x80
    return -1 if bad else 0


def is_text(array: pa.Array, offsets: NDArray[Any], data: Bytes) -> bool:
    """Return whether strings, between ``offsets`` of ``data``, are UTF-8; binary always is well.

    Most text is ASCII, of which that is seen ten times as fast.  Other text is looked at as one
    string, in which none of the many may begin inside of a character; Arrow takes three times as
    long for them one by one, and is asked only where that fails, as it may for bytes behind nulls.
    """
    kind = array.type
    begin, end = int(offsets[0]), int(offsets[-1])
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or begin == end:
        return True
    if data[begin:end].max() < 128:
        return True
    if (call := are_characters.ready(end - begin)) is not None and call(data, offsets) == 0:
        return True
    whole = pa.Array.from_buffers(
        kind, 1, [None, pa.py_buffer(offsets[[0, -1]]), pa.py_buffer(data)]
    )
    firsts = data.take(offsets[: np.searchsorted(offsets, end)])
    if _is_valid(whole) and not (firsts & 0xC0 == 0x80).any():
        return True
    return _is_valid(array)


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
