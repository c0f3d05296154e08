"""Fixed-size lists: an optional validity bitmap, then items (docs/format/data-files.md, 11.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lancekit._file.encodings import flat
from lancekit._file.encodings.buffers import TOO_SHORT, Buffers, Encoding
from lancekit._file.kernels import bits
from lancekit._file.kernels.bounds import claim
from lancekit._file.kernels.faults import require
from lancekit._file.kernels.memory import Bytes, Ints
from lancekit._format.pb import encodings_v21_pb2 as pb

if TYPE_CHECKING:
    from lancekit._file.encodings.request import EncodedValues, EncodingRequest
    from lancekit._file.kernels.arrow_buffers import ListParts


def message(parts: ListParts) -> Encoding:
    """Return the protobuf message of fixed-size lists, possibly nested."""
    encoding = flat.message(parts.item_bits)
    for level in reversed(parts.levels):
        lists = pb.FixedSizeList(
            items_per_value=level.dimension,
            values=encoding,
            has_validity=level.validity is not None,
        )
        encoding = pb.CompressiveEncoding(fixed_size_list=lists)
    return encoding


def take_validity(
    lists: pb.FixedSizeList, buffers: Buffers, counts: Ints
) -> tuple[Bytes | None, Buffers]:
    """Return the validity bits of the chunks' items, or ``None``, and the remaining buffers."""
    size = int(lists.items_per_value)
    total = int(counts.sum())
    claim(size * total // 8, f"{total:,} lists of {size:,} items")
    if not lists.has_validity:
        return None, buffers
    require(len(buffers) > 0, "a chunk has no validity buffer")
    first, *rest = buffers
    require(((counts * size + 7) // 8 <= first.lengths).all(), TOO_SHORT)
    return bits.gather_bits(first.data, first.starts, counts * size), rest


def encode(values: pa.Array, request: EncodingRequest) -> EncodedValues:
    """Encode fixed-size lists, possibly nested."""
    from lancekit._file.encodings.request import EncodedValues, split
    from lancekit._file.kernels.arrow_buffers import split_lists

    parts = split_lists(values)
    counts = request.chunk_counts(len(values), parts.bits_per_row)
    buffers = [
        [split(level.validity, counts, level.items)]
        for level in parts.levels
        if level.validity is not None
    ]
    buffers.append([split(parts.data, counts, parts.bits_per_row)])
    return EncodedValues(encoding=message(parts), counts=counts, buffers=buffers)
