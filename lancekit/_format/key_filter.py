"""Key-existence filters: the keys that a merge-insert added, for conflict detection.

A filter has the XXH64 hashes of the inserted keys, either as a set (``ExactKeySet``) or as a
split-block Bloom filter (``BloomKeyFilter``).  A conflict test has no false negatives: it may
report a common key that does not exist, but it never misses one.

The reference records only keys of the types in ``_REFERENCE_TYPES``.  It ignores keys of other
types, so its filter is empty although it inserted rows.  ``is_reference_blind`` has the
consequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from lancekit._format.key_hashes import Hashes

BLOCK_BYTES = 32
BITMAP_BYTES = 32_768
REFERENCE_ITEMS = 8_192
REFERENCE_PROBABILITY = 0.00057
# The reference re-executes a merge instead of comparing Bloom filters of different parameters.  So
# a filter with this number of items always makes it re-execute, whatever it knows of the keys.
INCOMPARABLE_ITEMS = REFERENCE_ITEMS + 1
# Thresholds for the kind of filter; `benchmarks/key_filters.py` shows what each costs.
MAX_BLOOM_KEYS = 50
MAX_EXACT_KEYS = 8_192

_SALT = np.array(
    [
        0x47B6137B,
        0x44974D91,
        0x8824AD5B,
        0xA2B7289D,
        0x705495C7,
        0x2DF1424B,
        0x9EFC4947,
        0x5C6BFB31,
    ],
    np.uint32,
)

_REFERENCE_TYPES: frozenset[pa.DataType] = frozenset(
    {
        pa.int32(),
        pa.int64(),
        pa.uint32(),
        pa.uint64(),
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExactKeySet:
    """All hashes of the inserted keys, sorted and unique."""

    field_ids: tuple[int, ...]
    hashes: Hashes

    def __post_init__(self) -> None:
        hashes = np.unique(np.asarray(self.hashes, np.uint64))
        hashes.flags.writeable = False
        object.__setattr__(self, "hashes", hashes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactKeySet):
            return NotImplemented
        return self.field_ids == other.field_ids and np.array_equal(self.hashes, other.hashes)

    def __hash__(self) -> int:
        return hash((self.field_ids, self.hashes.tobytes()))


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomKeyFilter:
    """Split-block Bloom filter of the hashes of the inserted keys.

    A stored filter without content is decoded as one without a bitmap: its keys are unknown, so it
    conflicts with every filter.
    """

    field_ids: tuple[int, ...]
    bitmap: bytes
    num_bits: int = BITMAP_BYTES * 8
    number_of_items: int = REFERENCE_ITEMS
    probability: float = REFERENCE_PROBABILITY


KeyFilter: TypeAlias = ExactKeySet | BloomKeyFilter


def bit_places(hashes: Hashes, blocks: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.uint32]]:
    """Return each hash's block, and a mask with its bit in each of the block's eight words."""
    block = ((hashes >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)
    low = hashes.astype(np.uint32)
    bit = (low[:, None] * _SALT) >> np.uint32(27)
    return block.astype(np.intp), np.uint32(1) << bit


def _blocks(bitmap: bytes) -> npt.NDArray[np.uint32]:
    return np.frombuffer(bitmap, "<u4").reshape(-1, 8)


def add_hashes(bitmap: bytes, hashes: Hashes) -> bytes:
    """Add hashes to a split-block Bloom filter; its size does not change."""
    blocks = _blocks(bitmap).copy()
    block, mask = bit_places(hashes, len(blocks))
    np.bitwise_or.at(blocks, block, mask)
    return blocks.tobytes()


def build_bloom(
    field_ids: Sequence[int], hashes: Hashes, *, number_of_items: int = REFERENCE_ITEMS
) -> BloomKeyFilter:
    """Build a Bloom filter of the size that every Lance writer uses (1,024 blocks, 32 KiB)."""
    bitmap = add_hashes(bytes(BITMAP_BYTES), np.asarray(hashes, np.uint64))
    return BloomKeyFilter(
        field_ids=tuple(field_ids), bitmap=bitmap, number_of_items=number_of_items
    )


def build_exact(field_ids: Sequence[int], hashes: Hashes) -> ExactKeySet:
    """Build the set of all hashes."""
    return ExactKeySet(field_ids=tuple(field_ids), hashes=hashes)


def is_reference_blind(types: Iterable[pa.DataType]) -> bool:
    """Return True if the reference omits keys with columns of these types from its filters.

    Its filter is then empty, which proves nothing.  It also finds no common key in our Bloom
    filter, whatever the filter has.  One such column in a composite key is enough.

    Examples
    --------
    >>> is_reference_blind([pa.int64(), pa.timestamp("us")])
    True
    """
    return not _REFERENCE_TYPES.issuperset(types)


def choose_filter(
    field_ids: Sequence[int], types: Sequence[pa.DataType], hashes: Hashes
) -> KeyFilter:
    """Build the kind of filter with the fewest false conflicts that all writers notice.

    The reference compares only Bloom filters with its own parameters, by any common bit.  With few
    keys this rarely errs; with 150 keys on both sides it nearly always does.  So few keys become
    such a Bloom filter.  More keys become an exact set, which other writers compare without error,
    and very many a Bloom filter again.  Key types that the reference is blind to never get a Bloom
    filter with its own parameters, but a filter that makes it re-execute.

    Examples
    --------
    >>> from lancekit._format.key_hashes import hash_keys
    >>> few, more = (hash_keys([pa.array(range(n))]) for n in (50, 51))
    >>> [type(choose_filter([0], [pa.int64()], keys)).__name__ for keys in (few, more)]
    ['BloomKeyFilter', 'ExactKeySet']
    """
    exact = build_exact(field_ids, hashes)
    blind = is_reference_blind(types)
    if not blind and len(exact.hashes) <= MAX_BLOOM_KEYS:
        return build_bloom(field_ids, exact.hashes)
    if len(exact.hashes) <= MAX_EXACT_KEYS:
        return exact
    items = INCOMPARABLE_ITEMS if blind else REFERENCE_ITEMS
    return build_bloom(field_ids, exact.hashes, number_of_items=items)


# ---- conflict tests


def _is_saturated(one: KeyFilter, blind: bool) -> bool:
    """Return True if a filter proves nothing, because any key may be in it."""
    if isinstance(one, ExactKeySet):
        return False
    if not one.bitmap or len(one.bitmap) % BLOCK_BYTES:
        return True
    return blind and one.number_of_items in (0, REFERENCE_ITEMS)


def _probe(hashes: Hashes, bitmap: bytes) -> npt.NDArray[np.bool_]:
    """Return a flag for each key that may be in a Bloom filter; it has false positives."""
    blocks = _blocks(bitmap)
    block, mask = bit_places(hashes, len(blocks))
    return np.asarray(((blocks[block] & mask) == mask).all(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class SharedKeys:
    """Result of comparing the keys of two filters.

    `possible` is ``False`` only if there is certainly no common key.  `hashes` are the common keys'
    hashes, if one filter lists its keys; unless `certain`, they may be false positives of the other
    filter.  `why` states what made a common key possible.
    """

    possible: bool
    certain: bool = False
    hashes: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    why: str = ""


_NONE = SharedKeys(possible=False)


def is_empty(one: KeyFilter, key_types: Sequence[pa.DataType]) -> bool:
    """Return True if a filter certainly has no key.

    Examples
    --------
    >>> from lancekit._format.key_hashes import hash_keys
    >>> is_empty(build_bloom([0], hash_keys([pa.array([], pa.int64())])), [pa.int64()])
    True
    >>> is_empty(build_bloom([0], hash_keys([pa.array([], pa.date32())])), [pa.date32()])
    False
    """
    if isinstance(one, ExactKeySet):
        return not len(one.hashes)
    return not _is_saturated(one, is_reference_blind(key_types)) and not any(one.bitmap)


def shared_keys(mine: KeyFilter, theirs: KeyFilter, key_types: Sequence[pa.DataType]) -> SharedKeys:
    """Compare the keys that two writers inserted.

    mine, theirs: the two filters, in either order.
    key_types: the types of the key columns in the dataset.

    Returns
    -------
    SharedKeys
        A common key is possible if the filters cannot be compared: filters with different fields,
        Bloom filters of different sizes, and Bloom filters with the reference's parameters over
        keys that it does not record.

    Examples
    --------
    >>> from lancekit._format.key_hashes import hash_keys
    >>> a, b = (build_exact([0], hash_keys([pa.array(ks)])) for ks in ([1, 2], [2, 3]))
    >>> found = shared_keys(a, b, [pa.int64()])
    >>> found.certain, len(found.hashes)
    (True, 1)
    """
    if mine.field_ids != theirs.field_ids:
        return SharedKeys(possible=True, why="the two filters are over different columns")
    blind = is_reference_blind(key_types)
    for one in (mine, theirs):
        if _is_saturated(one, blind):
            why = "filters of this key type leave keys out" if blind else "a filter is empty"
            return SharedKeys(possible=True, why=why)
    match mine, theirs:
        case ExactKeySet(), ExactKeySet():
            common = np.intersect1d(mine.hashes, theirs.hashes, assume_unique=True)
            certain = bool(len(common))
        case ExactKeySet(), BloomKeyFilter():
            common, certain = mine.hashes[_probe(mine.hashes, theirs.bitmap)], False
        case BloomKeyFilter(), ExactKeySet():
            common, certain = theirs.hashes[_probe(theirs.hashes, mine.bitmap)], False
        case BloomKeyFilter(), BloomKeyFilter():
            return _compare_blooms(mine, theirs)
    if not len(common):
        return _NONE
    why = "both sets contain them" if certain else "a Bloom filter may contain them"
    return SharedKeys(possible=True, certain=certain, hashes=common, why=why)


def _compare_blooms(mine: BloomKeyFilter, theirs: BloomKeyFilter) -> SharedKeys:
    if len(mine.bitmap) != len(theirs.bitmap):
        return SharedKeys(possible=True, why="Bloom filters of different sizes cannot be compared")
    # a common key sets a common bit in each of the eight words of one block
    both = _blocks(mine.bitmap) & _blocks(theirs.bitmap)
    blocks = int(both.all(axis=1).sum())
    if not blocks:
        return _NONE
    return SharedKeys(
        possible=True, why=f"the Bloom filters overlap in {blocks} of {len(both)} blocks"
    )
