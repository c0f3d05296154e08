"""General compression: the framing of compressed units (docs/format/data-files.md, 11.9)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from xxhash import xxh32_intdigest

from lancekit._file.kernels.bounds import claim
from lancekit._file.kernels.faults import Damaged, Unsupported, require
from lancekit._file.kernels.memory import Bytes, Ints, as_bytes, gather, starts_of
from lancekit._format.pb import encodings_v21_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Buffer

#: scheme -> (Arrow's codec, bytes of the uncompressed size in front of the data)
_CODECS = {"lz4": ("lz4_raw", 4), "zstd": ("zstd", 8)}

SCHEMES = {pb.LZ4: "lz4", pb.ZSTD: "zstd"}

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEAD = 15

#: Maximum block bytes of an LZ4 frame, by the frame's block size code minus 4.
_LZ4_BLOCKS = (1 << 16, 1 << 18, 1 << 20, 1 << 22)

#: No codec here compresses better than this; a higher ratio means that the size is damaged.
_MAX_RATIO = 1 << 16

#: Bytes decompressed at a time from a frame of unknown size.
_STEP = 1 << 20

_WHAT = "compressed bytes"


def decompress(scheme: str, data: Buffer, most: int | None = None) -> Bytes:
    """Decompress one unit with scheme ``lz4`` or ``zstd``; ``none`` returns the data.

    The result must have at most `most` bytes, or fit the page's memory limit if `most` is ``None``.
    """
    try:
        return _decompress(scheme, data, most)
    except OSError as error:  # raised by Arrow's codecs
        raise Damaged(str(error)) from error


def _decompress(scheme: str, data: Buffer, most: int | None = None) -> Bytes:
    if scheme == "none":
        return as_bytes(data)
    known = _CODECS.get(scheme)
    if known is None:
        raise Unsupported(f"compression scheme {scheme!r}")
    codec, prefix = known
    view = memoryview(data)
    if len(view) == 0:
        return np.empty(0, np.uint8)
    size = _stated_size(scheme, view, prefix)
    if size is None:
        return _frame(view, most)
    _check_size(size, most)
    if size == 0:
        return np.empty(0, np.uint8)
    return as_bytes(pa.Codec(codec).decompress(view[prefix:], decompressed_size=size))


def _stated_size(scheme: str, unit: Buffer, prefix: int) -> int | None:
    """Return the uncompressed size in a unit's header, or ``None`` for a bare Zstd frame."""
    view = memoryview(unit)
    if scheme == "zstd" and view[:4] == ZSTD_MAGIC:
        return None
    require(len(view) >= prefix, "a compressed buffer is shorter than its header")
    size = int.from_bytes(view[:prefix], "little")
    require(size <= len(view) * _MAX_RATIO, f"a compressed buffer claims {size} bytes")
    return size


def _check_size(size: int, most: int | None) -> None:
    if most is None:
        claim(size, _WHAT)
    else:
        require(size <= most, f"a compressed buffer of {size:,} bytes instead of {most:,}")


def _frame(view: memoryview, most: int | None) -> Bytes:
    """Decompress a bare Zstd frame; stop as soon as the size limit is exceeded."""
    stream = pa.CompressedInputStream(pa.BufferReader(view), "zstd")
    parts, size = [], 0
    while part := stream.read(_STEP):
        parts.append(part)
        size += len(part)
        _check_size(size, most)
    return as_bytes(parts[0] if len(parts) == 1 else b"".join(parts))


