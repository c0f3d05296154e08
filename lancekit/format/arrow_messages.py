"""What a message of Arrow's IPC format claims to hold, read without setting memory aside.

A record batch is described by a flatbuffer: tables of fields, found by the offsets in a vtable.
Arrow itself believes what a compressed buffer says of its size.
"""

from __future__ import annotations

import struct

import pyarrow as pa

__all__ = ["largest_buffer"]

_HEADER, _BUFFERS, _COMPRESSION = 2, 2, 3
#: a buffer's place and length in the body
_PLACE = struct.Struct("<qq")


def largest_buffer(message: pa.ipc.Message) -> int:
    """Return the most bytes that a buffer of a message has, uncompressed if it is not.

    Raises
    ------
    ValueError
        The message contradicts itself.
    """
    if message.type != "record batch" or message.body is None:
        return 0
    meta, body = memoryview(message.metadata), memoryview(message.body)
    try:
        batch = _table(meta, _field(meta, _number(meta, 0, "I"), _HEADER))
        places = _field(meta, batch, _BUFFERS)
        if places is None:
            return 0
        compressed = _field(meta, batch, _COMPRESSION) is not None
        first = places + _number(meta, places, "I")
        largest = 0
        for at in range(_number(meta, first, "I")):
            start, length = _PLACE.unpack_from(meta, first + 4 + at * _PLACE.size)
            if compressed and length:
                length = max(length, _number(body, start, "q"))
            largest = max(largest, length)
    except struct.error as error:
        raise ValueError(f"a message that ends too soon ({error})") from error
    return largest


def _number(data: memoryview, at: int, kind: str) -> int:
    if at < 0:
        raise ValueError("a place before the beginning")
    return int(struct.unpack_from(f"<{kind}", data, at)[0])


def _field(data: memoryview, table: int, number: int) -> int | None:
    """Return where a field of a table is, if it has it."""
    vtable = table - _number(data, table, "i")
    slot = 4 + 2 * number
    if slot + 2 > _number(data, vtable, "H"):
        return None
    offset = _number(data, vtable + slot, "H")
    return table + offset if offset else None


def _table(data: memoryview, field: int | None) -> int:
    if field is None:
        raise ValueError("a message without a header")
    return field + _number(data, field, "I")
