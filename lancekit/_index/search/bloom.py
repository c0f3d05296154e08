"""Bloom filters: of each zone a split-block filter of the values that it has.

See docs/format/indices.md, 10.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from lancekit._arrow_values import flags_of
from lancekit._format.key_filter import bit_places
from lancekit._index.search.order import float_ranks
from lancekit._index.search.question import Question
from lancekit._index.search.reach import Reach
from lancekit._index.search.row_sets import Rows
from lancekit._index.search.zones import Flags, Zones, read_zones, wanted_rows
from lancekit._index.segment import IndexFileReader, Segment, held_bytes
from lancekit.errors import CorruptFileError

__all__ = ["load", "search"]

FILE = "bloomfilter.lance"

_BLOCK_BYTES = 32
#: of more values than this nearly every zone has one
_MOST_VALUES = 1024


@dataclass(frozen=True, slots=True, eq=False)
class _Filters:
    """The filters of all zones, each of so many blocks of eight words."""

    zones: Zones
    blocks: npt.NDArray[np.uint32]
    with_nulls: Flags

    @property
    def bytes_held(self) -> int:
        places = self.zones.fragments, self.zones.starts, self.zones.lengths
        return held_bytes(*places, self.blocks, self.with_nulls)

    def that_may_have(self, hashes: npt.NDArray[np.uint64]) -> Flags:
        """Return which zones may have one of some values, which are given by their hashes."""
        found = np.zeros(len(self.blocks), bool)
        block, mask = bit_places(hashes, self.blocks.shape[1])
        for at, bits in zip(block.tolist(), mask, strict=True):
            found |= ((self.blocks[:, at] & bits) == bits).all(axis=1)
        return found


def search(segment: Segment, question: Question, *, always: bool) -> Rows | None:
    """Return rows among which are those of which a question holds, as `btree.search` does.

    A question that is not of single values has no answer, `always` or not.
    """
    del always
    hashes = None if question.reach is None else _hashes(question.reach, question.type)
    if hashes is None:
        return None
    known = load(segment)
    nulls: Callable[[], Flags] | None = (lambda: known.with_nulls) if question.of_null else None
    return wanted_rows(lambda: segment.file(FILE), known.zones, known.that_may_have(hashes), nulls)


def load(segment: Segment) -> _Filters:
    """Return the filters of a segment, and remember them."""
    return segment.remembered(FILE, "zones", _read, lambda known: known.bytes_held)


def _read(file: IndexFileReader) -> _Filters:
    zones, stored = read_zones(file), file.read("bloom_filter_data").to_pylist()
    sizes = {len(data or b"") for data in stored}
    size = sizes.pop() if sizes else _BLOCK_BYTES
    if sizes or not size or size % _BLOCK_BYTES:
        raise CorruptFileError(f"{file.where} has filters of different sizes, or of none.")
    blocks = np.frombuffer(b"".join(stored), "<u4").reshape(len(stored), -1, 8)
    with_nulls = file.read("has_null")
    if with_nulls.type != pa.bool_():
        raise CorruptFileError(f"{file.where} has a has_null that is not true or false.")
    return _Filters(zones, blocks, flags_of(with_nulls.fill_null(True)))


def _hashes(reach: Reach, kind: pa.DataType) -> npt.NDArray[np.uint64] | None:
    """Return the hashes of single values, of which there are not too many; else ``None``."""
    zeros = tuple(float_ranks([-0.0, 0.0]).tolist())
    ranks: list[Any] = []
    for low, high in reach.intervals:
        if (low, high) == zeros and pa.types.is_floating(kind):
            ranks += zeros
        elif low is None or low != high:
            return None
        else:
            ranks.append(low)
    if not ranks:
        return np.empty(0, np.uint64)
    if len(ranks) > _MOST_VALUES:
        return None
    stored = ranks if isinstance(ranks[0], bytes) else _stored(ranks, kind)
    return np.array([xxhash.xxh64_intdigest(value) for value in stored], np.uint64)


def _stored(ranks: list[Any], kind: pa.DataType) -> list[bytes]:
    """Return the bytes of fixed width that ranks are those of."""
    width = kind.bit_width // 8
    if pa.types.is_floating(kind):
        numbers = float_ranks(np.array(ranks, np.int64).view(np.float64)).view(np.float64)
        data = numbers.astype(f"<f{width}").tobytes()
    else:
        sort = "u" if pa.types.is_unsigned_integer(kind) else "i"
        data = np.array(ranks, f"<{sort}{width}").tobytes()
    return [data[at : at + width] for at in range(0, len(data), width)]
