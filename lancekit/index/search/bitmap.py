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

#: of very many values it pays to look at the column itself
_MOST_KEYS = 1 << 14


def search(segment: Segment, question: Question, *, always: bool) -> Rows | None:
    """Return the rows of a segment of which a question holds, as `btree.search` does."""
    file = segment.file("bitmap_page_lookup.lance")
    held = np.flatnonzero(question.holds(keys_of(file)))
    if not always and len(held) > _MOST_KEYS:
        return None
    return union(rows_at(file, held))


def keys_of(file: IndexFileReader) -> pa.Array:
    """Return the values that a file has rows of."""
    return file.remembered("keys", lambda: owned(file.read("keys")), lambda keys: keys.nbytes)


def rows_at(file: IndexFileReader, places: np.ndarray) -> list[Rows]:
    """Return the rows of the keys at some places, which ascend."""
    if not len(places):
        return []
    stored = file.read("bitmaps", places.astype(np.int64))
    if not pa.types.is_binary(stored.type) and not pa.types.is_large_binary(stored.type):
        raise CorruptFileError(f"{file.where} has rows that are no bytes.")
    return [read_rows(data or b"", file.where) for data in stored.to_pylist()]
