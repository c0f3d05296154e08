"""Search in indices that map each value to its rows: bitmaps, labels of lists, n-grams of texts.

See docs/format/indices.md, 8.
"""

from __future__ import annotations

import re
from functools import reduce
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit._arrow_values import flags_of, numbers_of
from lancekit._file.kernels.memory import owned
from lancekit._index.row_sets import Rows, SetForm, bitmaps, common, decoded_set, rows_of, union
from lancekit._index.search.index_query import ColumnCondition
from lancekit._index.segment import IndexFileReader, Segment
from lancekit._index.trigrams import trigrams
from lancekit.errors import CorruptFileError

_BITMAP_FILE = "bitmap_page_lookup.lance"

#: with more matching values than this, a scan of the column is faster
_MOST_KEYS = 1 << 14


def search_bitmap(segment: Segment, condition: ColumnCondition, *, always: bool) -> Rows | None:
    """Return the rows of a segment that match a condition, as `btree.search` does."""
    matching = np.flatnonzero(condition.matches(load_bitmap(segment)))
    if not always and len(matching) > _MOST_KEYS:
        return None
    return union(rows_at(segment.file(_BITMAP_FILE), matching))


def load_bitmap(segment: Segment) -> pa.Array:
    """Return the distinct values of a segment, cached."""
    return segment.remembered(_BITMAP_FILE, "values", _values, lambda keys: keys.nbytes)


def _values(file: IndexFileReader) -> pa.Array:
    """Return the distinct values.

    Raises CorruptFileError: a row has two NaNs. When 4.0.0 merges segments, it lists the rows of
        one NaN for both.
    """
    values = owned(file.read("keys"))
    if pa.types.is_float32(values.type) or pa.types.is_float64(values.type):
        nans = np.flatnonzero(flags_of(pc.is_nan(values).fill_null(False)))
        found = rows_at(file, nans) if len(nans) > 1 else []
        if any(any(common(*pair).values()) for pair in pairwise(found)):
            raise CorruptFileError(f"{file.where} has rows that have two values.")
    return values


def load_labels(segment: Segment) -> pa.Array:
    """Return the distinct items of a segment's lists."""
    return segment.remembered(
        _BITMAP_FILE, "keys", lambda file: owned(file.read("keys")), lambda keys: keys.nbytes
    )


def rows_at(file: IndexFileReader, places: np.ndarray) -> list[Rows]:
    """Return the rows of the keys at some ascending indices."""
    if not len(places):
        return []
    stored = file.read("bitmaps", places.astype(np.int64))
    if not pa.types.is_binary(stored.type) and not pa.types.is_large_binary(stored.type):
        raise CorruptFileError(f"{file.where} has row sets that are not bytes.")
    return [dict(bitmaps(data or b"")) for data in stored.to_pylist()]


# ---- labels: each distinct item of lists, with the rows of all lists that contain it
#
# See docs/format/indices.md, 11.


def search_labels(segment: Segment, condition: ColumnCondition, *, always: bool) -> Rows | None:
    """Return the rows of a segment that match a condition, as `btree.search` does.

    ``None`` for a condition that is not about items, even with `always`.
    """
    del always
    if not condition.items:
        return None
    lists = _one_each(load_labels(segment), condition.type)
    file = segment.file(_BITMAP_FILE)
    found = (union(rows_at(file, np.flatnonzero(matches(lists)))) for matches in condition.items)
    return reduce(common, found)


def _one_each(items: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return lists of one item each."""
    large = pa.types.is_large_list(kind)
    ends = pa.array(np.arange(len(items) + 1), pa.int64() if large else pa.int32())
    return (pa.LargeListArray if large else pa.ListArray).from_arrays(ends, items)


# ---- n-grams: three letters or digits in a row, with the rows of all texts that contain them
#
# See docs/format/indices.md, 12.

_NGRAM_FILE = "ngram_postings.lance"
#: releases fold other letters to different numbers of letters, so these are ignored
_SURE = re.compile("[0-9A-Za-z]{3,}")
#: more n-grams hardly exclude more rows
_MOST_TOKENS = 8


def search_ngrams(segment: Segment, condition: ColumnCondition, *, always: bool) -> Rows | None:
    """Return a superset of the rows that match a condition, as `btree.search` does.

    ``None`` for a condition without three letters or digits in a row, even with `always`.
    """
    del always
    sure = [part for run in condition.runs for part in _SURE.findall(run)]
    if not sure:
        return None
    wanted = np.unique(trigrams(pa.array(sure))[0])[:_MOST_TOKENS]
    known = load_ngrams(segment)
    places = np.searchsorted(known, wanted)
    if (places == len(known)).any() or (known[places] != wanted).any():
        return {}
    stored = segment.file(_NGRAM_FILE).read("posting_list", places.astype(np.int64)).to_pylist()
    return reduce(common, (rows_of(decoded_set(data, SetForm.PLAIN)) for data in stored))


def load_ngrams(segment: Segment) -> npt.NDArray[np.uint32]:
    """Return the tokens of a segment, cached."""
    return segment.remembered(_NGRAM_FILE, "tokens", _tokens, lambda tokens: int(tokens.nbytes))


def _tokens(file: IndexFileReader) -> npt.NDArray[np.uint32]:
    """Return the ascending tokens; only token 0 has the rows without text."""
    stored = file.read("tokens")
    if stored.type != pa.uint32():
        raise CorruptFileError(f"{file.where} has tokens that are not numbers.")
    tokens = numbers_of(stored.fill_null(0)).copy()
    if (np.diff(tokens.astype(np.int64)) <= 0).any():
        raise CorruptFileError(f"{file.where} has unordered tokens.")
    return tokens
