"""Documents that have all of some tokens: what plain sets tell."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from lancekit._index.inverted.analyzer import Analyzer
from lancekit._index.inverted.bm25 import places_of, shared
from lancekit._index.inverted.partition import FreshPartition
from lancekit._index.inverted.settings import AnalyzerSettings

TOKENS = ["always", "often", "half", "rare", "once"]
PARTS = [1.0, 0.9, 0.5, 0.02, 0.0]


@pytest.fixture(scope="module")
def texts() -> list[set[str]]:
    source = random.Random(2)
    found = [
        {token for token, part in zip(TOKENS, PARTS, strict=True) if source.random() < part}
        for _ in range(500)
    ]
    found[7].add("once")
    return found


@pytest.mark.parametrize("number", range(1 << len(TOKENS)))
def test_documents_and_where_lists_have_them(texts: list[set[str]], number: int) -> None:
    table = Analyzer(AnalyzerSettings(stem=False, remove_stop_words=False)).table(
        pa.array([" ".join(sorted(text)) for text in texts])
    )
    partition = FreshPartition([(np.arange(len(texts)), table)], None)
    asked = [token for at, token in enumerate(TOKENS) if number >> at & 1]
    found = shared(partition, asked)
    wanted = [doc for doc, text in enumerate(texts) if asked and text.issuperset(asked)]
    assert found.docs.tolist() == wanted
    for token in asked:
        postings = partition.postings(token)
        assert postings is not None
        assert postings.docs[found.places[token]].tolist() == wanted
        for some in (found.docs, found.docs[::2], found.docs[:1], found.docs[:0]):
            places = places_of(some, postings.docs, len(texts))
            assert np.array_equal(postings.docs[places], some)


def test_a_token_that_is_nowhere() -> None:
    partition = FreshPartition([], None)
    assert not len(shared(partition, ["snow"]).docs)
