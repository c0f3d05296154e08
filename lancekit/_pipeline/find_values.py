"""Lookup of values among known values, fast if most are unknown, as in the target of a merge.

Integers and times are looked up in a hash table by one multiplication, in blocks: a million take
2 ms.  Arrow looks up values of all other types.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import flags_of, numbers_of
from lancekit._compiled.kernel import kernel

Indices = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Owners = npt.NDArray[np.int32]

#: The ascending positions of values that are known, and the number of each of these values.
Found = tuple[Indices, Indices]

#: The number of a null, which equals no value.
NOWHERE = -1

#: Values looked up at a time: the temporaries then stay in the processor's cache.
_BLOCK = 1 << 15

#: Bits of the table size: four to eight slots for each known value, between two limits.  Large
#: tables, which fit no cache anyway, have half as many: memory access dominates their time.
_LEAST_BITS, _LARGE_BITS, _MOST_BITS = 16, 22, 26

# Odd numbers without a pattern: the golden ratio spreads neighbours best; its product with the
# other number spreads the words that remain in one slot.
_SPREAD, _NEXT = 0x9E3779B97F4A7C15, 0xD1342543DE82EF95


class Lookup:
    """A lookup of values among known values, which are distinct and not null.

    Values are equal if Arrow compares them as equal.

    For values with duplicates or nulls, see `numbered`.

    Examples
    --------
    >>> places, positions = Lookup(pa.array([5, 7])).find(pa.array([7, None, 6, 5]))
    >>> places.tolist(), positions.tolist()
    ([0, 3], [1, 0])
    """

    def __init__(self, known: pa.Array) -> None:
        self._known = known
        self._count = len(known)
        #: the number of each value; ``None`` if it is the value's position
        self._numbers: Indices | None = None
        self._slots = None
        if _is_whole(known.type):
            self._slots = _Slots(_words(known), np.arange(len(known), dtype=np.int32))

    @classmethod
    def of_numbered(cls, words: _Slots, numbers: Indices | None, count: int) -> Lookup:
        """Return a lookup among integers that are already numbered."""
        made = cls.__new__(cls)
        made._slots, made._numbers, made._count = words, numbers, count
        return made

    def __len__(self) -> int:
        return self._count

    def find(self, values: pa.Array | pa.ChunkedArray) -> Found:
        """Return the positions of the values that are known, and the number of each."""
        if self._slots is None:
            found = pc.index_in(values, value_set=self._known, skip_nulls=True)
            whole = ak.combine_chunks(found) if isinstance(found, pa.ChunkedArray) else found
            valid = flags_of(whole.is_valid())
            return np.flatnonzero(valid), numbers_of(ak.drop_null(whole)).astype(np.int64)
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        places, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        start = 0
        for chunk in chunks:
            at, codes = self._slots.find(_words(chunk))
            if ak.null_count(chunk):
                valid = flags_of(chunk.is_valid())[at]
                at, codes = at[valid], codes[valid]
            places.append(at + start)
            positions.append(codes if self._numbers is None else self._numbers[codes])
            start += len(chunk)
        return np.concatenate(places), np.concatenate(positions)


def numbered(values: pa.Array) -> tuple[Lookup, Indices]:
    """Return a lookup among the distinct values of an array, and the number of each value.

    Numbers count from 0 in order of first occurrence; a null has the number `NOWHERE`.  Integers
    are not deduplicated first, because that takes longer than to look up as many.

    Examples
    --------
    >>> lookup, numbers = numbered(pa.array([7, None, 5, 7]))
    >>> len(lookup), numbers.tolist()
    (2, [0, -1, 1, 0])
    >>> [found.tolist() for found in lookup.find(pa.array([5, 6]))]
    [[0], [1]]
    """
    if not _is_whole(values.type):
        encoded = values.dictionary_encode()
        numbers = numbers_of(encoded.indices).astype(np.int64)
        numbers[~flags_of(encoded.indices.is_valid())] = NOWHERE
        return Lookup(encoded.dictionary), numbers
    first = np.arange(len(values))
    rows = first.astype(np.int32)
    if ak.null_count(values):
        valid = flags_of(values.is_valid())
        first[~valid] = NOWHERE
        rows = rows[valid]
    slots = _Slots(_words(values), rows)
    if len(rows) == len(values) and not len(slots.repeated[0]):
        return Lookup.of_numbered(slots, None, len(values)), first
    again, of = slots.repeated
    first[again] = of
    known = first == np.arange(len(values))
    numbers = np.cumsum(known) - 1
    own = np.where(first == NOWHERE, NOWHERE, numbers[first])
    return Lookup.of_numbered(slots, numbers, int(known.sum())), own


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _words(values: pa.Array) -> Words:
    """Return integers as 64-bit words; the word of a null is arbitrary."""
    width = values.type.bit_width // 8
    data = values.buffers()[1]
    kind = "u" if pa.types.is_unsigned_integer(values.type) else "i"
    numbers = np.frombuffer(b"" if data is None else data, f"{kind}{width}")
    numbers = numbers[values.offset : values.offset + len(values)]
    return (numbers if width == 8 else numbers.astype(np.int64)).view(np.uint64)


@dataclass(frozen=True, slots=True)
class _Table:
    """A hash table: the position of the known word that owns each slot, or -1."""

    spread: np.uint64
    shift: np.uint64
    owners: Owners

    def slots(self, words: Words) -> Indices:
        return ((words * self.spread) >> self.shift).view(np.int64)


class _Slots:
    """A chain of hash tables: words whose slot another word owns are in the next table.

    Of equal words, the tables hold the first.  `repeated` holds the positions of the others, and
    the position of the first for each.

    words: all words.
    places: the positions of the words to insert, ascending.
    """

    def __init__(self, words: Words, places: Owners) -> None:
        self._words = words
        self._tables: list[_Table] = []
        repeated: list[tuple[Owners, Owners]] = []
        left, spread = places, _SPREAD
        while len(left) or not self._tables:
            bits = _bits(len(left))
            owners = np.full(1 << bits, -1, np.int32)
            table = _Table(np.uint64(spread), np.uint64(64 - bits), owners)
            slots = table.slots(words[left])
            owners[slots[::-1]] = left[::-1]  # the last assignment wins: the first position
            self._tables.append(table)
            taken_by = owners[slots]
            other = taken_by != left
            left, taken_by = left[other], taken_by[other]  # fewer in each round
            same = words[left] == words[taken_by]
            if same.any():
                repeated.append((left[same], taken_by[same]))
                left = left[~same]
            spread = spread * _NEXT % 2**64
        none = np.empty(0, np.int32)
        self.repeated = tuple(
            np.concatenate([none, *parts]) for parts in zip((none, none), *repeated, strict=True)
        )

    def find(self, words: Words) -> Found:
        first, *others = self._tables
        found, left = self._first(words, first)
        parts = [found]
        for table in others:
            owners = table.owners[table.slots(words[left])]
            taken = owners >= 0
            found, left = self._compare(words, left[taken], owners[taken])
            parts.append(found)
        return _in_order([part for part in parts if len(part[0])])

    def _first(self, words: Words, table: _Table) -> tuple[Found, Indices]:
        if (call := find_words.ready(len(words))) is not None:
            places, positions = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
            left, count = np.empty(len(words), np.int64), np.empty(1, np.int64)
            spread, shift = np.array([table.spread]), int(table.shift)
            out = (places, positions, left, count)
            size = call(words, spread, shift, table.owners, self._words, *out)
            if size >= 0:
                return (places[:size], positions[:size]), left[: int(count[0])]
        return self._compare(words, *_candidates(words, table))

    def _compare(self, words: Words, places: Indices, owners: Owners) -> tuple[Found, Indices]:
        """Return the candidates that equal their known word, and the positions of the others."""
        same = self._words[owners] == words[places]
        return (places[same], owners[same].astype(np.int64)), places[~same]


def _bits(count: int) -> int:
    """Return the logarithm of the table size for a number of words."""
    bits = (4 * count).bit_length()
    return max(bits if bits <= _LARGE_BITS else min(bits - 1, _MOST_BITS), _LEAST_BITS)


@kernel("u8 u8 int i4 u8 =i8 =i8 =i8 =i8", saves=2)
def find_words(
    words: Words,
    spread: Words,
    shift: int,
    owners: Owners,
    known: Words,
    places: Indices,
    positions: Indices,
    left: Indices,
    count: Indices,
) -> int:
    """Find words in a table: the known ones, and those whose slot another word owns."""
    found = others = 0
    if shift < 1 or shift > 63 or owners.size < 1 << (64 - shift):
        return -1
    by = spread[0]
    for row in range(words.size):
        word = words[np.uint64(row)]
        owner = owners[(word * by) >> np.uint64(shift)]
        if owner < 0:
            continue
        if owner >= known.size:
            return -1
        if known[np.uint64(owner)] == word:
            places[np.uint64(found)] = row
            positions[np.uint64(found)] = owner
            found += 1
        else:
            left[np.uint64(others)] = row
            others += 1
    count[0] = others
    return found


def _candidates(words: Words, table: _Table) -> tuple[Indices, Owners]:
    """Return the positions of words whose slot has an owner, and the owners."""
    size = min(_BLOCK, len(words))
    products, taken_by = np.empty(size, np.uint64), np.empty(size, np.int32)
    places, owners = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for start in range(0, len(words), _BLOCK):
        block = words[start : start + _BLOCK]
        slots, by = products[: len(block)], taken_by[: len(block)]
        np.multiply(block, table.spread, out=slots)
        np.right_shift(slots, table.shift, out=slots)
        # all slots are in range; with mode="raise", NumPy would buffer `out`
        np.take(table.owners, slots.view(np.int64), out=by, mode="clip")
        taken = np.flatnonzero(by >= 0)
        places.append(taken + start)
        owners.append(by[taken])
    return np.concatenate(places), np.concatenate(owners)


def _in_order(found: list[Found]) -> Found:
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if len(found) == 1:
        return found[0]
    places = np.concatenate([at for at, _ in found])
    order = np.argsort(places, kind="stable")
    return places[order], np.concatenate([by for _, by in found])[order]
