"""Byte stream split: byte 0 of all values of a chunk, then byte 1, and so on.

See docs/format/data-files.md, 11.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lancekit._file.encodings import flat
from lancekit._file.encodings.buffers import Buffers, Encoding, narrowed, only, require_flat
from lancekit._file.kernels.faults import Unsupported
from lancekit._file.kernels.memory import Bytes, Ints
from lancekit._file.kernels.values import DecodedValues, Fixed
from lancekit._format.pb import encodings_v21_pb2 as pb

if TYPE_CHECKING:
    from lancekit._file.encodings.request import EncodedValues


def decode_chunks(
    encoding: Encoding, buffers: Buffers, counts: Ints, rows: Ints | None
) -> DecodedValues:
    """Decode the values of all chunks."""
    width, odd = divmod(require_flat(encoding.byte_stream_split.values, "a byte stream split"), 8)
    if odd or width not in {2, 4, 8}:
        raise Unsupported(f"a byte stream split of {8 * width + odd}-bit values")
    data = only(buffers).head(counts * width)
    total = int(counts.sum())
    out = np.empty((total, width), np.uint8)
    size = int(counts[0]) if len(counts) else 0
    even = len(counts) - 1 if (counts[:-1] == size).all() else 0
    split = data[: even * size * width].reshape(even, width, size)
    out[: even * size].reshape(even, size, width)[:] = split.transpose(0, 2, 1)
    first = even * size
    for count in counts[even:].tolist():
        part = data[first * width : (first + count) * width]
        out[first : first + count] = part.reshape(width, count).T
        first += count
    return narrowed(Fixed(width, out.reshape(-1), total), rows)


def encode(data: Bytes, width: int, chunk: int) -> EncodedValues:
    """Encode values of ``width`` bytes, with ``chunk`` values in each chunk."""
    from lancekit._file.encodings.request import EncodedValues, Part, chunk_counts

    rows = len(data) // width
    counts = chunk_counts(rows, chunk)
    full = (len(counts) - 1) * chunk
    head = data[: full * width].reshape(-1, chunk, width).transpose(0, 2, 1).reshape(-1)
    tail = data[full * width :].reshape(-1, width).T.reshape(-1)
    encoding = pb.CompressiveEncoding(
        byte_stream_split=pb.ByteStreamSplit(values=flat.message(width * 8))
    )
    part = Part(np.concatenate((head, tail)), counts * width)
    return EncodedValues(encoding=encoding, counts=counts, buffers=[[part]])
