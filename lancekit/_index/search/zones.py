"""Search in zones, ranges of rows of a fragment: Bloom filters and zone maps.

See docs/format/indices.md, 9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash
from pyroaring import BitMap

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import flags_of, numbers_of
from lancekit._format.key_filter import bit_places
from lancekit._index.row_sets import Rows, bitmaps, union
from lancekit._index.search.index_query import (
    ColumnCondition,
    IntervalSet,
    Ranks,
    filled,
    float_ranks,
    ranks_of,
)
from lancekit._index.segment import IndexFileReader, Segment, array_bytes
from lancekit.errors import CorruptFileError

Flags = npt.NDArray[np.bool_]

#: rows of a fragment are counted with 32 bits
_MOST_ROWS = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """The rows of each zone: a fragment, the first offset, and the number of rows."""

    fragments: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    def rows(self, wanted: Flags) -> Rows:
        """Return the rows of some zones; other fragments with zones get an empty set."""
        found = {id_: BitMap() for id_ in np.unique(self.fragments).tolist()}
        selected = np.flatnonzero(wanted)
        for id_, start, length in zip(
            *(values[selected].tolist() for values in (self.fragments, self.starts, self.lengths)),
            strict=True,
        ):
            found[id_].add_range(start, start + length)
        return found


def numbers(file: IndexFileReader, name: str) -> npt.NDArray[np.int64]:
    """Return a column of whole numbers; `CorruptFileError` if it has another type or nulls."""
    values = file.read(name)
    if str(values.type) not in ("uint32", "uint64") or ak.null_count(values):
        raise CorruptFileError(f"{file.where} has a {name} that is not a number.")
    return numbers_of(values).astype(np.int64)


def read_zones(file: IndexFileReader) -> Zones:
    """Read the zones of a file, with the rows of each.

    Raises CorruptFileError: a zone is out of the range of a fragment.
    """
    zones = Zones(
        numbers(file, "fragment_id"), numbers(file, "zone_start"), numbers(file, "zone_length")
    )
    for values in (zones.fragments, zones.starts, zones.starts + zones.lengths):
        if len(values) and not 0 <= values.min() <= values.max() <= _MOST_ROWS:
            raise CorruptFileError(f"{file.where} has a zone that is outside of its fragment.")
    return zones


def wanted_rows(
    opened: Callable[[], IndexFileReader],
    zones: Zones,
    wanted: Flags,
    with_nulls: Callable[[], Flags] | None,
) -> Rows:
    """Return the rows of some zones, and the null rows if nulls match.

    opened: opens the file, which may list the null rows.
    with_nulls: returns a mask of the zones with nulls, for an index that does not list them;
        ``None`` if nulls do not match.
    """
    if with_nulls is None:
        return zones.rows(wanted)
    file = opened()
    number = file.metadata.get("null_bitmap")
    if number is None:
        return zones.rows(wanted | with_nulls())
    return union([zones.rows(wanted), dict(bitmaps(file.buffer(number)))])


# ---- Bloom filters: a split-block filter of the values of each zone
#
# See docs/format/indices.md, 10.

_BLOOM_FILE = "bloomfilter.lance"

_BLOCK_BYTES = 32
#: with more values than this, nearly every zone has one
_MOST_VALUES = 1024


@dataclass(frozen=True, slots=True, eq=False)
class _Filters:
    """The filters of all zones, each with the same number of blocks of eight words."""

    zones: Zones
    blocks: npt.NDArray[np.uint32]
    with_nulls: Flags

    @property
    def nbytes(self) -> int:
        places = self.zones.fragments, self.zones.starts, self.zones.lengths
        return array_bytes(*places, self.blocks, self.with_nulls)

    def may_have(self, hashes: npt.NDArray[np.uint64]) -> Flags:
        """Return a mask of the zones that may have one of some values, given by their hashes."""
        found = np.zeros(len(self.blocks), bool)
        block, mask = bit_places(hashes, self.blocks.shape[1])
        for at, bits in zip(block.tolist(), mask, strict=True):
            found |= ((self.blocks[:, at] & bits) == bits).all(axis=1)
        return found


def search_bloom(segment: Segment, condition: ColumnCondition, *, always: bool) -> Rows | None:
    """Return a superset of the rows that match a condition, as `btree.search` does.

    ``None`` for a condition that is not on single values, even with `always`.
    """
    del always
    hashes = (
        None if condition.interval_set is None else _hashes(condition.interval_set, condition.type)
    )
    if hashes is None:
        return None
    known = load_bloom(segment)
    nulls: Callable[[], Flags] | None = (lambda: known.with_nulls) if condition.of_null else None
    return wanted_rows(
        lambda: segment.file(_BLOOM_FILE), known.zones, known.may_have(hashes), nulls
    )


def load_bloom(segment: Segment) -> _Filters:
    """Return the filters of a segment, cached."""
    return segment.remembered(_BLOOM_FILE, "zones", _filters_of, lambda known: known.nbytes)


def _filters_of(file: IndexFileReader) -> _Filters:
    zones, stored = read_zones(file), file.read("bloom_filter_data").to_pylist()
    sizes = {len(data or b"") for data in stored}
    size = sizes.pop() if sizes else _BLOCK_BYTES
    if sizes or not size or size % _BLOCK_BYTES:
        raise CorruptFileError(f"{file.where} has Bloom filters of different sizes, or none.")
    blocks = np.frombuffer(b"".join(stored), "<u4").reshape(len(stored), -1, 8)
    with_nulls = file.read("has_null")
    if with_nulls.type != pa.bool_():
        raise CorruptFileError(f"Column has_null of {file.where} is {with_nulls.type}, not bool.")
    return _Filters(zones, blocks, flags_of(with_nulls.fill_null(True)))


def _hashes(interval_set: IntervalSet, kind: pa.DataType) -> npt.NDArray[np.uint64] | None:
    """Return the hashes of single values; ``None`` for ranges or too many values."""
    zeros = tuple(float_ranks([-0.0, 0.0]).tolist())
    ranks: list[Any] = []
    for low, high in interval_set.intervals:
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


def _stored(ranks: list[int], kind: pa.DataType) -> list[bytes]:
    """Return the stored bytes of ranks, in the fixed width of their type."""
    width = kind.bit_width // 8
    if pa.types.is_floating(kind):
        numbers = float_ranks(np.array(ranks, np.int64).view(np.float64)).view(np.float64)
        data = numbers.astype(f"<f{width}").tobytes()
    else:
        sort = "u" if pa.types.is_unsigned_integer(kind) else "i"
        data = np.array(ranks, f"<{sort}{width}").tobytes()
    return [data[at : at + width] for at in range(0, len(data), width)]


# ---- zone maps: the least and the greatest value of each zone
#
# See docs/format/indices.md, 9.

_MAP_FILE = "zonemap.lance"


@dataclass(frozen=True, slots=True, eq=False)
class _Map:
    """The bounds and counts of each zone; `bounded` marks the zones with known bounds."""

    zones: Zones
    least: Ranks
    greatest: Ranks
    bounded: Flags
    nulls: npt.NDArray[np.int64]
    nans: npt.NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        places = self.zones.fragments, self.zones.starts, self.zones.lengths
        return array_bytes(*places, self.least, self.greatest, self.bounded, self.nulls, self.nans)

    def may_match(self, condition: ColumnCondition) -> Flags:
        """Return a mask of the zones that may have a matching value."""
        wanted = self.nulls < self.zones.lengths
        if condition.interval_set is not None and self.bounded.any():
            wanted &= ~self.bounded | condition.interval_set.touches(self.least, self.greatest)
        return wanted | (self.nans > 0) if condition.of_nan() else wanted


def search_zone_map(segment: Segment, condition: ColumnCondition, *, always: bool) -> Rows | None:
    """Return a superset of the rows that match a condition, as `btree.search` does."""
    if condition.interval_set is None and not always:
        return None
    known = load_zone_map(segment)
    wanted = known.may_match(condition)
    nulls = (lambda: known.nulls > 0) if condition.of_null else None
    return wanted_rows(lambda: segment.file(_MAP_FILE), known.zones, wanted, nulls)


def load_zone_map(segment: Segment) -> _Map:
    """Return the zone map of a segment, cached."""
    return segment.remembered(_MAP_FILE, "zones", _map_of, lambda known: known.nbytes)


def _map_of(file: IndexFileReader) -> _Map:
    zones = read_zones(file)
    least, greatest = file.read("min"), file.read("max")
    low, high = ranks_of(least), ranks_of(greatest)
    bounded = flags_of(least.is_valid()) & flags_of(greatest.is_valid())
    if low is None or high is None:  # a type without an order
        bounded, low, high = np.zeros(len(least), bool), zones.starts, zones.starts
    return _Map(
        zones=zones,
        least=filled(low, bounded),
        greatest=filled(high, bounded),
        bounded=bounded,
        nulls=numbers(file, "null_count"),
        nans=numbers(file, "nan_count"),
    )
