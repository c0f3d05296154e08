"""The messages that describe values of versions 2.1 and 2.2."""

from __future__ import annotations

from collections.abc import Sequence

from lancekit.file.kernels.arrow_buffers import ListParts
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["flat", "fsl_encoding", "general", "packed_encoding", "variable"]


def flat(bits_per_value: int) -> pb.CompressiveEncoding:
    """Return the message of values back to back."""
    return pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits_per_value))


def variable(bits_per_offset: int) -> pb.CompressiveEncoding:
    """Return the message of strings behind their offsets."""
    return pb.CompressiveEncoding(variable=pb.Variable(offsets=flat(bits_per_offset)))


def fsl_encoding(parts: ListParts) -> pb.CompressiveEncoding:
    """Return the message of fixed-size lists, which may nest."""
    encoding = flat(parts.item_bits)
    for level in reversed(parts.levels):
        lists = pb.FixedSizeList(
            items_per_value=level.dimension,
            values=encoding,
            has_validity=level.validity is not None,
        )
        encoding = pb.CompressiveEncoding(fixed_size_list=lists)
    return encoding


def packed_encoding(widths: Sequence[int]) -> pb.CompressiveEncoding:
    """Return the message of structs that are rows of fields of so many bytes."""
    packed = pb.PackedStruct(
        bits_per_value=[width * 8 for width in widths], values=flat(8 * sum(widths))
    )
    return pb.CompressiveEncoding(packed_struct=packed)


def general(
    scheme: str, level: int | None, values: pb.CompressiveEncoding
) -> pb.CompressiveEncoding:
    """Return the message of another encoding's buffer, compressed with ``lz4`` or ``zstd``."""
    number = pb.LZ4 if scheme == "lz4" else pb.ZSTD
    compression = pb.BufferCompression(scheme=number, level=level)
    return pb.CompressiveEncoding(general=pb.General(compression=compression, values=values))
