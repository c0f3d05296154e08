"""Which encoding the strings of a mini-block page get, and their chunks.

Plain strings are the fastest to read and to look up, so what is chosen, on a sample, has to save a
good part of them, in chunks that are small enough for a look-up.  FSST, which the reference
prefers, is read by NumPy at a third of the speed of LZ4: it is written where that was asked for, or
rows here and there, for which it is the best of all that save space.  The docs of data files have
what was measured.
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

#: Bytes of a sample, spread over the page: as many chunks as they make.
_SAMPLE = 128 << 10

#: Strings of so many bytes on average are compressed one by one where chunks do not hold them,
#: if that saves enough.
_SINGLE_BYTES = 4096
_WORTH = 0.8
_SINGLES = 8

#: The most bytes of a chunk before compression in 2.1, whose levels need room too.
_SMALL = 12_000

#: A chunk of long strings may be so large, if some of them are.
_LARGEST = 256 << 10


@dataclass(frozen=True, slots=True)
class Way:
    """A way to encode strings: with which chunks, before compression, and those of long strings.

    It is taken if it leaves no more than `worth` of the bytes.
    """

    scheme: str
    level: int | None
    chunk: int
    long_chunk: int
    worth: float = 0

    def limit(self, request: EncodingRequest, *, long: bool) -> int:
        """Return the bytes of a chunk before compression."""
        limit = self.long_chunk if long else self.chunk
        return limit if request.large else min(limit, _SMALL)

    @property
    def least(self) -> int:
        """The bytes of a chunk below which compressing them is not worth the time."""
        return min(self.chunk // 4, general.MIN_COMPRESSED)

    def left(self, pieces: list[tuple[Offsets, Bytes]]) -> float:
        """Return the share of some strings' bytes that it leaves."""
        if self.scheme == "fsst":  # by one table for all
            lengths = np.concatenate([np.diff(offsets) for offsets, _ in pieces])
            data = np.concatenate([data for _, data in pieces])
            offsets, codes, _ = fsst.encode_each(starts_of(lengths).astype(np.int32), data)
            return float((codes.size + offsets.nbytes) / (data.size + offsets.nbytes))
        plain = [pa.py_buffer(offsets.tobytes() + data.tobytes()) for offsets, data in pieces]
        compress = compressor(self.scheme, self.level)
        return sum(len(compress(piece)) for piece in plain) / sum(piece.size for piece in plain)


#: by what text is written for: the ways that are tried after plain strings, in this order
WAYS = {
    "balance": (
        Way("lz4", None, 4 << 10, 8 << 10, 0.8),
        Way("zstd", 1, 16 << 10, 32 << 10, 0.5),
    ),
    "scan": (),
    "take": (Way("fsst", None, 16 << 10, 16 << 10, 0.8),),
    "size": (Way("zstd", 3, 32 << 10, 32 << 10, 0.95),),
}

#: Bytes of chunks of strings that a column's metadata has compressed.
_ASKED = (16 << 10, 32 << 10)


def string_values(values: pa.Array, request: EncodingRequest) -> EncodedValues:
    """Encode strings, none of them 256 bytes or more."""
    offsets, data = string_buffers(values)
    way = _way(values.type, offsets, data, request, long=False)
    if way is None:
        limit = CHUNK[request.large]
        return variable.encode(offsets, data, limit, 2 * limit, request)
    if way.scheme == "fsst":
        return fsst.encode(offsets, data, request)
    limit = way.limit(request, long=False)
    plain = variable.encode(offsets, data, limit, 2 * limit, request)
    return general.compressed(plain, way.scheme, way.level, request.large, way.least)


def long_strings(values: pa.Array, request: EncodingRequest) -> EncodedValues | None:
    """Encode longer strings in compressed chunks; ``None`` if these do not hold or shrink them."""
    offsets, data = string_buffers(values)
    way = _way(values.type, offsets, data, request, long=True)
    if way is None or way.scheme == "fsst":
        return None
    limit = way.limit(request, long=True)
    most = _LARGEST if request.large else 2 * limit
    size = chunk_size(variable.mean_size(offsets), limit, request.max_values, smallest=2)
    if variable.largest_chunk(offsets, size) > most:
        return None
    plain = variable.encode(offsets, data, limit, most, request)
    stored = general.compressed(plain, way.scheme, way.level, request.large, way.least)
    return None if stored is plain else stored


def _way(
    kind: pa.DataType,
    offsets: Offsets,
    data: Bytes,
    request: EncodingRequest,
    *,
    long: bool,
) -> Way | None:
    """Return what a column's metadata ask for, or what pays; ``None`` for plain strings.

    Binary is mostly compressed already, and the reference leaves it alone too.
    """
    asked = request.option("compression")
    if asked == "none":
        return None
    if asked == "fsst":
        return Way("fsst", None, *_ASKED) if data.size >= _MIN_BYTES else None
    if request.scheme:
        return Way(*request.scheme, *_ASKED)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return None
    if data.size + offsets.nbytes < _MIN_BYTES:
        return None
    for way in WAYS[request.goal]:
        if way.left(list(_pieces(offsets, data, way.limit(request, long=long)))) <= way.worth:
            return way
    return None


def _pieces(offsets: Offsets, data: Bytes, limit: int) -> Iterator[tuple[Offsets, Bytes]]:
    """Yield chunks of a page's strings: the offsets of each, from 0 on, and its bytes."""
    rows = len(offsets) - 1
    each = max(1, min(rows, int(limit / variable.mean_size(offsets))))
    for first in np.linspace(0, rows - each, _SAMPLE // limit).astype(np.int64).tolist():
        part = offsets[first : first + each + 1]
        # of a string that is longer than a chunk, the beginning will do
        yield np.minimum(part - part[0], limit), data[int(part[0]) : int(part[-1])][:limit]


def single_strings(
    values: pa.Array, valid: Bytes | None, request: EncodingRequest
) -> tuple[Offsets, Bytes, pb.CompressiveEncoding]:
    """Encode strings one by one, for full-zip pages.

    Returns
    -------
    The offsets of the encoded strings, their bytes, and what describes them.
    """
    request = replace(request, large=True)
    offsets, data = string_buffers(values)
    encoding = variable.message(offsets.itemsize * 8)
    if data.size < _MIN_BYTES or request.option("compression") == "none":
        return offsets, data, encoding
    if "fsst" in {request.option("compression"), *(way.scheme for way in WAYS[request.goal])}:
        way = _way(values.type, offsets, data, request, long=True)
        if way is not None and way.scheme == "fsst":
            return fsst.encode_each(offsets, data)
    if request.scheme is None and request.goal == "scan":
        return offsets, data, encoding
    # the reference takes Zstd here whatever the scheme, so any reader knows it
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