def decompress_all(
    scheme: str, data: Bytes, starts: Ints, lengths: Ints, most: Ints | None = None
) -> tuple[Bytes, Ints]:
    """Decompress many units; return their bytes back to back, and the size of each.

    `most` limits the size of each unit.  Without it, all units together must fit the page's memory
    limit.  One codec call decompresses all units: calls for short units would spend the threads'
    time on passing the interpreter's lock around.
    """
    known = _CODECS.get(scheme)
    if known is None:
        raise Unsupported(f"compression scheme {scheme!r}")
    _, prefix = known
    require((lengths > prefix).all(), "a compressed buffer is shorter than its header")
    heads = np.ascontiguousarray(data[starts[:, None] + np.arange(prefix)])
    sizes: Ints = heads.view(f"<u{prefix}").ravel().astype(np.int64)
    require(
        ((sizes > 0) & (sizes <= lengths * _MAX_RATIO)).all(),
        "a compressed buffer of an impossible size",
    )
    total = int(sizes.sum())
    if most is None:
        claim(total, _WHAT)
    else:
        require((sizes <= most).all(), "a compressed buffer larger than its values")
    largest = int(np.maximum(sizes, lengths).max()) if len(sizes) else 0
    try:
        if scheme == "zstd":  # decompresses consecutive frames as one
            frames = gather(data, starts + prefix, lengths - prefix)
            joined = pa.Codec(scheme).decompress(pa.py_buffer(frames), decompressed_size=total)
        elif len(starts) > 1 and largest <= _LZ4_BLOCKS[-1] and lengths[0] >= _LZ4_HEAD:
            frame = _lz4_frame(data, starts, lengths, largest, total)
            joined = pa.Codec("lz4").decompress(pa.py_buffer(frame), decompressed_size=total)
        else:
            stops = starts + lengths
            places = zip(starts.tolist(), stops.tolist(), strict=True)
            units = [_decompress(scheme, data[at:stop]) for at, stop in places]
            return np.concatenate(units), sizes
    except OSError as error:
        raise Damaged(str(error)) from error
    return as_bytes(joined), sizes


def decompress_each(
    scheme: str, data: Bytes, places: Iterable[tuple[int, int, int | None]]
) -> list[Bytes]:
    """Decompress units one by one: places are (start, stop, maximum size or ``None``).

    All units without maximum size must together fit the page's memory limit.
    """
    units, unknown, known = [], 0, list(places)
    if scheme in _CODECS:  # claimed together first: an error then states the total
        free = (data[start:stop] for start, stop, most in known if most is None and start < stop)
        sizes = (_stated_size(scheme, unit, _CODECS[scheme][1]) for unit in free)
        claim(sum(size or 0 for size in sizes), _WHAT)
    for start, stop, most in known:
        unit = decompress(scheme, data[start:stop], most)
        if most is None:
            unknown += unit.size
            claim(unknown, _WHAT)
        units.append(unit)
    return units


def _lz4_frame(data: Bytes, starts: Ints, lengths: Ints, largest: int, total: int) -> Bytes:
    """Return an LZ4 frame whose blocks are the units.

    A block in a frame follows its *compressed* size, which has as many bytes as a unit's prefix.
    """
    kind = 4 + int(np.searchsorted(_LZ4_BLOCKS, largest))
    # version 1, independent blocks, content size; maximum block size
    descriptor = struct.pack("<BBQ", 0x68, kind << 4, total)
    head = _LZ4_MAGIC + descriptor + bytes([xxh32_intdigest(descriptor) >> 8 & 0xFF])
    frame = gather(data, starts, lengths, room=_LZ4_HEAD)
    frame[:_LZ4_HEAD] = np.frombuffer(head, np.uint8)
    places = starts_of(lengths) + _LZ4_HEAD
    sizes = np.append(lengths - 4, 0)  # size 0 marks the end
    frame[places[:, None] + np.arange(4)] = sizes.astype("<u4")[:, None].view(np.uint8)
    return frame[: places[-1] + 4]


def compressor(scheme: str, level: int | None) -> Callable[[pa.Buffer], bytes]:
    """Return a function that compresses a buffer to one unit: its size, then the bytes."""
    name, prefix = _CODECS[scheme]
    codec = pa.Codec(name, compression_level=level if scheme == "zstd" else None)

    def compress(data: pa.Buffer) -> bytes:
        body: bytes = codec.compress(data, asbytes=True)
        unit: bytes = data.size.to_bytes(prefix, "little") + body
        return unit

    return compress
