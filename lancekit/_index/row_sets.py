"""Row sets in the form of index files, encoded and decoded in bulk (docs/format/indices.md, 6).

A set is a bitmap for each fragment, in Roaring's portable form. A bitmap is divided into containers
of 65,536 rows, each a list of its rows or a bit for each row.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit._format import row_address
from lancekit._format.arrow_parts import strings_of, viewed
from lancekit._format.deletions import to_bitmap, to_offsets
from lancekit.errors import CorruptFileError

Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

#: of a container: the bits of a row number, the most rows that it lists, and the bytes of its bits
_CONTAINER_BITS = 16
_LISTED = 4096
_BITMAP_BYTES = 8192
#: the first bytes of a bitmap without runs, and the most containers of a bitmap
_COOKIE = 12346
_MOST_CONTAINERS = 1 << 16
#: containers that are packed into bits at a time
_AT_A_TIME = 64


class SetForm(Enum):
    """The header of a set, and the header of each fragment's bitmap.

    ``SIZED``: the number of fragments in 4 bytes, then the id and the bitmap's size of each.
    ``PLAIN``: the number of fragments in 8 bytes, then the id of each.
    """

    SIZED = (struct.Struct("<I"), struct.Struct("<II"))
    PLAIN = (struct.Struct("<Q"), struct.Struct("<I"))

    @property
    def head(self) -> struct.Struct:
        """The number of fragments."""
        return self.value[0]

    @property
    def part(self) -> struct.Struct:
        """The header of each bitmap."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class RowSets:
    """Concatenated row sets: set i has ``rows[starts[i]:starts[i + 1]]``, ascending."""

    starts: Places
    rows: Words

    def __len__(self) -> int:
        return len(self.starts) - 1


def encoded_set(rows: Words, form: SetForm = SetForm.SIZED) -> bytes:
    """Encode one set of ascending rows.

    Examples
    --------
    >>> rows = np.array([0, 2, 1 << 32], np.uint64)
    >>> decoded_set(encoded_set(rows)).tolist()
    [0, 2, 4294967296]
    """
    if not len(rows):
        return form.head.pack(0)
    one = RowSets(np.array([0, len(rows)]), rows)
    data: bytes = encoded_sets(one, form)[0].as_py()
    return data


