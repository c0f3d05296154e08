"""The buffers of chunks that encoders make, of all chunks at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit._file.kernels.memory import Bytes, Ints, starts_of

__all__ = ["Part", "chunk_counts", "interleave"]


@dataclass(frozen=True, slots=True)
class Part:
    """One buffer of every chunk, back to back: `lengths` bytes each, without padding."""

    data: Bytes
    lengths: Ints


def chunk_counts(rows: int, size: int) -> Ints:
    """Return the values of every chunk: ``size`` each, and what is left in the last."""
    full = max(0, -(-rows // size) - 1)
    return np.array([size] * full + [rows - full * size], np.int64)


def _nothing() -> pa.Scalar:
    """Return an empty string; ``pyarrow.scalar`` would import pandas."""
    buffers = [None, pa.py_buffer(np.zeros(2, np.int64)), pa.py_buffer(b"")]
    return pa.Array.from_buffers(pa.large_binary(), 1, buffers)[0]


def interleave(parts: Sequence[Part]) -> Bytes:
    """Return the first pieces of all parts, then the second ones, and so on."""
    arrays = [
        pa.LargeBinaryArray.from_buffers(
            pa.large_binary(),
            len(part.lengths),
            [None, pa.py_buffer(starts_of(part.lengths)), pa.py_buffer(part.data)],
        )
        for part in parts
    ]
    joined = pc.binary_join_element_wise(*arrays, _nothing()).buffers()[2]
    total = sum(int(part.lengths.sum()) for part in parts)
    out: Bytes = np.frombuffer(joined, np.uint8)[:total]
    return out
