"""Samplers: all shares are the whole, and orders are the reference's."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lance.sampler
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._dataset.sharded_batch_iterator import ShardedBatchIterator
from lancekit._pylance import samplers
from lancekit._pylance.sampling import maybe_sample
from lancekit.errors import InvalidArgumentError, NotOfferedError


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("samplers") / "d")
    rows = pa.table({"x": range(1000), "y": [f"{n}" for n in range(1000)]})
    lance.write_dataset(rows, path, max_rows_per_file=130)
    return path


def _rows(batches: Iterable[pa.RecordBatch]) -> list[list[int]]:
    return [batch["x"].to_pylist() for batch in batches]


@pytest.mark.parametrize("rank", range(3))
@pytest.mark.parametrize("randomize", [False, True])
def test_shares_are_those_of_the_reference(place: str, rank: int, randomize: bool) -> None:
    for name in ("ShardedFragmentSampler", "ShardedBatchSampler"):
        share = (rank, 3, randomize, 7)
        ours = getattr(samplers, name)(*share)(lk.dataset(place), batch_size=64, columns=["x"])
        theirs: Any = getattr(lance.sampler, name)(*share)
        found = _rows(theirs(lance.dataset(place), batch_size=64, columns=["x"]))
        assert np.concatenate(_rows(ours)).tolist() == np.concatenate(found).tolist(), name


@pytest.mark.parametrize(("world_size", "size", "total"), [(4, 250, 1000), (3, 7, 100), (4, 5, 2)])
def test_fixed_batches_are_those_of_the_reference(world_size: int, size: int, total: int) -> None:
    for rank in range(world_size):
        given = (rank, world_size, True, 3, size, total)
        ours = samplers.ShardedFixedBatchSampler(*given)
        theirs = lance.sampler.ShardedFixedBatchSampler(*given)
        for epoch in range(3):
            ours.set_epoch(epoch)
            theirs.set_epoch(epoch)
            assert [*ours] == [*theirs]
        assert len(ours) == len(theirs)


def test_a_filter_shares_single_rows(place: str) -> None:
    ds, shares = lk.dataset(place), []
    for rank in range(7):
        sampler = samplers.ShardedBatchSampler(rank, 7)
        batches = _rows(sampler(ds, batch_size=20, columns=["x"], filter="x % 3 = 0"))
        assert {len(batch) for batch in batches[:-1]} <= {20}
        shares.append([x for batch in batches for x in batch])
        assert shares[-1] == [*range(0, 1000, 3)][rank::7]
    assert [*samplers.ShardedBatchSampler(0, 1)(ds, columns=["x"], filter="x < 0")] == []
    mixed = samplers.ShardedBatchSampler(0, 2, randomize=True, seed=1)
    drawn = [_rows(mixed(ds, batch_size=1, columns=["x"], filter="x >= 0")) for _ in range(2)]
    assert drawn[0] == drawn[1] != sorted(drawn[0])
    assert sorted(x for (x,) in drawn[0]) == [*range(0, 1000, 2)]
    mixed.set_epoch(1)
    assert _rows(mixed(ds, batch_size=1, columns=["x"], filter="x >= 0")) != drawn[0]


def test_a_full_scan_is_all(place: str) -> None:
    sampler = samplers.FullScanSampler()
    batches = [*sampler(lk.dataset(place), columns=["x"], filter="x > 5", with_row_id=True)]
    assert pa.Table.from_batches(batches).column_names == ["x", "_rowid"]
    assert sum(batch.num_rows for batch in batches) == 994


@pytest.mark.parametrize("granularity", ["fragment", "batch"])
def test_an_iterator_has_its_share(place: str, granularity: str) -> None:
    shares = [
        ShardedBatchIterator(place, rank, 2, columns=["x"], batch_size=15, granularity=granularity)
        for rank in range(2)
    ]
    found = [[x for batch in _rows(share) for x in batch] for share in shares]
    size = 130 if granularity == "fragment" else 15
    assert found[1] == [x for x in range(1000) if x // size % 2]
    assert sorted(found[0] + found[1]) == [*range(1000)]
    assert _rows(shares[0]) == _rows(shares[0])


def test_what_is_no_share(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgumentError, match="rank must be from 0 to 1, got 2"):
        samplers.ShardedBatchSampler(2, 2)
    with pytest.raises(InvalidArgumentError, match=r"batch_size must be .* got 0"):
        samplers.ShardedFixedBatchSampler(0, 1, total_num_rows=5)
    with pytest.raises(InvalidArgumentError, match=r"granularity must be .* got 'row'"):
        ShardedBatchIterator(place, 0, 1, granularity="row")
    with pytest.raises(NotOfferedError, match="with_row_id is not supported"):
        ShardedBatchIterator(place, 0, 1, granularity="batch", with_row_id=True)
    with pytest.warns(UserWarning, match="with_row_id has no effect"):
        samplers.ShardedBatchSampler(0, 1)(lk.dataset(place), with_row_id=True)
    monkeypatch.setitem(sys.modules, "torch", None)
    for kind in (samplers.ShardedFragmentSampler, samplers.ShardedBatchSampler):
        with pytest.raises(NotOfferedError, match="package torch"):
            kind.from_torch()
    with pytest.raises(NotOfferedError, match="package torch"):
        samplers.ShardedFixedBatchSampler.from_torch(1, 2)
    with pytest.raises(NotOfferedError, match="package torch"):
        ShardedBatchIterator.from_torch(place)


def test_torch_says_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    class Distributed:
        get_rank = staticmethod(lambda: 1)
        get_world_size = staticmethod(lambda: 2)

    class Torch:
        distributed = Distributed

    monkeypatch.setitem(sys.modules, "torch", Torch)
    assert [*samplers.ShardedFixedBatchSampler.from_torch(2, 6)] == [[3, 4], [5]]
    ds = lk.write_dataset({"x": range(4)}, "memory://torch-shares", max_rows_per_file=1)
    for kind in (samplers.ShardedFragmentSampler, samplers.ShardedBatchSampler):
        assert _rows(kind.from_torch()(ds, batch_size=1)) == [[1], [3]]
    assert _rows(ShardedBatchIterator.from_torch(ds, batch_size=1)) == [[1], [3]]


def test_a_sample_of_a_handle_or_a_place(place: str) -> None:
    for data in (place, Path(place), lk.dataset(place)):
        (batch,) = maybe_sample(data, 5, "x")
        assert batch.num_rows == 5