def encoded_sets(sets: RowSets, form: SetForm = SetForm.SIZED) -> pa.Array:
    """Encode many non-empty sets as one binary array."""
    rows, starts = sets.rows, sets.starts
    if not len(sets):
        return pa.array([], pa.binary())
    begins = np.ones(len(rows), bool)
    begins[1:] = rows[1:] >> np.uint64(_CONTAINER_BITS) != rows[:-1] >> np.uint64(_CONTAINER_BITS)
    begins[starts[:-1]] = True
    first = np.flatnonzero(begins)
    count = np.diff(first, append=len(rows))
    high = (rows[first] >> np.uint64(_CONTAINER_BITS)).astype(np.int64)
    owner = np.searchsorted(starts, first, "right") - 1

    fragment = high >> _CONTAINER_BITS
    changes = np.ones(len(first), bool)
    changes[1:] = (fragment[1:] != fragment[:-1]) | (owner[1:] != owner[:-1])
    bitmap = np.flatnonzero(changes)
    containers = np.diff(bitmap, append=len(first))
    size = np.where(count <= _LISTED, 2 * count, _BITMAP_BYTES)
    header = 8 + 8 * containers
    bitmap_size = header + np.add.reduceat(size, bitmap)

    part, head = form.part.size, form.head.size
    whole = np.cumsum(bitmap_size + part)
    at = whole - bitmap_size + head * (owner[bitmap] + 1)
    ends = whole[np.searchsorted(owner[bitmap], np.arange(len(sets)), "right") - 1]
    offsets = np.concatenate([[0], ends + head * np.arange(1, len(sets) + 1)])

    out = np.zeros(int(offsets[-1]) // 2, "<u2")  # every number begins at an even offset
    _put(out, offsets[:-1], np.bincount(owner[bitmap], minlength=len(sets)))
    _put(out, at - part, fragment[bitmap])
    if form is SetForm.SIZED:
        _put(out, at - 4, bitmap_size)
    _put(out, at, np.full(len(at), _COOKIE))
    _put(out, at + 4, containers)
    within = np.arange(len(first)) - np.repeat(bitmap, containers)
    base = np.repeat(at, containers)
    places = np.cumsum(size) - size
    inside = places - np.repeat(places[bitmap] - header, containers)
    out[(base + 8) // 2 + 2 * within] = high & 0xFFFF
    out[(base + 8) // 2 + 2 * within + 1] = count - 1
    _put(out, base + 8 + 4 * (np.repeat(containers, containers) + within), inside)
    _put_rows(out, (base + inside) // 2, rows, first, count)
    small = int(offsets[-1]) < 1 << 31
    ends = offsets.astype(np.int32 if small else np.int64)
    kind = pa.binary() if small else pa.large_binary()
    return strings_of(ends, out, kind)


def _put(out: npt.NDArray[np.uint16], at: Places, numbers: Places) -> None:
    """Write 4-byte numbers at some even byte offsets."""
    out[at // 2] = numbers & 0xFFFF
    out[at // 2 + 1] = numbers >> _CONTAINER_BITS


def _put_rows(
    out: npt.NDArray[np.uint16], at: Places, rows: Words, first: Places, count: Places
) -> None:
    """Write the rows of containers: the lower 16 bits of each."""
    low = rows.astype(np.uint16)
    bits = np.flatnonzero(count > _LISTED)
    listed = np.arange(len(rows)) + np.repeat(at - first, count)
    if len(bits):
        kept = np.repeat(count <= _LISTED, count)
        out[listed[kept]] = low[kept]
    else:
        out[listed] = low
    for start in range(0, len(bits), _AT_A_TIME):
        some = bits[start : start + _AT_A_TIME]
        flags = np.zeros((len(some), 1 << _CONTAINER_BITS), bool)
        for place, one in enumerate(some):
            flags[place, low[first[one] : first[one] + count[one]]] = True
        packed = np.packbits(flags, axis=1, bitorder="little").view("<u2")
        for place, one in enumerate(some):
            out[at[one] : at[one] + _BITMAP_BYTES // 2] = packed[place]


# ---- decoding


def decoded_set(data: bytes, form: SetForm = SetForm.SIZED) -> Words:
    """Decode one set.

    Raises CorruptFileError: the bytes are not a set.
    """
    return _slow([data], form).rows


def decoded_sets(blobs: pa.Array, form: SetForm = SetForm.SIZED) -> RowSets:
    """Decode many sets from a binary array without nulls; errors as in `decoded_set`."""
    found = _Reader(blobs, form).read()
    return _slow(blobs.to_pylist(), form) if found is None else found


def _slow(blobs: list[bytes], form: SetForm) -> RowSets:
    """Decode sets one by one, with containers of any form."""
    found = [_one(blob, form) for blob in blobs]
    starts = np.cumsum([0, *map(len, found)])
    return RowSets(starts, np.concatenate(found) if found else np.empty(0, np.uint64))


def _one(data: bytes, form: SetForm) -> Words:
    found = [np.empty(0, np.uint64)]
    for upper, bitmap in bitmaps(data, form):
        found.append(row_address.addresses(upper, to_offsets(bitmap).astype(np.uint64)))
    return np.concatenate(found)


def bitmaps(data: bytes, form: SetForm = SetForm.SIZED) -> Iterator[tuple[int, BitMap]]:
    """Yield a set's bitmaps, each with the upper half of its rows; errors as in `decoded_set`."""
    try:
        (number,) = form.head.unpack_from(data)
        at = form.head.size
        for _ in range(number):
            upper, *size = form.part.unpack_from(data, at)
            at += form.part.size
            if size == [0]:
                raise _damaged()  # it means all rows of a fragment, and no writer uses it
            if size and at + size[0] > len(data):
                raise _damaged()
            bitmap = BitMap.deserialize(data[at : at + size[0]] if size else data[at:])
            at += size[0] if size else len(bitmap.serialize())
            yield upper, bitmap
    except (struct.error, ValueError) as error:
        raise _damaged() from error


def _damaged() -> CorruptFileError:
    return CorruptFileError("A row set of an index is damaged.")


@dataclass(slots=True)
class _Reader:
    """A decoder of sets without runs: it reads the first bitmap of every set, then the second."""

    blobs: pa.Array
    form: SetForm
    data: npt.NDArray[np.uint8] = field(init=False)

    def read(self) -> RowSets | None:
        """Return all sets; ``None`` if they are in another form."""
        wide = pa.types.is_large_binary(self.blobs.type)
        _, ends, data = self.blobs.buffers()
        bounds = viewed(ends, np.int64 if wide else np.int32).astype(np.int64)
        bounds = bounds[self.blobs.offset : self.blobs.offset + len(self.blobs) + 1]
        self.data = viewed(data)
        try:
            return self._read(bounds)
        except IndexError as error:
            raise _damaged() from error

    def _number(self, at: Places, width: int = 4) -> Places:
        count = max(len(self.data) - width + 1, 0)
        view: npt.NDArray[np.unsignedinteger] = np.ndarray(
            (count,), f"<u{width}", self.data, strides=(1,)
        )
        found: Places = view[at].astype(np.int64)
        return found

    def _read(self, bounds: Places) -> RowSets | None:
        at, stop = bounds[:-1].copy(), bounds[1:]
        left = self._number(at) if len(at) else np.empty(0, np.int64)
        at += self.form.head.size
        owners, highs, counts, places = [], [], [], []
        sets = np.flatnonzero(left)
        while len(sets):
            where = at[sets]
            fragment = self._number(where)
            where = where + self.form.part.size
            if (self._number(where) != _COOKIE).any():
                return None
            number = self._number(where + 4)
            if (number > _MOST_CONTAINERS).any():
                raise _damaged()
            bitmap = np.repeat(where, number)
            within = np.arange(len(bitmap)) - np.repeat(np.cumsum(number) - number, number)
            described = bitmap + 8 + 4 * within
            count = self._number(described + 2, 2) + 1
            place = bitmap + self._number(bitmap + 8 + 4 * (np.repeat(number, number) + within))
            owners.append(np.repeat(sets, number))
            high = np.repeat(fragment, number) << _CONTAINER_BITS
            highs.append(high | self._number(described, 2))
            counts.append(count)
            places.append(place)
            ends = place + np.where(count <= _LISTED, 2 * count, _BITMAP_BYTES)
            if (ends > np.repeat(stop[sets], number)).any():
                raise _damaged()
            last = np.cumsum(number) - 1
            at[sets] = ends[last]
            left[sets] -= 1
            sets = sets[left[sets] > 0]
        if not owners:
            return RowSets(np.zeros(len(bounds), np.int64), np.empty(0, np.uint64))
        return self._rows(len(bounds) - 1, *map(np.concatenate, (owners, highs, counts, places)))

    def _rows(self, sets: int, owner: Places, high: Places, count: Places, at: Places) -> RowSets:
        order = np.lexsort((high, owner))
        owner, high, count, at = owner[order], high[order], count[order], at[order]
        first = np.cumsum(count) - count
        low = np.zeros(int(count.sum()), np.uint64)
        listed = np.repeat(count <= _LISTED, count)
        places = np.arange(len(low)) - np.repeat(first, count)
        low[listed] = self._number((np.repeat(at, count) + 2 * places)[listed], 2)
        for one in np.flatnonzero(count > _LISTED):
            flags = np.unpackbits(self.data[at[one] : at[one] + _BITMAP_BYTES], bitorder="little")
            found = np.flatnonzero(flags)
            if len(found) != count[one]:
                raise _damaged()
            low[first[one] : first[one] + count[one]] = found
        rows = np.repeat(high.astype(np.uint64) << np.uint64(_CONTAINER_BITS), count) | low
        sizes = np.bincount(owner, count, sets).astype(np.int64)
        return RowSets(np.concatenate([[0], np.cumsum(sizes)]), rows)


# ---- membership in ascending numbers


def among(
    some: npt.NDArray[np.generic], ascending: npt.NDArray[np.generic]
) -> npt.NDArray[np.bool_]:
    """Return a mask of the numbers that occur in an ascending array.

    Examples
    --------
    >>> among(np.array([4, 1, 9]), np.array([1, 2, 4])).tolist()
    [True, True, False]
    """
    if not len(ascending):
        return np.zeros(len(some), bool)
    places = np.minimum(np.searchsorted(ascending, some), len(ascending) - 1)
    found: npt.NDArray[np.bool_] = ascending[places] == some
    return found


# ---- row sets in memory
#
# See docs/format/indices.md, 6.

#: the lower 32 bits of ids or addresses, by the upper 32 bits (of an address: the fragment id)
Rows: TypeAlias = Mapping[int, BitMap]

Numbers = npt.NDArray[np.uint64]


def rows_of(numbers: Numbers) -> Rows:
    """Return ids or addresses, in any order, as a row set."""
    if (numbers[1:] > numbers[:-1]).all():  # the case of a sorted column
        return {upper: _bitmap(lower) for upper, lower in row_address.by_fragment(numbers)}
    parts = row_address.by_fragment(np.sort(numbers))
    return {upper: to_bitmap(lower) for upper, lower in parts}


def _bitmap(ascending: Numbers) -> BitMap:
    """Return ascending distinct rows as a bitmap; a range is built faster."""
    first, last = int(ascending[0]), int(ascending[-1])
    if last - first + 1 == len(ascending):
        return BitMap(range(first, last + 1))
    return to_bitmap(ascending)


def union(sets: Iterable[Rows]) -> Rows:
    """Return the union of row sets."""
    by_upper: dict[int, list[BitMap]] = {}
    for rows in sets:
        for upper, lower in rows.items():
            by_upper.setdefault(upper, []).append(lower)
    return {
        upper: parts[0] if len(parts) == 1 else BitMap.union(*parts)
        for upper, parts in by_upper.items()
    }


def common(one: Rows, other: Rows) -> Rows:
    """Return the intersection of two row sets."""
    return {upper: one[upper] & other[upper] for upper in one.keys() & other.keys()}


def joined(rows: Rows) -> Numbers:
    """Return a row set as ascending ids or addresses."""
    parts = [
        row_address.addresses(upper, to_offsets(rows[upper]).astype(np.uint64))
        for upper in sorted(rows)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)
