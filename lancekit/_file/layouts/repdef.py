"""Conversion of repetition and definition levels to list offsets and validity.

See docs/format/data-files.md, 6.  A page of a nested column is a stream of entries.  Its *layers*
are listed from the innermost, the values, outwards.  Each is an item layer (values, structs,
fixed-size lists) or a list layer.  The numbering is the reverse of Parquet's:

- Definition 0 is a valid value.  The numbers from 1 on belong to the layers, innermost first.  A
  nullable item layer has one number.  A list layer has one if it is nullable, then one if it is
  emptyable.  An entry's definition names the layer at which the entry stops.
- Repetition 0 continues the innermost list; k starts a new list of the k-th list layer from the
  inside.  The first entry of a row has as repetition the number of list layers.
- An entry is *visible*, i.e. it has a slot among the values, unless it stands for a null or empty
  list: its definition is at most `Layers.visible`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lancekit._compiled.kernel import Values, kernel
from lancekit._file.kernels import bits
from lancekit._file.kernels.faults import Damaged, Unsupported, require
from lancekit._file.kernels.memory import Bytes, Ints, Offsets, ranges
from lancekit._file.kernels.row_selection import Rows
from lancekit._format.pb import encodings_v21_pb2 as pb

Words = NDArray[np.uint16]

#: layer -> number of definition levels that it owns
_NUMBERS: dict[int, int] = {
    pb.ALL_VALID_ITEM: 0,
    pb.ALL_VALID_LIST: 0,
    pb.NULLABLE_ITEM: 1,
    pb.NULLABLE_LIST: 1,
    pb.EMPTYABLE_LIST: 1,
    pb.NULLABLE_EMPTYABLE_LIST: 2,
}
_LISTS: set[int] = {
    pb.ALL_VALID_LIST,
    pb.NULLABLE_LIST,
    pb.EMPTYABLE_LIST,
    pb.NULLABLE_EMPTYABLE_LIST,
}
_NULLABLE_LISTS: set[int] = {pb.NULLABLE_LIST, pb.NULLABLE_EMPTYABLE_LIST}


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers of a page, innermost first, with derived numbers."""

    kinds: tuple[int, ...]
    is_list: tuple[bool, ...]
    #: number of list layers
    lists: int
    #: the largest definition of an entry with a value
    visible: int
    #: the largest definition of all layers
    largest: int

    @classmethod
    def of(cls, stored: Iterable[int]) -> Layers:
        """Check a page's layers and return their description."""
        return _layers(tuple(stored))


