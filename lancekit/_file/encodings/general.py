"""General compression of an encoding's first buffer (docs/format/data-files.md, 11.9)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancekit._file.encodings.buffers import ChunkBuffers, Encoding, kind_of
from lancekit._file.kernels.bitpacking import BLOCK
from lancekit._file.kernels.compression import (
    SCHEMES,
    ZSTD_MAGIC,
    compressor,
    decompress_all,
    decompress_each,
)
from lancekit._file.kernels.faults import Unsupported
from lancekit._file.kernels.memory import Ints, starts_of
from lancekit._format.pb import encodings_v21_pb2 as pb

if TYPE_CHECKING:
    from lancekit._file.encodings.request import EncodedValues

#: Bytes of padding that a compressed buffer may have in addition to its values.
_PADDING = 64

#: Smaller buffers are not compressed.
MIN_COMPRESSED = 4096

#: Maximum bytes of a compressed chunk in 2.1, whose levels need space, too.
_MAX_SMALL_CHUNK = 28_000


def message(scheme: str, level: int | None, values: Encoding) -> Encoding:
    """Return the message of an encoding whose buffer is compressed with ``lz4`` or ``zstd``."""
    number = pb.LZ4 if scheme == "lz4" else pb.ZSTD
    compression = pb.BufferCompression(scheme=number, level=level)
    return pb.CompressiveEncoding(general=pb.General(compression=compression, values=values))


def check(general: pb.General) -> str:
    """Return the name of the compression scheme."""
    scheme = SCHEMES.get(general.compression.scheme)
    if scheme is None:
        raise Unsupported(f"compression scheme {general.compression.scheme}")
    return scheme


def decompressed(general: pb.General, pieces: ChunkBuffers, counts: Ints) -> ChunkBuffers:
    """Decompress the first buffer of every chunk, which has ``counts`` values."""
    most = _most_bytes(general.values, counts)
    if most is not None:
        most = most + _PADDING
    scheme = check(general)
    if scheme == "zstd" and _bare_frames(pieces):
        mosts = [None] * len(pieces.starts) if most is None else most.tolist()
        stops = pieces.starts + pieces.lengths
        places = zip(pieces.starts.tolist(), stops.tolist(), mosts, strict=True)
        units = decompress_each(scheme, pieces.data, places)
        data, sizes = np.concatenate(units), np.array([unit.size for unit in units], np.int64)
    else:
        data, sizes = decompress_all(scheme, pieces.data, pieces.starts, pieces.lengths, most)
    return ChunkBuffers(data, starts_of(sizes)[:-1], sizes)


def compressed(
    values: EncodedValues,
    scheme: str,
    level: int | None,
    large_chunks: bool,
    least: int = MIN_COMPRESSED,
) -> EncodedValues:
    """Compress the first buffer of every chunk if that saves bytes.

    Buffers with a mean of less than ``least`` bytes stay uncompressed.
    """
    from lancekit._file.encodings.request import Part, interleave

    first = values.buffers[0]
    lengths: Ints = np.sum([part.lengths for part in first], axis=0, dtype=np.int64)
    if lengths.sum() < least * len(lengths):
        return values
    joined = pa.py_buffer(first[0].data if len(first) == 1 else interleave(first))
    compress = compressor(scheme, level)
    places = zip(starts_of(lengths).tolist(), lengths.tolist(), strict=False)
    units = [compress(joined.slice(start, length)) for start, length in places]
    sizes = np.array([len(unit) for unit in units], np.int64)
    if sizes.sum() >= lengths.sum() or not (large_chunks or sizes.max() < _MAX_SMALL_CHUNK):
        return values
    part = Part(np.frombuffer(b"".join(units), np.uint8), sizes)
    encoding = message(scheme, level, values.encoding)
    return replace(values, encoding=encoding, buffers=[[part], *values.buffers[1:]])


def compressed_unit(encoding: Encoding, data: bytes, scheme: str) -> tuple[Encoding, bytes]:
    """Compress one buffer, unless it is small or does not shrink."""
    if len(data) < MIN_COMPRESSED:
        return encoding, data
    unit = compressor(scheme, None)(pa.py_buffer(data))
    return (message(scheme, None, encoding), unit) if len(unit) < len(data) else (encoding, data)


def _most_bytes(encoding: Encoding, counts: Ints) -> Ints | None:
    """Return the maximum bytes of each chunk's first buffer, or ``None`` if they have no limit."""
    name = kind_of(encoding)
    message = getattr(encoding, name)
    if name in ("packed_struct", "byte_stream_split"):
        return _most_bytes(message.values, counts)
    if name == "fixed_size_list":
        items = counts * int(message.items_per_value)
        return (items + 7) // 8 if message.has_validity else _most_bytes(message.values, items)
    blocks = (counts + BLOCK - 1) // BLOCK
    if name == "flat":
        return (counts * int(message.bits_per_value) + 7) // 8
    if name in ("inline_bitpacking", "out_of_line_bitpacking"):
        return (blocks * BLOCK + 1) * int(message.uncompressed_bits_per_value) // 8
    if name == "rle":  # each run has at least one value, and a length byte
        return 8 + counts * (int(message.values.flat.bits_per_value) // 8 + 1)
    return None


def _bare_frames(pieces: ChunkBuffers) -> bool:
    """Return True if Zstd frames lack the prefix with their uncompressed size."""
    first = pieces.data[pieces.starts[0] : pieces.starts[0] + 4] if len(pieces.starts) else b""
    return bytes(first) == ZSTD_MAGIC
