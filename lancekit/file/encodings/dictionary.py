"""Dictionary pages: values that occur often, as indices into the distinct ones."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import arrow_compute as pc
from lancekit import arrow_kernels as ak
from lancekit.file.encodings import bitpacking, flat, general, variable
from lancekit.file.encodings.request import EncodedValues, EncodingRequest
from lancekit.file.kernels import bits
from lancekit.file.kernels.arrow_buffers import byte_width, fixed_bytes, is_variable, string_buffers
from lancekit.file.kernels.bitpacking import BLOCK, bits_needed
from lancekit.file.kernels.memory import Bytes, Ints
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["dictionary_values", "indexed", "may_repeat"]

#: Fewer values, or bytes, are not worth a dictionary.
_MIN_VALUES = 100
_MIN_BYTES = 2048

_MAX_ITEMS = 100_000

#: How many values are looked at to see whether many are equal.
_SAMPLE = 4096

#: A dictionary page takes at most so much of the bytes of the plain values.
_WORTH = 0.7


def dictionary_values(
    values: pa.Array, valid: Bytes | None, request: EncodingRequest, plain: int
) -> EncodedValues | None:
    """Encode values as indices; ``None`` unless that saves a third of ``plain`` bytes."""
    if len(values) < _MIN_VALUES or plain < _MIN_BYTES or not _repeats(values):
        return None
    coded = pc.dictionary_encode(values)
    items = coded.dictionary
    index = len(values) * bits_needed(len(items)) // 8
    most = min(_MAX_ITEMS, len(values) // 2)
    if len(items) > most or items.nbytes + index > _WORTH * plain:
        return None
    return indexed(coded, valid, request)


def _repeats(values: pa.Array) -> bool:
    """Guess from a sample whether the distinct values are few enough.

    Among ``s`` values out of ``n`` distinct ones about ``s * s / 2n`` are seen again.
    """
    most = min(_MAX_ITEMS, len(values) // 2)
    return _again(values, *_first_look(most)) and _again(values, _SAMPLE, most)


def _first_look(most: int) -> tuple[int, int]:
    """Return the size of a sample, and of how many distinct values it is thought to be.

    Where sixteen should be seen again, and not four are, no larger sample has to be looked at.
    """
    return math.isqrt(32 * most), 4 * most


def may_repeat(table: NDArray[Any]) -> NDArray[np.bool_]:
    """Return of each line of a table of numbers whether it may get a dictionary."""
    rows = table.shape[1]
    if rows < _MIN_VALUES or rows * table.itemsize < _MIN_BYTES:
        return np.zeros(len(table), bool)
    size, distinct = _first_look(min(_MAX_ITEMS, rows // 2))
    all_of = rows < 2 * size
    sample = np.sort(table if all_of else table[:, _places(size, rows)], axis=1)
    again = np.count_nonzero(sample[:, 1:] == sample[:, :-1], axis=1)
    found: NDArray[np.bool_] = again * 2 * (1 if all_of else distinct) >= (
        rows if all_of else size**2
    )
    return found


@lru_cache
def _places(size: int, rows: int) -> Ints:
    """Return which rows a sample of so many is.

    Not at even distances: values that repeat in a cycle would not be seen to.
    """
    jitter = np.random.default_rng(0).random(_SAMPLE)[:size]
    return ((np.arange(size) + jitter) * (rows / size)).astype(np.int64)


def _again(values: pa.Array, size: int, distinct: int) -> bool:
    """Tell whether a sample has as many values again as one of so many distinct ones would."""
    if len(values) >= 2 * size:
        values, all_of = ak.take(values, _places(size, len(values))), False
    else:
        all_of = True
    sample = ak.drop_null(values)
    again = len(sample) - pc.count_distinct(sample).as_py()
    return bool(again * 2 >= len(sample) if all_of else again * 2 * distinct >= len(sample) ** 2)


def indexed(
    coded: pa.DictionaryArray, valid: Bytes | None, request: EncodingRequest
) -> EncodedValues:
    """Encode an array of indices whose items are not null."""
    width = byte_width(coded.indices.type) or 0
    words: NDArray[Any] = fixed_bytes(coded.indices).view(f"<u{width}")
    if valid is not None:
        words = words * bits.unpack(valid, len(words))  # null slots may hold anything
    if request.max_values >= min(BLOCK, len(words)):
        stored = bitpacking.encode(words, bitpacking.widths_of(words))
    else:
        stored = flat.encode(words.view(np.uint8), len(words), width * 8, request)
    return replace(stored, dictionary=_items(coded.dictionary, request))


def _items(items: pa.Array, request: EncodingRequest) -> tuple[pb.CompressiveEncoding, int, bytes]:
    """Encode the items as one buffer; in 2.2 compressed where that pays."""
    if is_variable(items.type):
        offsets, data = string_buffers(items)
        encoding = variable.message(offsets.itemsize * 8)
        stored = variable.encode_block(offsets, data)
    else:
        encoding = flat.message((byte_width(items.type) or 0) * 8 or 1)
        stored = fixed_bytes(items).tobytes()
    scheme = request.option("dict-values-compression") or "lz4"
    if request.large and scheme in {"lz4", "zstd"}:
        encoding, stored = general.compressed_unit(encoding, stored, scheme)
    return encoding, len(items), stored
