"""Building of zone maps and Bloom filters: summaries of zones, ranges of rows of a fragment.

See docs/format/indices.md, 9 and 10.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._file.kernels.arrow_buffers import byte_width, fixed_bytes, null_flags
from lancekit._format.arrow_parts import strings_of
from lancekit._format.key_filter import add_hashes
from lancekit._format.key_hashes import hash_binary, hash_words
from lancekit._index.build.column import IndexedColumn, Mask, RowMap
from lancekit._index.build.files import NewFile
from lancekit._index.build.sorting import Places, Words, plain_numbers, stable_order, stored
from lancekit._index.row_sets import encoded_set

ZONE_ROWS = 8192
BLOOM_ITEMS, BLOOM_PROBABILITY = 8192, 0.00057
Numbers = npt.NDArray[np.integer | np.floating]


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


_PLACES = [_required(name, pa.uint64()) for name in ("fragment_id", "zone_start", "zone_length")]


@dataclass(frozen=True, slots=True)
class _Zoned:
    """The summary of each zone, and the null rows."""

    table: pa.Table
    nulls: Words

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        """Merge several segments, which cover different fragments."""
        table = pa.concat_tables([part.table for part in parts])
        nulls = np.unique(np.concatenate([part.nulls for part in parts]))
        return replace(parts[0], table=table, nulls=nulls)

    def moved(self, row_map: RowMap) -> Self:
        """Return the zones whose first row still exists: fragments are added and removed whole."""
        fragment, start = (np.asarray(self.table[name]) for name in ("fragment_id", "zone_start"))
        _, kept = row_map(fragment << np.uint64(32) | start)
        _, nulls = row_map(self.nulls)
        return replace(self, table=ak.filter(self.table, kept), nulls=self.nulls[nulls])


@dataclass(frozen=True, slots=True)
class ZoneMap(_Zoned):
    """The content of a zone map: the least and the greatest value of each zone, and the null rows.

    `zone_rows` is the number of live rows of a zone; the last zone of a fragment may have fewer.
    """

    zone_rows: int = ZONE_ROWS

    @classmethod
    def build(cls, column: IndexedColumn, zone_rows: int = ZONE_ROWS) -> ZoneMap:
        """Compute the bounds of each zone; the rows are addresses, fragment by fragment."""
        starts, places = _zones(column.rows, zone_rows)
        flags = null_flags(column.values)
        least, greatest, nans = _bounds(column.values, starts)
        columns = [least, greatest, _counts(flags, starts), _counts(nans, starts), *places]
        fields = list(_map(column.kind))
        parts = [each.cast(field.type) for each, field in zip(columns, fields, strict=True)]
        table = pa.table(parts, schema=pa.schema(fields))
        return cls(table, _null_rows(column.rows, flags), zone_rows)

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that it was built with."""
        return {"rows_per_zone": self.zone_rows}

    def files(self) -> Iterator[NewFile]:
        """Yield the file to write."""
        yield NewFile(
            name="zonemap.lance",
            schema=self.table.schema,
            batches=self.table.to_batches(),
            metadata={"rows_per_zone": str(self.zone_rows)},
            buffers={"null_bitmap": encoded_set(self.nulls)},
        )


