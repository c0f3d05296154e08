"""Rows of a fragment without those of which is remembered that a filter does not want them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancekit.arrow_values import array_of
from lancekit.file.columns.blocks import BlockBounds
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.fragments.reader import FragmentReader, Offsets

__all__ = ["trimmed"]


def trimmed(reader: FragmentReader, predicate: Predicate, rows: Offsets | range) -> Offsets | range:
    """Return rows without blocks at both ends in which no row is wanted; nothing is read for it.

    What is left follows each other, as it did: rows from here and there take longer to read.
    """
    schema = predicate.schema
    for name in sorted(predicate.columns):
        # hidden columns and parts of nested ones have no bounds
        if name.isidentifier() and name in schema.names and len(rows):
            around = range(int(rows[0]), int(rows[-1]) + 1)
            kind, found = reader.bounds(name, around)
            if any(known for _, known in found) and kind == schema.field(name).type:
                first, last = _wanted(predicate, name, kind, found)
                rows = _between(rows, first, last)
    return rows


def _wanted(
    predicate: Predicate,
    name: str,
    kind: pa.DataType,
    found: list[tuple[range, BlockBounds | None]],
) -> tuple[int, int]:
    """Return where the first block begins that may have a wanted row, and where the last ends."""
    least, greatest = (
        array_of([None if known is None else known[side] for _, known in found], kind)
        for side in (0, 1)
    )
    may = predicate.may_want(name, least, greatest)
    places = np.flatnonzero(may | np.array([known is None for _, known in found]))
    if not len(places):
        return 0, 0
    return found[places[0]][0].start, found[places[-1]][0].stop


def _between(rows: Offsets | range, first: int, last: int) -> Offsets | range:
    if isinstance(rows, range):
        start = max(rows.start, first)
        return range(start, max(start, min(rows.stop, last)))
    begin, end = np.searchsorted(rows, (first, last))
    return rows[begin:end]
