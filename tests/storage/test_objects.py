"""Ranges of an object that share a request."""

from __future__ import annotations

import random
import uuid

import pytest

from lancekit._storage.objects import MERGED_BYTES, MERGED_GAP_BYTES, merged
from lancekit._storage.places import open_store


@pytest.mark.parametrize(
    ("ranges", "spans"),
    [
        ([], []),
        ([(7, 0)], []),
        ([(20, 5), (0, 10)], [(0, 25)]),
        (
            [(0, 1), (MERGED_GAP_BYTES + 2, 1)],
            [(0, 1), (MERGED_GAP_BYTES + 2, MERGED_GAP_BYTES + 3)],
        ),
        ([(0, 100), (10, 20), (50, 200)], [(0, 250)]),
        (
            [(0, MERGED_BYTES), (5, 10), (MERGED_BYTES - 1, 2), (MERGED_BYTES + 1, 7)],
            [(0, MERGED_BYTES), (MERGED_BYTES - 1, MERGED_BYTES + 8)],
        ),
    ],
)
def test_ranges_near_each_other_share_a_request_of_some_bytes(
    ranges: list[tuple[int, int]], spans: list[tuple[int, int]]
) -> None:
    assert merged(ranges) == spans


def test_whatever_shares_a_request_each_gets_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    data = rng.randbytes(5_000)
    store = open_store(f"memory://{uuid.uuid4()}")
    store.put("some", data)
    monkeypatch.setattr("lancekit._storage.objects.MERGED_GAP_BYTES", 20)
    monkeypatch.setattr("lancekit._storage.objects.MERGED_BYTES", 100)
    reader = store.open("some")
    for _ in range(300):
        ranges = [(rng.randrange(4_900), rng.randrange(100)) for _ in range(rng.randrange(30))]
        found = reader.read_many(ranges)
        assert [bytes(part) for part in found] == [data[at : at + size] for at, size in ranges]
