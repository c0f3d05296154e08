"""Moving bytes: aligned views, pieces gathered into one buffer, ranges fetched from a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from lancekit import _arrow_kernels as ak
from lancekit._file.kernels.faults import require
from lancekit._format.arrow_parts import strings_of
from lancekit._storage.base import RandomAccess

if TYPE_CHECKING:
    from collections.abc import Buffer

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
#: of strings or lists: int32 or int64
Offsets = NDArray[np.signedinteger]

#: Bytes of a buffer that Arrow's pool is asked for at most.
_POOLED = 1 << 20

#: Bytes of pieces that lie evenly, for each of which a few steps of Python are no loss.
_RUN_BYTES = 1 << 14

_OUTSIDE = "a chunk reaches outside of its page"

#: the address and the size of memory
Room: TypeAlias = tuple[int, int]

_noted: ContextVar[list[Room] | None] = ContextVar("set_aside", default=None)


def scratch(size: int) -> Bytes:
    """Return uninitialised memory that starts on a multiple of 64 bytes.

    What is small comes from Arrow's pool, which reuses pages that are mapped already: the faults of
    fresh ones cost as much as a decoder.  Of large buffers that pool takes, and keeps, far more
    memory than they need.
    """
    pool = pa.system_memory_pool() if size > _POOLED else None
    buffer = pa.allocate_buffer(size, memory_pool=pool)
    if (noted := _noted.get()) is not None:
        noted.append((buffer.address, size))
    out: Bytes = np.frombuffer(buffer, np.uint8)
    return out


@contextmanager
def set_aside() -> Iterator[list[Room]]:
    """Note what `scratch` returns while the block runs, in this thread."""
    rooms: list[Room] = []
    token = _noted.set(rooms)
    try:
        yield rooms
    finally:
        _noted.reset(token)


def as_bytes(data: Buffer) -> Bytes:
    """Return a byte view of a buffer that starts on a multiple of 8, copied only if it must be.

    Decoders view it as 64-bit words, and Arrow's consumers in other languages rely on alignment.
    """
    out: Bytes = np.frombuffer(data, np.uint8)
    if out.size and out.ctypes.data % 8:
        copy = scratch(out.size)
        copy[:] = out
        return copy
    return out


def view(data: Bytes, dtype: DTypeLike) -> NDArray[Any]:
    """View whole elements of ``dtype``; odd bytes at the end are left out."""
    size = np.dtype(dtype).itemsize
    return data[: data.size // size * size].view(dtype)


def owned(array: pa.Array, rooms: Sequence[Room] = ()) -> pa.Array:
    """Return an array in memory of its own: no view of a file, or of a larger block.

    It is copied, unless it fills ``rooms`` that were set aside for it.
    """
    if isinstance(array, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(
            owned(array.indices, rooms),
            owned(array.dictionary, rooms),
            ordered=array.type.ordered,
            safe=False,
        )
    if all(_fills(buffer, rooms) for buffer in array.buffers() if buffer is not None):
        return array
    # Of a single array it would make no copy.  The default pool takes several times as long for
    # fresh memory of this size, and gives it back late.
    return ak.concat_arrays([array, array[:0]], memory_pool=pa.system_memory_pool())


def _fills(buffer: pa.Buffer, rooms: Sequence[Room]) -> bool:
    """Return whether a buffer lies in memory that is hardly larger."""
    begin, size = buffer.address, buffer.size
    return any(
        start <= begin and begin + size <= start + room <= start + size + size // 16
        for start, room in rooms
    )


def starts_of(lengths: NDArray[np.generic]) -> Ints:
    """Return the running total with a leading zero: starts, and the end of the last."""
    out = np.empty(len(lengths) + 1, np.int64)
    out[0] = 0
    np.add.accumulate(lengths, out=out[1:])
    return out


def ranges(starts: NDArray[np.integer], lengths: NDArray[np.integer]) -> Ints:
    """Return every position of the ranges, in order."""
    before = starts_of(lengths)
    return np.arange(before[-1]) + np.repeat(starts - before[:-1], lengths)


def gather(data: Bytes, starts: Ints, lengths: Ints, room: int = 0) -> Bytes:
    """Copy pieces of ``data``, in the order given, back to back.

    The pieces must ascend and not overlap.  With ``room``, so many bytes of any content lie before
    them and behind them, the result is writable, and the first piece must not be shorter.
    """
    if len(starts) == 0:
        return np.empty(0, np.uint8)
    if len(starts) == 1 and not room:
        start, size = int(starts[0]), int(lengths[0])
        require(start >= 0 and 0 <= size <= data.size - start, _OUTSIDE)
        return data[start : start + size]
    stops = starts + lengths
    require(
        starts[0] >= 0
        and stops[-1] <= data.size
        and (lengths >= 0).all()
        and (starts[1:] >= stops[:-1]).all(),
        _OUTSIDE,
    )
    if not room and (starts[1:] == stops[:-1]).all():
        return data[starts[0] : stops[-1]]
    total = int(lengths.sum())
    # chunks of a page are as long and as far apart as its first, but for the last
    stride = int(starts[1] - starts[0]) if len(starts) > 1 else 0
    odd = (lengths[1:] != lengths[:-1]) | (starts[1:] - starts[:-1] != stride)
    if np.count_nonzero(odd) * _RUN_BYTES <= total:
        return _gather_runs(data, starts, lengths, stride, np.flatnonzero(odd) + 1, room)
    # Arrow copies the pieces: seen as a binary array whose elements are gap, first bytes of the
    # first piece, its rest, gap, piece, gap, piece ...
    borders = np.empty(2 * len(starts) + 2, np.int64)
    borders[0] = 0
    borders[1] = starts[0]
    borders[2::2] = starts
    borders[3::2] = stops
    borders[2] += room
    wanted = np.arange(0, 2 * len(starts) + 1, 2)
    wanted[0] = 1
    if room:
        wanted = np.concatenate(([1], wanted, [1]))
    joined = ak.take(strings_of(borders, data), wanted).buffers()[2]
    if joined is None:
        return np.empty(0, np.uint8)
    return np.frombuffer(joined, np.uint8)[: total + 2 * room]


def _gather_runs(
    data: Bytes, starts: Ints, lengths: Ints, stride: int, breaks: Ints, room: int
) -> Bytes:
    """Copy pieces that are in runs: in one, all begin ``stride`` bytes apart and are as long."""
    out = scratch(int(lengths.sum()) + 2 * room)
    place = room
    firsts = [0, *breaks.tolist()]
    for first, after in zip(firsts, [*firsts[1:], len(starts)], strict=True):
        shape = after - first, int(lengths[first])
        pieces: Bytes = np.ndarray(shape, np.uint8, data, int(starts[first]), (stride, 1))
        out[place : place + pieces.size].reshape(shape)[:] = pieces
        place += pieces.size
    return out


def fetch(source: RandomAccess, base: int, starts: Ints, stops: Ints) -> tuple[Bytes, Ints]:
    """Read ascending byte ranges, relative to ``base``, with nearby ones merged.

    Returns
    -------
    The bytes read, and where in them each range starts.  Ranges that start on a multiple of 8
    do so in the result too.
    """
    if len(starts) == 0:
        return np.empty(0, np.uint8), np.empty(0, np.int64)
    begins = starts & ~np.int64(7)
    # bytes at odd places are copied, so no more of them than must be
    gap = source.gap if base % 8 == 0 else 0
    breaks = np.flatnonzero(begins[1:] - stops[:-1] > gap) + 1
    if len(breaks) == 0:
        first = int(begins[0])
        span = base + first, int(stops[-1]) - first
        # what is here and there in a long range is not read as a whole, and not let go of as such
        sparse = int((stops - starts).sum()) < span[1] // 2
        data = source.read_many([span])[0] if sparse else source.read(*span)
        return as_bytes(data), starts - first
    firsts = begins[np.concatenate(([0], breaks))]
    lengths = stops[np.concatenate((breaks - 1, [len(stops) - 1]))] - firsts
    parts = source.read_many(list(zip((base + firsts).tolist(), lengths.tolist(), strict=True)))
    places = starts_of(-(-lengths // 8) * 8)
    out = scratch(int(places[-1]))
    for place, part in zip(places.tolist(), parts, strict=False):
        out[place : place + part.size] = np.frombuffer(part, np.uint8)
    merged = np.zeros(len(starts), np.int64)
    merged[breaks] = 1
    group = np.cumsum(merged)
    return out, starts - firsts[group] + places[:-1][group]
