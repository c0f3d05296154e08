"""Which rows of the source replace which of the target: told to each task, in few bytes."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from lancekit._pipeline.probe import Matches
from lancekit._pipeline.source_keys import SourceKeys
from lancekit._spark.jobs.shipment import shipped
from lancekit._spark.merge.match_keys import route_rows
from lancekit._storage.places import open_store


def matches(fragment: int, pairs: dict[int, int]) -> Matches:
    return Matches(
        fragment_id=fragment,
        offsets=np.array(list(pairs), np.uint32),
        source_rows=np.array(list(pairs.values()), np.int32),
    )


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([], [{}, {}]),
        (
            [matches(0, {7: 0, 8: 1}), matches(2, {0: 3, 1: 2})],
            [{0: 7, 1: 8}, {0: 2 << 32 | 1, 1: 2 << 32}],
        ),
        ([matches(1, {5: 3})], [{}, {1: 1 << 32 | 5}]),
    ],
)
def test_each_partition_is_told_its_own_pairs(found, told) -> None:
    keys = SourceKeys.choose(("k",), [pa.array([10, 11, 12, 13])])
    parts = route_rows(found, keys, np.array([0, 2, 4]), [1, 2])
    pairs = [dict(zip(p.rows.tolist(), p.addresses.tolist(), strict=True)) for p in parts]
    assert pairs == told
    assert [part.key_sum for part in parts] == [1, 2]
    assert {part.rows.dtype for part in parts} == {np.dtype(np.int32)}


def test_a_row_that_replaces_several() -> None:
    keys = SourceKeys.choose(("k",), [pa.array([10, 11])])
    found = [matches(0, {4: 1, 5: 0}), matches(1, {0: 1})]
    first, second = route_rows(found, keys, np.array([0, 1, 2]), [0, 0])
    assert (first.rows.tolist(), first.addresses.tolist()) == ([0], [5])
    assert (second.rows.tolist(), second.addresses.tolist()) == ([0, 0], [4, 1 << 32])


@pytest.mark.parametrize("most", [0, 3, 4, 100])
def test_parts_go_along_or_through_a_file(tmp_path, most) -> None:
    parts = [b"ab", pa.py_buffer(b"c"), b"", b"defg"]
    with shipped(iter(parts), open_store(str(tmp_path)), most) as sent:
        arrived = pickle.loads(pickle.dumps(sent))
        assert [bytes(arrived.part(at)) for at in range(4)] == [b"ab", b"c", b"", b"defg"]
        assert len(arrived) == 4
        assert (arrived.store is None) == (most == 100)
        assert len(list(tmp_path.glob("data/*"))) == (most < 100)
    assert not list(tmp_path.glob("data/*"))
