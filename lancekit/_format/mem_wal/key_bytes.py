"""Primary keys of several columns as one value, in their order (docs/format/memwal.md, 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit.errors import UnsupportedTypeError

__all__ = ["KEY_TYPES", "is_key_type", "key_tuples", "one_key"]

_TESTS: tuple[Callable[[pa.DataType], bool], ...] = (
    pt.is_integer,
    pt.is_boolean,
    pt.is_string,
    pt.is_large_string,
    pt.is_binary,
    pt.is_large_binary,
)
#: in words
KEY_TYPES = "integers, bool, text and binary"


def is_key_type(kind: pa.DataType) -> bool:
    """Tell whether columns of a type can be in the primary key of a table with shards."""
    return any(test(kind) for test in _TESTS)


def one_key(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the keys of rows as one column: the column itself, if there is one."""
    return columns[0] if len(columns) == 1 else key_tuples(columns)


def key_tuples(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    r"""Encode the key of each row, so that keys compare as their bytes do.

    Of each column a zero byte for a null, else a one and the value: whole numbers as 8 bytes, the
    highest first, with the sign's bit turned around; bool as one byte; text and binary with each
    zero byte followed by 0xFF, and two zero bytes at the end.

    Raises
    ------
    UnsupportedTypeError
        A column is of a type that keys cannot have.

    Examples
    --------
    >>> key_tuples([pa.array([1], pa.uint8()), pa.array(["a"])])[0].as_py()
    b'\x01\x00\x00\x00\x00\x00\x00\x00\x01\x01a\x00\x00'
    """
    parts = [part for column in columns for part in _parts(column)]
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))
    return cast("pa.BinaryArray", joined)


def _parts(column: pa.Array) -> list[pa.Array]:
    marks = np.ones(len(column), np.uint8)
    if not ak.null_count(column):
        return [_fixed(marks[:, None]), _value_bytes(column)]
    valid = column.is_valid()
    marks[~valid.to_numpy(zero_copy_only=False)] = 0
    empty = pa.scalar(b"", pa.binary())
    return [_fixed(marks[:, None]), pc.if_else(valid, _value_bytes(_filled(column)), empty)]


def _filled(column: pa.Array) -> pa.Array:
    """Put any value in the place of nulls."""
    kind = column.type
    value: Any = b"" if pt.is_binary(kind) or pt.is_large_binary(kind) else 0
    value = "" if pt.is_string(kind) or pt.is_large_string(kind) else value
    return column.fill_null(pa.scalar(value, pa.int64()).cast(kind) if value == 0 else value)


def _value_bytes(values: pa.Array) -> pa.Array:
    kind = values.type
    if pt.is_boolean(kind):
        return _fixed(values.cast(pa.uint8()).to_numpy()[:, None])
    if pt.is_integer(kind):
        signed = pt.is_signed_integer(kind)
        words = values.cast(pa.int64() if signed else pa.uint64()).to_numpy().view(np.uint64)
        turned = words ^ np.uint64(1 << 63) if signed else words
        return _fixed(turned.astype(">u8").view(np.uint8).reshape(-1, 8))
    if not is_key_type(kind):
        raise UnsupportedTypeError(
            f"A key column of type {kind} cannot be used.",
            hint=f"Keys of shards are of {KEY_TYPES}.",
            type=str(kind),
        )
    octets = values.cast(pa.binary())
    escaped = pc.replace_substring(octets, pattern=b"\x00", replacement=b"\x00\xff")
    end = pa.scalar(b"\x00\x00", pa.binary())
    ended = pc.binary_join_element_wise(escaped, end, pa.scalar(b"", pa.binary()))
    return cast("pa.Array", ended)


def _fixed(octets: NDArray[np.uint8]) -> pa.Array:
    """Return rows of bytes as values."""
    rows, width = octets.shape
    data = pa.py_buffer(np.ascontiguousarray(octets))
    made = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, data])
    return made.cast(pa.binary())
