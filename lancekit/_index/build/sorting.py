"""Sort order of an index: nulls first, floats in their total order, text by its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import flags_of, numbers_of
from lancekit._file.kernels import bits
from lancekit._file.kernels.arrow_buffers import byte_width, fixed_bytes, is_variable, null_flags
from lancekit._format.arrow_parts import viewed

Flags = npt.NDArray[np.bool_]

#: the most bytes of text in an array with 32-bit offsets
_MOST_TEXT = (1 << 31) - 1
_SIGN = 63
#: only distinct values are sorted if fewer than one in 4 of the first 4096 values is distinct
_SAMPLE, _FEW = 4096, 4

_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; strings become large strings if they do not fit otherwise."""
    large = _LARGE.get(column.type)
    if large is not None and column.nbytes > _MOST_TEXT:
        column = column.cast(large)
    if column.num_chunks == 1:
        return column.chunk(0)
    return ak.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def order_of(values: pa.Array) -> Places:
    """Return the indices that sort values in ascending order; the sort is stable."""
    flags = null_flags(values)
    if flags is None:
        return _order(values)
    valid = np.flatnonzero(~flags)
    return np.concatenate([np.flatnonzero(flags), valid[_order(ak.take(values, valid))]])


def _order(values: pa.Array) -> Places:
    words = ordered_words(values)
    if words is not None:
        return stable_order(words)
    sample = values.slice(0, _SAMPLE)
    if len(pc.dictionary_encode(sample).dictionary) * _FEW < len(sample):
        found = pc.dictionary_encode(values)
        ranks = np.empty(len(found.dictionary), np.uint64)
        ranks[_by_bytes(found.dictionary)] = np.arange(len(ranks), dtype=np.uint64)
        return stable_order(ranks[viewed(found.indices.buffers()[1], np.int32)[: len(values)]])
    return _by_bytes(values)


def _by_bytes(values: pa.Array) -> Places:
    order = text_order(values) if is_variable(values.type) else None
    if order is not None:
        return order
    return numbers_of(ak.sort_indices(values)).astype(np.int64)


def ordered_words(values: pa.Array) -> Words | None:
    """Return numbers that sort like the values, which have no nulls; ``None`` for other types.

    Examples
    --------
    >>> ordered_words(pa.array([-0.0, 0.0, float("nan"), -1.0])).argsort().tolist()
    [3, 0, 1, 2]
    """
    kind = values.type
    if types.is_boolean(kind):
        return plain_numbers(values).astype(np.uint64)
    width = byte_width(kind)
    binary = types.is_fixed_size_binary(kind) or types.is_decimal(kind)
    if width is None or binary:
        return None
    sign = np.uint64(1 << _SIGN)
    numbers = plain_numbers(values)
    if types.is_unsigned_integer(kind):
        return numbers.astype(np.uint64)
    words = numbers.view(f"<i{width}").astype(np.int64).view(np.uint64)
    if not types.is_floating(kind):
        return words ^ sign
    # a negative float's bits grow as it falls
    negative = (words >> np.uint64(_SIGN)).astype(bool)
    return np.where(negative, ~words, words | sign)


def plain_numbers(values: pa.Array) -> npt.NDArray[Any]:
    """Return values of a fixed width as NumPy numbers; times in their stored form."""
    kind = values.type
    if types.is_boolean(kind):
        return bits.unpack(fixed_bytes(values), len(values))
    numbers: npt.NDArray[np.generic] = np.ascontiguousarray(fixed_bytes(values)).view(_number(kind))
    return numbers


def _number(kind: pa.DataType) -> str:
    family = "f" if types.is_floating(kind) else "u" if types.is_unsigned_integer(kind) else "i"
    return f"<{family}{byte_width(kind)}"


def stored(numbers: npt.NDArray[np.generic], kind: pa.DataType, nulls: Flags) -> pa.Array:
    """Return an array of numbers from `plain_numbers`, with nulls."""
    if types.is_boolean(kind):
        return pa.array(numbers.astype(bool), mask=nulls)
    validity = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(numbers)])


def differs(ordered: pa.Array) -> Flags:
    """Return a mask of the ordered values, nulls first, that differ from the previous one."""
    changes: Flags = np.ones(len(ordered), bool)
    if len(ordered) < 2:
        return changes
    nulls = ak.null_count(ordered)
    changes[1:nulls] = False
    valid = ordered.slice(nulls)
    if not len(valid):
        return changes
    words = ordered_words(valid)
    if words is not None:
        changes[nulls + 1 :] = words[1:] != words[:-1]
        return changes
    changes[nulls + 1 :] = flags_of(pc.not_equal(valid.slice(1), valid.slice(0, len(valid) - 1)))
    return changes


