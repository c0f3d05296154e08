"""The bounds of row ids, read from messages side by side, are those of the ids themselves."""

from __future__ import annotations

import numpy as np
import pytest

from lancekit._format.fragment import Fragment, FragmentList
from lancekit._format.row_ids import parse_row_ids
from lancekit._format.row_ids_encode import encode_row_ids
from lancekit.errors import CorruptFileError

RNG = np.random.default_rng(7)
SEQUENCES = (
    (range(5, 900),),
    (range(10, 20), range(500, 510), range(30, 40)),
    (np.setdiff1d(np.arange(1000, 9000), [1500, 7000]),),  # a range with holes
    (np.flatnonzero(RNG.random(3000) < 0.5) + 70_000,),  # a bitmap
    (np.array([3, 1 << 40, 1 << 63]),),  # sorted, one by one
    (RNG.permutation(5000)[:50],),  # in any order
    (range(100, 110), RNG.permutation(5000)[:50]),
    (range(0),),
)


def fragments(count: int) -> FragmentList:
    parts = [SEQUENCES[i % len(SEQUENCES)] for i in range(count)]
    made = []
    for i, part in enumerate(parts):
        encoded = encode_row_ids(*(p if isinstance(p, range) else p.astype("u8") for p in part))
        made.append(Fragment(i, (), sum(map(len, part)), row_ids=encoded))
    return FragmentList.of(made)


@pytest.mark.parametrize("count", [1, len(SEQUENCES), 200])
def test_bounds_are_those_of_the_ids(count: int) -> None:
    listed = fragments(count)
    bounds = listed.row_id_bounds
    for fragment, lowest, highest in zip(listed, bounds.lowest, bounds.highest, strict=True):
        assert fragment.row_ids is not None
        ids = parse_row_ids(fragment.row_ids, fragment.physical_rows, "it")
        assert (lowest, highest) == ((ids.min(), ids.max()) if len(ids) else (2**64 - 1, 0))


def test_candidates_are_all_that_may_have_an_id() -> None:
    listed = FragmentList.of(
        [
            Fragment(1, (), 10, row_ids=encode_row_ids(range(10))),
            Fragment(2, (), 10, row_ids=encode_row_ids(range(10, 20))),
            Fragment(7, (), 3),  # its ids are not in the manifest
            Fragment(8, (), 0, row_ids=encode_row_ids(range(0))),
        ]
    )
    find = listed.row_id_bounds.candidates
    assert find(np.array([9], "u8")).tolist() == [0, 2]
    assert find(np.array([9, 10], "u8")).tolist() == [0, 1, 2]
    assert find(np.array([20, 2**64 - 1], "u8")).tolist() == [2]
    assert find(np.array([], "u8")).tolist() == []
    assert FragmentList().row_id_bounds.candidates(np.array([1], "u8")).tolist() == []


def test_a_range_that_ends_before_it_begins_is_damaged() -> None:
    backwards = bytes([0x0A, 0x06, 0x0A, 0x04, 0x08, 0x09, 0x10, 0x03])
    listed = FragmentList.of([Fragment(4, (), 10, row_ids=backwards)])
    with pytest.raises(CorruptFileError, match="fragment 4"):
        _ = listed.row_id_bounds