@dataclass(frozen=True, slots=True)
class BloomZones(_Zoned):
    """The content of a Bloom filter index: a filter for each zone, and the null rows."""

    zone_rows: int = BLOOM_ITEMS
    probability: float = BLOOM_PROBABILITY

    @classmethod
    def build(
        cls,
        column: IndexedColumn,
        zone_rows: int = BLOOM_ITEMS,
        probability: float = BLOOM_PROBABILITY,
    ) -> BloomZones:
        """Build a filter of each zone's values; the rows are addresses."""
        starts, places = _zones(column.rows, zone_rows)
        flags = null_flags(column.values)
        hashes, ends = _hashed(ak.drop_null(column.values)), starts
        if flags is not None:  # the start of each zone among the non-null values
            ends = np.concatenate([[0], np.cumsum(~flags)])[starts]
        size = filter_bytes(zone_rows, probability)
        parts = np.split(hashes, ends[1:]) if len(starts) else []
        filters = [add_hashes(bytes(size), part) for part in parts]
        has_null = _counts(flags, starts).cast(pa.bool_())
        columns = [*places, has_null, pa.array(filters, pa.binary())]
        nulls = _null_rows(column.rows, flags)
        return cls(pa.table(columns, schema=_FILTERS), nulls, zone_rows, probability)

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that it was built with."""
        return {"number_of_items": self.zone_rows, "probability": self.probability}

    def files(self) -> Iterator[NewFile]:
        """Yield the file to write."""
        yield NewFile(
            name="bloomfilter.lance",
            schema=_FILTERS,
            batches=self.table.to_batches(),
            metadata={
                "bloomfilter_item": str(self.zone_rows),
                "bloomfilter_probability": str(self.probability),
            },
            buffers={"null_bitmap": encoded_set(self.nulls)},
        )


def _map(kind: pa.DataType) -> pa.Schema:
    counts = [_required(name, pa.uint32()) for name in ("null_count", "nan_count")]
    return pa.schema([pa.field("min", kind), pa.field("max", kind), *counts, *_PLACES])


_FILTERS = pa.schema(
    [*_PLACES, _required("has_null", pa.bool_()), _required("bloom_filter_data", pa.binary())]
)


def _zones(addresses: Words, zone_rows: int) -> tuple[Places, list[pa.Array]]:
    """Return the index of each zone's first row, and its fragment, first offset and length."""
    halves = addresses.view(np.uint32).reshape(-1, 2)  # the offset, then the fragment
    fragments, offsets = halves[:, 1], halves[:, 0]
    begins = np.flatnonzero(np.concatenate([[True], fragments[1:] != fragments[:-1]]))
    begins = begins[: len(addresses)]
    sizes = np.diff(begins, append=len(addresses))
    number = -(-sizes // zone_rows)
    within = np.arange(int(number.sum())) - np.repeat(np.cumsum(number) - number, number)
    starts = np.repeat(begins, number) + within * zone_rows
    lasts = np.append(starts[1:], len(addresses))[: len(starts)] - 1
    found = (fragments[starts], offsets[starts], offsets[lasts] - offsets[starts] + np.uint32(1))
    return starts, [pa.array(each.astype(np.uint64)) for each in found]


def _bounds(values: pa.Array, starts: Places) -> tuple[pa.Array, pa.Array, Mask | None]:
    """Return the least and the greatest value of each zone, and a mask of NaNs.

    A zone with a NaN has it as its greatest value, so no search rules it out by that value.
    """
    kind, flags = values.type, null_flags(values)
    if types.is_fixed_size_binary(kind):  # releases of the reference do not know their order
        nothing = pa.nulls(len(starts), kind)
        return nothing, nothing, None
    if types.is_decimal(kind) or (byte_width(kind) is None and not types.is_boolean(kind)):
        least, greatest = _bounds_by_arrow(values, starts)
        return least, greatest, None
    if not len(starts):
        return pa.array([], kind), pa.array([], kind), None
    numbers = plain_numbers(values)
    if types.is_floating(kind):
        return _bounds_of_floats(kind, numbers, flags, starts)
    range_ = np.iinfo(numbers.dtype)
    low = np.minimum.reduceat(_filled(numbers, flags, range_.max), starts)
    high = np.maximum.reduceat(_filled(numbers, flags, range_.min), starts)
    empty = _all(flags, starts)
    return stored(low, kind, empty), stored(high, kind, empty), None


def _filled(numbers: Numbers, flags: Mask | None, value: float) -> Numbers:
    """Return numbers with some replaced by a value."""
    return numbers if flags is None else np.where(flags, numbers.dtype.type(value), numbers)


def _all(flags: Mask | None, starts: Places) -> Mask:
    """Return a mask of the zones in which all flags are set."""
    if flags is None:
        return np.zeros(len(starts), bool)
    found: Mask = np.logical_and.reduceat(flags, starts)
    return found


def _bounds_of_floats(
    kind: pa.DataType, numbers: Numbers, flags: Mask | None, starts: Places
) -> tuple[pa.Array, pa.Array, Mask | None]:
    """Return the bounds as `_bounds` does; a NaN widens those of its zone."""
    nans: Mask = np.isnan(numbers) if flags is None else np.isnan(numbers) & ~flags
    some = bool(nans.any())
    out = (nans if flags is None else nans | flags) if some else flags
    low = np.minimum.reduceat(_filled(numbers, out, np.inf), starts)
    high = np.maximum.reduceat(_filled(numbers, out, -np.inf), starts)
    # queries treat both zeros as equal
    low = np.where(low == 0, -abs(low), low)
    high = np.where(high == 0, abs(high), high)
    empty = _all(out, starts)
    if some:
        with_nan = np.logical_or.reduceat(nans, starts)
        high[with_nan] = np.nan
        # a NaN with a sign comes before all numbers, and the reference only checks this bound
        negative = np.logical_or.reduceat(nans & np.signbit(numbers), starts)
        low[negative] = -np.inf
        low[with_nan & empty] = np.nan
        low[negative & empty] = -np.nan
        empty &= ~with_nan
    return stored(low, kind, empty), stored(high, kind, empty), nans if some else None


def _bounds_by_arrow(values: pa.Array, starts: Places) -> tuple[pa.Array, pa.Array]:
    zones = np.append(starts, len(values)).tolist()
    found = [pc.min_max(values.slice(a, b - a)) for a, b in pairwise(zones)]
    least, greatest = ([each[name].as_py() for each in found] for name in ("min", "max"))
    return pa.array(least, values.type), pa.array(greatest, values.type)


def _counts(flags: Mask | None, starts: Places) -> pa.Array:
    """Return the number of set flags in each zone."""
    if flags is None or not len(starts):
        return pa.array(np.zeros(len(starts), np.uint32))
    return pa.array(np.add.reduceat(flags.astype(np.uint32), starts).astype(np.uint32))


def _null_rows(addresses: Words, flags: Mask | None) -> Words:
    found = addresses[:0] if flags is None else addresses[flags]
    return found[stable_order(found)]


# ---- split-block Bloom filters: their size, and the bits of values

#: bytes of a block, and its words and their bits; a value sets one bit in each word
_LEAST_BYTES, _WORDS, _WORD_BITS = 32, 8, 32
_LONG_BYTES = 8


def filter_bytes(items: int, probability: float) -> int:
    """Return the size of a filter for a number of values and a rate of false positives.

    Examples
    --------
    >>> filter_bytes(8192, 0.00057), filter_bytes(64, 0.01)
    (32768, 128)
    """
    size = _LEAST_BYTES
    while _mistaken(items * _LEAST_BYTES / size) > probability:
        size *= 2
    return size


def _mistaken(items: float) -> float:
    """Return the rate of false positives, given the mean number of values in a block.

    The number of values in a block has a Poisson distribution.
    """
    many = np.arange(int(items + 12 * math.sqrt(items)) + 32)
    logs = many * math.log(items) - items - np.concatenate([[0], np.cumsum(np.log(many[1:]))])
    bit_is_set = 1 - (1 - 1 / _WORD_BITS) ** many
    return float((np.exp(logs) * bit_is_set**_WORDS).sum())


def _hashed(values: pa.Array) -> Words:
    """Return the hashes of values without nulls: of their bytes, in the width of their type."""
    kind = values.type
    width = byte_width(kind)
    if width is None:
        text = types.is_string(kind) or types.is_large_string(kind)
        plain = values.cast(pa.large_string()) if text else values
        return hash_binary(cast("pa.LargeBinaryArray", plain.cast(pa.large_binary())))
    raw = np.ascontiguousarray(fixed_bytes(values))
    if width == _LONG_BYTES:
        return hash_words(raw.view("<u8"))
    ends = np.arange(0, len(raw) + 1, width, dtype=np.int64)
    return hash_binary(cast("pa.LargeBinaryArray", strings_of(ends, raw)))
