"""Cache of decoded rows: pages are divided into blocks, each cached as a separate array.

A block is cached when its rows are read for the second time, so that a long scan evicts nothing
(`lancekit._cache.found_or_seen`).  Sparse rows may have so few rows in a block that decoding it all
would cost more than it saves.  Values that are views of a mapped file are never cached.

A block may fail to decode although the requested part of it is valid.  Then the rows are decoded
without the cache.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._cache import VALUES, found_or_seen, keep, look_up
from lancekit._file.columns.page_runs import PageGroup
from lancekit._file.columns.threads import is_costly
from lancekit._file.container.prefetch import PrefetchedSource
from lancekit._file.kernels.memory import Span, owned, recorded_scratch
from lancekit._file.kernels.row_selection import Rows
from lancekit._format.pb import encodings_v20_pb2, encodings_v21_pb2
from lancekit.errors import LancekitError

#: Encoded bytes of a block; its maximum rows, and its minimum rows, however large they are.
_BLOCK_BYTES, _MOST_ROWS, _LEAST_ROWS = 1 << 21, 1 << 16, 1 << 10

#: Decoding one isolated row takes as long as decoding at least this many rows of a block.
_APART = 16

#: Name of the cache for bounds, and the bytes of an entry.
_BOUNDS, _BOUNDS_BYTES = "bounds", 400

Decode = Callable[[Rows], pa.Array]


class BlockBounds(NamedTuple):
    """Minimum and maximum of a block, ``None`` if all values are null, and its number of nulls."""

    least: float | None
    greatest: float | None
    nulls: int


class Part(NamedTuple):
    """Rows of one run of pages from one source: a cached array, a block to fill, or the file."""

    rows: Rows
    block: int = 0
    array: pa.Array | None = None
    fill: bool = False


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of one run of pages.

    With `whole`, only requested rows are read, with as few reads as without the cache.
    """

    key: Hashable
    rows: int
    step: int
    encoded_bytes: int
    whole: bool
    kind: pa.DataType

    def parts(self, rows: Rows) -> Iterator[Part]:
        """Yield all rows, in order, as parts with one source each."""
        cuts = [(0, 0, len(rows))] if self.rows <= self.step else list(self._cut(rows))
        wanted = []
        for block, begin, end in cuts:
            count = len(self.span(block))
            uses = end - begin
            if not isinstance(rows, range):
                uses = min(count, uses * _APART)
            wanted.append(((self.key, block), uses, count))
        found = found_or_seen(VALUES, wanted, self.encoded_bytes * self.step // self.rows)
        if self.whole and not all(isinstance(value, pa.Array) for value in found):
            yield Part(rows, fill=any(value is True for value in found))
            return
        start = stop = 0  # range of rows to read from the file
        for (block, begin, end), value in zip(cuts, found, strict=True):
            part = rows[begin:end]
            array = value if isinstance(value, pa.Array) else None
            fill = value is True
            if array is None and not fill:
                stop = end
                continue
            if start < stop:
                yield Part(rows[start:stop])
            yield Part(part, block, array, fill)
            start = stop = end
        if start < stop:
            yield Part(rows[start:stop])

    def span(self, block: int) -> range:
        """Return the row numbers of a block."""
        return range(block * self.step, min((block + 1) * self.step, self.rows))

    def _cut(self, rows: Rows) -> Iterator[tuple[int, int, int]]:
        """Yield each block that contains any of the rows, with their begin and end in `rows`."""
        step = self.step
        if isinstance(rows, range):
            for block in range(rows.start // step, (rows.stop - 1) // step + 1):
                begin, end = max(rows.start, block * step), min(rows.stop, (block + 1) * step)
                yield block, begin - rows.start, end - rows.start
            return
        blocks, begins = np.unique(rows // step, return_index=True)
        begins = begins.tolist()
        yield from zip(blocks.tolist(), begins, [*begins[1:], len(rows)], strict=True)

    def select(self, part: Part) -> pa.Array:
        """Return a part's rows from the cached block."""
        return _select(cast("pa.Array", part.array), part.rows, part.block * self.step)

    def fill(self, part: Part, decode: Decode) -> pa.Array:
        """Decode the block of a part, cache it, and return the part's rows."""
        block = self.span(part.block)
        array = None
        with recorded_scratch() as spans, suppress(LancekitError):
            array = decode(block)
        if array is None:
            gc.collect()  # the error's reference cycles keep decoded arrays alive
            return decode(part.rows)
        return self.filled(part, array, spans)

    def filled(self, part: Part, array: pa.Array, spans: Sequence[Span] = ()) -> pa.Array:
        """Cache a decoded block, and return the part's rows from it."""
        array = self._store(part.block, array, spans)
        return _select(array, part.rows, part.block * self.step)

    def fill_inside(self, rows: Rows, decode: Decode) -> pa.Array:
        """Decode rows, and cache the blocks that they cover completely."""
        array = decode(rows)
        if isinstance(rows, range):
            for block, begin, end in self._cut(rows):
                if end - begin == len(self.span(block)):
                    self._store(block, array[begin:end])
        return array

    def bounds(self, rows: range) -> Iterator[tuple[range, BlockBounds | None]]:
        """Yield the rows of each block, with its bounds if they are known."""
        # the minimum of many strings takes longer than any filter
        kinds = (pa.types.is_integer, pa.types.is_float32, pa.types.is_float64)
        has_bounds = any(one(self.kind) for one in kinds)
        for block, begin, end in self._cut(rows):
            yield rows[begin:end], self._block_bounds(block) if has_bounds else None

    def _block_bounds(self, block: int) -> BlockBounds | None:
        """Return a block's bounds, computed at the first request; ``None`` if it is not cached."""
        key = (_BOUNDS, self.key, block)
        found: BlockBounds | None = look_up(_BOUNDS, key)
        if found is None:
            array = look_up(VALUES, (self.key, block))
            if array is None:
                return None
            found = keep(_BOUNDS, key, _bounds(array), _BOUNDS_BYTES)
        return None if found is _UNBOUNDED else found

    def _store(self, block: int, array: pa.Array, spans: Sequence[Span] = ()) -> pa.Array:
        copy = owned(array, spans)
        return keep(VALUES, (self.key, block), copy, copy.get_total_buffer_size())


def blocks_of(run: PageGroup, rows: int, kind: pa.DataType) -> Blocks | None:
    """Return the blocks of a run of pages, or ``None`` if its decoded rows are not cached.

    rows: number of rows in the run; pages of fixed-size lists state more.
    kind: type of the decoded rows.
    """
    first, size = run.first, run.encoded_bytes
    if first.page.key is None or not rows:
        return None
    remote = isinstance(first.page.source, PrefetchedSource)
    if not (_is_worth_caching(first.encoding, remote) or is_costly(first)):
        return None
    # a power of two
    step = 1 << (_BLOCK_BYTES * rows // max(size, 1)).bit_length() >> 1
    step = min(max(step, _LEAST_ROWS), _MOST_ROWS)
    key = (first.page.key, len(run.pages), _name(kind))
    return Blocks(key, rows, step, size, whole=remote, kind=kind)


#: bounds of a block with a NaN, which has no order
_UNBOUNDED = BlockBounds(None, None, 0)


def _bounds(array: pa.Array) -> BlockBounds:
    """Return minimum and maximum; a zero is -0.0 as minimum, and 0.0 as maximum."""
    of_floats = pa.types.is_floating(array.type)
    if of_floats and pc.any(pc.is_nan(array)).as_py():
        return _UNBOUNDED
    found = pc.min_max(array)
    least, greatest = found["min"].as_py(), found["max"].as_py()
    if of_floats and least == 0:  # some comparisons distinguish -0.0 from 0.0
        least = -0.0
    if of_floats and greatest == 0:
        greatest = 0.0
    return BlockBounds(least, greatest, ak.null_count(array))


def _is_worth_caching(
    encoding: encodings_v20_pb2.ArrayEncoding | encodings_v21_pb2.PageLayout, remote: bool
) -> bool:
    """Return True if decoding does more than return views of the file."""
    if isinstance(encoding, encodings_v20_pb2.ArrayEncoding):
        return remote
    layout = encoding.WhichOneof("layout")
    return layout == "mini_block" or (remote and layout == "full_zip")


def _name(kind: pa.DataType) -> str | bytes:
    """Return a key for the type that includes the metadata of its fields."""
    if kind.num_fields == 0:
        return str(kind)
    serialised: bytes = pa.schema([pa.field("", kind)]).serialize().to_pybytes()
    return serialised


def _select(array: pa.Array, rows: Rows, first: int) -> pa.Array:
    if isinstance(rows, range):
        return array[rows.start - first : rows.stop - first]
    return ak.take(array, rows - first)
