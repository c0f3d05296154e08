"""Lowest and highest row id of each fragment, without an object per fragment.

A lookup by row id has few candidate fragments: most sequences are ranges, whose ends are two
numbers in the fragment's message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lancekit._format.batch_parse import (
    LENGTH,
    VARINT,
    Fields,
    Messages,
    Numbers,
    Offsets,
    inside,
    joined,
    walk,
)
from lancekit._format.pb import table_pb2 as pb
from lancekit._format.row_ids import read_row_id_bounds
from lancekit._format.unknown_fields import parse

_INLINE_ROW_IDS = 5
# range, range with holes, range with a bitmap: start and end are the first two fields of each
_SPANS = (1, 2, 3)
_HIGHEST = np.uint64((1 << 64) - 1)


@dataclass(frozen=True, slots=True)
class RowIdBounds:
    """Lowest and highest row id of each fragment."""

    lowest: Numbers
    highest: Numbers

    def candidates(self, ids: Numbers) -> Offsets:
        """Return the positions of the fragments that may have one of the ids, which must ascend."""
        first = np.searchsorted(ids, self.lowest)
        return np.flatnonzero(first < np.searchsorted(ids, self.highest, side="right"))


def row_id_bounds(encoded: Sequence[bytes]) -> RowIdBounds:
    """Return the bounds of the fragments' row ids, from their encoded messages.

    A fragment whose ids are not in the message may have any id.

    Raises CorruptFileError: a message is damaged.
    """
    count = len(encoded)
    lowest, highest = np.full(count, _HIGHEST), np.zeros(count, np.uint64)
    odd = np.ones(count, bool)  # ids stored elsewhere, or not as ranges
    messages = joined(encoded)
    for fields in walk(messages):
        inline = fields.where(_INLINE_ROW_IDS, LENGTH)
        odd[inline.message] = False
        for segments in walk(inside(messages, inline)):
            for kinds in walk(inside(messages, segments.where(1, LENGTH))):
                owners = inline.message[segments.message[kinds.message]]
                spans = np.isin(kinds.number, _SPANS)
                odd[owners[~spans]] = True
                start, stop = _ends(messages, kinds.take(spans))
                filled, owned = stop > start, owners[spans]
                odd[owned[stop < start]] = True  # damaged; parsing raises the error
                owned = owned[filled]
                lowest[owned] = np.minimum(lowest[owned], start[filled])
                highest[owned] = np.maximum(highest[owned], stop[filled] - np.uint64(1))
    for place in np.flatnonzero(odd).tolist():
        message = parse(pb.DataFragment, encoded[place], "a manifest's fragment")
        where = f"fragment {message.id}"
        lowest[place], highest[place] = (
            read_row_id_bounds(message.inline_row_ids, where)
            if message.HasField("inline_row_ids")
            else (0, _HIGHEST)
        )
    return RowIdBounds(lowest, highest)


def _ends(messages: Messages, spans: Fields) -> tuple[Numbers, Numbers]:
    start, stop = (np.zeros(len(spans.message), np.uint64) for _ in range(2))
    for fields in walk(inside(messages, spans)):
        for number, ends in ((1, start), (2, stop)):
            found = fields.where(number, VARINT)
            ends[found.message] = found.value
    return start, stop