@lru_cache
def _layers(kinds: tuple[int, ...]) -> Layers:
    require(kinds, "a page without layers")
    unknown = [kind for kind in kinds if kind not in _NUMBERS]
    if unknown:
        raise Unsupported(f"layer {unknown[0]}")
    is_list = tuple(kind in _LISTS for kind in kinds)
    require(not is_list[0], "the innermost layer is a list")
    below = is_list.index(True) if any(is_list) else len(is_list)
    numbers = [_NUMBERS[kind] for kind in kinds]
    return Layers(kinds, is_list, sum(is_list), sum(numbers[:below]), sum(numbers))


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of whole rows; an absent stream stands for zeros."""

    count: int
    repetition: Words | None = None
    definition: Words | None = None

    def visible(self, layers: Layers) -> NDArray[np.bool_] | None:
        """Return a flag for each entry, True if it has a value; ``None`` if all have one."""
        if self.definition is None or layers.visible == layers.largest:
            return None
        shown: NDArray[np.bool_] = self.definition <= layers.visible
        return None if shown.all() else shown

    def nulls(self, layers: Layers) -> NDArray[np.bool_]:
        """Return a flag for each visible entry, True if it is null."""
        if self.definition is None:
            return np.zeros(self.count, bool)
        null: NDArray[np.bool_] = self.definition != 0
        shown = self.visible(layers)
        if shown is not None:
            null = null[shown]
        return null


@dataclass(frozen=True, slots=True)
class Items:
    """Item layer: number of items, and a validity bitmap if some are null."""

    count: int
    validity: Bytes | None


@dataclass(frozen=True, slots=True)
class Lists:
    """List layer: offsets, one more than lists, and a validity bitmap if some are null."""

    offsets: Offsets
    validity: Bytes | None

    @property
    def count(self) -> int:
        """Number of lists."""
        return len(self.offsets) - 1


Shape = Items | Lists


def rows_of(levels: Levels, layers: Layers, others: Ints | None = None) -> Ints:
    """Return the first entry of every row of lists, then the number of entries.

    ``others`` are additional entries that count as row starts.
    """
    if levels.repetition is None:
        raise Damaged("lists without repetition levels")
    starts = np.empty(levels.count + 1, bool)
    np.equal(levels.repetition, layers.lists, out=starts[:-1])
    starts[-1] = True
    if others is not None:
        starts[others] = True
    return np.flatnonzero(starts)


def pick(
    levels: Levels, layers: Layers, starts: Ints | None, rows: Rows
) -> tuple[Levels, slice | Ints]:
    """Return the levels of some rows, and the positions of their values among the visible ones.

    starts: result of `rows_of`; ``None`` without lists, where every entry is a row.
    rows: positions among the rows that start in ``levels``.
    """
    index: slice | Ints
    if isinstance(rows, range):
        first, last = rows.start, rows.stop
        if starts is not None:
            first, last = int(starts[first]), int(starts[last])
        index = slice(first, last)
        count = last - first
    else:
        index = rows if starts is None else ranges(starts[rows], starts[rows + 1] - starts[rows])
        count = len(index)
    repetition, definition = levels.repetition, levels.definition
    picked = Levels(
        count,
        None if repetition is None else repetition[index],
        None if definition is None else definition[index],
    )
    shown = levels.visible(layers)
    if shown is None:
        return picked, index
    if isinstance(index, slice):
        before = int(np.count_nonzero(shown[: index.start]))
        return picked, slice(before, before + int(np.count_nonzero(shown[index])))
    kept = index[shown[index]]
    return picked, kept - np.searchsorted(np.flatnonzero(~shown), kept)


def unravel(levels: Levels, layers: Layers, rows: int, sizes: Sequence[int] = ()) -> list[Shape]:
    """Return the shape of every layer, innermost first.

    rows: the number of rows that the levels must have.
    sizes: list size of every layer; 1 unless the layer is a fixed-size list.

    Raises Damaged: the levels contradict the layers or each other.
    """
    levels, largest = _checked(levels, layers)
    definition, count = levels.definition, levels.count
    repetition = np.empty(0, np.uint16) if levels.repetition is None else levels.repetition
    shapes: list[Shape] = []
    done = 0  # definition numbers of the layers processed so far
    first = 0
    for layer in [place for place, is_list in enumerate(layers.is_list) if is_list]:
        items = layers.kinds[first:layer]
        visible = done + sum(_NUMBERS[kind] for kind in items)
        above = visible + _NUMBERS[layers.kinds[layer]]
        entries = _Entries(repetition, definition, largest, visible, layers.kinds[layer])
        nullable, last = pb.NULLABLE_ITEM in items, above + _following(layers, layer)
        found = entries.split_by_kernel(last) or entries.split(nullable, last)
        shapes += _items(items, sizes[first:layer], found.shown, found.items, done)
        shapes.append(found.lists)
        repetition, definition, count = found.repetition, found.definition, len(found.repetition)
        done, first = above, layer + 1
    require(not repetition.any(), "a repetition level that no list has")
    shapes += _items(layers.kinds[first:], sizes[first:], definition, count, done)
    require(shapes[-1].count == rows, f"levels of {shapes[-1].count} rows, not {rows}")
    return shapes


def _checked(levels: Levels, layers: Layers) -> tuple[Levels, int]:
    """Check levels; drop streams of zeros, and return also the largest definition."""
    repetition, definition = levels.repetition, levels.definition
    if layers.lists == 0:
        require(repetition is None or not repetition.any(), "repetition without lists")
        repetition = None
    else:
        require(repetition is not None, "lists without repetition levels")
        first = levels.count == 0 or repetition is None or repetition[0] == layers.lists
        require(first, "levels begin inside of a row")
    largest = 0 if definition is None or levels.count == 0 else int(definition.max())
    require(largest <= layers.largest, "a definition level that no layer has")
    return Levels(levels.count, repetition, definition if largest else None), largest


def _following(layers: Layers, layer: int) -> int:
    """Return how many definition numbers the item layers up to the next list layer own."""
    total = 0
    for kind, is_list in zip(layers.kinds[layer + 1 :], layers.is_list[layer + 1 :], strict=True):
        if is_list:
            break
        total += _NUMBERS[kind]
    return total


def _items(
    kinds: Sequence[int], sizes: Sequence[int], shown: Words | None, count: int, done: int
) -> list[Shape]:
    """Return the shapes of consecutive item layers; ``shown`` are levels of visible entries."""
    shapes: list[Shape] = []
    for place, kind in enumerate(kinds):
        size = sizes[place] if sizes else 1
        if size != 1:
            require(size > 0 and count % size == 0, "a fixed-size list that is truncated")
            count //= size
            shown = None if shown is None else shown[::size]
        validity = None
        if kind == pb.NULLABLE_ITEM:
            if shown is not None:
                valid = shown <= done
                validity = None if valid.all() else bits.pack(valid)
            done += 1
        shapes.append(Items(count, validity))
    return shapes


class _Split(NamedTuple):
    """List layer split from its items, with the entries of the next layer outwards."""

    lists: Lists
    items: int
    #: the items' levels, if an item can be null
    shown: Words | None
    repetition: Words
    definition: Words | None


class _Entries(NamedTuple):
    """Entries of a list layer whose items have definitions up to ``visible``."""

    repetition: Words
    definition: Words | None
    largest: int
    visible: int
    kind: int

    def split(self, nullable: bool, last: int) -> _Split:
        """Split lists from their items; entries above ``last`` belong to lists further out.

        ``nullable`` is True if items can be null.
        """
        definition, visible = self.definition, self.visible
        places = np.flatnonzero(self.repetition != 0)
        at = None if definition is None else definition[places]
        special = None
        shown = definition
        count = len(self.repetition)
        if definition is not None and at is not None and self.largest > visible:
            special = at > visible
            hidden = int(np.count_nonzero(special))
            count -= hidden
            require(hidden, "an empty list continues")
            shown = None
            if nullable:
                shown = definition[definition <= visible]
                require(len(shown) == count, "an empty list continues")
        offsets = np.empty(len(places) + 1, np.int64)
        offsets[:-1] = places
        offsets[-1] = count
        valid = None
        if special is not None and at is not None:
            offsets[1:-1] -= np.cumsum(special[:-1])
            kept = at <= last
            if not kept.all():
                offsets = np.append(offsets[:-1][kept], count)
            valid = at[kept] != visible + 1
        rest = self.repetition[places] - np.uint16(1)
        return _Split(self._lists(offsets, valid), count, shown, rest, at)

    def split_by_kernel(self, last: int) -> _Split | None:
        """Split with the kernel; return ``None`` if it is not loaded or reports a fault."""
        definition, size = self.definition, len(self.repetition)
        if definition is None or (call := split_entries.ready(size)) is None:
            return None
        offsets, valid = np.empty(size + 1, np.int64), np.empty(size, bool)
        rest = np.empty(size, np.uint16)
        at, shown = np.empty_like(definition), np.empty_like(definition)
        counts = np.empty(3, np.int64)
        limits = (self.visible, last, self.largest)
        out = (offsets, valid.view(np.uint8), rest, at, shown, counts)
        if call(self.repetition, definition, *limits, *out) < 0:
            return None
        starts, lists, items = counts.tolist()
        levels = self._lists(offsets[: lists + 1], valid[:lists])
        return _Split(levels, items, shown[:items], rest[:starts], at[:starts])

    def _lists(self, offsets: Ints, valid: NDArray[np.bool_] | None) -> Lists:
        validity = None
        if valid is not None and self.kind in _NULLABLE_LISTS and not valid.all():
            validity = bits.pack(valid)
        return Lists(offsets, validity)


@kernel("u2 u2 int int int =i8 =u1 =u2 =u2 =u2 =i8", saves=10)
def split_entries(
    repetition: Values,
    definition: Values,
    visible: int,
    last: int,
    largest: int,
    offsets: Values,
    valid: Values,
    rest: Values,
    at: Values,
    shown: Values,
    counts: Values,
) -> int:
    """Split like `_Entries.split`, in one pass; ``counts`` are starts, lists and items."""
    starts: int | np.int64 = 0
    lists: int | np.int64 = 0
    items: int | np.int64 = 0
    wrong: int | np.int64 = 0
    # unconditional writes, which the next entry overwrites, cost less than unpredictable branches
    for entry in range(repetition.size):
        number = repetition[np.uint64(entry)]
        level: int | np.int64 = 0
        if definition.size:
            level = np.int64(definition[np.uint64(entry)])
            at[np.uint64(starts)] = level
            shown[np.uint64(items)] = level
        start, hidden = np.int64(number != 0), np.int64(level > visible)
        rest[np.uint64(starts)] = number - 1
        offsets[np.uint64(lists)] = items
        valid[np.uint64(lists)] = level != visible + 1
        starts += start
        lists += start & np.int64(level <= last)
        items += 1 - hidden
        wrong |= hidden & (1 - start)
    if wrong:
        return -1
    if largest > visible and items == repetition.size:
        return -1
    offsets[np.uint64(lists)] = items
    counts[0], counts[1], counts[2] = starts, lists, items
    return 0
