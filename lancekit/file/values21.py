"""How values become the buffers of mini-block chunks (file format, section 11).

Knows nothing of levels or pages: `encode21` says which values there are and how many a chunk may
hold, and gets the buffers of all chunks at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancekit.file import bits
from lancekit.file.bitpacking import BLOCK, bits_needed, pack_blocks
from lancekit.file.chunks import Part, chunk_counts
from lancekit.file.memory import Bytes, Ints, starts_of
from lancekit.file.messages21 import flat, fsl_encoding, packed_encoding, variable
from lancekit.file.plain import (
    byte_width,
    fixed_bytes,
    is_variable,
    packed_rows,
    string_buffers,
    taken_apart,
)
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["CHUNK", "MAX_CHUNK_VALUES", "MiniValues", "dictionary_values", "mini_values"]

#: Bytes of values in a chunk, for 16-bit and 32-bit chunk sizes.
CHUNK = {False: 8192, True: 16384}

MAX_CHUNK_VALUES = 1 << 15

#: A chunk never has fewer values, so that single bits end on a byte.
_MIN_CHUNK_VALUES = 8

#: How many values are looked at to see whether a dictionary may pay.
_SAMPLE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniValues:
    """The values of all chunks of a page.

    `counts` are the values of every chunk, the same power of two but for the last.  `buffers` are
    the value buffers of a chunk, each as parts that follow each other without padding.
    `dictionary` is the encoding, the number and the bytes of the items that the values index.
    """

    encoding: pb.CompressiveEncoding
    counts: Ints
    buffers: list[list[Part]]
    dictionary: tuple[pb.CompressiveEncoding, int, bytes] | None = None


def mini_values(
    values: pa.Array,
    valid: Bytes | None,
    *,
    large: bool,
    max_values: int,
    options: Mapping[str, str],
) -> MiniValues:
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
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _user_dictionary(values, valid, large, max_values)
    if pa.types.is_fixed_size_list(kind):
        return _lists(values, large, max_values)
    if pa.types.is_struct(kind):
        return _packed(values, large, max_values)
    if is_variable(kind):
        coded = dictionary_values(values, valid, large=large, max_values=max_values)
        return coded or _strings(values, large, max_values)
    if byte_width(kind) is None:
        return _flat(fixed_bytes(values), len(values), 1, large, max_values)
    plain = options.get("lance-encoding:compression") == "none" or not _packable(kind)
    packed = None if plain else _packed_integers(values, valid, max_values)
    width = byte_width(kind) or 0
    return packed or _flat(fixed_bytes(values), len(values), width * 8, large, max_values)


def dictionary_values(
    values: pa.Array, valid: Bytes | None, *, large: bool, max_values: int
) -> MiniValues | None:
    """Encode strings as indices into the distinct ones; ``None`` if those are many."""
    if len(values) < _SAMPLE // 8:
        return None
    step = max(1, len(values) // _SAMPLE)
    sample = values.take(pa.array(np.arange(0, len(values), step)))
    if pc.count_distinct(sample).as_py() * 4 > len(sample):
        return None
    coded = values.dictionary_encode()
    items = coded.dictionary
    if len(items) * 2 > len(values):
        return None
    return _indices(coded.indices, _block(items), valid, large, max_values)


# ---- fixed width


def _flat(data: Bytes, rows: int, bits_per_row: int, large: bool, max_values: int) -> MiniValues:
    counts = chunk_counts(rows, _chunk_size(bits_per_row / 8, large, max_values))
    part = _split(data, counts, bits_per_row)
    return MiniValues(encoding=flat(bits_per_row), counts=counts, buffers=[[part]])


def _chunk_size(bytes_per_value: float, large: bool, max_values: int) -> int:
    """Return the power of two of values that fit into a chunk."""
    fitting = int(CHUNK[large] / max(bytes_per_value, 1 / 8))
    size = 1 << max(0, fitting.bit_length() - 1)
    return min(MAX_CHUNK_VALUES, max_values, max(_MIN_CHUNK_VALUES, size))


def _split(data: Bytes, counts: Ints, bits_per_value: int) -> Part:
    return Part(data, (counts * bits_per_value + 7) // 8)


def _packable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _packed_integers(values: pa.Array, valid: Bytes | None, max_values: int) -> MiniValues | None:
    """Pack integers, if that halves them."""
    words: NDArray[Any] = fixed_bytes(values).view(f"<u{byte_width(values.type)}")
    if valid is not None:
        words = words * bits.unpack(valid, len(values))  # null slots may hold anything
    chunks = -(-len(words) // BLOCK)
    width = bits_needed(int(words.max()))
    if 2 * chunks * (words.itemsize + width * BLOCK // 8) > words.nbytes:
        return None
    return _bit_packed(words, max_values)


def _bit_packed(values: NDArray[Any], max_values: int) -> MiniValues | None:
    """Pack unsigned integers to the page's width; ``None`` if chunks must be smaller than that."""
    if max_values < min(BLOCK, len(values)):
        return None
    dtype = values.dtype
    width = bits_needed(int(values.max()))
    counts = chunk_counts(len(values), BLOCK)
    each = dtype.itemsize + width * BLOCK // 8
    out = np.zeros((len(counts), each), np.uint8)
    out[:, : dtype.itemsize] = np.frombuffer(dtype.type(width).tobytes(), np.uint8)
    full = len(values) // BLOCK
    body = out[:, dtype.itemsize :]
    blocks = pack_blocks(values[: full * BLOCK].reshape(full, BLOCK), width)
    body[:full] = blocks.view(np.uint8).reshape(full, width * BLOCK // 8)
    if full < len(counts):
        last = np.zeros((1, BLOCK), dtype)
        last[0, : len(values) - full * BLOCK] = values[full * BLOCK :]
        body[full:] = pack_blocks(last, width).view(np.uint8)
    encoding = pb.CompressiveEncoding(
        inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=dtype.itemsize * 8)
    )
    part = Part(out.reshape(-1), np.full(len(counts), each))
    return MiniValues(encoding=encoding, counts=counts, buffers=[[part]])


