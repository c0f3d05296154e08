"""Building repetition and definition levels from nested Arrow arrays.

See docs/format/data-files.md, 6.

A column is an array with one path from its rows to its values: every struct in it has one child.
It is worked through from the outside to the inside.  An *entry* is one place in the level streams;
a *slot* is an entry that the arrays further inside have an element for.  Null and empty lists, and
lists under null structs, are entries without a slot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_kernels as ak
from lancekit._compiled.kernel import Values, kernel
from lancekit._file.encodings import bitpacking, flat, rle
from lancekit._file.encodings.request import Part
from lancekit._file.kernels import bits
from lancekit._file.kernels.arrow_buffers import (
    byte_width,
    fixed_bytes,
    list_items,
    list_offsets,
    null_flags,
    validity_bits,
)
from lancekit._file.kernels.bitpacking import bits_needed
from lancekit._file.kernels.memory import Bytes, Ints, starts_of
from lancekit._format.arrow_parts import child_of, fixed_items, items_of
from lancekit._format.pb import encodings_v21_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class Shredded:
    """Rows of a column as levels and values.

    rows: the rows of the page; each item of fixed-size lists of structs is one.
    layers: the numbers of the layers, innermost first.
    repetition, definition: one level for each entry; ``None`` if there are no lists, or if all are
        0.
    max_repetition: the level of an entry that starts a row; 0 without lists.
    slots: the entries that have a value, ascending; ``None`` if all have.
    values: what is at the slots; null where ``valid`` is not set.
    valid: the bitmap of the values, ``None`` if all count.
    """

    rows: int
    layers: tuple[pb.Layer, ...]
    values: pa.Array
    repetition: Bytes | None = None
    definition: Bytes | None = None
    max_repetition: int = 0
    slots: Ints | None = None
    valid: Bytes | None = None

    @property
    def entries(self) -> int:
        """The length of the level streams, present or not."""
        for levels in (self.repetition, self.definition):
            if levels is not None:
                return len(levels)
        return len(self.values)


def shred(array: pa.Array, depth: int) -> Shredded:
    """Return the levels and the values of a column.

    array: nested ``depth`` times, by lists, structs of one child and fixed-size lists; no extension
        types, and no nulls in dictionaries.
    depth: how many levels of nesting are above the values.

    Examples
    --------
    >>> made = shred(pa.array([[1, None], None, [2]]), 1)
    >>> made.repetition.tolist(), made.definition.tolist(), made.values.tolist()
    ([1, 0, 1, 1], [0, 1, 2, 0], [1, None, 2])
    """
    if depth == 0:
        valid = validity_bits(array)
        layer = pb.ALL_VALID_ITEM if valid is None else pb.NULLABLE_ITEM
        levels = None if valid is None else 1 - bits.unpack(valid, len(array))
        return Shredded(
            rows=len(array), layers=(layer,), values=array, definition=levels, valid=valid
        )
    kinds = []
    inner = array
    for _ in range(depth):
        kinds.append(inner.type)
        inner = inner.field(0) if isinstance(inner, pa.StructArray) else items_of(inner)
    entries = _Entries(len(array), sum(map(_is_list, kinds)))
    rows = len(array)
    for kind in kinds:
        if _is_list(kind):
            array = entries.add_lists(array)
            continue
        # the reference cannot read a column whose pages differ in whether structs of lists are null
        entries.add_items(array, declared=entries.lists_left > 0)
        if pa.types.is_struct(kind):
            array = child_of(array, 0)
        else:
            size = cast("pa.FixedSizeListType", kind).list_size
            array = fixed_items(array)
            entries.repeat(size)
            rows *= size
    entries.add_items(array)
    values, valid = entries.visible(array)
    return Shredded(
        rows=rows,
        layers=tuple(reversed(entries.layers)),
        values=values,
        repetition=entries.repetition,
        definition=entries.definition(),
        max_repetition=entries.lists,
        slots=entries.slots,
        valid=valid,
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


@dataclass(slots=True)
class _Entries:
    """The entries so far, while layers are added from the outside to the inside.

    `codes` says where entries stop: 0 for those that do not, and otherwise a number that grows
    from the outside to the inside.  Definition levels count from the inside, so they are known
    only when all layers are.
    """

    count: int
    lists: int
    layers: list[pb.Layer] = field(default_factory=list)
    repetition: Bytes | None = None
    codes: Bytes | None = None
    slots: Ints | None = None
    _stops: int = 0
    _lists_seen: int = 0

    def definition(self) -> Bytes | None:
        """Return the definition levels."""
        if self.codes is None:
            return np.zeros(self.count, np.uint8) if self._stops else None
        if self._stops < 2:
            return self.codes
        numbers = np.arange(self._stops + 1, 0, -1, dtype=np.uint8)
        numbers[0] = 0
        return numbers[self.codes]

    @property
    def lists_left(self) -> int:
        """The levels of lists that are still to come."""
        return self.lists - self._lists_seen

    def add_items(self, array: pa.Array, *, declared: bool = False) -> None:
        """Add the validity of structs, of fixed-size lists or of values.

        A ``declared`` layer is one of nullable items, even if none is null.  So is one inside of
        nullable structs: readers take the nulls of a child on its own from the child's layer.
        """
        null = null_flags(array)
        if null is not None and self.codes is not None:
            null &= self._codes_of_slots() == 0
        declared |= self._inside_nullable()
        if not declared and (null is None or not null.any()):
            self.layers.append(pb.ALL_VALID_ITEM)
            return
        self.layers.append(pb.NULLABLE_ITEM)
        self._stop(null)

    def _inside_nullable(self) -> bool:
        """Return whether a struct further outside, but inside of all lists, is nullable."""
        above = takewhile(lambda layer: layer in _ITEM_LAYERS, reversed(self.layers))
        return pb.NULLABLE_ITEM in above

    def add_lists(self, array: pa.Array) -> pa.Array:
        """Add a level of lists; return the items that count."""
        offsets = list_offsets(array)
        lengths = np.diff(offsets)
        alive = None if self.codes is None else self._codes_of_slots() == 0
        null = null_flags(array)
        if null is not None and alive is not None:
            null &= alive
        without_items = null if alive is None else ~alive if null is None else ~alive | null
        if without_items is not None:
            lengths[without_items] = 0
        empty = lengths == 0
        if without_items is not None:
            empty &= ~without_items
        empties, nulls = bool(empty.any()), null is not None and bool(null.any())
        # readers want lists under nullable structs to be nullable too
        nulls |= pb.NULLABLE_ITEM in self.layers
        if empties:
            self._stop(empty)
        if nulls:
            self._stop(null)
        self.layers.append(_LIST_LAYERS[nulls, empties])
        self._expand(lengths)
        return list_items(array, lengths)

    def repeat(self, size: int) -> None:
        """Give every slot the entries of a fixed-size list."""
        repeats = np.ones(self.count, np.int64)
        has_slot = np.ones(self.count, bool)
        if self.slots is None:
            repeats[:] = size
        else:
            repeats[self.slots] = size
            has_slot[:] = False
            has_slot[self.slots] = True
            self.slots = np.flatnonzero(np.repeat(has_slot, repeats))
        if self.codes is not None:
            self.codes = np.repeat(self.codes, repeats)
        starts = starts_of(repeats)
        self.count = int(starts[-1])
        if self.repetition is not None:
            repetition = np.zeros(self.count, np.uint8)
            repetition[starts[:-1]] = self.repetition
            self.repetition = repetition

    def visible(self, array: pa.Array) -> tuple[pa.Array, Bytes | None]:
        """Return the values with nulls wherever they do not count, and their bitmap."""
        if self.codes is None:
            return array, None
        stopped = self._codes_of_slots() != 0
        count = int(np.count_nonzero(stopped))
        if count == 0:
            return array, None
        valid = bits.pack(~stopped)
        if count == array.null_count:
            return array, valid
        # values under null structs; their bytes matter where they take room
        if byte_width(array.type):
            data = [pa.py_buffer(valid), pa.py_buffer(fixed_bytes(array))]
            return pa.Array.from_buffers(array.type, len(array), data), valid
        return ak.take(array, pa.array(np.arange(len(array)), mask=stopped)), valid

    def _codes_of_slots(self) -> Bytes:
        codes = self.codes if self.codes is not None else np.zeros(self.count, np.uint8)
        return codes if self.slots is None else codes[self.slots]

    def _stop(self, flags: NDArray[np.bool_] | None) -> None:
        """Stop the entries of the slots that are flagged, none of which has stopped before."""
        self._stops += 1
        if flags is None:
            return
        if self.codes is None:
            self.codes = np.zeros(self.count, np.uint8)
        places = np.flatnonzero(flags)
        self.codes[places if self.slots is None else self.slots[places]] = self._stops

    def _expand(self, lengths: NDArray[np.generic]) -> None:
        """Give every slot an entry for each item, or one without a slot if there are none."""
        number = self.lists_left
        self._lists_seen += 1
        if self._expand_by_kernel(lengths, number):
            return
        repeats = np.maximum(lengths, 1) if self.codes is not None else lengths
        if self.slots is not None:
            every = np.ones(self.count, repeats.dtype)
            every[self.slots] = repeats
            repeats = every
        starts = starts_of(repeats)
        self.count = int(starts[-1])
        repetition = np.zeros(self.count, np.uint8)
        # an entry that starts a list further outside starts one here too
        first = number if self.repetition is None else np.maximum(self.repetition, number)
        repetition[starts[:-1]] = first
        self.repetition = repetition
        if self.codes is not None:
            codes = np.zeros(self.count, np.uint8)
            codes[starts[:-1]] = self.codes
            self.codes = codes
            self.slots = np.flatnonzero(codes == 0)

    def _expand_by_kernel(self, lengths: NDArray[np.generic], number: int) -> bool:
        """Do the same with the kernel; ``False`` if it cannot be."""
        if (call := expand.ready(self.count)) is None or self.codes is None:
            return False
        slots = np.empty(0, np.int64) if self.slots is None else self.slots
        before = np.empty(0, np.uint8) if self.repetition is None else self.repetition
        lengths = lengths.astype(np.int64, copy=False)
        total = int(np.maximum(lengths, 1).sum()) + self.count - len(lengths)
        repetition, codes = np.empty(total, np.uint8), np.empty(total, np.uint8)
        places = np.empty(total, np.int64)
        out = (repetition, codes, places)
        found = call(lengths, slots, self.codes, before, number, *out)
        if found < 0:
            return False
        self.count, self.repetition, self.codes = total, repetition, codes
        self.slots = places[:found]
        return True


@kernel("i8 i8 u1 u1 int =u1 =u1 =i8", saves=8)
def expand(
    lengths: Values,
    slots: Values,
    codes: Values,
    before: Values,
    number: int,
    repetition: Values,
    new_codes: Values,
    places: Values,
) -> int:
    """Give entries those of their items, with levels; return how many of the new ones go on.

    Every entry has a slot if none is named.
    """
    at = slot = found = 0
    every = slots.size == 0 and lengths.size == codes.size
    if lengths.size != slots.size and not every:
        return -1
    for entry in range(codes.size):
        size = 1
        if every or (slot < slots.size and slots[np.uint64(slot)] == entry):
            size = max(lengths[np.uint64(slot)], 1)
            slot += 1
        if at + size > new_codes.size:
            return -1
        level: int | np.int64 = number
        if before.size:
            level = max(level, np.int64(before[np.uint64(entry)]))
        repetition[np.uint64(at)] = level
        code = codes[np.uint64(entry)]
        new_codes[np.uint64(at)] = code
        places[np.uint64(found)] = at
        found += int(code == 0)
        for more in range(at + 1, at + size):
            repetition[np.uint64(more)] = 0
            new_codes[np.uint64(more)] = 0
            places[np.uint64(found)] = more
            found += 1
        at += size
    return found if at == new_codes.size else -1


_ITEM_LAYERS = (pb.ALL_VALID_ITEM, pb.NULLABLE_ITEM)

#: layers of lists, by whether some are null and some empty
_LIST_LAYERS = {
    (False, False): pb.ALL_VALID_LIST,
    (False, True): pb.EMPTYABLE_LIST,
    (True, False): pb.NULLABLE_LIST,
    (True, True): pb.NULLABLE_EMPTYABLE_LIST,
}

# ---- level streams of chunks: where chunks begin, how levels are packed, the repetition index

#: The most levels of a chunk; packed and even raw, they keep within 16-bit sizes.
_MAX_LEVELS = 1 << 15

#: The most that the count of a chunk's levels says.
_MOST_LEVELS = (1 << 16) - 1

#: Bytes of levels in a chunk of 2.1, whose values leave so much room in 32 KiB.
_SMALL_BYTES = 12 << 10

_MIN_VALUES = 8

#: Levels of so small a page are not worth packing.
_FEW_LEVELS = 512


def values_that_fit(page: Shredded, *, large: bool, crowded: bool = False) -> int | None:
    """Return the most values of a chunk, a power of two, such that its levels fit too.

    ``None`` if even the smallest chunk would have too many, of null or empty lists. In a
    ``crowded`` chunk there may be as many as its 16-bit count says, if its bytes suffice.
    """
    widths = [
        bits_needed(int(levels.max()))
        for levels in (page.repetition, page.definition)
        if levels is not None
    ]
    limit = _MAX_LEVELS
    if crowded and max(widths, default=0) < 8:  # packed levels keep within 16-bit sizes
        limit = _MOST_LEVELS
    elif not large:
        limit = min(limit, _SMALL_BYTES * 8 // max(1, sum(widths)))
    fitting = 1 << limit.bit_length() - 1
    if page.slots is None:
        return fitting
    while fitting >= _MIN_VALUES:
        borders = _borders(page.slots, np.arange(fitting, len(page.slots), fitting), page.entries)
        if int(np.diff(borders, prepend=0).max()) <= limit:
            return fitting
        fitting //= 2
    return None


def _borders(slots: Ints, values: Ints, entries: int) -> Ints:
    """Return where chunks end, whose ends among the values are given but for the last."""
    return np.append(slots[values - 1] + 1, entries)


def chunk_borders(page: Shredded, counts: Ints) -> Ints:
    """Return the first entry of every chunk, and the end of the last.

    A chunk ends behind its last value; entries without a value go to the next one, and to the
    last.
    """
    ends = np.cumsum(counts)
    if page.slots is not None:
        ends = _borders(page.slots, ends[:-1], page.entries)
    return np.concatenate(([0], ends))


def repetition_index(repetition: Bytes, max_repetition: int, borders: Ints) -> bytes:
    """Return two numbers for every chunk.

    The rows that end in it, and the entries of its last row, if that goes on in the next chunk.
    """
    row_starts = np.flatnonzero(repetition == max_repetition)
    row_ends = np.append(row_starts[1:], borders[-1])
    ended = np.searchsorted(row_ends, borders, side="right")
    ends = borders[1:]
    last_start = np.maximum(row_starts[np.searchsorted(row_starts, ends) - 1], borders[:-1])
    whole = row_ends[np.maximum(ended[1:] - 1, 0)] == ends
    pairs = np.stack((np.diff(ended), np.where(whole, 0, ends - last_start)), axis=1)
    return pairs.astype("<u8").tobytes()


def pack_levels(
    levels: Bytes, borders: Ints, *, large: bool
) -> tuple[pb.CompressiveEncoding, list[Part]]:
    """Return the levels of every chunk, in the shortest of the forms that the version has."""
    if len(levels) <= _FEW_LEVELS:
        words = levels.astype("<u2").view(np.uint8)
        return flat.message(16), [Part(words, np.diff(borders) * 2)]
    width = bits_needed(int(levels.max()))
    if large:
        runs = rle.encode_blocks(levels, borders, at_most=len(levels) * width // 8)
        if runs is not None:
            return rle.message(16), runs
    packed = bitpacking.encode_out_of_line(levels, borders, width)
    return bitpacking.out_of_line_message(16, width), packed
