"""Input and output of the value encoders of mini-block pages: options, and buffers of chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lancekit import _arrow_compute as pc
from lancekit._file.kernels.memory import Bytes, Ints, starts_of
from lancekit._format.arrow_parts import strings_of
from lancekit._format.field_marks import COMPRESSION_LEVEL, level, option
from lancekit._format.pb import encodings_v21_pb2 as pb
from lancekit.options import DEFAULT_GOAL

#: Bytes of values in a chunk, by whether chunk sizes are 32-bit (2.2) or 16-bit numbers.
CHUNK = {False: 8192, True: 16384}

MAX_CHUNK_VALUES = 1 << 15

#: A chunk of single bits has at least this many values, so that it ends on a byte.
MIN_CHUNK_VALUES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedValues:
    """Encoded values of all chunks of a page.

    `counts` are the numbers of values in the chunks: equal powers of two, except for the last.
    `buffers` are the value buffers of a chunk, each as consecutive parts without padding.
    `dictionary` has the encoding, the number and the bytes of the items that the values index.
    """

    encoding: pb.CompressiveEncoding
    counts: Ints
    buffers: list[list[Part]]
    dictionary: tuple[pb.CompressiveEncoding, int, bytes] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers and of the dictionary."""
        stored = sum(part.data.size for parts in self.buffers for part in parts)
        return stored + (len(self.dictionary[2]) if self.dictionary else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingRequest:
    """Options for encoding a page's values.

    `large_chunks` is True for version 2.2, which has 32-bit chunk sizes.  `max_values` limits the
    values of a chunk and is a power of two.  `options` is the column's metadata.  `goal` is the
    reading pattern that strings are optimised for, one of `lancekit.options.GOALS`.
    """

    large_chunks: bool
    max_values: int = MAX_CHUNK_VALUES
    options: Mapping[str, str]
    goal: str = DEFAULT_GOAL

    def option(self, name: str) -> str:
        """Return an option of the column's metadata, such as ``compression``, or ""."""
        return option(self.options, f"lance-encoding:{name}")

    @property
    def scheme(self) -> tuple[str, int | None] | None:
        """General compression that the column's metadata requests, with its level."""
        name = self.option("compression")
        if name not in {"lz4", "zstd"}:
            return None
        return name, level(self.options.get(COMPRESSION_LEVEL, ""))

    def chunk_counts(self, rows: int, bits_per_row: int) -> Ints:
        """Return the number of values in every chunk of values with a fixed width."""
        size = chunk_size(bits_per_row / 8, CHUNK[self.large_chunks], self.max_values)
        return chunk_counts(rows, size)


def chunk_size(
    bytes_per_value: float, limit: int, max_values: int, smallest: int = MIN_CHUNK_VALUES
) -> int:
    """Return the largest power of two of values that fits into ``limit`` bytes."""
    fitting = int(limit / max(bytes_per_value, 1 / 8))
    size = 1 << max(0, fitting.bit_length() - 1)
    return min(MAX_CHUNK_VALUES, max_values, max(smallest, size))


def split(data: Bytes, counts: Ints, bits_per_value: int) -> Part:
    """Return back-to-back values as one buffer of every chunk."""
    return Part(data, (counts * bits_per_value + 7) // 8)


# ---- buffers that encoders create for all chunks at once


@dataclass(frozen=True, slots=True)
class Part:
    """One buffer of every chunk: `lengths` bytes each, back to back without padding."""

    data: Bytes
    lengths: Ints


def chunk_counts(rows: int, size: int) -> Ints:
    """Return the number of values in every chunk: ``size``, and the rest in the last."""
    full = max(0, -(-rows // size) - 1)
    return np.array([size] * full + [rows - full * size], np.int64)


def interleave(parts: Sequence[Part]) -> Bytes:
    """Concatenate the first pieces of all parts, then the second pieces, and so on."""
    arrays = [strings_of(starts_of(part.lengths), part.data) for part in parts]
    separator = strings_of(np.zeros(2, np.int64), b"")[0]  # `pyarrow.scalar` would import pandas
    joined = pc.binary_join_element_wise(*arrays, separator).buffers()[2]
    total = sum(int(part.lengths.sum()) for part in parts)
    out: Bytes = np.frombuffer(joined, np.uint8)[:total]
    return out
