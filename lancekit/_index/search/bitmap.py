"""Bitmaps: each value of the column with all rows that have it; nulls are one of the values.

See docs/format/indices.md, 8.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit._arrow_values import flags_of
from lancekit._file.kernels.memory import owned
from lancekit._index.row_sets import bitmaps
from lancekit._index.search.question import Question
from lancekit._index.search.row_sets import Rows, common, union
from lancekit._index.segment import IndexFileReader, Segment
from lancekit.errors import CorruptFileError

__all__ = ["keys_of", "load", "rows_at", "search"]

FILE = "bitmap_page_lookup.lance"

#: of very many values it pays to look at the column itself
_MOST_KEYS = 1 << 14


def search(segment: Segment, question: Question, *, always: bool) -> Rows | None:
    """Return the rows of a segment of which a question holds, as `btree.search` does."""
    keys = load(segment)
    held = np.flatnonzero(question.holds(keys))
    if not always and len(held) > _MOST_KEYS:
        return None
    return union(rows_at(segment.file(FILE), held))


def load(segment: Segment) -> pa.Array:
    """Return the values that a segment has rows of, and remember them."""
    return segment.remembered(FILE, "values", _values, lambda keys: keys.nbytes)


def _values(file: IndexFileReader) -> pa.Array:
    """Return the values, of which no row has two.

    Raises
    ------
    CorruptFileError
        Rows have two NaNs: when 4.0.0 puts segments together, it gives the rows of one to both.
    """
    values = owned(file.read("keys"))
    if pa.types.is_float32(values.type) or pa.types.is_float64(values.type):
        nans = np.flatnonzero(flags_of(pc.is_nan(values).fill_null(False)))
        found = rows_at(file, nans) if len(nans) > 1 else []
        if any(any(common(*pair).values()) for pair in pairwise(found)):
            raise CorruptFileError(f"{file.where} has rows that have two values.")
    return values


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
    return [dict(bitmaps(data or b"")) for data in stored.to_pylist()]
