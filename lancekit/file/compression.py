"""General compression: the framing of one compressed unit (file format, section 11.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit.file.faults import Damaged, Unsupported, require
from lancekit.file.memory import Bytes, Ints, as_bytes, gather
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["SCHEMES", "ZSTD_MAGIC", "compressor", "decompress", "decompress_all"]

#: scheme -> (Arrow's codec, bytes of the uncompressed size before the data)
_CODECS = {"lz4": ("lz4_raw", 4), "zstd": ("zstd", 8)}

SCHEMES = {pb.LZ4: "lz4", pb.ZSTD: "zstd"}

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

#: No codec here shrinks better than this; a larger claim is a damaged size.
_MAX_RATIO = 1 << 16


def decompress(scheme: str, data: Any) -> Bytes:
    """Return the bytes of one unit compressed with ``lz4`` or ``zstd``, or not at all."""
    try:
        return _decompress(scheme, data)
    except OSError as error:  # what Arrow's codecs raise
        raise Damaged(str(error)) from error


def _decompress(scheme: str, data: Any) -> Bytes:
    if scheme == "none":
        return as_bytes(data)
    known = _CODECS.get(scheme)
    if known is None:
        raise Unsupported(f"compression scheme {scheme!r}")
    codec, prefix = known
    view = memoryview(data)
    if len(view) == 0:
        return np.empty(0, np.uint8)
    if scheme == "zstd" and view[:4] == ZSTD_MAGIC:  # a bare frame, of unknown size
        return as_bytes(pa.CompressedInputStream(pa.BufferReader(view), "zstd").read())
    require(len(view) >= prefix, "a compressed buffer is shorter than its header")
    size = int.from_bytes(view[:prefix], "little")
    require(size <= len(view) * _MAX_RATIO, f"a compressed buffer claims {size} bytes")
    if size == 0:
        return np.empty(0, np.uint8)
    return as_bytes(pa.Codec(codec).decompress(view[prefix:], decompressed_size=size))


def decompress_all(scheme: str, data: Bytes, starts: Ints, lengths: Ints) -> tuple[Bytes, Ints]:
    """Decompress many units; return their bytes back to back, and the size of each.

    Zstd takes frames that follow each other as one, so all of them need but one call.
    """
    known = _CODECS.get(scheme)
    if known is None:
        raise Unsupported(f"compression scheme {scheme!r}")
    codec, prefix = known
    require((lengths > prefix).all(), "a compressed buffer is shorter than its header")
    heads = np.ascontiguousarray(data[starts[:, None] + np.arange(prefix)])
    sizes: Ints = heads.view(f"<u{prefix}").ravel().astype(np.int64)
    require(
        ((sizes > 0) & (sizes <= lengths * _MAX_RATIO)).all(),
        "a compressed buffer of an impossible size",
    )
    decompressor = pa.Codec(codec)
    try:
        if scheme == "zstd":
            frames = pa.py_buffer(gather(data, starts + prefix, lengths - prefix))
            joined = decompressor.decompress(frames, decompressed_size=int(sizes.sum()))
            return as_bytes(joined), sizes
        whole = pa.py_buffer(data)
        places = zip(
            (starts + prefix).tolist(), (lengths - prefix).tolist(), sizes.tolist(), strict=True
        )
        units = [
            decompressor.decompress(whole.slice(start, length), size, asbytes=True)
            for start, length, size in places
        ]
    except OSError as error:
        raise Damaged(str(error)) from error
    return as_bytes(b"".join(units)), sizes


def compressor(scheme: str, level: int | None) -> Callable[[pa.Buffer], bytes]:
    """Return what makes one unit of a buffer: its size, then the compressed bytes."""
    name, prefix = _CODECS[scheme]
    codec = pa.Codec(name, compression_level=level if scheme == "zstd" else None)

    def compress(data: pa.Buffer) -> bytes:
        body: bytes = codec.compress(data, asbytes=True)
        unit: bytes = data.size.to_bytes(prefix, "little") + body
        return unit

    return compress
