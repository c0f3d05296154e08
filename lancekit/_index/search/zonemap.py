"""Zone maps: the least and the greatest value of each zone.

See docs/format/indices.md, 9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit._arrow_values import flags_of
from lancekit._index.search.order import Ranks, filled, ranks_of
from lancekit._index.search.question import Question
from lancekit._index.search.row_sets import Rows
from lancekit._index.search.zones import Flags, Zones, numbers, read_zones, wanted_rows
from lancekit._index.segment import IndexFileReader, Segment, held_bytes

__all__ = ["load", "search"]

FILE = "zonemap.lance"


@dataclass(frozen=True, slots=True, eq=False)
class _Map:
    """What the zones have; `bounded` are those whose least and greatest value are known."""

    zones: Zones
    least: Ranks
    greatest: Ranks
    bounded: Flags
    nulls: npt.NDArray[np.int64]
    nans: npt.NDArray[np.int64]

    @property
    def bytes_held(self) -> int:
        places = self.zones.fragments, self.zones.starts, self.zones.lengths
        return held_bytes(*places, self.least, self.greatest, self.bounded, self.nulls, self.nans)

    def that_may_hold(self, question: Question) -> Flags:
        """Return which zones may have a value that is asked for."""
        wanted = self.nulls < self.zones.lengths
        if question.reach is not None and self.bounded.any():
            wanted &= ~self.bounded | question.reach.touches(self.least, self.greatest)
        return wanted | (self.nans > 0) if question.of_nan() else wanted


def search(segment: Segment, question: Question, *, always: bool) -> Rows | None:
    """Return rows among which are those of which a question holds, as `btree.search` does."""
    if question.reach is None and not always:
        return None
    known = load(segment)
    wanted = known.that_may_hold(question)
    nulls = (lambda: known.nulls > 0) if question.of_null else None
    return wanted_rows(lambda: segment.file(FILE), known.zones, wanted, nulls)


def load(segment: Segment) -> _Map:
    """Return what the zones of a segment have, and remember it."""
    return segment.remembered(FILE, "zones", _read, lambda known: known.bytes_held)


def _read(file: IndexFileReader) -> _Map:
    zones = read_zones(file)
    least, greatest = file.read("min"), file.read("max")
    low, high = ranks_of(least), ranks_of(greatest)
    bounded = flags_of(least.is_valid()) & flags_of(greatest.is_valid())
    if low is None or high is None:  # of a type without an order
        bounded, low, high = np.zeros(len(least), bool), zones.starts, zones.starts
    return _Map(
        zones=zones,
        least=filled(low, bounded),
        greatest=filled(high, bounded),
        bounded=bounded,
        nulls=numbers(file, "null_count"),
        nans=numbers(file, "nan_count"),
    )