# ---- the order of text and bytes, sorted by a few bytes of all values at a time

_WORD = 8
#: `text_order` gives up on values with longer common prefixes
_MOST_BYTES = 96
#: bits of a sort key that hold the number of remaining bytes of the value
_LEFT_BITS = 4
_LEFT = np.uint64((1 << _LEFT_BITS) - 1)
#: masks for the first 0, 1, ... 8 bytes of a word
_FIRST = np.array([(1 << 64) - (1 << 8 * (_WORD - n)) for n in range(_WORD + 1)], np.uint64)


def text_order(values: pa.Array) -> Places | None:
    """Return the indices that sort strings or binary values without nulls by their bytes.

    The sort is stable. ``None`` if values have long common prefixes.
    """
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, ends, data = values.buffers()
    bounds = viewed(ends, np.int64 if wide else np.int32)
    bounds = bounds[values.offset : values.offset + len(values) + 1].astype(np.int64)
    # padding for a word that begins at the last byte
    raw = np.concatenate([viewed(data)[bounds[0] : bounds[-1]], np.zeros(_WORD, np.uint8)])
    words = np.ndarray((len(raw) - _WORD + 1,), ">u8", raw, strides=(1,))
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)

    # a rank is the number of smaller values; tied values have the rank of the first tied value
    ranks = np.zeros(len(values), np.uint64)
    tied, groups, at = np.arange(len(values)), np.zeros(len(values), np.uint64), 0
    while len(tied):
        if at >= _MOST_BYTES:
            return None
        size = min(_WORD * 8 - _LEFT_BITS - int(groups[-1]).bit_length(), 56) // 8
        left = np.minimum(lengths[tied] - at, size + 1)
        kept = words[starts[tied] + at] & _FIRST[np.minimum(left, size)]
        # the number of remaining bytes distinguishes a value's end from zero bytes
        keys = kept.astype(np.uint64) >> np.uint64(8 * (_WORD - size) - _LEFT_BITS)
        keys |= left.view(np.uint64) | groups << np.uint64(8 * size + _LEFT_BITS)
        order = np.argsort(keys)
        tied, keys = tied[order], keys[order]
        # values are still in the order of their groups
        firsts = np.flatnonzero(_changes(groups))
        news = np.flatnonzero(_changes(keys))
        sizes = np.diff(news, append=len(keys))
        found = ranks[tied[news]] + (news - firsts[groups[news]]).astype(np.uint64)
        ranks[tied] = np.repeat(found, sizes)
        unresolved = (sizes > 1) & (keys[news] & _LEFT > size)
        tied = tied[np.repeat(unresolved, sizes)]
        groups = np.repeat(np.arange(unresolved.sum(), dtype=np.uint64), sizes[unresolved])
        at += size
    return stable_order(ranks)


def _changes(ordered: Words) -> npt.NDArray[np.bool_]:
    """Return a mask of the numbers that differ from the previous one."""
    found = np.ones(len(ordered), bool)
    found[1:] = ordered[1:] != ordered[:-1]
    return found


# ---- stable sort of numbers

Places = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

#: the most bits of a number and its index together, to sort both as one number
_BITS = 64


def stable_order(words: Words) -> Places:
    """Return the indices that sort numbers in ascending order; the sort is stable."""
    count = len(words)
    if count < 2 or (words[1:] >= words[:-1]).all():
        return np.arange(count)
    least = words.min()
    bits = (count - 1).bit_length()
    if int(words.max() - least).bit_length() + bits <= _BITS:
        return _packed(words - least, bits)
    order = np.argsort(words)
    ranks = np.zeros(count, np.uint64)
    ordered = words[order]
    np.cumsum(ordered[1:] != ordered[:-1], out=ranks[1:])
    if int(ranks[-1]) == count - 1:
        return order
    by_place = np.empty(count, np.uint64)
    by_place[order] = ranks
    return _packed(by_place, bits)


def _packed(words: Words, bits: int) -> Places:
    """Sort numbers together with their indices in the low bits, as one number each."""
    packed = words << np.uint64(bits) | np.arange(len(words), dtype=np.uint64)
    packed.sort()
    packed &= np.uint64((1 << bits) - 1)
    return packed.view(np.int64)
