"""Equality of values at any depth: NaN equals NaN, -0.0 equals 0.0, and null equals null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from secrets import randbits

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import flags_of
from lancekit._format.arrow_parts import child_of, fixed_items, items_of, viewed
from lancekit._pipeline.hashed_keys import Hashes, comparable, hash_rows

Mask = npt.NDArray[np.bool_]

# odd numbers without a pattern
_PLACE, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_NULL = np.uint64(0x2545F4914F6CDD1D)


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seeds of digests, random for each comparison, so that nobody can prepare a collision."""

    first: int
    second: int

    @classmethod
    def drawn(cls) -> Seeds:
        """Return new random seeds."""
        return cls(randbits(63), randbits(63))


@dataclass(frozen=True, slots=True)
class Digests:
    """128 bits for each row, in two halves; equal rows have equal digests, others hardly ever."""

    first: Hashes
    second: Hashes

    def __len__(self) -> int:
        return len(self.first)

    def at(self, rows: npt.NDArray[np.integer | np.bool_]) -> Digests:
        """Return the digests of some rows."""
        return Digests(self.first[rows], self.second[rows])

    @classmethod
    def joined(cls, parts: Sequence[Digests]) -> Digests:
        """Concatenate digests."""
        if not parts:
            return cls(np.empty(0, np.uint64), np.empty(0, np.uint64))
        return cls(*(np.concatenate([getattr(p, half) for p in parts]) for half in cls.__slots__))


def digests(columns: Sequence[pa.Array], seeds: Seeds) -> Digests:
    """Return a digest of each row of some columns of any type; nulls equal nulls."""
    halves = []
    for seed in (seeds.first, seeds.second):
        out = np.full(len(columns[0]), seed, np.uint64)
        for column in columns:
            _fold(out, _hashes(column, seed))
        halves.append(out)
    return Digests(*halves)


def differing(old: pa.Array, new: pa.Array) -> Mask:
    """Return a mask of the values that differ between two arrays of one type.

    Examples
    --------
    >>> import pyarrow as pa
    >>> nan = float("nan")
    >>> differing(pa.array([nan, 0.0, None, 1.0]), pa.array([nan, -0.0, None, None])).tolist()
    [False, False, False, True]
    """
    old, new = _plain(old), _plain(new)
    lost: Mask = _nulls(old) != _nulls(new)
    if pa.types.is_null(old.type):
        return lost
    if pa.types.is_nested(old.type):
        one, two = (digests([array], _FIXED) for array in (old, new))
        differ: Mask = (one.first != two.first) | (one.second != two.second)
        lost |= differ
        return lost
    other = pc.not_equal(_normal(old), _normal(new)).fill_null(False)
    lost |= flags_of(other)
    return lost


#: seeds for nested values, which are only compared in pairs, so that a collision gains nothing
_FIXED = Seeds.drawn()


def _fold(into: Hashes, hashes: Hashes) -> None:
    into ^= hashes
    into *= _MIX
    into ^= into >> np.uint64(29)
    into *= _PLACE
    into ^= into >> np.uint64(32)


def _hashes(values: pa.Array, seed: int) -> Hashes:
    """Return a hash of each value, whatever its type and depth."""
    values = _plain(values)
    kind = values.type
    if pa.types.is_struct(kind):
        out = np.full(len(values), seed, np.uint64)
        for place in range(kind.num_fields):
            _fold(out, _hashes(child_of(values, place), seed))
    elif pa.types.is_nested(kind):
        out = _of_lists(values, seed)
    elif pa.types.is_null(kind):
        out = np.zeros(len(values), np.uint64)
    else:
        out = hash_rows([_normal(values)], seed)
    out[_nulls(values)] = _NULL
    return out


def _of_lists(lists: pa.Array, seed: int) -> Hashes:
    """Hash lists by the sum of their items' hashes, each mixed with the item's position."""
    kind = lists.type
    if pa.types.is_fixed_size_list(kind):
        items = fixed_items(lists)
        starts = np.arange(len(lists) + 1, dtype=np.int64) * kind.list_size
    else:
        wide = np.int64 if pa.types.is_large_list(kind) else np.int32
        ends = viewed(lists.buffers()[1], wide)[lists.offset : lists.offset + len(lists) + 1]
        ends = ends.astype(np.int64) if len(ends) else np.zeros(1, np.int64)
        items = items_of(lists).slice(int(ends[0]), int(ends[-1] - ends[0]))
        starts = ends - ends[0]
    sizes = np.diff(starts)
    places = np.arange(len(items)) - np.repeat(starts[:-1], sizes)
    of_items = _hashes(items, seed) ^ (places.astype(np.uint64) + np.uint64(1)) * _PLACE
    mixed = np.full(len(items), seed, np.uint64)
    _fold(mixed, of_items)
    sums = np.zeros(len(items) + 1, np.uint64)
    np.cumsum(mixed, out=sums[1:])
    out = sizes.astype(np.uint64)
    _fold(out, sums[starts[1:]] - sums[starts[:-1]])
    return out


def plain_values(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return values in a type; for a dictionary, whose keys may be too few, in its value type."""
    plain = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    return ak.combine_chunks(column if column.type == plain else ak.cast(column, plain))


def _plain(values: pa.Array) -> pa.Array:
    """Decode dictionaries, and return the storage of extension types."""
    while isinstance(values, (pa.ExtensionArray, pa.DictionaryArray)):
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        else:
            values = pc.cast(values, values.type.value_type)
    return values


def _normal(values: pa.Array) -> pa.Array:
    """Return values in a form in which equal values have equal bytes."""
    if pa.types.is_floating(values.type):
        if values.type == pa.float16():
            values = pc.cast(values, pa.float32())
        values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 becomes 0.0
    return comparable(values)


def _nulls(values: pa.Array) -> Mask:
    return flags_of(pc.is_null(values))
