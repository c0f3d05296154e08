"""Small pages of numbers that are written as they are, many at once.

A wide table has a page of a few KiB for each of thousands of columns.  Whether an encoding would
make numbers smaller is found out for all pages of a width and length together, as a table; those
that stay as they are differ in their values alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.file.encodings.choose import stay_plain
from lancekit.file.encodings.request import CHUNK
from lancekit.file.kernels.arrow_buffers import Encoded, byte_width, fixed_bytes
from lancekit.file.kernels.memory import Bytes

__all__ = ["encoded_together"]

#: Bytes of pages that are held meanwhile.
_HELD_BYTES = 1 << 20

#: Fewer are encoded sooner one by one.
_FEW = 4

_WORDS = frozenset({1, 2, 4, 8})


class _Column(Protocol):
    """What a page belongs to."""

    @property
    def encode(self) -> Callable[[pa.Array], Iterable[Encoded]]:
        """What encodes a page alone."""

    @property
    def plain(self) -> bool:
        """Whether pages are of a version from 2.1 on, of what is not nested and has no options."""


C = TypeVar("C", bound=_Column)


def encoded_together(
    pages: Iterable[tuple[C, pa.Array]], *, large: bool
) -> Iterator[tuple[C, pa.Array, Encoded | None]]:
    """Yield pages, in order, and what becomes of those that are encoded together."""
    held: list[tuple[C, pa.Array]] = []
    size = 0
    for page in pages:
        held.append(page)
        # asking numbers for their bytes takes longer than it may
        width = byte_width(page[1].type)
        size += page[1].nbytes if width is None else width * len(page[1])
        if size > _HELD_BYTES:
            yield from _known(held, large)
            held, size = [], 0
    yield from _known(held, large)


def _known(
    pages: Sequence[tuple[C, pa.Array]], large: bool
) -> Iterator[tuple[C, pa.Array, Encoded | None]]:
    alike: dict[tuple[int, int], list[int]] = {}
    for place, (column, array) in enumerate(pages):
        width, rows = byte_width(array.type) or 0, len(array)
        # a page of one chunk, with more than a value
        fits = width in _WORDS and 1 < rows <= CHUNK[large] // width
        if fits and column.plain and not ak.null_count(array):
            alike.setdefault((width, rows), []).append(place)
    found: dict[int, Encoded | None] = {}
    for places in alike.values():
        if len(places) >= _FEW:
            arrays = [pages[place][1] for place in places]
            made = _alike(arrays, pages[places[0]][0].encode, large)
            found.update(zip(places, made, strict=True))
    for place, (column, array) in enumerate(pages):
        yield column, array, found.get(place)


def _alike(
    arrays: Sequence[pa.Array], encode: Callable[[pa.Array], Iterable[Encoded]], large: bool
) -> list[Encoded | None]:
    """Return the pages of arrays as wide and long as each other, ``None`` for what may shrink."""
    width, rows = byte_width(arrays[0].type) or 0, len(arrays[0])
    table: Bytes = np.empty((len(arrays), rows * width), np.uint8)
    for line, array in zip(table, arrays, strict=True):
        line[:] = fixed_bytes(array)
    plain = stay_plain(table.view(f"<u{width}"), large=large)
    if not plain.any():
        return [None] * len(arrays)
    (first,) = encode(arrays[int(plain.argmax())])
    words, chunk = first.buffers
    return [
        Encoded(rows, first.message, (words, each)) if is_plain else None
        for is_plain, each in zip(plain.tolist(), _chunks_like(chunk, table), strict=True)
    ]


def _chunks_like(chunk: Any, table: Bytes) -> Bytes:
    """Return chunks with the header of one, and the values of a line each."""
    size = table.shape[1]
    header = chunk.size - -(-size // 8) * 8
    chunks: Bytes = np.empty((len(table), chunk.size), np.uint8)
    chunks[:] = chunk
    chunks[:, header : header + size] = table
    return chunks
