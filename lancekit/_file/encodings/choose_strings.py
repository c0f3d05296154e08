"""Choice of the encoding for the strings of mini-block pages, and of their chunks.

Plain strings are the fastest to scan and to look up.  Another encoding must save a good part of a
sample, in chunks that are small enough for a lookup.  NumPy decodes FSST, which the reference
prefers, at a third of the speed of LZ4.  FSST is written if the column requests it or if the goal
is "take": for lookups of single rows it is the best encoding that saves space.  The docs of data
files have the measurements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancekit._file.encodings import fsst, general, variable
from lancekit._file.encodings.request import CHUNK, EncodedValues, EncodingRequest, chunk_size
from lancekit._file.kernels import bits
from lancekit._file.kernels.arrow_buffers import string_buffers
from lancekit._file.kernels.compression import compressor
from lancekit._file.kernels.memory import Bytes, Offsets, starts_of
from lancekit._format.pb import encodings_v21_pb2 as pb

#: Pages of fewer bytes stay plain.
_MIN_BYTES = 32 << 10

#: Bytes of a sample, in chunks spread over the page.
_SAMPLE = 128 << 10

#: Strings with at least this mean size are compressed one by one if chunks cannot hold them and
#: a sample of `_SINGLES` strings shrinks to `_WORTH`.
_SINGLE_BYTES = 4096
_WORTH = 0.8
_SINGLES = 8

#: Maximum bytes of a chunk before compression in 2.1, whose levels need space, too.
_SMALL = 12_000

#: Maximum bytes of a chunk in 2.2 whose strings are partly long.
_LARGEST = 256 << 10


@dataclass(frozen=True, slots=True)
class Codec:
    """Compressed encoding of strings, with the chunk sizes before compression.

    `long_chunk` is the size for long strings.  The encoding is chosen if it leaves at most the
    share `worth` of the bytes.
    """

    scheme: str
    level: int | None
    chunk: int
    long_chunk: int
    worth: float = 0

    def limit(self, request: EncodingRequest, *, long: bool) -> int:
        """Return the maximum bytes of a chunk before compression."""
        limit = self.long_chunk if long else self.chunk
        return limit if request.large_chunks else min(limit, _SMALL)

    @property
    def least(self) -> int:
        """Mean bytes of a chunk below which compression is not worth the time."""
        return min(self.chunk // 4, general.MIN_COMPRESSED)

    def share(self, pieces: list[tuple[Offsets, Bytes]]) -> float:
        """Return the compressed share of some strings' bytes."""
        if self.scheme == "fsst":  # one symbol table for all
            lengths = np.concatenate([np.diff(offsets) for offsets, _ in pieces])
            data = np.concatenate([data for _, data in pieces])
            offsets, codes, _ = fsst.encode_each(starts_of(lengths).astype(np.int32), data)
            return float((codes.size + offsets.nbytes) / (data.size + offsets.nbytes))
        plain = [pa.py_buffer(offsets.tobytes() + data.tobytes()) for offsets, data in pieces]
        compress = compressor(self.scheme, self.level)
        return sum(len(compress(piece)) for piece in plain) / sum(piece.size for piece in plain)


#: encodings to try for each goal, in this order, before strings stay plain
CODECS = {
    "balance": (
        Codec("lz4", None, 4 << 10, 8 << 10, 0.8),
        Codec("zstd", 1, 16 << 10, 32 << 10, 0.5),
    ),
    "scan": (),
    "take": (Codec("fsst", None, 16 << 10, 16 << 10, 0.8),),
    "size": (Codec("zstd", 3, 32 << 10, 32 << 10, 0.95),),
}

#: Chunk bytes (short, long strings) if the column's metadata requests the compression.
_CHUNKS = (16 << 10, 32 << 10)


def string_values(values: pa.Array, request: EncodingRequest) -> EncodedValues:
    """Encode strings that are all shorter than 256 bytes."""
    offsets, data = string_buffers(values)
    codec = _choose(values.type, offsets, data, request, long=False)
    if codec is None:
        limit = CHUNK[request.large_chunks]
        return variable.encode(offsets, data, limit, 2 * limit, request)
    if codec.scheme == "fsst":
        return fsst.encode(offsets, data, request)
    limit = codec.limit(request, long=False)
    plain = variable.encode(offsets, data, limit, 2 * limit, request)
    return general.compressed(plain, codec.scheme, codec.level, request.large_chunks, codec.least)


