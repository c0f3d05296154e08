"""Construction of repetition and definition levels from nested Arrow arrays.

See docs/format/data-files.md, 6.

A column is an array with a single path from rows to values: every struct in it has one child.  It
is processed from the outside in.  An *entry* is one position in the level streams.  A *slot* is an
entry with an element in the arrays further inside.  Null and empty lists, and lists under null
structs, are entries without a slot.
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

    rows: number of rows of the page; each item of a fixed-size list of structs is a row.
    layers: layers of the page, innermost first.
    repetition, definition: one level for each entry; ``None`` without lists, or if all are 0.
    max_repetition: level of an entry that starts a row; 0 without lists.
    slots: positions of the entries with a value, ascending; ``None`` if all have one.
    values: values at the slots; null where ``valid`` is not set.
    valid: validity bitmap of the values; ``None`` without nulls.
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
        """Length of the level streams, even if both are absent."""
        for levels in (self.repetition, self.definition):
            if levels is not None:
                return len(levels)
        return len(self.values)


def shred(array: pa.Array, depth: int) -> Shredded:
    """Split a column into levels and values.

    array: nested ``depth`` times, by lists, structs of one child and fixed-size lists; no extension
        types, and no nulls in dictionaries.
    depth: number of nesting levels above the values.

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
        # the reference cannot read a column whose structs of lists are nullable in some pages only
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
    """Entries of the layers added so far, from the outside in.

    `codes` has 0 for entries that continue, and the number of the stop, counted from the outside,
    for others.  Definition levels count from the inside, so they are known only after all layers
    have been added.
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
        if self.codes is None:
            return np.zeros(self.count, np.uint8) if self._stops else None
        if self._stops < 2:
            return self.codes
        numbers = np.arange(self._stops + 1, 0, -1, dtype=np.uint8)
        numbers[0] = 0
        return numbers[self.codes]

    @property
    def lists_left(self) -> int:
        """Number of list levels that have not been added."""
        return self.lists - self._lists_seen

    def add_items(self, array: pa.Array, *, declared: bool = False) -> None:
        """Add the validity of structs, fixed-size lists or values.

        A ``declared`` layer is nullable even without nulls.  A layer within nullable structs is
        nullable, too: readers of a single child take its nulls from the child's layer.
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
        """Return True if an enclosing struct within the innermost list is nullable."""
        above = takewhile(lambda layer: layer in _ITEM_LAYERS, reversed(self.layers))
        return pb.NULLABLE_ITEM in above

    def add_lists(self, array: pa.Array) -> pa.Array:
        """Add a level of lists; return the items of lists that are not under nulls."""
        lengths = np.diff(list_offsets(array))
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
        # readers expect lists under nullable structs to be nullable, too
        nulls |= pb.NULLABLE_ITEM in self.layers
        if empties:
            self._stop(empty)
        if nulls:
            self._stop(null)
        self.layers.append(_LIST_LAYERS[nulls, empties])
        self._expand(lengths)
        return list_items(array, lengths)

    def repeat(self, size: int) -> None:
        """Multiply every slot to the entries of a fixed-size list."""
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
        """Return the values, null where an entry stops, and their validity bitmap."""
        if self.codes is None:
            return array, None
        stopped = self._codes_of_slots() != 0
        count = int(np.count_nonzero(stopped))
        if count == 0:
            return array, None
        valid = bits.pack(~stopped)
        if count == array.null_count:
            return array, valid
        # values under null structs become null; fixed-width bytes stay, others would take space
        if byte_width(array.type):
            data = [pa.py_buffer(valid), pa.py_buffer(fixed_bytes(array))]
            return pa.Array.from_buffers(array.type, len(array), data), valid
        return ak.take(array, pa.array(np.arange(len(array)), mask=stopped)), valid

    def _codes_of_slots(self) -> Bytes:
        codes = self.codes if self.codes is not None else np.zeros(self.count, np.uint8)
        return codes if self.slots is None else codes[self.slots]

    def _stop(self, flags: NDArray[np.bool_] | None) -> None:
        """Stop the entries of flagged slots, which have not stopped before."""
        self._stops += 1
        if flags is None:
            return
        if self.codes is None:
            self.codes = np.zeros(self.count, np.uint8)
        places = np.flatnonzero(flags)
        self.codes[places if self.slots is None else self.slots[places]] = self._stops

    def _expand(self, lengths: NDArray[np.generic]) -> None:
        """Give every slot an entry for each item, or one without a slot if it has no items."""
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
        # an entry that starts a list further outside also starts one here
        first = number if self.repetition is None else np.maximum(self.repetition, number)
        repetition[starts[:-1]] = first
        self.repetition = repetition
        if self.codes is not None:
            codes = np.zeros(self.count, np.uint8)
            codes[starts[:-1]] = self.codes
            self.codes = codes
            self.slots = np.flatnonzero(codes == 0)

    def _expand_by_kernel(self, lengths: NDArray[np.generic], number: int) -> bool:
        """Expand with the kernel; return False if it is not loaded or reports a fault."""
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
    """Expand entries to one for each item, with levels; return the number of new slots.

    Empty ``slots`` mean that every entry has a slot.
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

#: list layers, by whether there are null and empty lists
_LIST_LAYERS = {
    (False, False): pb.ALL_VALID_LIST,
    (False, True): pb.EMPTYABLE_LIST,
    (True, False): pb.NULLABLE_LIST,
    (True, True): pb.NULLABLE_EMPTYABLE_LIST,
}

# ---- level streams of chunks: borders, packing, repetition index

#: Maximum number of levels in a chunk; at 8 bits each, their bytes fit a 16-bit size.
_MAX_LEVELS = 1 << 15

#: Largest number of levels that a chunk's 16-bit count can state.
_MOST_LEVELS = (1 << 16) - 1

#: Maximum bytes of levels in a chunk of 2.1, which has 32 KiB for levels and values.
_SMALL_BYTES = 12 << 10

_MIN_VALUES = 8

#: Up to this many levels, a page stores them unpacked.
_FEW_LEVELS = 512


def values_that_fit(page: Shredded, *, large_chunks: bool, crowded: bool = False) -> int | None:
    """Return the maximum values of a chunk, a power of two, so that its levels fit, too.

    ``None`` if even the smallest chunk would have too many levels, of null or empty lists.  A
    ``crowded`` chunk may have as many levels as its 16-bit count can state, if their bytes fit.
    """
    widths = [
        bits_needed(int(levels.max()))
        for levels in (page.repetition, page.definition)
        if levels is not None
    ]
    limit = _MAX_LEVELS
    if crowded and max(widths, default=0) < 8:  # the bytes of packed levels fit a 16-bit size
        limit = _MOST_LEVELS
    elif not large_chunks:
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
    """Return the end of every chunk in entries; ``values`` has all ends but the last in values."""
    return np.append(slots[values - 1] + 1, entries)


def chunk_borders(page: Shredded, counts: Ints) -> Ints:
    """Return the first entry of every chunk, and the end of the last.

    A chunk ends after its last value.  Entries without a value that follow go to the next chunk,
    or to the last one.
    """
    ends = np.cumsum(counts)
    if page.slots is not None:
        ends = _borders(page.slots, ends[:-1], page.entries)
    return np.concatenate(([0], ends))


def repetition_index(repetition: Bytes, max_repetition: int, borders: Ints) -> bytes:
    """Return the repetition index: two numbers for every chunk.

    The first is the number of rows that end in the chunk.  The second is the number of its entries
    that belong to a row which continues in the next chunk.
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
    levels: Bytes, borders: Ints, *, large_chunks: bool
) -> tuple[pb.CompressiveEncoding, list[Part]]:
    """Encode the levels of every chunk in the shortest encoding that the version has."""
    if len(levels) <= _FEW_LEVELS:
        words = levels.astype("<u2").view(np.uint8)
        return flat.message(16), [Part(words, np.diff(borders) * 2)]
    width = bits_needed(int(levels.max()))
    if large_chunks:
        runs = rle.encode_blocks(levels, borders, at_most=len(levels) * width // 8)
        if runs is not None:
            return rle.message(16), runs
    packed = bitpacking.encode_out_of_line(levels, borders, width)
    return bitpacking.out_of_line_message(16, width), packed
