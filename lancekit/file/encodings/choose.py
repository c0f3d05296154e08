"""How values become the buffers of mini-block chunks (docs/format/data-files.md, 11).

Knows nothing of levels or pages: `layouts/choose` says which values there are and how many a chunk
may hold, and gets the buffers of all chunks at once.

Flat values are the fastest to read, so another encoding has to save a good part to be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit.file.encodings import (
    bitpacking,
    byte_stream_split,
    fixed_size_list,
    flat,
    general,
    packed_struct,
    rle,
)
from lancekit.file.encodings.choose_strings import long_strings, string_values
from lancekit.file.encodings.dictionary import dictionary_values, indexed, may_repeat
from lancekit.file.encodings.request import (
    CHUNK,
    MAX_CHUNK_VALUES,
    EncodedValues,
    EncodingRequest,
    chunk_size,
)
from lancekit.file.kernels import bits
from lancekit.file.kernels.arrow_buffers import (
    byte_width,
    fixed_bytes,
    is_variable,
    string_buffers,
)
from lancekit.file.kernels.bitpacking import BLOCK
from lancekit.file.kernels.memory import Bytes
from lancekit.options import DEFAULT_GOAL

__all__ = ["MAX_CHUNK_VALUES", "EncodedValues", "long_values", "mini_values", "stay_plain"]

#: Another encoding than flat values takes at most so much of their bytes.
_WORTH = 0.8

#: Fewer bytes stay as they are: whatever saves space costs more time than it is worth.
_TINY = 1024

#: Bytes of the numbers that get a dictionary in 2.2.
_DICTIONARY_WIDTH = 8

#: How many pairs of neighbours are looked at to see whether there are runs.
_NEIGHBOURS = 4096


def mini_values(
    values: pa.Array,
    valid: Bytes | None,
    *,
    large: bool,
    max_values: int,
    options: Mapping[str, str],
    goal: str = DEFAULT_GOAL,
) -> EncodedValues:
    """Encode the values of one page.

    Parameters
    ----------
    values
        At least one value of a leaf column; nulls where ``valid`` has them, or none.
    valid
        The bitmap of ``values``, from bit 0 on; ``None`` if all count.
    large
        Version 2.2: 32-bit chunk sizes.
    max_values
        The most values that a chunk may have: a power of two, at least 8.
    options
        The column's metadata.
    goal
        What text is to be written for.
    """
    request = EncodingRequest(large=large, max_values=max_values, options=options, goal=goal)
    kind = values.type
    if isinstance(values, pa.DictionaryArray):
        return indexed(values, valid, request)
    if is_variable(kind):
        offsets, data = string_buffers(values)
        coded = dictionary_values(values, valid, request, data.size + offsets.nbytes)
        return coded or string_values(values, request)
    if pa.types.is_fixed_size_list(kind):
        stored = fixed_size_list.encode(values, request)
    elif pa.types.is_struct(kind):
        stored = packed_struct.encode(values, request)
    elif byte_width(kind) is None:
        stored = flat.encode(fixed_bytes(values), len(values), 1, request)
    else:
        stored = _fixed(values, valid, request)
    return stored if request.scheme is None else general.compressed(stored, *request.scheme, large)


def long_values(
    values: pa.Array,
    valid: Bytes | None,
    *,
    large: bool,
    max_values: int = MAX_CHUNK_VALUES,
    options: Mapping[str, str],
    goal: str = DEFAULT_GOAL,
) -> EncodedValues | None:
    """Encode strings of which some are long; ``None`` if chunks do not suit them."""
    request = EncodingRequest(large=large, max_values=max_values, options=options, goal=goal)
    offsets, data = string_buffers(values)
    coded = dictionary_values(values, valid, request, data.size + offsets.nbytes)
    return coded or long_strings(values, request)


def _fixed(values: pa.Array, valid: Bytes | None, request: EncodingRequest) -> EncodedValues:
    """Encode numbers, decimals, temporal values: as the smallest of several encodings."""
    data = fixed_bytes(values)
    width = byte_width(values.type) or 0
    plain = flat.encode(data, len(values), width * 8, request)
    # the reference splits 32- and 64-bit values only
    if request.scheme and request.option("bss") == "on" and width in {4, 8}:
        size = chunk_size(width, CHUNK[request.large], request.max_values)
        return byte_stream_split.encode(data, width, size)
    if request.option("compression") == "none" or data.nbytes <= _TINY:
        return plain
    best = _WORTH * data.nbytes
    packed = ran = None
    if width in {1, 2, 4, 8}:
        words: NDArray[Any] = data.view(f"<u{width}")
        if valid is not None:
            words = words * bits.unpack(valid, len(values))  # null slots may hold anything
        widths = bitpacking.widths_of(words)
        size = bitpacking.packed_size(widths, width)
        if size < best and request.max_values >= min(BLOCK, len(words)):
            packed, best = widths, _WORTH * size
        starts = _starts_of_runs(words, best / (width + 1))
        if starts is not None:
            ran, best = starts, _WORTH * len(starts) * (width + 1)
    if width == 16 or (width == _DICTIONARY_WIDTH and request.large):
        # as plain bytes, whose equality is that of their bits
        coded = dictionary_values(_bits_of(values, width), valid, request, int(best / _WORTH))
        if coded is not None:
            return coded
    if ran is not None:
        return rle.encode(words, ran, min(rle.CHUNK_VALUES, request.max_values))
    return plain if packed is None else bitpacking.encode(words, packed)


def stay_plain(table: NDArray[Any], *, large: bool) -> NDArray[np.bool_]:
    """Return which pages of numbers are surely written as they are, if no option says otherwise.

    Parameters
    ----------
    table
        Unsigned integers without nulls, in each line the values of a page.
    """
    rows, width = table.shape[1], table.itemsize
    differ = np.count_nonzero(table[:, 1:] != table[:, :-1], axis=1)
    if rows * width <= _TINY:
        tiny: NDArray[np.bool_] = differ > 0
        return tiny
    best = _WORTH * rows * width
    largest = np.maximum.reduceat(table, np.arange(0, rows, BLOCK), axis=1)
    widths = bitpacking.widths_of_largest(largest)
    packed = widths.sum(axis=1) * BLOCK // 8 + width * widths.shape[1]
    plain: NDArray[np.bool_] = (packed >= best) & (differ >= best / (width + 1))
    if large and width == _DICTIONARY_WIDTH:
        plain &= ~may_repeat(table)
    return plain


def _bits_of(values: pa.Array, width: int) -> pa.Array:
    """Return values as integers or bytes that are equal where all bits are."""
    kind = pa.uint64() if width == 8 else pa.binary(width)
    validity, data = values.buffers()
    return pa.Array.from_buffers(kind, len(values), [validity, data], offset=values.offset)


def _starts_of_runs(words: NDArray[Any], most: float) -> Any:
    """Return where runs begin; ``None`` if there are more than ``most``."""
    step = max(1, (len(words) - 1) // _NEIGHBOURS)
    left, right = words[:-1:step], words[1::step]
    if np.count_nonzero(left != right) * step > 1.5 * most + _NEIGHBOURS // 64:
        return None
    starts = rle.starts_of_runs(words)
    # a run is cut where its chunk ends, and a long one after each 255 values
    cuts = len(words) // rle.CHUNK_VALUES + len(words) // rle.LONGEST_RUN
    number = len(starts) + cuts  # at most
    return starts if number < most else None
