"""Rows are paired by digests as a dictionary of lists would pair them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._pipeline.diff.match import cancelled, common_places, match_ascending, match_keys
from lancekit._pipeline.diff.values import Digests
from tests.support.twins import Counted, agreed

# few of each half, so that halves meet by themselves, too
KEYS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12)
KEYS |= st.lists(st.tuples(st.integers(0, 40), st.just(1)), max_size=12, unique=True)


def of(keys: list[tuple[int, int]]) -> Digests:
    halves = np.array(keys, np.uint64).reshape(-1, 2) << np.uint64(56)  # all bits are as good
    return Digests(halves[:, 0].copy(), halves[:, 1].copy())


@given(KEYS, KEYS)
def test_keys_that_each_side_has_once_are_pairs(
    old: list[tuple[int, int]], new: list[tuple[int, int]]
) -> None:
    counts, others = Counter(old), Counter(new)
    found = match_keys(of(old), of(new))
    pairs = [(old[a], new[b]) for a, b in zip(found.old, found.new, strict=True)]
    assert all(a == b for a, b in pairs)
    once = {key for key in counts.keys() & others.keys() if counts[key] == others[key] == 1}
    assert sorted(a for a, _ in pairs) == sorted(once)
    alone = [k for k in old if counts[k] + others[k] == 1]
    assert [old[at] for at in found.alone.old] == alone
    assert [new[at] for at in found.alone.new] == [k for k in new if counts[k] + others[k] == 1]
    rest = {k for k in [*old, *new] if counts[k] + others[k] > 1} - once
    assert [old[at] for at in found.repeated.old] == [k for k in old if k in rest]
    assert [new[at] for at in found.repeated.new] == [k for k in new if k in rest]


@given(KEYS, KEYS)
def test_equal_rows_cancel_as_often_as_both_have_them(
    old: list[tuple[int, int]], new: list[tuple[int, int]]
) -> None:
    pairs, rest = cancelled(of(old), of(new))
    assert [old[a] for a in pairs.old] == [new[b] for b in pairs.new]
    assert Counter(old[a] for a in pairs.old) == Counter(old) & Counter(new)
    assert Counter(old[a] for a in rest.old) == Counter(old) - Counter(new)
    assert Counter(new[b] for b in rest.new) == Counter(new) - Counter(old)
    assert len({*pairs.old.tolist(), *rest.old.tolist()}) == len(old)


@given(st.sets(st.integers(-9, 9)), st.sets(st.integers(-9, 9)))
def test_numbers_that_ascend_are_pairs(old: set[int], new: set[int]) -> None:
    left, right = np.array(sorted(old), np.int64), np.array(sorted(new), np.int64)
    found = match_ascending(left, right)
    assert left[found.old].tolist() == right[found.new].tolist() == sorted(old & new)
    assert left[found.alone.old].tolist() == sorted(old - new)
    assert right[found.alone.new].tolist() == sorted(new - old)
    assert len(found.repeated.old) + len(found.repeated.new) == 0


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int32, np.uint32, np.int16, np.uint8])
def test_the_kernel_pairs_the_same(kernels, monkeypatch, kind: type[np.integer]) -> None:
    rng = np.random.default_rng(7)
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    numbers = np.unique(rng.integers(least, most, 3000, kind, endpoint=True))
    some = [np.sort(rng.choice(numbers, count, replace=False)) for count in (0, 1, 90, 200)]
    counted = Counted(monkeypatch, common_places)
    for old in some:
        for new in some:
            agreed(lambda old=old, new=new: match_ascending(old, new))
    assert counted.good == counted.calls == (12 if np.dtype(kind).itemsize > 2 else 0)
