"""Posting lists in blocks, decoded one by one."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancekit._index.build.text_partitions import position_blocks, posting_blocks
from lancekit._index.inverted.postings import PACKED, PostingForm, decode_positions, decode_postings
from lancekit._index.inverted.whole import WholePartition


@pytest.mark.parametrize("sizes", [[], [1], [128], [127, 128, 129], [1, 400, 256, 2, 300, 5]])
def test_every_document_comes_back(sizes: list[int]) -> None:
    source = random.Random(sum(sizes))
    docs = [sorted(source.sample(range(1 << 20), size)) for size in sizes]
    # a document with more words than a group of positions has
    counts = [[source.choice([1, 1, 2, 150]) for _ in mine] for mine in docs]
    positions = [sorted(source.sample(range(1 << 16), count)) for mine in counts for count in mine]
    held = WholePartition(
        rows=np.empty(0, np.uint64),
        lengths=np.empty(0, np.uint32),
        tokens=[str(number) for number in range(len(sizes))],
        ends=np.cumsum(sizes, dtype=np.int64),
        docs=np.array([doc for mine in docs for doc in mine], np.uint32),
        counts=np.array([count for mine in counts for count in mine], np.uint32),
        positions=np.array([place for mine in positions for place in mine], np.uint32),
    )
    scores = np.random.default_rng(1).random(sum(sizes), np.float32)
    blocks, best = posting_blocks(held, scores)
    assert held.positions is not None
    streams, offsets = position_blocks(held, held.positions)
    starts = np.append(0, np.cumsum(sizes, dtype=np.int64))
    assert best.tolist() == [scores[first:last].max() for first, last in pairwise(starts)]
    for column in (blocks, streams, offsets):
        column.validate(full=True)
        assert len(column) == len(sizes)
    for at, mine in enumerate(docs):
        each = blocks[at].as_py()
        ends = np.cumsum(list(map(len, each)))
        data = np.frombuffer(b"".join(each), np.uint8)
        found = decode_postings(data, ends, len(mine), PostingForm("varint_delta_v1", PACKED))
        assert (found.docs.tolist(), found.counts.tolist()) == (mine, counts[at])
        heads = [np.frombuffer(block[:4], "<f4")[0] for block in each]
        assert max(heads) == best[at]
        places: Any = decode_positions(
            np.frombuffer(streams[at].as_py(), np.uint8),
            np.array(offsets[at].as_py(), np.int64),
            np.array(counts[at], np.uint32),
            PACKED,
        )
        wanted = positions[int(starts[at]) : int(starts[at + 1])]
        assert places.tolist() == [place for one in wanted for place in one]
    assert blocks.type == pa.list_(pa.field("item", pa.large_binary(), False))
