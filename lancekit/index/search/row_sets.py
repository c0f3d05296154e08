"""Sets of rows as index files hold them: by the upper 32 bits of ids or addresses.

See docs/format/indices.md, 6.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit.errors import CorruptFileError
from lancekit.format import row_address
from lancekit.format.deletions import to_bitmap, to_offsets

__all__ = ["Rows", "common", "joined", "read_rows", "rows_of", "union"]

#: lower halves of ids or addresses, by their upper halves; an address' are fragment and offset
Rows: TypeAlias = Mapping[int, BitMap]

Numbers = npt.NDArray[np.uint64]

_COUNT, _ENTRY = struct.Struct("<I"), struct.Struct("<II")


def read_rows(data: bytes, where: str) -> Rows:
    """Decode a set of rows.

    Raises
    ------
    CorruptFileError
        It is not one.
    """
    found: dict[int, BitMap] = {}
    try:
        for upper, stored in _parts(data):
            found[upper] = BitMap.deserialize(stored)
    except (ValueError, struct.error) as error:
        raise CorruptFileError(f"A set of rows in {where} cannot be read: {error}.") from error
    return found


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    (count,) = _COUNT.unpack_from(data)
    at = _COUNT.size
    for _ in range(count):
        upper, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size + size
        if not size:
            raise ValueError(f"all rows of {upper} are meant, which nobody writes")
        if at > len(data):
            raise ValueError("it is cut off")
        yield upper, data[at - size : at]


def rows_of(numbers: Numbers) -> Rows:
    """Return ids or addresses, in any order, as a set of rows."""
    parts = row_address.by_fragment(np.sort(numbers))
    return {upper: to_bitmap(lower) for upper, lower in parts}


def union(sets: Iterable[Rows]) -> Rows:
    """Return the rows of all sets."""
    by_upper: dict[int, list[BitMap]] = {}
    for rows in sets:
        for upper, lower in rows.items():
            by_upper.setdefault(upper, []).append(lower)
    return {
        upper: parts[0] if len(parts) == 1 else BitMap.union(*parts)
        for upper, parts in by_upper.items()
    }


def common(one: Rows, other: Rows) -> Rows:
    """Return the rows that are in both sets."""
    return {upper: one[upper] & other[upper] for upper in one.keys() & other.keys()}


def joined(rows: Rows) -> Numbers:
    """Return rows as ids or addresses, ascending."""
    parts = [
        row_address.addresses(upper, to_offsets(rows[upper]).astype(np.uint64))
        for upper in sorted(rows)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)
