"""Runs of equal values, written out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancekit.compiled.kernel import kernel
from lancekit.file.kernels.memory import Bytes, Ints, scratch

__all__ = ["repeated"]

#: NumPy repeats as fast where runs are so long.
_LONG = 64


@kernel("T u1 i8 i8 int =T", over="u1 u2 u4 u8", saves=2)
def repeat(values: Any, lengths: Any, runs: Any, counts: Any, clip: int, out: Any) -> int:
    """Repeat values, of which each chunk has so many; it holds so many when they are repeated.

    With ``clip`` its runs may reach beyond that.  There is room for eight more than all values.
    """
    run, after = 0, 0
    for chunk in range(counts.size):
        count, stop = counts[np.uint64(chunk)], run + runs[np.uint64(chunk)]
        if stop < run or stop > values.size or stop > lengths.size:
            return -1
        if count < 0 or after + count + 8 > out.size:
            return -1
        end = after + count
        while run < stop:
            length = int(lengths[np.uint64(run)])
            if length > end - after:
                if clip == 0:
                    return -1
                length = end - after
            value = values[np.uint64(run)]
            for at in range(after, after + length, 8):
                for step in range(8):  # what is too much is written over, or room
                    out[np.uint64(at + step)] = value
            after += length
            run += 1
        if after != end:
            return -1
    return 0


def repeated(
    values: NDArray[Any], lengths: Bytes, runs: Ints, counts: Ints, *, clip: bool
) -> NDArray[Any] | None:
    """Return the values of all chunks, each as often as its length says.

    ``None`` if that is not compiled, or not worth it, or if something is wrong: NumPy says what.
    """
    total = int(counts.sum())
    if values.dtype.kind != "u" or total > _LONG * len(values):
        return None
    if (call := repeat.ready(total)) is None:
        return None
    out: NDArray[Any] = scratch((total + 8) * values.dtype.itemsize).view(values.dtype)
    return out[:total] if call(values, lengths, runs, counts, clip, out) >= 0 else None
