"""Labels: each item that lists have, with all rows whose lists have it.

See docs/format/indices.md, 11.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa

from lancekit._index.search.bitmap import FILE, keys_of, rows_at
from lancekit._index.search.question import Question
from lancekit._index.search.row_sets import Rows, common, union
from lancekit._index.segment import Segment

__all__ = ["search"]


def search(segment: Segment, question: Question, *, always: bool) -> Rows | None:
    """Return the rows of a segment of which a question holds, as `btree.search` does.

    A question that is not of items has no answer, `always` or not.
    """
    del always
    if not question.items:
        return None
    keys = keys_of(segment)
    lists = _one_each(keys, question.type)
    file = segment.file(FILE)
    found = (union(rows_at(file, np.flatnonzero(holds(lists)))) for holds in question.items)
    return reduce(common, found)


def _one_each(items: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return lists of one item each."""
    large = pa.types.is_large_list(kind)
    ends = pa.array(np.arange(len(items) + 1), pa.int64() if large else pa.int32())
    return (pa.LargeListArray if large else pa.ListArray).from_arrays(ends, items)
