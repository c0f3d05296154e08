"""Rows of a single mini-block chunk, which is all that a small table or a small range needs.

`MiniBlockPages` decodes arrays of chunks, some dozens of NumPy calls whatever their number.  With
one chunk, plain integers take the place of the arrays, and only the wanted values are unpacked
where their places are known.  Encodings that are not in the tables here go the general way.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from lancekit.file.encodings import decode
from lancekit.file.kernels.faults import require
from lancekit.file.kernels.memory import Bytes
from lancekit.file.kernels.values import DecodedValues, words_of
from lancekit.file.structure.repdef import Words
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["decode_chunk"]


def decode_chunk(
    layout: pb.MiniBlockLayout, data: Bytes, count: int, rows: range
) -> tuple[DecodedValues, Words | None]:
    """Decode rows of one chunk of a page without lists.

    Parameters
    ----------
    data
        The whole chunk.
    count
        The values that it must hold.
    rows
        Those wanted, counted from the first of the chunk.

    Returns
    -------
    The values, and the definition levels if there are any.

    Raises
    ------
    Damaged, Unsupported
        To be called inside of `located`.
    """
    nullable = layout.HasField("def_compression")
    header = _header(nullable, int(layout.num_buffers), bool(layout.has_large_chunk))
    require(header.size <= 4096 and data.size >= header.size, "a chunk is shorter than its header")
    entries, *lengths = header.unpack(data[: header.size].tobytes())
    place = -(-header.size // 8) * 8
    buffers = []
    for length in lengths:
        buffers.append(data[place : place + length])
        place += -(-length // 8) * 8
    # the padding of the last buffer may be missing
    require(place - 8 < data.size, "a chunk's buffers are longer than the chunk")
    definition = None
    if nullable:
        require(entries == count, "a chunk's levels are not its rows")
        levels = decode.decode_block(layout.def_compression, buffers.pop(0), count)
        definition = words_of(levels, 2)[rows.start : rows.stop]
    return decode.decode_chunk(layout.value_compression, buffers, count, rows), definition


@lru_cache
def _header(nullable: bool, buffers: int, wide: bool) -> struct.Struct:
    """Return the number of levels, the length of each level buffer, and of each value buffer."""
    return struct.Struct(f"<{2 if nullable else 1}H{buffers}{'I' if wide else 'H'}")