def _packed(values: pa.Array, large: bool, max_values: int) -> MiniValues:
    table, widths = packed_rows(values)
    stored = _flat(table.reshape(-1), len(values), table.shape[1] * 8, large, max_values)
    encoding = packed_encoding(widths)
    return MiniValues(encoding=encoding, counts=stored.counts, buffers=stored.buffers)


def _lists(values: pa.Array, large: bool, max_values: int) -> MiniValues:
    parts = taken_apart(values)
    counts = chunk_counts(len(values), _chunk_size(parts.bits_per_row / 8, large, max_values))
    buffers = [
        [_split(level.validity, counts, level.items)]
        for level in parts.levels
        if level.validity is not None
    ]
    buffers.append([_split(parts.data, counts, parts.bits_per_row)])
    return MiniValues(encoding=fsl_encoding(parts), counts=counts, buffers=buffers)


# ---- strings


def _strings(values: pa.Array, large: bool, max_values: int) -> MiniValues:
    offsets, data = string_buffers(values)
    rows = len(offsets) - 1
    width = offsets.dtype.itemsize
    size = _chunk_size(width + len(data) / rows, large, max_values)
    # one power of two for the page, such that its largest chunk fits too
    while size > _MIN_CHUNK_VALUES and _largest_chunk(offsets, size) > 2 * CHUNK[large]:
        size //= 2
    counts = chunk_counts(rows, size)
    firsts = starts_of(counts)
    full = len(counts) - 1
    relative = np.empty(rows + len(counts), offsets.dtype)
    if full:
        table = np.lib.stride_tricks.as_strided(
            offsets, (full, size + 1), (size * width, width), writeable=False
        )
        shift = (size + 1) * width - table[:, :1]
        np.add(table, shift, out=relative[: full * (size + 1)].reshape(full, size + 1))
    last = offsets[firsts[-2] :]
    np.add(last, (len(last)) * width - last[0], out=relative[full * (size + 1) :])
    places = (counts + 1) * width
    borders = offsets[firsts].astype(np.int64)
    content = borders[1:] - borders[:-1]
    padding = -(places + content) % 8  # readers want whole offsets, so it counts as content
    parts = [
        Part(relative.view(np.uint8), places),
        Part(data, content),
        Part(np.zeros(int(padding.sum()), np.uint8), padding),
    ]
    return MiniValues(encoding=variable(width * 8), counts=counts, buffers=[parts])


def _largest_chunk(offsets: NDArray[Any], size: int) -> int:
    borders = np.append(offsets[::size], offsets[-1])
    return int(np.diff(borders).max()) + (size + 1) * offsets.dtype.itemsize


# ---- dictionaries


def _user_dictionary(
    values: pa.DictionaryArray, valid: Bytes | None, large: bool, max_values: int
) -> MiniValues:
    """Encode an Arrow dictionary, whose items are not null, as it is."""
    return _indices(values.indices, _block(values.dictionary), valid, large, max_values)


def _indices(
    indices: pa.Array,
    dictionary: tuple[pb.CompressiveEncoding, int, bytes],
    valid: Bytes | None,
    large: bool,
    max_values: int,
) -> MiniValues:
    width = byte_width(indices.type) or 0
    words: NDArray[Any] = fixed_bytes(indices).view(f"<u{width}")
    if valid is not None:
        words = words * bits.unpack(valid, len(words))
    stored = _bit_packed(words, max_values)
    if stored is None:
        stored = _flat(words.view(np.uint8), len(words), width * 8, large, max_values)
    return MiniValues(
        encoding=stored.encoding,
        counts=stored.counts,
        buffers=stored.buffers,
        dictionary=dictionary,
    )


def _block(items: pa.Array) -> tuple[pb.CompressiveEncoding, int, bytes]:
    """Encode the items of a dictionary, as one buffer."""
    if not is_variable(items.type):
        width = byte_width(items.type)
        bits_per_value = 1 if width is None else width * 8
        return flat(bits_per_value), len(items), fixed_bytes(items).tobytes()
    offsets, data = string_buffers(items)
    width = offsets.dtype.itemsize
    head = np.array([width * 8, width * (len(items) + 3)], offsets.dtype)
    block = b"".join((head.tobytes(), offsets.tobytes(), data.tobytes()))
    return variable(width * 8), len(items), block
