"""Which encoding the strings of a mini-block page get, and their chunks.

Plain strings are the fastest to read and to look up, so the choice, made on a sample, is the first
of plain, LZ4 and Zstd that is not much larger than the smallest.  FSST, which the reference
prefers, decodes and encodes at half the speed of LZ4 here; it is written on request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit.file.encodings import fsst, general, variable
from lancekit.file.encodings.request import CHUNK, EncodedValues, EncodingRequest, chunk_size
from lancekit.file.kernels import bits
from lancekit.file.kernels.arrow_buffers import string_buffers
from lancekit.file.kernels.compression import compressor
from lancekit.file.kernels.memory import Bytes, starts_of
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["long_strings", "single_strings", "string_values"]

#: Pages of fewer bytes stay plain.
_MIN_BYTES = 32 << 10

#: How many chunks, spread over the page, are compressed to choose.
_PIECES = 8

#: Plain strings may be so much larger than those compressed with Zstd, and so may LZ4.
_PLAIN = 1.6
_LZ4 = 1.5

#: LZ4 is taken anyway where it saves so much of the plain strings.
_LZ4_SAVES = 0.5

#: Bytes of a compressed chunk before compression, by version; long strings need more.
_COMPRESSED_CHUNK = {False: 12_000, True: 16_384}
_LONG_CHUNK = {False: 12_000, True: 32_768}
#: Strings of so many bytes on average are compressed one by one where chunks do not hold them,
#: if that saves enough.
_SINGLE_BYTES = 4096
_WORTH = 0.8
_MAX_LONG_CHUNK = {False: 24_000, True: 256 << 10}


def string_values(values: pa.Array, request: EncodingRequest) -> EncodedValues:
    """Encode strings, none of them 256 bytes or more."""
    offsets, data = string_buffers(values)
    limit = _COMPRESSED_CHUNK[request.large]
    scheme: tuple[str, int | None] | None
    if request.option("compression") == "fsst" and data.size >= _MIN_BYTES:
        return fsst.encode(offsets, data, request)
    if request.option("compression") in {"none", "fsst"}:
        scheme = None
    else:
        scheme = request.scheme or _choose(values.type, offsets, data, limit)
    if scheme is None:
        limit = CHUNK[request.large]
    plain = variable.encode(offsets, data, limit, 2 * limit, request)
    return plain if scheme is None else general.compressed(plain, *scheme, request.large)


def long_strings(values: pa.Array, request: EncodingRequest) -> EncodedValues | None:
    """Encode longer strings in compressed chunks; ``None`` if these do not hold or shrink them."""
    if request.option("compression") in {"none", "fsst"}:
        return None
    offsets, data = string_buffers(values)
    limit, most = _LONG_CHUNK[request.large], _MAX_LONG_CHUNK[request.large]
    scheme = request.scheme or _choose(values.type, offsets, data, limit)
    if scheme is None:
        return None
    size = chunk_size(variable.mean_size(offsets), limit, request.max_values, smallest=2)
    if variable.largest_chunk(offsets, size) > most:
        return None
    plain = variable.encode(offsets, data, limit, most, request)
    stored = general.compressed(plain, *scheme, request.large)
    return None if stored is plain else stored


def _choose(
    kind: pa.DataType, offsets: NDArray[Any], data: Bytes, limit: int
) -> tuple[str, int | None] | None:
    """Return the compression that pays for text, in chunks of ``limit`` bytes; none for binary.

    Binary is mostly compressed already, and the reference leaves it alone too.
    """
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return None
    if data.size + offsets.nbytes < _MIN_BYTES:
        return None
    rows = len(offsets) - 1
    each = max(1, min(rows, int(limit / variable.mean_size(offsets))))
    sizes = dict.fromkeys(("plain", "lz4", "zstd"), 0)
    for first in np.linspace(0, rows - each, _PIECES).astype(np.int64).tolist():
        part = offsets[first : first + each + 1]
        piece = pa.py_buffer(
            (part - part[0]).tobytes() + data[int(part[0]) : int(part[-1])][:limit].tobytes()
        )
        sizes["plain"] += piece.size
        sizes["lz4"] += len(compressor("lz4", None)(piece))
        sizes["zstd"] += len(compressor("zstd", 1)(piece))
    if sizes["plain"] <= _PLAIN * sizes["zstd"]:
        return None
    if sizes["lz4"] <= max(_LZ4 * sizes["zstd"], _LZ4_SAVES * sizes["plain"]):
        return "lz4", None
    return "zstd", 1


def single_strings(
    values: pa.Array, valid: Bytes | None, options: Mapping[str, str]
) -> tuple[NDArray[Any], Bytes, pb.CompressiveEncoding]:
    """Encode strings one by one, for full-zip pages.

    Returns
    -------
    The offsets of the encoded strings, their bytes, and what describes them.
    """
    request = EncodingRequest(large=True, options=options)
    offsets, data = string_buffers(values)
    encoding = variable.message(offsets.itemsize * 8)
    if data.size < _MIN_BYTES or request.option("compression") == "none":
        return offsets, data, encoding
    if request.option("compression") == "fsst":
        return fsst.encode_each(offsets, data)
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
        sample = rows[:: max(1, len(rows) // _PIECES)]
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
