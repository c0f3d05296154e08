"""General compression: the framing of one compressed unit (file format, section 11.9)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lancekit.file.faults import Damaged, Unsupported, require
from lancekit.file.memory import Bytes, as_bytes
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["SCHEMES", "decompress"]

#: scheme -> (Arrow's codec, bytes of the uncompressed size before the data)
_CODECS = {"lz4": ("lz4_raw", 4), "zstd": ("zstd", 8)}

SCHEMES = {pb.LZ4: "lz4", pb.ZSTD: "zstd"}

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

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
    if scheme == "zstd" and view[:4] == _ZSTD_MAGIC:  # a bare frame, of unknown size
        return as_bytes(pa.CompressedInputStream(pa.BufferReader(view), "zstd").read())
    require(len(view) >= prefix, "a compressed buffer is shorter than its header")
    size = int.from_bytes(view[:prefix], "little")
    require(size <= len(view) * _MAX_RATIO, f"a compressed buffer claims {size} bytes")
    if size == 0:
        return np.empty(0, np.uint8)
    return as_bytes(pa.Codec(codec).decompress(view[prefix:], decompressed_size=size))