def long_strings(values: pa.Array, request: EncodingRequest) -> EncodedValues | None:
    """Encode long strings in compressed chunks; ``None`` if chunks cannot hold or shrink them."""
    offsets, data = string_buffers(values)
    codec = _choose(values.type, offsets, data, request, long=True)
    if codec is None or codec.scheme == "fsst":
        return None
    limit = codec.limit(request, long=True)
    most = _LARGEST if request.large_chunks else 2 * limit
    size = chunk_size(variable.mean_size(offsets), limit, request.max_values, smallest=2)
    if variable.largest_chunk(offsets, size) > most:
        return None
    plain = variable.encode(offsets, data, limit, most, request)
    stored = general.compressed(plain, codec.scheme, codec.level, request.large_chunks, codec.least)
    return None if stored is plain else stored


def _choose(
    kind: pa.DataType, offsets: Offsets, data: Bytes, request: EncodingRequest, *, long: bool
) -> Codec | None:
    """Return the requested or the most suitable encoding; ``None`` for plain strings.

    Binary values stay plain, as in the reference: they are usually compressed already.
    """
    requested = request.option("compression")
    if requested == "none":
        return None
    if requested == "fsst":
        return Codec("fsst", None, *_CHUNKS) if data.size >= _MIN_BYTES else None
    if request.scheme:
        return Codec(*request.scheme, *_CHUNKS)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return None
    if data.size + offsets.nbytes < _MIN_BYTES:
        return None
    for codec in CODECS[request.goal]:
        pieces = list(_pieces(offsets, data, codec.limit(request, long=long)))
        if codec.share(pieces) <= codec.worth:
            return codec
    return None


def _pieces(offsets: Offsets, data: Bytes, limit: int) -> Iterator[tuple[Offsets, Bytes]]:
    """Yield sample chunks of a page's strings: their offsets, from 0 on, and their bytes."""
    rows = len(offsets) - 1
    each = max(1, min(rows, int(limit / variable.mean_size(offsets))))
    for first in np.linspace(0, rows - each, _SAMPLE // limit).astype(np.int64).tolist():
        part = offsets[first : first + each + 1]
        # of a string longer than a chunk, its first bytes are enough
        yield np.minimum(part - part[0], limit), data[int(part[0]) : int(part[-1])][:limit]


def single_strings(
    values: pa.Array, valid: Bytes | None, request: EncodingRequest
) -> tuple[Offsets, Bytes, pb.CompressiveEncoding]:
    """Encode strings one by one, for full-zip pages.

    Returns
    -------
    The offsets of the encoded strings, their bytes, and their encoding message.
    """
    request = replace(request, large_chunks=True)
    offsets, data = string_buffers(values)
    encoding = variable.message(offsets.itemsize * 8)
    if data.size < _MIN_BYTES or request.option("compression") == "none":
        return offsets, data, encoding
    if "fsst" in {request.option("compression"), *(c.scheme for c in CODECS[request.goal])}:
        codec = _choose(values.type, offsets, data, request, long=True)
        if codec is not None and codec.scheme == "fsst":
            return fsst.encode_each(offsets, data)
    if request.scheme is None and request.goal == "scan":
        return offsets, data, encoding
    # the reference always writes Zstd here, whatever the scheme, so every reader knows it
    level = request.scheme[1] if request.scheme else 1
    present = np.ones(len(values), bool) if valid is None else bits.unpack(valid, len(values)) == 1
    rows = np.flatnonzero(present)
    if request.scheme is None and data.size < _SINGLE_BYTES * len(rows):
        return offsets, data, encoding
    compress = compressor("zstd", level)
    whole = pa.py_buffer(data)

    def unit(row: int) -> bytes:
        start = int(offsets[row])
        return compress(whole.slice(start, int(offsets[row + 1]) - start))

    if request.scheme is None:
        sample = rows[:: max(1, len(rows) // _SINGLES)]
        before = int((offsets[sample + 1] - offsets[sample]).sum())
        if sum(len(unit(row)) for row in sample.tolist()) > _WORTH * before:
            return offsets, data, encoding
    units = [unit(row) for row in rows.tolist()]
    lengths = np.zeros(len(values), np.int64)
    lengths[rows] = [len(part) for part in units]
    borders = starts_of(lengths)
    encoded = np.frombuffer(b"".join(units), np.uint8)
    kind = np.dtype(np.int64) if borders[-1] >= 2**31 else offsets.dtype
    return (
        borders.astype(kind),
        encoded,
        general.message("zstd", level, variable.message(kind.itemsize * 8)),
    )
