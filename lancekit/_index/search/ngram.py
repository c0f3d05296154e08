"""N-grams: three letters or digits in a row, with all rows whose texts have them.

See docs/format/indices.md, 12.
"""

from __future__ import annotations

import re
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._arrow_values import numbers_of
from lancekit._index.row_sets import SetForm, decoded_set
from lancekit._index.search.question import Question
from lancekit._index.search.row_sets import Rows, common, rows_of
from lancekit._index.segment import IndexFileReader, Segment
from lancekit._index.trigrams import trigrams
from lancekit.errors import CorruptFileError

__all__ = ["load", "search"]

FILE = "ngram_postings.lance"
#: how many letters of others stand for is not the same in all releases: they are passed over
_SURE = re.compile("[0-9A-Za-z]{3,}")
#: more of them leave out hardly more rows
_MOST_TOKENS = 8


def search(segment: Segment, question: Question, *, always: bool) -> Rows | None:
    """Return rows among which are those of which a question holds, as `btree.search` does.

    A question of texts without three letters or digits in a row has no answer, `always` or not.
    """
    del always
    sure = [part for run in question.runs for part in _SURE.findall(run)]
    if not sure:
        return None
    wanted = np.unique(trigrams(pa.array(sure))[0])[:_MOST_TOKENS]
    known = load(segment)
    places = np.searchsorted(known, wanted)
    if (places == len(known)).any() or (known[places] != wanted).any():
        return {}
    stored = segment.file(FILE).read("posting_list", places.astype(np.int64)).to_pylist()
    return reduce(common, (rows_of(decoded_set(data, SetForm.PLAIN)) for data in stored))


def load(segment: Segment) -> npt.NDArray[np.uint32]:
    """Return the tokens of a segment, and remember them."""
    return segment.remembered(FILE, "tokens", _tokens, lambda tokens: int(tokens.nbytes))


def _tokens(file: IndexFileReader) -> npt.NDArray[np.uint32]:
    """Return the tokens, which ascend; token 0 has the rows without text, as no other has."""
    stored = file.read("tokens")
    if stored.type != pa.uint32():
        raise CorruptFileError(f"{file.where} has tokens that are no numbers.")
    tokens = numbers_of(stored.fill_null(0)).copy()
    if (np.diff(tokens.astype(np.int64)) <= 0).any():
        raise CorruptFileError(f"{file.where} does not have its tokens in order.")
    return tokens
