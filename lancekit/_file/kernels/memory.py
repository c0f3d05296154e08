"""Buffers: aligned allocation, gathering of pieces, and reads of byte ranges from a file."""

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
#: offsets of strings or lists: int32 or int64
Offsets = NDArray[np.signedinteger]

#: Maximum bytes of a buffer that Arrow's default pool allocates.
_POOLED = 1 << 20

#: Bytes that each run of evenly spaced pieces must have to pay for its Python steps.
_RUN_BYTES = 1 << 14

_OUTSIDE = "a chunk reaches outside of its page"

#: address and size of a block of memory
Span: TypeAlias = tuple[int, int]

_recorded: ContextVar[list[Span] | None] = ContextVar("recorded", default=None)


def scratch(size: int) -> Bytes:
    """Return uninitialised memory that is aligned to 64 bytes.

    Small blocks come from Arrow's pool, which reuses mapped pages: page faults of fresh memory cost
    as much as a decoder.  For large blocks the pool takes, and keeps, far more memory than needed,
    so these come from the system.
    """
    pool = pa.system_memory_pool() if size > _POOLED else None
    buffer = pa.allocate_buffer(size, memory_pool=pool)
    if (recorded := _recorded.get()) is not None:
        recorded.append((buffer.address, size))
    out: Bytes = np.frombuffer(buffer, np.uint8)
    return out


@contextmanager
def recorded_scratch() -> Iterator[list[Span]]:
    """Record the blocks that `scratch` returns to this thread while the context is open."""
    spans: list[Span] = []
    token = _recorded.set(spans)
    try:
        yield spans
    finally:
        _recorded.reset(token)


def as_bytes(data: Buffer) -> Bytes:
    """Return a byte view of a buffer, aligned to 8 bytes; copy the bytes only if misaligned.

    Decoders view it as 64-bit words, and Arrow consumers in other languages rely on alignment.
    """
    out: Bytes = np.frombuffer(data, np.uint8)
    if out.size and out.ctypes.data % 8:
        copy = scratch(out.size)
        copy[:] = out
        return copy
    return out


def view(data: Bytes, dtype: DTypeLike) -> NDArray[Any]:
    """View the whole elements of ``dtype``; ignore odd bytes at the end."""
    size = np.dtype(dtype).itemsize
    return data[: data.size // size * size].view(dtype)


def owned(array: pa.Array, spans: Sequence[Span] = ()) -> pa.Array:
    """Return the array in its own memory, not a view of a file or of a larger block.

    It is copied, unless its buffers fill blocks in `spans`, which `scratch` allocated.
    """
    if isinstance(array, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(
            owned(array.indices, spans),
            owned(array.dictionary, spans),
            ordered=array.type.ordered,
            safe=False,
        )
    if all(_fills(buffer, spans) for buffer in array.buffers() if buffer is not None):
        return array
    # A single array would not be copied.  For fresh memory of this size the default pool takes
    # several times as long, and it frees the memory late.
    return ak.concat_arrays([array, array[:0]], memory_pool=pa.system_memory_pool())


def _fills(buffer: pa.Buffer, spans: Sequence[Span]) -> bool:
    """Return True if a buffer fills at least 16/17 of a block in `spans`."""
    begin, size = buffer.address, buffer.size
    return any(
        start <= begin and begin + size <= start + room <= start + size + size // 16
        for start, room in spans
    )


def starts_of(lengths: NDArray[np.generic]) -> Ints:
    """Return the start of each piece, and the end of the last, from their lengths."""
    out = np.empty(len(lengths) + 1, np.int64)
    out[0] = 0
    np.add.accumulate(lengths, out=out[1:])
    return out


def ranges(starts: NDArray[np.integer], lengths: NDArray[np.integer]) -> Ints:
    """Return every position of the ranges, in order."""
    before = starts_of(lengths)
    return np.arange(before[-1]) + np.repeat(starts - before[:-1], lengths)


def gather(data: Bytes, starts: Ints, lengths: Ints, room: int = 0) -> Bytes:
    """Concatenate pieces of ``data``, which must ascend and not overlap.

    With ``room``, the result is writable and has this many bytes of any content at both ends.  The
    first piece must then have at least ``room`` bytes.
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
    # all chunks of a page, except the last, usually have the length and distance of the first
    stride = int(starts[1] - starts[0]) if len(starts) > 1 else 0
    odd = (lengths[1:] != lengths[:-1]) | (starts[1:] - starts[:-1] != stride)
    if np.count_nonzero(odd) * _RUN_BYTES <= total:
        return _gather_runs(data, starts, lengths, stride, np.flatnonzero(odd) + 1, room)
    # Arrow copies the pieces as elements of a binary array: gap, first bytes of the first piece,
    # its rest, gap, piece, gap, piece ...
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
    """Concatenate runs of pieces that have equal lengths and start ``stride`` bytes apart."""
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
    """Read ascending byte ranges relative to ``base``; merge nearby ranges into one read.

    Returns
    -------
    The bytes read, and the start of each range in them.  Ranges that start on a multiple of 8 do
    so in the result, too.
    """
    if len(starts) == 0:
        return np.empty(0, np.uint8), np.empty(0, np.int64)
    begins = starts & ~np.int64(7)
    # misaligned bytes are copied, so bytes in gaps are not read
    gap = source.gap if base % 8 == 0 else 0
    breaks = np.flatnonzero(begins[1:] - stops[:-1] > gap) + 1
    if len(breaks) == 0:
        first = int(begins[0])
        span = base + first, int(stops[-1]) - first
        # a mapped file counts a long `read` as memory in use and drops it: wrong if sparse
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
