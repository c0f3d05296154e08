"""Bitmaps: each value of the column with all rows that have it; nulls are one of the values.

See docs/format/indices.md, 8.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancekit.errors import CorruptFileError
from lancekit.file.kernels.memory import owned
from lancekit.index.search.question import Question
from lancekit.index.search.row_sets import Rows, read_rows, union
from lancekit.index.search.segment import IndexFileReader, Segment

__all__ = ["keys_of", "rows_at", "search"]

FILE = "bitmap_page_lookup.lance"

#: of very many values it pays to look at the column itself
_MOST_KEYS = 1 << 14


def search(segment: Segment, question: Question, *, always: bool) -> Rows | None:
    """Return the rows of a segment of which a question holds, as `btree.search` does."""
    held = np.flatnonzero(question.holds(keys_of(segment)))
    if not always and len(held) > _MOST_KEYS:
        return None
    return union(rows_at(segment.file(FILE), held))


def keys_of(segment: Segment) -> pa.Array:
    """Return the values that a segment has rows of."""
    return segment.remembered(
        FILE, "keys", lambda file: owned(file.read("keys")), lambda keys: keys.nbytes
    )


def rows_at(file: IndexFileReader, places: np.ndarray) -> list[Rows]:
    """Return the rows of the keys at some places, which ascend."""
    if not len(places):
        return []
    stored = file.read("bitmaps", places.astype(np.int64))
    if not pa.types.is_binary(stored.type) and not pa.types.is_large_binary(stored.type):
        raise CorruptFileError(f"{file.where} has rows that are no bytes.")
    return [read_rows(data or b"", file.where) for data in stored.to_pylist()]
