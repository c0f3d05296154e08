"""Arrays with the same values in other layouts: offsets at every level, unused values, chunks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit._format.arrow_parts import items_of

__all__ = ["chunked", "odd", "rebuilt"]

_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def rebuilt(values: pa.Array) -> pa.Array:
    """Return the values in the plainest layout, which all kernels are written for."""
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return values.type.wrap_array(rebuilt(values.storage))
    if isinstance(values, pa.DictionaryArray):
        plain = rebuilt(values.cast(values.type.value_type)).dictionary_encode()
        return plain.cast(kind)
    return pa.array(values.to_pylist(), kind) if kind != pa.float16() else _halves(values)


def _halves(values: pa.Array) -> pa.Array:
    floats = [None if value is None else np.float16(value) for value in values.to_pylist()]
    return pa.array(floats, pa.float16())


def _validity(values: pa.Array, before: int, after: int) -> pa.Buffer | None:
    if not values.null_count:
        return None
    flags = values.is_valid().to_numpy(zero_copy_only=False)
    padded = np.concatenate([np.ones(before, bool), flags, np.zeros(after, bool)])
    return pa.py_buffer(np.packbits(padded, bitorder="little"))


def odd(values: pa.Array, random: np.random.Generator) -> pa.Array:
    """Return the values with offsets at some levels, and unused ones before, behind and below."""
    kind, count = values.type, len(values)
    before, after = _room(count, random)
    if isinstance(values, pa.ExtensionArray):
        return values.type.wrap_array(odd(values.storage, random))
    if isinstance(values, pa.DictionaryArray):
        return _odd_dictionary(values, random)
    if isinstance(values, pa.StructArray):
        parts = [odd(_padded(part, before, after), random) for part in _parts(values)]
        buffers = [_validity(values, before, after)]
        return pa.Array.from_buffers(kind, before + count + after, buffers, children=parts).slice(
            before, count
        )
    if isinstance(values, pa.FixedSizeListArray):
        size = values.type.list_size
        items = items_of(values).slice(values.offset * size, count * size)
        items = odd(_padded(items, before * size, after * size), random)
        buffers = [_validity(values, before, after)]
        return pa.Array.from_buffers(kind, before + count + after, buffers, children=[items]).slice(
            before, count
        )
    if isinstance(values, pa.ListArray | pa.LargeListArray):
        return _odd_lists(values, random, before, after)
    padded = _padded(values, before, after)
    if kind in _TEXTS and random.integers(2):
        return _from_another_byte(padded.slice(before, count))
    return padded.slice(before, count)


def _room(count: int, random: np.random.Generator) -> tuple[int, int]:
    """Return how many unused values come before and behind some; there are none to repeat of 0."""
    before, after = random.integers(0, 4, 2) if count else (0, 0)
    return int(before), int(after)


def _parts(structs: pa.StructArray) -> list[pa.Array]:
    return [structs.field(place) for place in range(structs.type.num_fields)]


def _padded(values: pa.Array, before: int, after: int) -> pa.Array:
    """Return the values between others of theirs."""

    def pad(count: int) -> list[pa.Array]:
        return [values.slice(at % len(values), 1) for at in range(count)]

    return pa.concat_arrays([*pad(before), values, *pad(after)])


def _from_another_byte(values: pa.Array) -> pa.Array:
    """Return texts without an offset, whose first one does not begin at byte 0."""
    wide: Any = np.int64 if values.type in _TEXTS[1::2] else np.int32
    _, borders, data = values.buffers()
    offsets = np.frombuffer(borders or b"\0" * 8, wide)
    offsets = offsets[values.offset : values.offset + len(values) + 1]
    raw = b"xY" + (data.to_pybytes() if data else b"")
    buffers = [_validity(values, 0, 0), pa.py_buffer(offsets + 2), pa.py_buffer(raw)]
    return pa.Array.from_buffers(values.type, len(values), buffers)


def _odd_lists(values: Any, random: np.random.Generator, before: int, after: int) -> pa.Array:
    """Return lists, or maps, with items that no list has, and with items below null lists."""
    wide: Any = np.int64 if isinstance(values, pa.LargeListArray) else np.int32
    borders = np.frombuffer(values.buffers()[1] or b"\0" * 8, wide)
    borders = borders[values.offset : values.offset + len(values) + 1].astype(np.int64)
    first, last = int(borders[0]), int(borders[-1])
    left, right = _room(last - first, random)
    items = _padded(values.values.slice(first, last - first), left, right)
    if isinstance(values, pa.MapArray):  # whose entries Arrow reads from offset 0 at all times
        parts = [odd(part, random) for part in _parts(items)]
        items = pa.Array.from_buffers(items.type, len(items), [None], children=parts)
    else:
        items = odd(items, random)
    inner = borders - first + left
    total = left + last - first + right
    offsets = np.concatenate([np.linspace(0, inner[0], before + 1).astype(int)[:-1], inner])
    offsets = np.concatenate([offsets, np.full(after, total)]).astype(wide)
    count = before + len(values) + after
    buffers = [_validity(values, before, after), pa.py_buffer(offsets)]
    whole = pa.Array.from_buffers(values.type, count, buffers, children=[items])
    return whole.slice(before, len(values))


def _odd_dictionary(values: pa.DictionaryArray, random: np.random.Generator) -> pa.Array:
    """Return the values by a dictionary that holds a null, and some that nothing refers to."""
    known = values.dictionary
    others = pa.concat_arrays([pa.nulls(1, known.type), known.slice(0, 1)])
    dictionary = odd(pa.concat_arrays([others, known]), random)
    codes = values.indices.to_pylist()
    shifted = [len(others) + code if code is not None else None for code in codes]
    hidden = [0 if code is None and random.integers(2) else code for code in shifted]
    indices = odd(pa.array(hidden, values.type.index_type), random)
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=values.type.ordered)


def chunked(values: pa.Array, random: np.random.Generator) -> pa.ChunkedArray:
    """Return the values in chunks, empty ones among them, each in a layout of its own."""
    cuts = np.sort(random.integers(0, len(values) + 1, 3)).tolist()
    borders = [0, *cuts, cuts[-1], len(values)]
    parts = [values.slice(a, b - a) for a, b in pairwise(borders)]
    return pa.chunked_array([odd(part, random) for part in parts], values.type)
