"""Key filters: what is estimated of them is what they do."""

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.key_filter import (
    BloomKeyFilter,
    bit_places,
    build_bloom,
    build_exact,
)
from lancekit._format.key_hashes import hash_keys
from lancekit._notebook.pictures.keys import facts_of
from tests.notebook.pictures.support import keyed, parsed, words


def _hashes(first, number):
    return hash_keys([pa.array(np.arange(first, first + number))])


@pytest.mark.parametrize("number", [40, 5_000, 30_000])
def test_estimates_are_what_the_filter_does(number):
    found = build_bloom([0], _hashes(0, number))
    facts = facts_of("x", found)
    assert facts.keys == pytest.approx(number, rel=0.03, abs=2)
    others = _hashes(10**9, 200_000)
    words_ = np.frombuffer(found.bitmap, "<u4").reshape(-1, 8)
    block, mask = bit_places(others, len(words_))
    errs = ((words_[block] & mask) == mask).all(axis=1).mean()
    assert facts.error_rate == pytest.approx(errs, rel=0.15, abs=2e-5)


def test_exact_and_empty_ones():
    exact = facts_of("x", build_exact([0], _hashes(0, 60)))
    assert (exact.exact, exact.keys, exact.error_rate) == (True, 60, 0)
    assert (
        "empty: it may have any key"
        in facts_of("x", BloomKeyFilter(field_ids=(0,), bitmap=b"")).words
    )
    full = facts_of("x", BloomKeyFilter(field_ids=(0,), bitmap=b"\xff" * 64))
    assert full.error_rate == 1
    assert "100%" in full.words


def test_two_commits():
    ds = lk.write_dataset({"id": [0], "v": [0]}, "memory://filters", primary_key="id")
    assert "no key filter in the newest 50 versions" in ds.plot.key_filters().alt
    keyed(ds, range(10, 50))
    keyed(ds, range(1000, 1200))
    picture = ds.plot.key_filters()
    assert "main:2: Bloom filter, about 40 keys" in picture.alt
    assert "main:3: exact, 200 keys, no false positives" in picture.alt
    assert "common keys: none" in picture.text
    assert "common keys: none" in words(parsed(picture))
    same = ds.plot.key_filters(3, ds._snapshot.transaction)
    assert "common keys: 200." in same.alt
    assert "transaction, exact" in words(parsed(same))
    assert "possibly some" in ds.plot.key_filters(2, 2).alt
    assert len(picture.svg) < 50_000


def test_a_commit_without_a_filter():
    ds = lk.write_dataset({"id": [0]}, "memory://no-filter")
    with pytest.raises(lk.errors.InvalidArgumentError, match="main:1 has no key filter"):
        ds.plot.key_filters(1)
