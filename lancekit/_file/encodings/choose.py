"""Choice of the encoding for the values of mini-block chunks (docs/format/data-files.md, 11).

Independent of levels and pages: `layouts/choose` passes the values and the maximum number of values
in a chunk, and gets the buffers of all chunks at once.

Flat values are the fastest to read, so another encoding must save a good part of their bytes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._file.encodings import (
    bitpacking,
    byte_stream_split,
    fixed_size_list,
    flat,
    general,
    packed_struct,
    rle,
    variable,
)
from lancekit._file.encodings.choose_strings import long_strings, string_values
from lancekit._file.encodings.request import CHUNK, EncodedValues, EncodingRequest, chunk_size
from lancekit._file.kernels import bits
from lancekit._file.kernels.arrow_buffers import (
    byte_width,
    fixed_bytes,
    is_variable,
    string_buffers,
)
from lancekit._file.kernels.bitpacking import BLOCK, bits_needed
from lancekit._file.kernels.memory import Bytes, Ints
from lancekit._format.pb import encodings_v21_pb2 as pb

#: Maximum share of the flat values' bytes that another encoding may take.
_WORTH = 0.8

#: Smaller values stay flat: saving their space costs more time than it is worth.
_TINY = 1024

#: Bytes of a number that may get a dictionary in 2.2.
_DICTIONARY_WIDTH = 8

#: Number of neighbouring pairs that are sampled to detect runs.
_NEIGHBOURS = 4096


def mini_values(values: pa.Array, valid: Bytes | None, request: EncodingRequest) -> EncodedValues:
    """Encode the values of one page.

    values: at least one value of a leaf column; if there are nulls, ``valid`` marks them.
    valid: validity bitmap of ``values`` from bit 0 on, or ``None`` without nulls.
    """
    kind = values.type
    if isinstance(values, pa.DictionaryArray):
        return _indexed(values, valid, request)
    if is_variable(kind):
        offsets, data = string_buffers(values)
        coded = _dictionary_values(values, valid, request, data.size + offsets.nbytes)
        return coded or string_values(values, request)
    if pa.types.is_fixed_size_list(kind):
        stored = fixed_size_list.encode(values, request)
    elif pa.types.is_struct(kind):
        stored = packed_struct.encode(values, request)
    elif byte_width(kind) is None:
        stored = flat.encode(fixed_bytes(values), len(values), 1, request)
    else:
        stored = _fixed(values, valid, request)
    return (
        stored
        if request.scheme is None
        else general.compressed(stored, *request.scheme, request.large_chunks)
    )


def long_values(
    values: pa.Array, valid: Bytes | None, request: EncodingRequest
) -> EncodedValues | None:
    """Encode strings that include long ones; return ``None`` if chunks do not suit them."""
    offsets, data = string_buffers(values)
    coded = _dictionary_values(values, valid, request, data.size + offsets.nbytes)
    return coded or long_strings(values, request)


def _fixed(values: pa.Array, valid: Bytes | None, request: EncodingRequest) -> EncodedValues:
    """Encode numbers, decimals and temporal values with the smallest of several encodings."""
    data = fixed_bytes(values)
    width = byte_width(values.type) or 0
    plain = flat.encode(data, len(values), width * 8, request)
    # the reference splits 32- and 64-bit values only
    if request.scheme and request.option("bss") == "on" and width in {4, 8}:
        size = chunk_size(width, CHUNK[request.large_chunks], request.max_values)
        return byte_stream_split.encode(data, width, size)
    if request.option("compression") == "none" or data.nbytes <= _TINY:
        return plain
    limit = _WORTH * data.nbytes
    packed = ran = None
    if width in {1, 2, 4, 8}:
        words: NDArray[np.unsignedinteger] = data.view(f"<u{width}")
        if valid is not None:
            words = words * bits.unpack(valid, len(values))  # null slots can contain any value
        widths = bitpacking.widths_of(words)
        size = bitpacking.packed_size(widths, width)
        if size < limit and request.max_values >= min(BLOCK, len(words)):
            packed, limit = widths, _WORTH * size
        starts = _starts_of_runs(words, limit / (width + 1))
        if starts is not None:
            ran, limit = starts, _WORTH * len(starts) * (width + 1)
    if width == 16 or (width == _DICTIONARY_WIDTH and request.large_chunks):
        # as plain bytes or integers: equality then compares bits
        coded = _dictionary_values(_bits_of(values, width), valid, request, int(limit / _WORTH))
        if coded is not None:
            return coded
    if ran is not None:
        return rle.encode(words, ran, min(rle.CHUNK_VALUES, request.max_values))
    return plain if packed is None else bitpacking.encode(words, packed)


def stay_plain(table: NDArray[np.generic], *, large_chunks: bool) -> NDArray[np.bool_]:
    """Return True for each page of numbers that is certainly written flat, unless options differ.

    table: unsigned integers without nulls; each row has the values of one page.
    """
    rows, width = table.shape[1], table.itemsize
    differ = np.count_nonzero(table[:, 1:] != table[:, :-1], axis=1)
    if rows * width <= _TINY:
        tiny: NDArray[np.bool_] = differ > 0
        return tiny
    limit = _WORTH * rows * width
    largest = np.maximum.reduceat(table, np.arange(0, rows, BLOCK), axis=1)
    widths = bitpacking.widths_of_largest(largest)
    packed = widths.sum(axis=1) * BLOCK // 8 + width * widths.shape[1]
    plain: NDArray[np.bool_] = (packed >= limit) & (differ >= limit / (width + 1))
    if large_chunks and width == _DICTIONARY_WIDTH:
        plain &= ~_may_repeat(table)
    return plain


def _bits_of(values: pa.Array, width: int) -> pa.Array:
    """Reinterpret values as integers or binary, which are equal if all bits are."""
    kind = pa.uint64() if width == 8 else pa.binary(width)
    validity, data = values.buffers()
    return pa.Array.from_buffers(kind, len(values), [validity, data], offset=values.offset)


def _starts_of_runs(words: NDArray[np.unsignedinteger], most: float) -> Ints | None:
    """Return the starts of runs, or ``None`` if there are more than ``most``."""
    step = max(1, (len(words) - 1) // _NEIGHBOURS)
    left, right = words[:-1:step], words[1::step]
    if np.count_nonzero(left != right) * step > 1.5 * most + _NEIGHBOURS // 64:
        return None
    starts = rle.starts_of_runs(words)
    # each chunk border starts a new run, and so does every 255th value of a long run
    cuts = len(words) // rle.CHUNK_VALUES + len(words) // rle.LONGEST_RUN
    number = len(starts) + cuts  # an upper bound
    return starts if number < most else None


# ---- dictionary pages: frequent values as indices into the distinct values

#: Fewer values, or fewer bytes, do not get a dictionary.
_MIN_VALUES = 100
_MIN_BYTES = 2048

_MAX_ITEMS = 100_000

#: Number of values that are sampled to detect repetition.
_SAMPLE = 4096

#: Maximum share of the plain values' bytes that a dictionary page may take.
_DICTIONARY_WORTH = 0.7


def _dictionary_values(
    values: pa.Array, valid: Bytes | None, request: EncodingRequest, plain: int
) -> EncodedValues | None:
    """Encode values as dictionary indices; return ``None`` if that saves less than 30%."""
    if len(values) < _MIN_VALUES or plain < _MIN_BYTES or not _repeats(values):
        return None
    coded = pc.dictionary_encode(values)
    items = coded.dictionary
    index = len(values) * bits_needed(len(items)) // 8
    most = min(_MAX_ITEMS, len(values) // 2)
    if len(items) > most or items.nbytes + index > _DICTIONARY_WORTH * plain:
        return None
    return _indexed(coded, valid, request)


def _repeats(values: pa.Array) -> bool:
    """Estimate from a sample if the number of distinct values is small enough for a dictionary.

    A sample of ``s`` values out of ``n`` distinct ones has about ``s * s / 2n`` repetitions.
    """
    most = min(_MAX_ITEMS, len(values) // 2)
    return _repeats_as(values, *_first_sample(most)) and _repeats_as(values, _SAMPLE, most)


def _first_sample(most: int) -> tuple[int, int]:
    """Return the size of a first sample, and the number of distinct values that it tests for.

    16 repetitions are expected.  With fewer than 4, a larger sample is not needed.
    """
    return math.isqrt(32 * most), 4 * most


def _may_repeat(table: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return True for each row of a table of numbers that may get a dictionary."""
    rows = table.shape[1]
    if rows < _MIN_VALUES or rows * table.itemsize < _MIN_BYTES:
        return np.zeros(len(table), bool)
    size, distinct = _first_sample(min(_MAX_ITEMS, rows // 2))
    all_of = rows < 2 * size
    sample = np.sort(table if all_of else table[:, _places(size, rows)], axis=1)
    same = np.count_nonzero(sample[:, 1:] == sample[:, :-1], axis=1)
    found: NDArray[np.bool_] = same * 2 * (1 if all_of else distinct) >= (
        rows if all_of else size**2
    )
    return found


@lru_cache
def _places(size: int, rows: int) -> Ints:
    """Return the row numbers of a sample.

    The distances are random: at even distances, values that repeat in a cycle would look distinct.
    """
    jitter = np.random.default_rng(0).random(_SAMPLE)[:size]
    return ((np.arange(size) + jitter) * (rows / size)).astype(np.int64)


def _repeats_as(values: pa.Array, size: int, distinct: int) -> bool:
    """Return True if a sample repeats at least as often as a sample of `distinct` values would."""
    if len(values) >= 2 * size:
        values, all_of = ak.take(values, _places(size, len(values))), False
    else:
        all_of = True
    sample = ak.drop_null(values)
    same = len(sample) - pc.count_distinct(sample).as_py()
    return bool(same * 2 >= len(sample) if all_of else same * 2 * distinct >= len(sample) ** 2)


def _indexed(
    coded: pa.DictionaryArray, valid: Bytes | None, request: EncodingRequest
) -> EncodedValues:
    """Encode a dictionary array; its items have no nulls."""
    width = byte_width(coded.indices.type) or 0
    words: NDArray[np.unsignedinteger] = fixed_bytes(coded.indices).view(f"<u{width}")
    if valid is not None:
        words = words * bits.unpack(valid, len(words))  # null slots can contain any value
    if request.max_values >= min(BLOCK, len(words)):
        stored = bitpacking.encode(words, bitpacking.widths_of(words))
    else:
        stored = flat.encode(words.view(np.uint8), len(words), width * 8, request)
    return replace(stored, dictionary=_items(coded.dictionary, request))


def _items(items: pa.Array, request: EncodingRequest) -> tuple[pb.CompressiveEncoding, int, bytes]:
    """Encode the dictionary's items as one buffer, compressed in 2.2 if that saves bytes."""
    if is_variable(items.type):
        offsets, data = string_buffers(items)
        encoding = variable.message(offsets.itemsize * 8)
        stored = variable.encode_block(offsets, data)
    else:
        encoding = flat.message((byte_width(items.type) or 0) * 8 or 1)
        stored = fixed_bytes(items).tobytes()
    scheme = request.option("dict-values-compression") or "lz4"
    if request.large_chunks and scheme in {"lz4", "zstd"}:
        encoding, stored = general.compressed_unit(encoding, stored, scheme)
    return encoding, len(items), stored
