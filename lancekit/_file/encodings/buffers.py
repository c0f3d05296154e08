"""Buffers of chunks, the input of decoders, and helpers that all decoders share.

A decoder of many chunks gets a `ChunkBuffers` for each of a chunk's buffers, the number of values
in each chunk, and the requested rows: ``None`` for all, or ascending positions.  A block is a
buffer of levels or of a dictionary's items.  A decoder of one chunk gets plain integers instead of
arrays, which is enough for a small table or a short range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lancekit._file.kernels.faults import Unsupported, require
from lancekit._file.kernels.memory import Bytes, Ints, gather, starts_of, view
from lancekit._file.kernels.values import DecodedValues, select
from lancekit._format.pb import encodings_v21_pb2 as pb

Buffer = TypeVar("Buffer")
#: the message that describes how values are encoded, with the encodings of its parts
Encoding: TypeAlias = pb.CompressiveEncoding

TOO_SHORT = "a chunk's buffer is too short"


@dataclass(frozen=True, slots=True)
class ChunkBuffers:
    """One buffer of each of several chunks, all within ``data``, ascending."""

    data: Bytes
    starts: Ints
    lengths: Ints

    def __post_init__(self) -> None:
        if len(self.starts):
            left = self.data.size - self.starts - self.lengths
            require(  # none of the three may be negative
                (self.starts | self.lengths | left).min() >= 0,
                "a chunk's buffer reaches outside of its page",
            )

    @classmethod
    def of(cls, data: Bytes) -> ChunkBuffers:
        """Return the buffer of a single chunk."""
        return cls(data, np.zeros(1, np.int64), np.array([data.size]))

    def head(self, lengths: Ints) -> Bytes:
        """Concatenate the first ``lengths`` bytes of every piece."""
        require((lengths <= self.lengths).all(), TOO_SHORT)
        return gather(self.data, self.starts, lengths)

    def table(self, dtype: DTypeLike, count: int) -> NDArray[Any]:
        """Return the first ``count`` words of every piece as a row; a view if possible."""
        size = np.dtype(dtype).itemsize
        require((count * size <= self.lengths).all(), TOO_SHORT)
        if len(self.starts):
            steps = self.starts[1:] - self.starts[:-1]
            first, step = int(self.starts[0]), int(steps[0]) if len(steps) else 0
            if (first | step) % size == 0 and (steps == step).all():
                shape = (len(self.starts), count)
                return np.ndarray(shape, dtype, self.data, first, (step, size))
        return view(self.head(np.full(len(self.starts), count * size)), dtype).reshape(-1, count)

    def words(self, dtype: DTypeLike, at: Ints) -> NDArray[Any]:
        """Return the word of ``dtype`` at byte position ``at`` of every piece."""
        size = np.dtype(dtype).itemsize
        require((at + size <= self.lengths).all(), TOO_SHORT)
        index = self.starts + at
        if (index % size == 0).all():
            words: NDArray[np.generic] = view(self.data, dtype)[index // size]
            return words
        parts = self.data[index[:, None] + np.arange(size)]
        unaligned: NDArray[np.generic] = np.ascontiguousarray(parts).view(dtype).ravel()
        return unaligned

    def some(self, which: Ints | NDArray[np.bool_] | slice) -> ChunkBuffers:
        """Select the pieces of some chunks."""
        return ChunkBuffers(self.data, self.starts[which], self.lengths[which])


#: each of the buffers of several chunks
Buffers: TypeAlias = Sequence[ChunkBuffers]


def kind_of(encoding: Encoding) -> str:
    """Return the name of the encoding; raise `Damaged` if it is not set."""
    name = encoding.WhichOneof("compression")
    require(name is not None, "a buffer has no encoding")
    return str(name)


def word_type(bits_per_value: int) -> np.dtype[np.unsignedinteger]:
    """Return the unsigned integer type of 8, 16, 32 or 64 bits."""
    if bits_per_value not in {8, 16, 32, 64}:
        raise Unsupported(f"bit packing of {bits_per_value}-bit values")
    return np.dtype(f"<u{bits_per_value // 8}")


def require_flat(encoding: Encoding, what: str) -> int:
    """Return the bits of each value of a flat encoding; raise `Unsupported` for other encodings."""
    if kind_of(encoding) != "flat":
        raise Unsupported(f"{what} over another encoding")
    return int(encoding.flat.bits_per_value)


def only(buffers: Sequence[Buffer]) -> Buffer:
    """Return the only value buffer of a chunk; raise `Damaged` for another number of buffers."""
    require(len(buffers) == 1, f"a chunk has {len(buffers)} value buffers, not 1")
    return buffers[0]


def located(counts: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the chunk of every row, and its position in the chunk."""
    firsts = starts_of(counts)
    chunk = np.searchsorted(firsts, rows, "right") - 1
    return chunk, rows - firsts[chunk]


def narrowed(values: DecodedValues, rows: Ints | None) -> DecodedValues:
    """Select rows from the values of many chunks; all rows if `rows` is ``None``."""
    return values if rows is None else select(values, rows)


def cut(values: DecodedValues, rows: range) -> DecodedValues:
    """Select a range of rows from the values of one chunk."""
    return values if len(rows) == values.count else select(values, slice(rows.start, rows.stop))
