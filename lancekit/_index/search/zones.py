"""Zones, ranges of rows of a fragment: what zone maps and Bloom filters have in common.

See docs/format/indices.md, 9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import numbers_of
from lancekit._index.row_sets import bitmaps
from lancekit._index.search.row_sets import Rows, union
from lancekit._index.segment import IndexFileReader
from lancekit.errors import CorruptFileError

__all__ = ["Zones", "numbers", "read_zones", "wanted_rows"]

Flags = npt.NDArray[np.bool_]

#: rows of a fragment are counted with 32 bits
_MOST_ROWS = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """Which rows the zones are: so many of a fragment, from a first one on."""

    fragments: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    def rows(self, wanted: Flags) -> Rows:
        """Return the rows of some zones; none of fragments that have no other zones."""
        found = {id_: BitMap() for id_ in np.unique(self.fragments).tolist()}
        chosen = np.flatnonzero(wanted)
        for id_, start, length in zip(
            *(values[chosen].tolist() for values in (self.fragments, self.starts, self.lengths)),
            strict=True,
        ):
            found[id_].add_range(start, start + length)
        return found


def numbers(file: IndexFileReader, name: str) -> npt.NDArray[np.int64]:
    """Return a column of whole numbers; `CorruptFileError` if it is none."""
    values = file.read(name)
    if str(values.type) not in ("uint32", "uint64") or ak.null_count(values):
        raise CorruptFileError(f"{file.where} has a {name} that is no number.")
    return numbers_of(values).astype(np.int64)


def read_zones(file: IndexFileReader) -> Zones:
    """Return which rows the zones are.

    Raises
    ------
    CorruptFileError
        They are none that a fragment has.
    """
    zones = Zones(
        numbers(file, "fragment_id"), numbers(file, "zone_start"), numbers(file, "zone_length")
    )
    for values in (zones.fragments, zones.starts, zones.starts + zones.lengths):
        if len(values) and not 0 <= values.min() <= values.max() <= _MOST_ROWS:
            raise CorruptFileError(f"{file.where} has zones of no rows.")
    return zones


def wanted_rows(
    opened: Callable[[], IndexFileReader],
    zones: Zones,
    wanted: Flags,
    with_nulls: Callable[[], Flags] | None,
) -> Rows:
    """Return the rows of some zones, and those of nulls if they are asked for.

    Parameters
    ----------
    opened
        Opens the file, which may list the nulls.
    with_nulls
        Tells which zones have nulls, where the index does not list them; ``None`` if they are not
        asked for.
    """
    if with_nulls is None:
        return zones.rows(wanted)
    file = opened()
    number = file.metadata.get("null_bitmap")
    if number is None:
        return zones.rows(wanted | with_nulls())
    return union([zones.rows(wanted), dict(bitmaps(file.buffer(number)))])
